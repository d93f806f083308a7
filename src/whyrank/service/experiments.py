"""The routes of feedback and experiments, and those by which people's data are handed out and erased."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec

from whyrank.errors import ArtifactError, DataError, ParameterError
from whyrank.online import ab, erasure, events
from whyrank.online.assignment import NO_REASONS, Arm, Experiment
from whyrank.online.forget import forget
from whyrank.online.reading import latest
from whyrank.online.results import results, trend
from whyrank.online.working import read_shown
from whyrank.service.calls import ApiCall, Operations, Raw
from whyrank.service.messages_online import (
    ExperimentOut,
    ExperimentParameters,
    ExperimentRequest,
    ExperimentResultsAnswer,
    ExperimentsAnswer,
    ExportAnswer,
    ExposuresAnswer,
    ExposuresParameters,
    FeedbackAnswer,
    FeedbackRequest,
    FeedbackStored,
    PersonParameters,
    RampRequest,
    ReceiptAnswer,
    ResultsParameters,
    WorkingAnswer,
    WorkingParameters,
)
from whyrank.service.problems import json_of, not_erased, still_served
from whyrank.service.registry import find
from whyrank.service.state import State
from whyrank.service.working import described, with_texts

ADMINISTER = "administer"
routes = Operations("experiments and people")


# -- feedback ----------------------------------------------------------------------------------------------------------


@routes.add("POST", "/v1/feedback", "log", asked=FeedbackRequest, answer=FeedbackStored, status=201)
async def add_feedback(call: ApiCall, asked: FeedbackRequest) -> FeedbackStored:
    """Store what people did with reasons."""
    given = [_row(event) for event in asked.events]
    stored, repeated = await call.state.writing(partial(events.add, call.state.store, given))
    call.state.measures.events.inc(stored)
    return FeedbackStored(stored=stored, repeated=repeated)


def _row(event: msgspec.Struct) -> dict[str, Any]:
    """Return an event as the store takes it."""
    row = msgspec.structs.asdict(event)
    return {**row, "key": row.pop("id")}


@routes.add("GET", "/v1/feedback", ADMINISTER, answer=FeedbackAnswer)
async def count_feedback(call: ApiCall, asked: None) -> dict[str, Any]:
    """Events by model."""
    return {"models": await call.state.reading(partial(events.counts, call.state.store))}


@routes.add("GET", "/v1/feedback/reasons", ADMINISTER, asked=WorkingParameters, answer=WorkingAnswer, problems=(404,))
async def working_reasons(call: ApiCall, asked: WorkingParameters) -> Raw:
    """Which reasons or aspects people react to, from the latest 100,000 lists."""
    store, models = call.state.store, call.state.registry.models
    by, experiment, arm, minimum = asked.by, asked.experiment, asked.arm, asked.minimum

    def read() -> bytes:
        arms: list[str] = []
        if experiment is not None:
            arms = [each.name for each in ab.found(store, experiment).arms if arm is None]
        shown = read_shown(store, asked.event, experiment=experiment, arm=arm)
        given = {"by": by, "event": asked.event, "experiment": experiment, "arm": arm, "minimum": minimum}
        return json_of(given | described(shown, models, by, asked.order, minimum, asked.limit, arms))

    return Raw(await call.state.recent(("reasons", *msgspec.structs.astuple(asked)), read))


# -- experiments -------------------------------------------------------------------------------------------------------


@routes.add(
    "POST", "/v1/experiments", ADMINISTER, asked=ExperimentRequest, answer=ExperimentOut, status=201, problems=(404,)
)
async def create_experiment(call: ApiCall, asked: ExperimentRequest) -> dict[str, object]:
    """Start an experiment; other workers notice it within seconds."""
    for arm in asked.arms:
        if arm.model != NO_REASONS:
            find(call.state.registry.models, arm.model)
    arms = tuple(Arm(each.name, each.model, each.share, each.options) for each in asked.arms)
    made = Experiment(asked.name, arms, ramp=asked.ramp, metric=asked.metric, planned=asked.planned)
    return await _changed(call.state, partial(ab.create, call.state.store, made))


@routes.add("GET", "/v1/experiments", ADMINISTER, answer=ExperimentsAnswer)
async def experiments(call: ApiCall, asked: None) -> dict[str, object]:
    """All experiments, the newest first."""
    found = await call.state.reading(partial(ab.listed, call.state.store))
    return {"experiments": [each.as_dict() for each in found]}


@routes.add(
    "GET", "/v1/experiments/{name}", ADMINISTER, asked=ExperimentParameters, answer=ExperimentOut, problems=(404,)
)
async def experiment(call: ApiCall, asked: ExperimentParameters) -> dict[str, object]:
    """One experiment."""
    return (await call.state.reading(partial(ab.found, call.state.store, asked.name))).as_dict()


@routes.add("POST", "/v1/experiments/{name}/ramp", ADMINISTER, asked=RampRequest, answer=ExperimentOut, problems=(404,))
async def ramp_experiment(call: ApiCall, asked: RampRequest) -> dict[str, object]:
    """Change the share of users who take part; nobody changes arms."""
    return await _changed(call.state, partial(ab.ramp, call.state.store, call.path["name"], asked.ramp))


@routes.add("POST", "/v1/experiments/{name}/stop", ADMINISTER, answer=ExperimentOut, problems=(404,))
async def stop_experiment(call: ApiCall, asked: None) -> dict[str, object]:
    """End an experiment; everybody gets the default model again."""
    return await _changed(call.state, partial(ab.stop, call.state.store, call.path["name"]))


@routes.add(
    "GET",
    "/v1/experiments/{name}/results",
    ADMINISTER,
    asked=ResultsParameters,
    answer=ExperimentResultsAnswer,
    problems=(404,),
)
async def experiment_results(call: ApiCall, asked: ResultsParameters) -> Raw:
    """Rates, intervals that may be looked at any time, checks, and a verdict in one sentence."""
    state, level = call.state, asked.level

    def read() -> bytes:
        found = ab.found(state.store, asked.name)
        visits = state.followed(found).poll()
        over_time = trend(visits, found, asked.points, level=level) if asked.points else []
        return json_of(results(visits, found, level=level).as_dict() | {"trend": over_time})

    return Raw(await state.recent(("results", asked.name, level, asked.points), read))


@routes.add(
    "GET",
    "/v1/experiments/{name}/exposures",
    ADMINISTER,
    asked=ExposuresParameters,
    answer=ExposuresAnswer,
    problems=(404,),
)
async def experiment_exposures(call: ApiCall, asked: ExposuresParameters) -> dict[str, Any]:
    """The lists behind a figure, the latest first."""
    store, wanted = call.state.store, (asked.arm, asked.event, asked.explanation, asked.before, asked.limit)

    def read() -> list[dict[str, Any]]:
        ab.found(store, asked.name)
        return latest(store, asked.name, *wanted)

    return {"exposures": with_texts(await call.state.reading(read), call.state.registry.models)}


async def _changed(state: State, work: Callable[[], Experiment]) -> dict[str, object]:
    """Do what changes an experiment, and use it from then on."""

    def change() -> Experiment | ParameterError:
        try:
            changed = work()
        except ParameterError as error:  # not a damaged store
            return error
        state.arms.refresh()
        return changed

    made = await state.writing(change)
    if isinstance(made, ParameterError):
        raise made
    return made.as_dict()


# -- people ------------------------------------------------------------------------------------------------------------


# An id with a line break cannot be in a path: the same in the query.
@routes.add("GET", "/v1/export", ADMINISTER, asked=PersonParameters, answer=ExportAnswer)
async def export_id(call: ApiCall, asked: PersonParameters) -> dict[str, Any]:
    """Everything that the store holds of the user `id`, whatever characters the id has."""
    return await export_user(call, asked)


@routes.add("GET", "/v1/users/{id:path}/export", ADMINISTER, asked=PersonParameters, answer=ExportAnswer)
async def export_user(call: ApiCall, asked: PersonParameters) -> dict[str, Any]:
    """Everything that the store holds of a user; `/v1/users/{id}` shows what a model holds."""
    await call.state.flushed()
    return await call.state.reading(partial(erasure.export, call.state.store, asked.id))


@routes.add("DELETE", "/v1/users", ADMINISTER, asked=PersonParameters, answer=ReceiptAnswer)
async def forget_id(call: ApiCall, asked: PersonParameters) -> dict[str, object]:
    """Erase the user `id`, whatever characters the id has."""
    return await forget_user(call, asked)


@routes.add("DELETE", "/v1/users/{id:path}", ADMINISTER, asked=PersonParameters, answer=ReceiptAnswer)
async def forget_user(call: ApiCall, asked: PersonParameters) -> dict[str, object]:
    """Erase a user from the store and from the folders of the models in service, which are then loaded anew."""
    state, registry, user = call.state, call.state.registry, asked.id
    await state.flushed()
    folders = {each.folder for each in registry.models.values()}
    stored = await state.writing(partial(erasure.erase, state.store, user))
    try:
        made = await state.changing_folders(partial(forget, user, models=sorted(folders)))
    except (ArtifactError, DataError) as error:  # a refresh that runs would put the user in again
        raise not_erased(error) from error
    await state.changing_folders(registry.refresh)
    for each in registry.models.values():
        if each.model.catalog_.users.numbers([user], missing="negative")[0] >= 0:
            raise still_served(each.id, registry.problems.get(each.id))
    return replace(made, store=stored).as_dict()
