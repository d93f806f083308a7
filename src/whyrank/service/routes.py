"""The routes that rank and look around."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Path, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from whyrank.models import parameters
from whyrank.service import answers, browse, history, reply
from whyrank.service import items as item_pages
from whyrank.service import schemas as ask
from whyrank.service import schemas_catalog as out
from whyrank.service.problems import documented, json_of
from whyrank.service.settings import SCOPES
from whyrank.service.shelf import Loaded
from whyrank.service.state import state_of
from whyrank.version import __version__

router = APIRouter(prefix="/v1")

EXAMPLES: dict[str, dict[str, dict[str, Any]]] = {
    "explain": {
        "one": {"summary": "one pair", "value": {"user": "u000001", "item": "i00001", "n": 3}},
        "many": {
            "summary": "several pairs, disrecommendation",
            "value": {
                "pairs": [{"user": "u000001", "item": "i00001"}],
                "polarity": "negative",
                "diversity": 0.3,
            },
        },
    },
    "recommend": {"one": {"summary": "items with reasons", "value": {"user": "u000001", "n": 5, "reasons": 3}}},
    "pairs": {"one": {"summary": "items and reasons together", "value": {"user": "u000001", "n": 5, "weight": 1.0}}},
}
MOST_GROUPS = 100  # that are named
ModelQuery = Annotated[str | None, Query(max_length=1000, description="a model's id")]
Search = Annotated[str, Query(max_length=200, description="part of an id or a text, in any case")]
Limit = Annotated[int, Query(ge=1, le=100)]
Offset = Annotated[int, Query(ge=0, le=10**9)]
IdPath = Annotated[str, Path(min_length=1, max_length=1000)]


def answer(document: object, status: int = 200) -> Response:
    """JSON as it is: the shapes are declared for the documentation and checked by tests, not on every answer."""
    return Response(json_of(document), status, media_type="application/json")


def ranked(body: bytes) -> Response:
    """An answer of `reply`."""
    return Response(body, media_type="application/json")


def scopes_of(request: Request) -> Sequence[str]:
    """What the key of a request may do; without keys everything."""
    return request.scope.get("whyrank.scopes", SCOPES)


@router.post("/explain", response_model=ask.ExplainAnswer, responses=documented(404))
async def explain(
    request: Request,
    body: Annotated[ask.ExplainRequest, Body(openapi_examples=EXAMPLES["explain"])],
) -> Response:
    """The best reasons of one pair, or of up to 1,000."""
    return ranked(await reply.explain(state_of(request), body, scopes_of(request)))


@router.post("/recommend", response_model=ask.RecommendAnswer, responses=documented(404))
async def recommend(
    request: Request,
    body: Annotated[ask.RecommendRequest, Body(openapi_examples=EXAMPLES["recommend"])],
) -> Response:
    """The best items for a user, each with its best reasons."""
    return ranked(await reply.recommend(state_of(request), body, scopes_of(request)))


@router.post("/pairs", response_model=ask.PairsAnswer, responses=documented(404))
async def pairs(
    request: Request,
    body: Annotated[ask.PairsRequest, Body(openapi_examples=EXAMPLES["pairs"])],
) -> Response:
    """The best (item, explanation) pairs over all of them, ranked as a whole."""
    return ranked(await reply.pairs(state_of(request), body, scopes_of(request)))


@router.get("/models", response_model=out.ModelsAnswer, responses=documented())
def models(request: Request) -> Response:
    """The models in service and what is known about them."""
    state = state_of(request)
    shelf, cases = state.shelf, state.cases
    service = {
        "version": __version__,
        "keys": bool(state.settings.keys),
        "scopes": [each for each in SCOPES if each in scopes_of(request)],
        "studies": cases is not None,
        "test_pairs": None if cases is None else cases.known,
        "max_pairs": ask.MAX_PAIRS,
        "groups": sorted(set(shelf.groups.values()))[:MOST_GROUPS],
    }
    listed = [_model(each, shelf.problems.get(id_)) for id_, each in shelf.models.items()]
    return answer({"default": shelf.default.id, "service": service, "models": listed})


@router.get("/models/{id:path}/history", response_model=out.HistoryAnswer, responses=documented(404))
async def versions(request: Request, id: IdPath, limit: Limit = 50) -> Response:
    """Which versions of a model were served and when, how they differ, and why newer ones were refused."""
    state, loaded = state_of(request), _loaded(request, id)
    found = await state.reading(lambda: history.history(state.store, loaded, limit))
    return answer({"model": loaded.id, "versions": found})


@router.get("/users", response_model=out.UsersAnswer, responses=documented(404))
def users(
    request: Request, query: Search = "", limit: Limit = 20, offset: Offset = 0, model: ModelQuery = None
) -> Response:
    """Users by id; the busiest first."""
    return answer(browse.users(_loaded(request, model), query, limit, offset))


@router.get("/users/{id:path}", response_model=out.UserAnswer, responses=documented(404))
def user(request: Request, id: IdPath, limit: Limit = 50, offset: Offset = 0, model: ModelQuery = None) -> Response:
    """What a user said before."""
    return answer(browse.user(_loaded(request, model), id, limit, offset))


@router.get("/items", response_model=out.ItemsAnswer, responses=documented(404))
def items(
    request: Request, query: Search = "", limit: Limit = 20, offset: Offset = 0, model: ModelQuery = None
) -> Response:
    """Items by id or title; those with most users first."""
    return answer(browse.items(_loaded(request, model), query, limit, offset))


@router.get("/items/{id:path}", response_model=out.ItemAnswer, responses=documented(404))
def item(request: Request, id: IdPath, model: ModelQuery = None) -> Response:
    """What people say about an item, aspect by aspect, and which items are like it."""
    return answer(browse.item(_loaded(request, model), id))


@router.get("/explanations", response_model=out.ExplanationsAnswer, responses=documented(404))
def explanations(
    request: Request,
    query: Search = "",
    limit: Limit = 20,
    offset: Offset = 0,
    model: ModelQuery = None,
    sort: Literal["frequency", "positive", "negative", "text"] = "frequency",
    polarity: ask.Polarity = "any",
    aspect: Annotated[str, Query(max_length=1000, description="only explanations about this aspect")] = "",
) -> Response:
    """The pool of explanations, by id, text or aspect."""
    return answer(browse.explanations(_loaded(request, model), query, limit, offset, sort, polarity, aspect))


@router.get("/aspects", response_model=out.AspectsAnswer, responses=documented(404))
def aspects(request: Request, model: ModelQuery = None) -> Response:
    """What the pool is about; empty where the data do not say it."""
    return answer({"aspects": item_pages.aspects(_loaded(request, model))})


@router.get("/explanations/{id:path}", response_model=out.ExplanationAnswer, responses=documented(404))
async def explanation(request: Request, id: IdPath, model: ModelQuery = None) -> Response:
    """Everything about one explanation: frequency, sentiment, near-duplicates, who says it about which items."""
    loaded = _loaded(request, model)
    return answer(await run_in_threadpool(browse.explanation, loaded, id))


def _loaded(request: Request, model: str | None) -> Loaded:
    return answers.find(state_of(request).shelf.models, model)


def _model(loaded: Loaded, problem: str | None) -> dict[str, object]:
    model, catalog = loaded.model, loaded.model.catalog_
    return {
        "id": loaded.id,
        "name": model.title,
        "kind": model.id,
        "summary": model.summary,
        "ranks_items": model.ranks_items,
        "mu": loaded.mu,
        "average_popularity": loaded.average_popularity,
        "parameters": history.plain(parameters.values(model)),
        "sizes": history.sizes(loaded),
        "sentiment": catalog.sentiment_source,
        "data": model.data_digest_,
        "version": __version__,
        "loaded": loaded.since,
        "problem": problem,
        "report": None if loaded.report is None else loaded.report.model_dump(),
    }
