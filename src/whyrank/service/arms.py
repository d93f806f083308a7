"""Between an answer and whoever asked: the arm of an experiment before it is made, the log after it."""

from __future__ import annotations

import secrets
import time
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import UNSET

from whyrank.explain.options import Options
from whyrank.online import ab
from whyrank.online.assignment import NO_REASONS, Arm, Experiment
from whyrank.online.store import Store
from whyrank.online.writer import Exposure, QueueFull, Writer, new_id
from whyrank.service.messages import ExplainAnswer, ExplainRequest, PairsAnswer, ReasonOut, RecommendAnswer, options_of
from whyrank.service.problems import Problem, forbidden, json_of, store_busy
from whyrank.service.registry import Models
from whyrank.service.settings import Settings

Route = Literal["explain", "recommend", "pairs"]
Slate = list[dict[str, object]]
Answer = ExplainAnswer | RecommendAnswer | PairsAnswer
OPTION_NAMES = tuple(each.name for each in Options.declared())
USUAL = Options()
DRAWS = 2**53 - 1


class AssignedRequest(NamedTuple):
    """A request as it is answered."""

    route: Route
    body: Any  # of the request, with the model of the arm
    options: Options  # of the request and the arm
    models: Models
    logs: bool
    experiment: Experiment | None
    arm: Arm | None


@dataclass
class Arms:
    """Experiments that run, and the way into the store; one for each worker."""

    settings: Settings
    store: Store
    writer: Writer
    experiments: dict[str, Experiment] = field(default_factory=dict)

    def refresh(self) -> None:
        """Read the experiments anew."""
        self.experiments = {each.name: each for each in ab.listed(self.store)}

    def assign(self, scopes: Collection[str], route: Route, body: Any, models: Models) -> AssignedRequest:
        """Decide which arm answers a request, and whether the answer is logged."""
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
            body = body if arm.model == NO_REASONS else msgspec.structs.replace(body, **changed)
        if options.drawn and not options.draw:
            # Another list every time; its number is logged, so that it can be drawn again.
            options = replace(options, draw=1 + secrets.randbelow(DRAWS))
        return AssignedRequest(route, body, options, models, logs, experiment if arm else None, arm)

    def shown(self, asked: AssignedRequest, answer: Answer) -> Future[None] | None:
        """Mark an answer with its arm and its exposures, and log them; the future is done when they are on disk."""
        if asked.experiment is not None and asked.arm is not None:
            answer.experiment, answer.arm = asked.experiment.name, asked.arm.name
            if asked.arm.model == NO_REASONS:
                _take_reasons_off(answer)
        if not asked.logs:
            return None
        lists = list(_lists(answer))
        try:
            return self.writer.put(self._exposures(asked, answer, lists), durable=asked.body.durable)
        except QueueFull:  # reasons need no store: they are given, but not as something that was logged
            if asked.body.durable:
                raise store_busy() from None
            for part, _, _ in lists:
                part.exposure = UNSET
            return None

    def _arm(self, body: Any) -> tuple[Experiment | None, Arm | None]:
        """Find the experiment that a request belongs to, and the arm of its user."""
        name = body.experiment or self.settings.experiment
        if name is None:
            return None, None
        users = {user for user, _ in body.all_pairs()} if isinstance(body, ExplainRequest) else {body.user}
        personal, model = body.personal, body.model
        if body.experiment is None and (model is not None or len(users) > 1 or not personal):
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

    def _exposures(
        self, asked: AssignedRequest, answer: Answer, lists: Iterable[tuple[Any, str, Slate]]
    ) -> list[Exposure]:
        """Mark the lists of an answer with the ids that they are logged under."""
        served, body, now = asked.models[answer.model], asked.body, int(time.time())
        given = {name: getattr(body, name) for name in ("n", "reasons") if hasattr(body, name)}
        if asked.options != USUAL:
            values = ((name, getattr(asked.options, name)) for name in OPTION_NAMES)
            given |= {name: value for name, value in values if value != getattr(USUAL, name)}
        options, length = json_of(given).decode(), body.reasons if asked.route == "recommend" else body.n
        experiment = None if asked.experiment is None else asked.experiment.name
        arm = None if asked.arm is None else asked.arm.name
        anonymous = not body.personal and asked.arm is None
        made = []
        for part, user, slate in lists:
            part.exposure = new_id()
            head = (part.exposure, now, "" if anonymous else user, asked.route, served.id, served.digest)
            made.append(Exposure(*head, experiment, arm, options, json_of(slate).decode(), length))
        return made


def _lists(answer: Answer) -> Iterator[tuple[Any, str, Slate]]:
    """Walk through what was shown, list by list: the part of the answer, its user, and the reasons in their order."""
    if isinstance(answer, PairsAnswer):
        if answer.pairs:
            yield answer, answer.user, [_shown(each.item, each.reason) for each in answer.pairs]
        return
    parts: list[tuple[Any, str]] = (
        [(each, each.user) for each in answer.results if each.status != "unknown_item"]
        if isinstance(answer, ExplainAnswer)
        else [(each, answer.user) for each in answer.recommendations]
    )
    for part, user in parts:
        yield part, user, [_shown(part.item, each) for each in part.reasons] or [{"i": part.item, "e": None, "p": 1.0}]


def _shown(item: str, reason: ReasonOut) -> dict[str, object]:
    """Return a reason as the log has it."""
    return {"i": item, "e": reason.explanation, "p": 1.0 if reason.propensity is UNSET else reason.propensity}


def arm_unavailable(experiment: Experiment | None, arm: Arm, served: list[str]) -> Problem:
    """An experiment was created elsewhere, for models that are not in this service."""
    name = "" if experiment is None else f" of experiment {experiment.name}"
    detail = f"arm {arm.name}{name} needs the model {arm.model!r}, which is not served here; there is"
    advice = "serve it under this name, or stop the experiment"
    return Problem("arm-unavailable", 503, f"{detail} {', '.join(served)}; {advice}")


def _makes_pairs(arm: Arm, models: Models) -> bool:
    """Whether items and reasons can be ranked together as an arm wants it."""
    if arm.model not in models or not models[arm.model].model.ranks_items:  # NO_REASONS is none of them
        return False
    options = Options.of(arm.ranking)
    return not (options.drawn or options.diversity)


def _take_reasons_off(answer: Answer) -> None:
    """Leave the answer of the arm without reasons; it took as long as the others, so that only the reasons differ."""
    if isinstance(answer, PairsAnswer):
        return
    answer.compare = None
    if isinstance(answer, RecommendAnswer):
        for each in answer.recommendations:
            each.reasons = []
        return
    for part in answer.results:
        part.reasons = []
        if part.status == "ok":
            part.status = "no_reason"
