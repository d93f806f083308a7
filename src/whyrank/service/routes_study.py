"""The routes of feedback and of studies. They wait for the store in threads that nothing else needs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import anyio
import anyio.to_thread
from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from whyrank.errors import DataError
from whyrank.explain.options import Options
from whyrank.online import events
from whyrank.service import answers, study, study_results
from whyrank.service import schemas_study as ask
from whyrank.service.problems import Problem, documented
from whyrank.service.routes import answer
from whyrank.service.shelf import Loaded
from whyrank.service.state import state_of
from whyrank.service.study_cases import Case, Cases, sample_cases

router = APIRouter(prefix="/v1")
take_router = APIRouter(prefix="/v1")  # all that participants reach
StudyId = Annotated[str, Path(min_length=1, max_length=100)]
Token = Annotated[str, Path(min_length=1, max_length=100)]


@router.post("/feedback", status_code=201, response_model=ask.FeedbackStored, responses=documented())
async def add_feedback(request: Request, body: ask.FeedbackRequest) -> Response:
    """Store what people did with reasons."""
    given = [
        {**event.model_dump(exclude={"id", "rank"}), "key": event.id, "position": event.position or event.rank}
        for event in body.events
    ]
    state = state_of(request)
    stored, repeated = await state.writing(partial(events.add, state.store, given))
    state.measures.events.inc(stored)
    return answer({"stored": stored, "repeated": repeated}, 201)


@router.get("/feedback", response_model=ask.FeedbackAnswer, responses=documented())
async def count_feedback(request: Request) -> Response:
    """Events by model."""
    return answer({"models": await _read(request, events.counts)})


@router.post("/studies", status_code=201, response_model=ask.StudyAnswer, responses=documented(404))
async def create_study(request: Request, body: ask.StudyRequest) -> Response:
    """Draw cases from the test pairs of the service's split and make a link for every participant."""
    state = state_of(request)
    first, second = (answers.find(state.shelf.models, id_) for id_ in (body.a, body.b))
    if first is second:
        raise Problem("invalid-request", 422, "a and b name the same model; name two")
    if state.cases is None:
        raise Problem("no-test-pairs", 422, "this service has no test pairs; start it with --split FOLDER")
    given = body.model_dump(include={"grounded", "polarity", "diversity", "specificity"})
    size = {"count": body.cases, "n": body.n, "seed": body.seed}
    try:
        draw = partial(_draw, state.cases, first, second, **size, options=Options.plain(**given))
        made = await anyio.to_thread.run_sync(draw, limiter=state.threads)
    except DataError as error:
        raise Problem("no-test-pairs", 422, str(error)) from error
    fields = body.model_dump(include={"a", "b", "n", "title", "question", "agreement", "ties", "seed"})
    titles = {case.item: first.title(case.item) for case in made}
    named = {item: title for item, title in titles.items() if title is not None}
    create = partial(study.create, state.store, made, people=body.participants, titles=named, **fields)
    id_ = await state.writing(create)
    return answer(await _read(request, study.shown, id_), 201)


@router.get("/studies", response_model=ask.StudiesAnswer, responses=documented())
async def list_studies(request: Request) -> Response:
    """All studies, the newest first."""
    return answer({"studies": await _read(request, study.listed)})


@router.get("/studies/{id}", response_model=ask.StudyAnswer, responses=documented(404))
async def show_study(request: Request, id: StudyId) -> Response:
    """A study with the links of its participants."""
    return answer(await _read(request, study.shown, id))


@router.post("/studies/{id}/participants", status_code=201, response_model=ask.StudyAnswer, responses=documented(404))
async def add_participants(request: Request, id: StudyId, body: ask.MoreParticipants) -> Response:
    """Make more links."""
    state = state_of(request)
    await state.writing(partial(study.add_participants, state.store, id, body.count))
    return answer(await _read(request, study.shown, id), 201)


@router.get("/studies/{id}/results", response_model=ask.ResultsAnswer, responses=documented(404))
async def show_results(request: Request, id: StudyId) -> Response:
    """Who won, how sure that is, and how far participants agree."""
    return answer(await _read(request, study_results.results, id))


@router.get("/studies/{id}/results.csv", responses={**documented(404), 200: {"content": {"text/csv": {}}}})
async def export_results(request: Request, id: StudyId) -> Response:
    """One row per answer."""
    headers = {"Content-Disposition": 'attachment; filename="answers.csv"'}
    return Response(await _read(request, study_results.answers_csv, id), 200, headers, "text/csv; charset=utf-8")


@router.get("/studies/{id}/chart.svg", responses={**documented(404), 200: {"content": {"image/svg+xml": {}}}})
async def draw_results(request: Request, id: StudyId) -> Response:
    """The bar chart of the results."""
    results = await _read(request, study_results.results, id)
    return Response(study_results.chart(results), media_type="image/svg+xml")


@take_router.get("/take/{token}", response_model=ask.TakeView, responses=documented(404))
async def take(request: Request, token: Token) -> Response:
    """The cases of a participant, in their order."""
    return answer(await _read(request, study.view, token))


@take_router.post("/take/{token}", response_model=ask.TakeAnswer, responses=documented(404, 409))
async def choose(request: Request, token: Token, body: ask.TakeRequest) -> Response:
    """Store a participant's choice; it is on disk when the answer comes."""
    state = state_of(request)
    try:
        return answer(await state.writing(partial(study.answer, state.store, token, body.case, body.choice)))
    except study.AlreadyAnswered as error:
        raise Problem("already-answered", 409, str(error), choice=error.side) from error


@take_router.delete("/take/{token}/{case}", response_model=ask.TakeWithdrawn, responses=documented(404))
async def withdraw(request: Request, token: Token, case: Annotated[int, Path(ge=1, le=1000)]) -> Response:
    """Take an answer back, to give another one."""
    state = state_of(request)
    return answer(await state.writing(partial(study.withdraw, state.store, token, case)))


async def _read(request: Request, read: Callable[..., Any], *given: object) -> Any:
    """What a function of the store finds."""
    state = state_of(request)
    return await state.reading(partial(read, state.store, *given))


def _draw(cases: Cases, first: Loaded, second: Loaded, **given: Any) -> list[Case]:
    return sample_cases(cases.test(), first.model, second.model, **given)
