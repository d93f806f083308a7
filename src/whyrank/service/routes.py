"""The routes that rank and look around."""

from __future__ import annotations

from typing import Any

from whyrank.models import parameters
from whyrank.service import answer, browse, history
from whyrank.service.calls import ApiCall, Operations
from whyrank.service.messages import (
    MAX_PAIRS,
    MAX_REASONS,
    ExplainAnswer,
    ExplainRequest,
    PairsAnswer,
    PairsRequest,
    RecommendAnswer,
    RecommendRequest,
)
from whyrank.service.messages_catalog import (
    AspectsAnswer,
    ExplanationAnswer,
    ExplanationsAnswer,
    HistoryAnswer,
    HistoryParameters,
    ItemAnswer,
    ItemsAnswer,
    ModelOut,
    ModelsAnswer,
    OfModel,
    OneParameters,
    PoolParameters,
    SearchParameters,
    ServiceOut,
    Sizes,
    StatementAnswer,
    StatementParameters,
    UserAnswer,
    UserParameters,
    UsersAnswer,
    VersionOut,
)
from whyrank.service.registry import ServedModel, find
from whyrank.service.settings import SCOPES
from whyrank.version import __version__

LOOK = 200  # cost of a search through all ids, or of a page about one of them
MOST_GROUPS = 100  # that are named
ranking = Operations("reasons")  # asked most, so they are matched first
routes = Operations("reasons")


@ranking.add("POST", "/v1/explain", "ask", asked=ExplainRequest, answer=ExplainAnswer, problems=(404,))
async def explain(call: ApiCall, asked: ExplainRequest) -> ExplainAnswer:
    """The best reasons of one pair, or of up to 1,000."""
    return await answer.explain(call, asked)


@ranking.add("POST", "/v1/recommend", "ask", asked=RecommendRequest, answer=RecommendAnswer, problems=(404,))
async def recommend(call: ApiCall, asked: RecommendRequest) -> RecommendAnswer:
    """The best items for a user, each with its best reasons."""
    return await answer.recommend(call, asked)


@ranking.add("POST", "/v1/pairs", "ask", asked=PairsRequest, answer=PairsAnswer, problems=(404,))
async def pairs(call: ApiCall, asked: PairsRequest) -> PairsAnswer:
    """The best (item, explanation) pairs over all of them, ranked as a whole."""
    return await answer.pairs(call, asked)


@routes.add("GET", "/v1/models", "ask", answer=ModelsAnswer)
async def models(call: ApiCall, asked: None) -> ModelsAnswer:
    """The models in service and what is known about them."""
    registry, settings = call.state.registry, call.state.settings
    service = ServiceOut(
        version=__version__,
        keys=bool(settings.keys),
        scopes=[each for each in SCOPES if each in call.scopes],
        studies=settings.split is not None,
        max_pairs=MAX_PAIRS,
        max_reasons=MAX_REASONS,
        groups=sorted(set(registry.groups.values()))[:MOST_GROUPS],
    )
    listed = [_model(each, registry.problems.get(id_)) for id_, each in registry.models.items()]
    return ModelsAnswer(default=registry.default.id, service=service, models=listed)


@routes.add(
    "GET", "/v1/models/{id:path}/history", "ask", asked=HistoryParameters, answer=HistoryAnswer, problems=(404,)
)
async def versions(call: ApiCall, asked: HistoryParameters) -> HistoryAnswer:
    """Which versions of a model were served and when, how they differ, and why newer ones were refused."""
    served = find(call.state.registry.models, asked.id)
    found = await call.state.reading(lambda: history.history(call.state.store, served, asked.limit))
    return HistoryAnswer(model=served.id, versions=[VersionOut(**each) for each in found])


