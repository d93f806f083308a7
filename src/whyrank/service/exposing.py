"""Between an answer and whoever asked: the arm of an experiment before it is made, the log after it."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import Any, Literal, NamedTuple

import msgspec
from sqlalchemy.exc import SQLAlchemyError

from whyrank.explain.options import Options
from whyrank.explain.result import Explained
from whyrank.online import ab
from whyrank.online.assignment import NO_REASONS, Arm, Experiment
from whyrank.online.erased import ErasedMeanwhile
from whyrank.online.store import WAIT, Store
from whyrank.online.writer import Exposure, QueueFull, Writer, new_id
from whyrank.service.answers import Answer, pairs_of
from whyrank.service.problems import Problem, forbidden, json_of, store_busy, store_failed
from whyrank.service.schemas import options_of
from whyrank.service.settings import Settings
from whyrank.service.shelf import Loaded

Route = Literal["explain", "recommend", "pairs"]
Slate = list[dict[str, object]]
Listed = tuple[dict[str, Any], str, Slate]
OPTION_NAMES = tuple(each.name for each in Options.declared())
USUAL = Options()
DRAWS = 2**53 - 1
PLACE = {"explain": "results", "recommend": "recommendations"}


class LoggedRequest(NamedTuple):
    """A request as it is answered."""

    route: Route
    body: Any  # of the request, with the model of the arm
    options: Options  # of the request and the arm
    models: dict[str, Loaded]
    logs: bool
    experiment: Experiment | None
    arm: Arm | None


@dataclass
class Exposing:
    """Experiments that run, and the way into the store; one for each worker."""

    settings: Settings
    store: Store
    writer: Writer
    experiments: dict[str, Experiment] = field(default_factory=dict)

    def refresh(self) -> None:
        """Read the experiments anew."""
        self.experiments = {each.name: each for each in ab.listed(self.store)}

    def asked(self, scopes: Sequence[str], route: Route, body: Any, models: dict[str, Loaded]) -> LoggedRequest:
        """Which arm answers a request, and whether the answer is logged."""
        wants = bool(body.log or body.durable or body.experiment)
        if wants and "log" not in scopes:
            raise forbidden("log")
        experiment, arm = self._arm(body)
        if arm is not None and body.experiment is None and route == "pairs" and not _makes_pairs(arm, models):
            arm = None  # nobody asked for the experiment, so it must not make a request fail
        if arm is not None and arm.model != NO_REASONS and arm.model not in models:
            if body.experiment is not None:
                raise arm_unavailable(experiment, arm, list(models))
            arm = None
        if arm is not None and arm.model == NO_REASONS and route == "pairs":
            raise Problem("invalid-request", 422, f"arm {arm.name} shows no reasons, and pairs are made of them")
        logs = body.log if body.log is not None else (self.settings.log or arm is not None or body.durable)
        options = options_of(body)
        if arm is not None:
            options = replace(options, **arm.ranking)
            changed = (arm.goals if route == "recommend" else {}) | {"model": arm.model}
            body = body if arm.model == NO_REASONS else changed_body(body, changed)
        if options.drawn and not options.draw:
            # Another list every time; its number is logged, so that it can be drawn again.
            options = replace(options, draw=1 + secrets.randbelow(DRAWS))
        return LoggedRequest(route, body, options, models, logs, experiment if arm else None, arm)

    def shown(self, asked: LoggedRequest, answer: Answer) -> Future[None] | None:
        """Mark an answer with its arm and its exposures, and log them; answers what is done when they are on disk."""
        document, bare = answer.document, asked.arm is not None and asked.arm.model == NO_REASONS
        if asked.experiment is not None and asked.arm is not None:
            document |= {"experiment": asked.experiment.name, "arm": asked.arm.name}
            if bare:
                _take_reasons_off(asked.route, document)
        if not asked.logs:
            return None
        lists = _slates(asked, document, answer.explained[0] if answer.explained and not bare else None)
        try:
            return self.writer.put(self._exposures(asked, document, lists), durable=asked.body.durable)
        except QueueFull:  # reasons need no store: they are given, but not as something that was logged
            if asked.body.durable:
                raise store_busy() from None
            for part, _, _ in lists:
                del part["exposure"]
            return None

    def _arm(self, body: Any) -> tuple[Experiment | None, Arm | None]:
        """The experiment that a request belongs to, and the arm of its user."""
        name = body.experiment or self.settings.experiment
        users = {user for user, _ in pairs_of(body)} if hasattr(body, "pairs") else {body.user}
        personal, model = body.personal, body.model
        if body.experiment is None and (model is not None or len(users) > 1 or not personal):
            return None, None
        if name is None:
            return None, None
        if body.experiment is not None and not personal:
            raise Problem("invalid-request", 422, "an experiment needs the user; leave out personal or experiment")
        if model is not None:
            raise Problem("invalid-request", 422, "the experiment decides which model answers; leave out model")
        if len(users) > 1:
            raise Problem("invalid-request", 422, "an experiment decides for one user; ask for one at a time")
        experiment = self.experiments.get(name)
        if experiment is None:
            if body.experiment is None:
                return None, None  # the service was started before the experiment was created
            raise Problem("unknown-experiment", 404, f"no experiment {name!r} here")
        if experiment.stopped is not None:
            return None, None
        return experiment, experiment.arm_of(next(iter(users)))

    def _exposures(self, asked: LoggedRequest, document: dict[str, Any], lists: list[Listed]) -> list[Exposure]:
        """The lists of an answer, each marked with the id that it is logged under."""
        loaded, body, now = asked.models[document["model"]], asked.body, int(time.time())
        given = {name: getattr(body, name) for name in ("n", "reasons") if hasattr(body, name)}
        if asked.options != USUAL:
            values = ((name, getattr(asked.options, name)) for name in OPTION_NAMES)
            given |= {name: value for name, value in values if value != getattr(USUAL, name)}
        options, length = json_of(given).decode(), body.reasons if asked.route == "recommend" else body.n
        named = document.get("experiment"), document.get("arm")
        anonymous = not body.personal and asked.arm is None
        made = []
        for part, user, slate in lists:
            part["exposure"] = new_id()
            head = (part["exposure"], now, "" if anonymous else user, asked.route, loaded.id, loaded.digest)
            made.append(Exposure(*head, *named, options, json_of(slate).decode(), length))
        return made


def _slates(asked: LoggedRequest, document: dict[str, Any], found: Explained | None) -> list[Listed]:
    """What was shown, list by list: the part of the answer that holds a list, its user, and its reasons in order.

    None: no reasons.
    """
    reasons: dict[int, Slate] = {}
    if found is not None:
        chances = repeat(1.0) if found.chances is None else found.propensity.tolist()
        for row, id_, chance in zip(found.row.tolist(), found.ids, chances, strict=False):
            reasons.setdefault(row, []).append({"i": found.item_ids[row], "e": id_, "p": chance})
    if asked.route == "pairs":
        listed = [one for each in reasons.values() for one in each]
        return [(document, document["user"], listed)] if listed else []
    lists = []
    for row, part in enumerate(document[PLACE[asked.route]]):
        if part.get("status") != "unknown_item":
            slate = reasons.get(row) or [{"i": part["item"], "e": None, "p": 1.0}]
            lists.append((part, part.get("user") or document["user"], slate))
    return lists


def arm_unavailable(experiment: Experiment | None, arm: Arm, served: list[str]) -> Problem:
    """An experiment was created elsewhere, for models that are not in this service."""
    name = "" if experiment is None else f" of experiment {experiment.name}"
    detail = f"arm {arm.name}{name} needs the model {arm.model!r}, which is not served here; there is"
    advice = "serve it under this name, or stop the experiment"
    return Problem("arm-unavailable", 503, f"{detail} {', '.join(served)}; {advice}")


def _makes_pairs(arm: Arm, models: dict[str, Loaded]) -> bool:
    """Whether items and reasons can be ranked together as an arm wants it."""
    if arm.model not in models or not models[arm.model].model.ranks_items:  # NO_REASONS is none of them
        return False
    options = Options.of(arm.ranking)
    return not (options.drawn or options.diversity)


def _take_reasons_off(route: Route, document: dict[str, Any]) -> None:
    """The answer of the arm without reasons; it took as long as the others, so that only the reasons differ."""
    document["compare"] = None
    for part in document[PLACE[route]]:
        part["reasons"] = []
        if part.get("status") == "ok":
            part["status"] = "no_reason"


def changed_body(body: Any, values: dict[str, Any]) -> Any:
    """A request for another model or other goals, whichever way it came."""
    if isinstance(body, msgspec.Struct):
        return msgspec.structs.replace(body, **values)
    return body.model_copy(update=values)


async def written(waiting: Future[None]) -> None:
    """Wait until exposures are on disk."""
    try:
        await asyncio.wait_for(asyncio.wrap_future(waiting), WAIT)
    except (TimeoutError, ErasedMeanwhile):  # it was not stored; who asks again is logged
        raise store_busy() from None
    except SQLAlchemyError:  # the writer has logged it; the short way knows no errors of databases
        raise store_failed() from None
