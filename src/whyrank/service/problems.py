"""Errors as `application/problem+json` (RFC 9457), with one line that a person can read."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus

import msgspec
import sqlalchemy as sa
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response

from whyrank.errors import MissingExtra, UnknownId, WhyrankError
from whyrank.online.ab import NoSuchExperiment
from whyrank.online.store import StoreDamaged, first_line
from whyrank.service.study import NoSuchStudy

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
    "url-too-long": "URL too long",
    "headers-too-large": "Headers too large",
    "too-slow": "Too slow",
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

    def response(self) -> Response:
        document = {
            "type": f"urn:whyrank:problem:{self.kind}",
            "title": TITLES[self.kind],
            "status": self.status,
            "detail": self.detail,
            **self.extra,
        }
        return Response(json_of(document), self.status, dict(self.headers or {}), MEDIA)


class ProblemDocument(BaseModel):
    """An error."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(examples=["urn:whyrank:problem:unknown-id"])
    title: str = Field(examples=["Unknown id"])
    status: int = Field(examples=[404])
    detail: str = Field(examples=["unknown item 'i99'; nearest known: i9, i98"])


def documented(*statuses: int) -> dict[int | str, dict[str, object]]:
    """The `responses` of a route that may answer with problems of these statuses (and those of the limits)."""
    schema = {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}
    return {
        status: {"description": HTTPStatus(status).phrase, "content": {MEDIA: schema}}
        for status in (400, 401, 403, 413, 422, 429, 503, *statuses)
    }


def add_handlers(app: FastAPI) -> None:
    """Turn every exception into a problem."""
    app.add_exception_handler(Problem, _own)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(WhyrankError, _ours)
    app.add_exception_handler(sa.exc.SQLAlchemyError, _store)
    app.add_exception_handler(StoreDamaged, _store)
    app.add_exception_handler(Exception, _internal)


def known_parameters(request: Request) -> None:
    """A dependency of all routes of the API: a parameter that a route does not have is a mistake, not to be ignored."""
    route = request.scope["route"]
    known = [each.alias for each in route.dependant.query_params]
    unknown = [name for name in request.query_params if name not in known]
    if unknown:
        there = f"there are {', '.join(known)}" if known else "this path takes none"
        raise Problem("invalid-request", 422, f"no parameter {unknown[0][:TEXT]!r}; {there}")


async def _own(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return error.response()


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    found = error.errors()[:20]
    errors = [
        {
            "at": ".".join(str(part)[:TEXT] for part in each["loc"] if part not in ("one", "many")),
            "problem": str(each["msg"])[:TEXT],
        }
        for each in found
    ]
    if any(each["type"] == "json_invalid" for each in found):
        return Problem("invalid-request", 400, "the body is not JSON").response()
    first = f"{errors[0]['at']}: {errors[0]['problem']}" if errors else "the request is not valid"
    return Problem("invalid-request", 422, first, errors=errors).response()


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    kind = STATUSES.get(error.status_code, "invalid-request" if error.status_code < 500 else "internal")
    details = {404: "there is nothing at this path", 405: "this path does not take this method"}
    detail = details.get(error.status_code, str(error.detail))
    return Problem(kind, error.status_code, detail, error.headers).response()


async def _ours(request: Request, error: Exception) -> Response:
    assert isinstance(error, WhyrankError)
    return problem_of(error).response()


def problem_of(error: WhyrankError) -> Problem:
    """What the API says of an error of the library."""
    if isinstance(error, UnknownId):
        return Problem("unknown-id", 404, str(error), id_kind=error.kind, nearest=list(error.nearest))
    if isinstance(error, NoSuchStudy):
        return Problem("not-found", 404, str(error))
    if isinstance(error, NoSuchExperiment):
        return Problem("unknown-experiment", 404, str(error))
    if isinstance(error, MissingExtra):
        return Problem("missing-extra", 422, str(error))
    return Problem("invalid-request", 422, str(error))


async def _store(request: Request, error: Exception) -> Response:
    """A full disk, a damaged file, a server that is gone: reasons need no store, so all other routes go on."""
    log.error(STORE_FAILED, first_line(getattr(error, "orig", None) or error))
    return store_failed().response()


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


async def _internal(request: Request, error: Exception) -> Response:
    return internal().response()


def internal() -> Problem:
    """A bug."""
    return Problem("internal", 500, "the service failed on this request; its log says why")
