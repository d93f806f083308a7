"""Errors as `application/problem+json` (RFC 9457), with one line that a person can read."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Annotated

import msgspec
import sqlalchemy as sa
from msgspec import Meta, Struct
from starlette.exceptions import HTTPException

from whyrank.errors import MissingExtra, UnknownId, WhyrankError
from whyrank.online.ab import NoSuchExperiment
from whyrank.online.store import NotInStore, StoreDamaged, first_line

log = logging.getLogger("uvicorn.error")
_encoder = msgspec.json.Encoder()
MEDIA = "application/problem+json"
TEXT = 200  # characters of a client's own that are quoted
STORE_FAILED = "the store failed: %s"
TITLES = {
    "invalid-request": "Invalid request",
    "unknown-id": "Unknown id",
    "unknown-model": "Unknown model",
    "not-found": "Not found",
    "method-not-allowed": "Method not allowed",
    "unauthorized": "API key needed",
    "forbidden": "Not allowed",
    "unknown-experiment": "Unknown experiment",
    "arm-unavailable": "Model of an arm not served",
    "no-mu": "No mu",
    "ranks-no-items": "Does not rank items",
    "missing-extra": "Missing extra",
    "no-test-pairs": "No test pairs",
    "already-answered": "Already answered",
    "body-too-large": "Body too large",
    "unknown-host": "Unknown host",
    "other-origin": "Asked by another page",
    "rate-limited": "Too many requests",
    "overloaded": "Overloaded",
    "store-failed": "Store failed",
    "still-served": "Not erased from a model in service",
    "internal": "Internal error",
}
STATUSES = {
    400: "invalid-request",
    401: "unauthorized",
    403: "forbidden",
    404: "not-found",
    405: "method-not-allowed",
    413: "body-too-large",
}


def json_of(document: object) -> bytes:
    """A document as JSON, which has no NaN and no infinity: they are null."""
    return _encoder.encode(document)


class Problem(Exception):  # noqa: N818 - an answer of the API, not a failure of it
    """Raised anywhere below a route to answer with a problem."""

    def __init__(
        self, kind: str, status: int, detail: str, headers: Mapping[str, str] | None = None, **extra: object
    ) -> None:
        super().__init__(detail)
        self.kind, self.status, self.detail, self.headers, self.extra = kind, status, detail, headers, extra

    def body(self) -> bytes:
        """Return the problem as JSON."""
        document = {
            "type": f"urn:whyrank:problem:{self.kind}",
            "title": TITLES[self.kind],
            "status": self.status,
            "detail": self.detail,
            **self.extra,
        }
        return json_of(document)


class ProblemDocument(Struct):
    """An error; it may have more members."""

    type: Annotated[str, Meta(examples=["urn:whyrank:problem:unknown-id"])]
    title: Annotated[str, Meta(examples=["Unknown id"])]
    status: Annotated[int, Meta(examples=[404])]
    detail: Annotated[str, Meta(examples=["unknown item 'i99'; nearest known: i9, i98"])]


def problem_from(error: Exception) -> Problem:
    """Return what the API says of an exception; what nobody expected is an internal error."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, msgspec.ValidationError):
        return invalid(error)
    if isinstance(error, msgspec.DecodeError | UnicodeDecodeError | RecursionError):
        return Problem("invalid-request", 400, "the body is not JSON")
    if isinstance(error, WhyrankError):
        return problem_of(error)
    if isinstance(error, HTTPException):
        return _of_http(error)
    if isinstance(error, sa.exc.SQLAlchemyError | StoreDamaged):
        # A full disk, a damaged file, a server that is gone: reasons need no store, so all other routes go on.
        log.error(STORE_FAILED, first_line(getattr(error, "orig", None) or error))
        return store_failed()
    return Problem("internal", 500, "the service failed on this request; its log says why")


def invalid(error: msgspec.ValidationError, what: str = "") -> Problem:
    """Return what is wrong with a request, and where."""
    problem, _, place = str(error).rpartition(" - at `$")
    problem, at = (problem, place.rstrip("`").lstrip(".")) if problem else (str(error), "")
    at = (at or what)[:TEXT]
    return Problem("invalid-request", 422, f"{at}: {problem[:TEXT]}" if at else problem[:TEXT], at=at)


def _of_http(error: HTTPException) -> Problem:
    """Return what Starlette says of a path or a method."""
    kind = STATUSES.get(error.status_code, "invalid-request" if error.status_code < 500 else "internal")
    details = {404: "there is nothing at this path", 405: "this path does not take this method"}
    return Problem(kind, error.status_code, details.get(error.status_code, str(error.detail)), error.headers)


def problem_of(error: WhyrankError) -> Problem:
    """What the API says of an error of the library."""
    if isinstance(error, UnknownId):
        return Problem("unknown-id", 404, str(error), id_kind=error.kind, nearest=list(error.nearest))
    if isinstance(error, NoSuchExperiment):
        return Problem("unknown-experiment", 404, str(error))
    if isinstance(error, NotInStore):
        return Problem("not-found", 404, str(error))
    if isinstance(error, MissingExtra):
        return Problem("missing-extra", 422, str(error))
    return Problem("invalid-request", 422, str(error))


def forbidden(scope: str) -> Problem:
    """The key is known but not allowed to do this."""
    return Problem("forbidden", 403, f"this key has no scope {scope!r}; ask whoever runs the service for one")


def store_failed() -> Problem:
    """A full disk, a damaged file, a server that is gone."""
    detail = "the store failed and kept nothing of this request; the service's log says why"
    return Problem("store-failed", 503, detail, {"Retry-After": "10"})


def store_busy() -> Problem:
    """Others wrote all the time."""
    return Problem("store-failed", 503, "the store is busy; try again", {"Retry-After": "10"})


def not_erased(error: WhyrankError) -> Problem:
    """A folder cannot be changed now: most often because a refresh of it runs."""
    log.error("a user was erased from the store, but not from every folder: %s", error)
    detail = "erased from the store, but not from every folder: one is being written or cannot be read; ask again later"
    return Problem("still-served", 503, detail, {"Retry-After": "60"})


def still_served(model: str, why: str | None) -> Problem:
    """A user was erased from a folder, and the model that was loaded from it before is still in service."""
    detail = f"erased from the store and from the folders, but model {model} in memory still holds the user"
    return Problem("still-served", 503, f"{detail}: {why or 'its folder was not loaded anew'}; repair it and ask again")


def overloaded() -> Problem:
    """More is under way than may be."""
    return Problem("overloaded", 503, "too many requests are under way; try again", {"Retry-After": "1"})


def too_large(limit: int) -> Problem:
    """A body has more bytes than it may."""
    return Problem("body-too-large", 413, f"the body may have {limit:,} bytes; send it in parts")