@routes.add("GET", "/v1/users", "ask", asked=SearchParameters, answer=UsersAnswer, problems=(404,))
async def users(call: ApiCall, asked: SearchParameters) -> UsersAnswer:
    """Users by id; the busiest first."""
    served = _named(call, asked)
    return await call.ranked(LOOK, lambda: browse.users(served, asked.query, asked.limit, asked.offset))


@routes.add("GET", "/v1/users/{id:path}", "ask", asked=UserParameters, answer=UserAnswer, problems=(404,))
async def user(call: ApiCall, asked: UserParameters) -> UserAnswer:
    """What a user said before."""
    served = _named(call, asked)
    return await call.ranked(LOOK, lambda: browse.user(served, asked.id, asked.limit, asked.offset))


@routes.add("GET", "/v1/items", "ask", asked=SearchParameters, answer=ItemsAnswer, problems=(404,))
async def items(call: ApiCall, asked: SearchParameters) -> ItemsAnswer:
    """Items by id or title; those with most users first."""
    served = _named(call, asked)
    return await call.ranked(LOOK, lambda: browse.items(served, asked.query, asked.limit, asked.offset))


@routes.add(
    "GET",
    "/v1/items/{item:path}/statements/{id:path}",
    "ask",
    asked=StatementParameters,
    answer=StatementAnswer,
    problems=(404,),
)
async def statement(call: ApiCall, asked: StatementParameters) -> StatementAnswer:
    """What is behind a statement about an item: people for and against, and what they wrote."""
    served = _named(call, asked)
    return await call.ranked(LOOK, lambda: browse.statement(served, asked.item, asked.id))


# Longer paths below an item come before this one, which takes any.
@routes.add("GET", "/v1/items/{id:path}", "ask", asked=OneParameters, answer=ItemAnswer, problems=(404,))
async def item(call: ApiCall, asked: OneParameters) -> ItemAnswer:
    """What people say about an item, aspect by aspect, and which items are like it."""
    served = _named(call, asked)
    return await call.ranked(LOOK, lambda: browse.item(served, asked.id))


@routes.add("GET", "/v1/explanations", "ask", asked=PoolParameters, answer=ExplanationsAnswer, problems=(404,))
async def explanations(call: ApiCall, asked: PoolParameters) -> ExplanationsAnswer:
    """The pool of explanations, by id, text or aspect."""
    served = _named(call, asked)
    return await call.ranked(LOOK, lambda: browse.explanations(served, asked))


@routes.add("GET", "/v1/aspects", "ask", asked=OfModel, answer=AspectsAnswer, problems=(404,))
async def aspects(call: ApiCall, asked: OfModel) -> AspectsAnswer:
    """What the pool is about; empty where the data do not say it."""
    served = _named(call, asked)
    return AspectsAnswer(aspects=await call.ranked(LOOK, lambda: browse.aspects(served)))


@routes.add("GET", "/v1/explanations/{id:path}", "ask", asked=OneParameters, answer=ExplanationAnswer, problems=(404,))
async def explanation(call: ApiCall, asked: OneParameters) -> ExplanationAnswer:
    """Everything about one explanation: frequency, sentiment, near-duplicates, who says it about which items."""
    served = _named(call, asked)
    return await call.ranked(LOOK, lambda: browse.explanation(served, asked.id))


def _named(call: ApiCall, asked: OfModel) -> ServedModel:
    return find(call.state.registry.models, asked.model)


def _model(served: ServedModel, problem: str | None) -> ModelOut:
    model, catalog = served.model, served.model.catalog_
    source: Any = catalog.sentiment_source
    return ModelOut(
        id=served.id,
        name=model.title,
        kind=model.id,
        summary=model.summary,
        ranks_items=model.ranks_items,
        mu=served.mu,
        average_popularity=served.average_popularity,
        parameters=history.plain(parameters.values(model)),
        sizes=Sizes(**history.sizes(served)),
        sentiment=source,
        data=model.data_digest_,
        version=__version__,
        loaded=served.since,
        problem=problem,
        report=served.report,
    )
