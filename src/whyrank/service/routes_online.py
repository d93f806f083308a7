"""The routes of experiments, and those by which people's data are handed out and erased."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal

import anyio
import anyio.to_thread
from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from whyrank.errors import ArtifactError, DataError, ParameterError
from whyrank.online import ab, erasure
from whyrank.online.assignment import NO_REASONS, Arm, Experiment
from whyrank.online.forget import forget
from whyrank.online.reading import latest
from whyrank.online.results import results, trend
from whyrank.online.working import read_shown
from whyrank.service import answers
from whyrank.service import schemas_online as ask
from whyrank.service.problems import documented, json_of, not_erased, still_served
from whyrank.service.routes import IdPath, answer, ranked
from whyrank.service.state import State, state_of
from whyrank.service.working import described, with_texts

router = APIRouter(prefix="/v1")
Name = Annotated[str, Path(min_length=1, max_length=64)]
ArmQuery = Annotated[str | None, Query(max_length=64, description="only lists of this arm")]
Level = Annotated[float, Query(ge=0.5, le=0.999, description="of all intervals of a metric together")]
Points = Annotated[int, Query(ge=0, le=100, description="times at which the comparisons are given as they were")]


@router.post("/experiments", status_code=201, response_model=ask.ExperimentOut, responses=documented(404))
async def create_experiment(request: Request, body: ask.ExperimentRequest) -> Response:
    """Start an experiment; other workers notice it within seconds."""
    state = state_of(request)
    for arm in body.arms:
        if arm.model != NO_REASONS:
            answers.find(state.shelf.models, arm.model)
    arms = tuple(Arm(each.name, each.model, each.share, each.options) for each in body.arms)
    made = Experiment(body.name, arms, ramp=body.ramp, metric=body.metric, planned=body.planned)
    return await _changed(state, partial(ab.create, state.store, made), 201)


@router.get("/experiments", response_model=ask.ExperimentsAnswer, responses=documented())
async def experiments(request: Request) -> Response:
    """All experiments, the newest first."""
    state = state_of(request)
    found = await state.reading(partial(ab.listed, state.store))
    return answer({"experiments": [each.as_dict() for each in found]})


@router.get("/experiments/{name}", response_model=ask.ExperimentOut, responses=documented(404))
async def experiment(request: Request, name: Name) -> Response:
    """One experiment."""
    state = state_of(request)
    return answer((await state.reading(partial(ab.found, state.store, name))).as_dict())


@router.post("/experiments/{name}/ramp", response_model=ask.ExperimentOut, responses=documented(404))
async def ramp_experiment(request: Request, name: Name, body: ask.RampRequest) -> Response:
    """Change the share of users who take part; nobody changes arms."""
    state = state_of(request)
    return await _changed(state, partial(ab.ramp, state.store, name, body.ramp))


@router.post("/experiments/{name}/stop", response_model=ask.ExperimentOut, responses=documented(404))
async def stop_experiment(request: Request, name: Name) -> Response:
    """End an experiment; everybody gets the default model again."""
    state = state_of(request)
    return await _changed(state, partial(ab.stop, state.store, name))


@router.get("/experiments/{name}/results", response_model=ask.ExperimentResultsAnswer, responses=documented(404))
async def experiment_results(request: Request, name: Name, level: Level = 0.95, points: Points = 0) -> Response:
    """Rates, intervals that may be looked at any time, checks, and a verdict in one sentence."""
    state = state_of(request)

    def read() -> bytes:
        found = ab.found(state.store, name)
        visits = state.followed(found).poll()
        over_time = trend(visits, found, points, level=level) if points else []
        return json_of(results(visits, found, level=level).as_dict() | {"trend": over_time})

    return ranked(await state.recent(("results", name, level, points), read))


@router.get("/experiments/{name}/exposures", response_model=ask.ExposuresAnswer, responses=documented(404))
async def experiment_exposures(
    request: Request,
    name: Name,
    arm: ArmQuery = None,
    event: Annotated[str | None, Query(max_length=20, description="only lists with such an event")] = None,
    explanation: Annotated[str | None, Query(max_length=1000, description="only lists that show this one")] = None,
    before: Annotated[str | None, Query(max_length=64, description="an exposure: only earlier ones")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
) -> Response:
    """The lists behind a figure, the latest first."""
    state = state_of(request)

    def read() -> list[dict[str, Any]]:
        ab.found(state.store, name)
        return latest(state.store, name, arm, event, explanation, before, limit)

    return answer({"exposures": with_texts(await state.reading(read), state.shelf.models)})


@router.get("/feedback/reasons", response_model=ask.WorkingAnswer, responses=documented(404))
async def working_reasons(
    request: Request,
    by: Literal["explanation", "aspect"] = "aspect",
    event: Literal["clicked", "dismissed", "helpful", "converted"] = "clicked",
    experiment: Annotated[str | None, Query(max_length=64)] = None,
    arm: ArmQuery = None,
    order: Literal["best", "worst", "shown"] = "best",
    minimum: Annotated[int, Query(ge=1, le=10**9, description="how often something must have been shown")] = 20,
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
) -> Response:
    """Which reasons or aspects people react to, from the latest 100,000 lists."""
    state, models = state_of(request), state_of(request).shelf.models

    def read() -> bytes:
        arms: list[str] = []
        if experiment is not None:
            arms = [each.name for each in ab.found(state.store, experiment).arms if arm is None]
        shown = read_shown(state.store, event, experiment=experiment, arm=arm)
        asked = {"by": by, "event": event, "experiment": experiment, "arm": arm, "minimum": minimum}
        return json_of(asked | described(shown, models, by, order, minimum, limit, arms))

    return ranked(await state.recent(("reasons", by, event, experiment, arm, order, minimum, limit), read))


@router.get("/users/{id:path}/export", response_model=ask.ExportAnswer, responses=documented())
async def export_user(request: Request, id: IdPath) -> Response:
    """Everything that the store holds of a user; `/v1/users/{id}` shows what a model holds."""
    state = state_of(request)
    await anyio.to_thread.run_sync(state.exposing.writer.flush)
    return answer(await state.reading(partial(erasure.export, state.store, id)))


@router.delete("/users/{id:path}", response_model=ask.ReceiptAnswer, responses=documented())
async def forget_user(request: Request, id: IdPath) -> Response:
    """Erase a user from the store and from the folders of the models in service, which are then loaded anew."""
    state = state_of(request)
    await anyio.to_thread.run_sync(state.exposing.writer.flush)
    folders = {each.folder for each in state.shelf.models.values()}
    stored = await state.writing(partial(erasure.erase, state.store, id))
    try:
        made = await anyio.to_thread.run_sync(partial(forget, id, models=sorted(folders)), limiter=state.threads)
    except (ArtifactError, DataError) as error:  # a refresh that runs would put the user in again
        raise not_erased(error) from error
    await anyio.to_thread.run_sync(state.shelf.refresh, limiter=state.threads)
    for each in state.shelf.models.values():
        if each.model.catalog_.users.numbers([id], missing="negative")[0] >= 0:
            raise still_served(each.id, state.shelf.problems.get(each.id))
    return answer(replace(made, store=stored).as_dict())


async def _changed(state: State, work: Any, status: int = 200) -> Response:
    """Do what changes an experiment, and use it from then on."""

    def change() -> Experiment | ParameterError:
        try:
            changed: Experiment = work()
        except ParameterError as error:  # not a damaged store
            return error
        state.exposing.refresh()
        return changed

    made = await state.writing(change)
    if isinstance(made, ParameterError):
        raise made
    return answer(made.as_dict(), status)
