"""The routes of blind studies: what participants reach, and what whoever runs a study reaches."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

from whyrank.errors import DataError
from whyrank.explain.options import Options
from whyrank.lab.study import results, studies
from whyrank.lab.study.cases import Case, Cases, sample_cases
from whyrank.lab.study.messages import (
    CaseParameters,
    MoreParticipants,
    ResultsAnswer,
    StudiesAnswer,
    StudyAnswer,
    StudyParameters,
    StudyRequest,
    TakeAnswer,
    TakeParameters,
    TakeRequest,
    TakeView,
    TakeWithdrawn,
)
from whyrank.service.calls import ApiCall, Operations, Raw
from whyrank.service.problems import Problem
from whyrank.service.registry import ServedModel, find

ADMINISTER = "administer"
DRAW = 5000  # cost of drawing the cases of a study
routes = Operations("studies")
take_routes = Operations("participants")  # all that participants reach
cases_of = cache(Cases)  # of a split, read when they are first needed


@routes.add("POST", "/v1/studies", ADMINISTER, asked=StudyRequest, answer=StudyAnswer, status=201, problems=(404,))
async def create_study(call: ApiCall, asked: StudyRequest) -> dict[str, Any]:
    """Draw cases from the test pairs of the service's split and make a link for every participant."""
    state = call.state
    first, second = (find(state.registry.models, id_) for id_ in (asked.a, asked.b))
    if first is second:
        raise Problem("invalid-request", 422, "a and b name the same model; name two")
    if state.settings.split is None:
        raise Problem("no-test-pairs", 422, "this service has no test pairs; start it with --split FOLDER")
    test = cases_of(state.settings.split, state.settings.split_number)
    try:
        made = await call.ranked(DRAW, partial(_draw, test, first, second, asked))
    except DataError as error:
        raise Problem("no-test-pairs", 422, str(error)) from error
    names = ("a", "b", "n", "title", "question", "agreement", "ties", "seed")
    fields = {name: getattr(asked, name) for name in names}
    titles = {case.item: first.title(case.item) for case in made}
    named = {item: title for item, title in titles.items() if title is not None}
    create = partial(studies.create, state.store, made, people=asked.participants, titles=named, **fields)
    return await _read(call, studies.shown, await state.writing(create))


@routes.add("GET", "/v1/studies", ADMINISTER, answer=StudiesAnswer)
async def list_studies(call: ApiCall, asked: None) -> dict[str, Any]:
    """All studies, the newest first."""
    return {"studies": await _read(call, studies.listed)}


@routes.add("GET", "/v1/studies/{id}", ADMINISTER, asked=StudyParameters, answer=StudyAnswer, problems=(404,))
async def show_study(call: ApiCall, asked: StudyParameters) -> dict[str, Any]:
    """A study with the links of its participants."""
    return await _read(call, studies.shown, asked.id)


@routes.add(
    "POST",
    "/v1/studies/{id}/participants",
    ADMINISTER,
    asked=MoreParticipants,
    answer=StudyAnswer,
    status=201,
    problems=(404,),
)
async def add_participants(call: ApiCall, asked: MoreParticipants) -> dict[str, Any]:
    """Make more links."""
    id_ = call.path["id"]
    await call.state.writing(partial(studies.add_participants, call.state.store, id_, asked.count))
    return await _read(call, studies.shown, id_)


@routes.add("GET", "/v1/studies/{id}/results", ADMINISTER, asked=StudyParameters, answer=ResultsAnswer, problems=(404,))
async def show_results(call: ApiCall, asked: StudyParameters) -> dict[str, Any]:
    """Who won, how sure that is, and how far participants agree."""
    return await _read(call, results.results, asked.id)


@routes.add("GET", "/v1/studies/{id}/results.csv", ADMINISTER, asked=StudyParameters, problems=(404,), media="text/csv")
async def export_results(call: ApiCall, asked: StudyParameters) -> Raw:
    """One row per answer."""
    headers = [(b"content-disposition", b'attachment; filename="answers.csv"')]
    text = await _read(call, results.answers_csv, asked.id)
    return Raw(text.encode(), "text/csv; charset=utf-8", headers)


@routes.add(
    "GET", "/v1/studies/{id}/chart.svg", ADMINISTER, asked=StudyParameters, problems=(404,), media="image/svg+xml"
)
async def draw_results(call: ApiCall, asked: StudyParameters) -> Raw:
    """The bar chart of the results."""
    found = await _read(call, results.results, asked.id)
    return Raw(results.chart(found).encode(), "image/svg+xml")


@take_routes.add("GET", "/v1/take/{token}", None, asked=TakeParameters, answer=TakeView, problems=(404,))
async def take(call: ApiCall, asked: TakeParameters) -> dict[str, Any]:
    """The cases of a participant, in their order."""
    return await _read(call, studies.view, asked.token)


@take_routes.add("POST", "/v1/take/{token}", None, asked=TakeRequest, answer=TakeAnswer, problems=(404, 409))
async def choose(call: ApiCall, asked: TakeRequest) -> dict[str, Any]:
    """Store a participant's choice; it is on disk when the answer comes."""
    store, token = call.state.store, call.path["token"]
    try:
        return await call.state.writing(partial(studies.answer, store, token, asked.case, asked.choice))
    except studies.AlreadyAnswered as error:
        raise Problem("already-answered", 409, str(error), choice=error.side) from error


@take_routes.add("DELETE", "/v1/take/{token}/{case}", None, asked=CaseParameters, answer=TakeWithdrawn, problems=(404,))
async def withdraw(call: ApiCall, asked: CaseParameters) -> dict[str, Any]:
    """Take an answer back, to give another one."""
    return await call.state.writing(partial(studies.withdraw, call.state.store, asked.token, asked.case))


async def _read(call: ApiCall, read: Callable[..., Any], *given: object) -> Any:
    """Return what a function of the store finds."""
    return await call.state.reading(partial(read, call.state.store, *given))


def _draw(cases: Cases, first: ServedModel, second: ServedModel, asked: StudyRequest) -> list[Case]:
    given = {name: getattr(asked, name) for name in ("grounded", "polarity", "diversity", "specificity")}
    size = {"count": asked.cases, "n": asked.n, "seed": asked.seed}
    return sample_cases(cases.test(), first.model, second.model, **size, options=Options.plain(**given))
