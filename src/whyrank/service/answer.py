"""From a checked request for reasons to its answer: the arm, the models, the ranking, the log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
from msgspec import UNSET

from whyrank.explain import result as ranking
from whyrank.explain.options import Options
from whyrank.explain.rank import fallback_of, user_numbers
from whyrank.explain.reasons import rows_of
from whyrank.explain.recommend import best_items, top_items_and_reasons
from whyrank.explain.result import Explained, explained
from whyrank.index.form import Numbers
from whyrank.models import Model
from whyrank.service.arms import AssignedRequest
from whyrank.service.calls import ApiCall
from whyrank.service.messages import (
    ExplainAnswer,
    ExplainRequest,
    ModelReasons,
    OtherReasons,
    PairReasons,
    PairsAnswer,
    PairsRequest,
    RankedPair,
    RankOptions,
    ReasonOut,
    RecommendAnswer,
    Recommended,
    RecommendRequest,
    goals_of,
)
from whyrank.service.problems import Problem
from whyrank.service.registry import Models, ServedModel, find

ITEMS = 500  # cost of ranking the items for a user
PORTION = 1000  # cost of the pairs that are ranked in one turn
SLOW = 10  # how many times more a reason costs with options that look at other items or at all explanations
Pairs = list[tuple[str, str]]


class Chosen(NamedTuple):
    """A model as one request uses it."""

    served: ServedModel
    mu: float | None  # None: the model's own, or none at all

    @property
    def model(self) -> Model:
        return self.served.model

    @property
    def shown_mu(self) -> float | None:
        """What the answer says."""
        return self.served.mu if self.mu is None else self.mu

    def fitting(self, options: Options) -> Options:
        """Return options as this model takes them: `mu` only if it has one."""
        return options if options.mu == self.mu else replace(options, mu=self.mu)


# -- explain -----------------------------------------------------------------------------------------------------------


async def explain(call: ApiCall, body: ExplainRequest) -> ExplainAnswer:
    """Answer POST /v1/explain: pairs are ranked in portions, in turn with what others ask for."""
    asked = call.state.arms.assign(call.scopes, "explain", body, call.state.registry.models)
    chosen = choose(asked.models, asked.body)
    lists: list[list[PairReasons]] = [[] for _ in chosen]
    for pairs, cost in _portions(asked, chosen[0]):
        for made, more in zip(lists, await call.ranked(cost, partial(_explained, asked, chosen, pairs)), strict=True):
            made += more
    first, *rest = chosen
    answer = ExplainAnswer(
        model=first.served.id,
        mu=first.shown_mu,
        results=lists[0],
        compare=ModelReasons(model=rest[0].served.id, mu=rest[0].shown_mu, results=lists[1]) if rest else None,
    )
    call.state.measures.pairs_of(answer.model).inc(len(answer.results))
    await _log(call, asked, answer)
    return answer


def _portions(asked: AssignedRequest, first: Chosen) -> Iterator[tuple[Pairs, float]]:
    """Cut the pairs of a request into what is ranked in one turn, with what that costs."""
    body, options = asked.body, asked.options
    looks_far = body.similar or options.diversity or options.banned or options.exclude or options.boosts
    context = options.query or options.context_items or options.context_aspects
    each = body.n * body.models * (SLOW if looks_far or context else 1)
    pairs = body.all_pairs()
    if body.pairs is None and pairs[0][1] not in first.model.catalog_.items:
        each = PORTION  # looks for the nearest ids
    at_once = max(1, PORTION // each)
    for start in range(0, len(pairs), at_once):
        portion = pairs[start : start + at_once]
        # What looks far is never light, so that the event loop does not wait for it.
        yield portion, max(len(portion) * each, PORTION if looks_far or context else 0)


def _explained(asked: AssignedRequest, chosen: Sequence[Chosen], pairs: Pairs) -> list[list[PairReasons]]:
    """Rank the reasons of some pairs, by every model."""
    body = asked.body
    found = [_ranked(each, pairs, body.n, asked.options, body.similar) for each in chosen]
    if body.pairs is None and found[0].items[0] < 0:
        chosen[0].model.catalog_.items.numbers([pairs[0][1]])  # raises UnknownId, with the nearest known ones
    made = []
    for each, columns, others in zip(chosen, found, _other_ranks(found), strict=True):
        reasons = reasons_of(each.served, columns, others)
        rows = zip(pairs, columns.statuses(), columns.fallbacks(), reasons, strict=True)
        made.append(
            [
                PairReasons(user=user, item=item, status=status, fallback=fallback, reasons=listed)  # type: ignore[arg-type]
                for (user, item), status, fallback, listed in rows
            ]
        )
    return made


# -- recommend ---------------------------------------------------------------------------------------------------------


async def recommend(call: ApiCall, body: RecommendRequest) -> RecommendAnswer:
    """Answer POST /v1/recommend: the best items, then the best reasons for each."""
    asked = call.state.arms.assign(call.scopes, "recommend", body, call.state.registry.models)
    slow = SLOW if asked.body.similar or asked.options.diversity else 1
    cost = ITEMS + asked.body.n * asked.body.reasons * asked.body.models * slow
    answer = await call.ranked(cost, partial(_recommended, asked))
    await _log(call, asked, answer)
    return answer


def _recommended(asked: AssignedRequest) -> RecommendAnswer:
    """Rank items and their reasons."""
    body, options = asked.body, asked.options
    chosen = choose(asked.models, body)
    first, *rest = chosen
    ranker = item_ranker(asked.models, body.items_by, first.served)
    by = _chosen_of(ranker, body.mu)
    number = int(user_numbers(by.model.catalog_, [body.user], options)[0])
    goals = goals_of(body, ranker.groups)
    items, scores, ndcg = best_items(by.model, np.array([number], np.int32), body.n, goals, options)
    ids = by.model.catalog_.items.terms(items).to_list()
    lists: list[list[list[ReasonOut]]] = [[[] for _ in ids] for _ in chosen]
    if body.reasons:
        pairs = [(body.user, item) for item in ids]
        found = [_ranked(each, pairs, body.reasons, options, body.similar) for each in chosen]
        columns = zip(chosen, found, _other_ranks(found), strict=True)
        lists = [reasons_of(each.served, made, others) for each, made, others in columns]
    popularity = by.model.catalog_.item_popularity[items].tolist()
    rows = zip(ids, titles_of(ranker, items), scores.tolist(), popularity, lists[0], strict=True)
    known = number >= 0 and user_numbers(first.model.catalog_, [body.user], options)[0] >= 0
    return RecommendAnswer(
        model=first.served.id,
        mu=first.shown_mu,
        items_by=ranker.id,
        user=body.user,
        fallback=None if known else fallback_of(options),  # type: ignore[arg-type]
        recommendations=[
            Recommended(rank=rank, item=item, title=title, score=score, users=users, reasons=reasons)
            for rank, (item, title, score, users, reasons) in enumerate(rows, 1)
        ],
        ndcg=UNSET if goals is None else ndcg,
        compare=OtherReasons(model=rest[0].served.id, mu=rest[0].shown_mu, reasons=lists[1]) if rest else None,
    )


# -- pairs -------------------------------------------------------------------------------------------------------------


async def pairs(call: ApiCall, body: PairsRequest) -> PairsAnswer:
    """Answer POST /v1/pairs: items and reasons ranked together."""
    asked = call.state.arms.assign(call.scopes, "pairs", body, call.state.registry.models)
    answer = await call.ranked(2 * ITEMS, partial(_paired, asked))
    await _log(call, asked, answer)
    return answer


def _paired(asked: AssignedRequest) -> PairsAnswer:
    """Rank items and reasons together."""
    body = asked.body
    wanted = find(asked.models, body.model)
    served = wanted if body.model else item_ranker(asked.models, None, wanted)
    if not served.model.ranks_items:
        raise ranks_no_items(served.id)
    _check_mu(body.mu, [served])
    chosen = _chosen_of(served, body.mu)
    options, model = chosen.fitting(asked.options), chosen.model
    best = top_items_and_reasons(model, body.user, body.n, body.weight, options)
    ids = model.catalog_.items.terms(best.items).to_list()
    named = ([body.user] * len(ids), ids)
    found = explained(model, named, (best.users, best.items), best.ranked, options, similar=body.similar)
    reasons = [listed[0] for listed in reasons_of(served, found)]
    columns = (best.scores.tolist(), best.item_scores.tolist(), reasons)
    rows = zip(ids, titles_of(served, best.items), *columns, strict=True)
    made = []
    for rank, (item, title, score, item_score, reason) in enumerate(rows, 1):
        reason.rank = rank
        made.append(RankedPair(rank=rank, item=item, title=title, score=score, item_score=item_score, reason=reason))
    known = user_numbers(model.catalog_, [body.user], options)[0] >= 0
    return PairsAnswer(
        model=served.id,
        mu=chosen.shown_mu,
        user=body.user,
        fallback=None if known else fallback_of(options),  # type: ignore[arg-type]
        weight=body.weight,
        pairs=made,
    )


# -- what the three share ----------------------------------------------------------------------------------------------


async def _log(call: ApiCall, asked: AssignedRequest, answer: Any) -> None:
    """Log what is shown; wait until it is on disk where that is asked for, in no place that others rank in."""
    waiting = call.state.arms.shown(asked, answer)
    if waiting is not None:
        await call.state.logged(waiting)


def choose(models: Models, body: RankOptions) -> list[Chosen]:
    """Return the model of a request, and the second one where it compares, with the mu it asks for."""
    found = [find(models, body.model)] + ([find(models, body.compare)] if body.compare else [])
    if len(found) == 2 and found[0] is found[1]:
        raise Problem("invalid-request", 422, "compare names the same model; name another one")
    _check_mu(body.mu, found)
    return [_chosen_of(each, body.mu) for each in found]


def _chosen_of(served: ServedModel, mu: float | None) -> Chosen:
    """Return a model with mu in steps of 0.01: bounds of items are kept for every value."""
    return Chosen(served, None if mu is None or served.mu is None else round(mu, 2))


def _check_mu(mu: float | None, models: Sequence[ServedModel]) -> None:
    if mu is not None and all(each.mu is None for each in models):
        raise Problem("no-mu", 422, f"{' or '.join(each.id for each in models)} has no mu; leave it out")


def item_ranker(models: Models, id_: str | None, first: ServedModel) -> ServedModel:
    """Return who ranks items: the model named, the model itself, or another that can, best one of the same data."""
    if id_ is not None:
        named = find(models, id_)
        if not named.model.ranks_items:
            raise ranks_no_items(id_)
        return named
    able = [each for each in (first, *models.values()) if each.model.ranks_items]
    same = [each for each in able if each.model.data_digest_ == first.model.data_digest_]
    if not able:
        raise ranks_no_items(first.id)
    return (same or able)[0]


def ranks_no_items(id_: str) -> Problem:
    """Say that a model does not rank items."""
    detail = f"{id_} does not rank items; ask a joint model such as profile-j, or for reasons of given items"
    return Problem("ranks-no-items", 422, detail)


def _ranked(chosen: Chosen, pairs: Pairs, n: int, options: Options, similar: bool) -> Explained:
    return ranking.explain(chosen.model, pairs, chosen.fitting(options), n, similar=similar, threads=1)


def reasons_of(
    served: ServedModel, found: Explained, others: Mapping[tuple[int, str], int] | None = None
) -> list[list[ReasonOut]]:
    """Make the reasons of an answer from columns, pair by pair; `others` are ranks in another model's lists."""
    made: list[list[ReasonOut]] = [[] for _ in found.users]
    names, drawn = list(found.parts), found.chances is not None
    sentiments = served.sentiments(found.explanation)
    for row, sentiment in zip(rows_of(found), sentiments, strict=True):
        at, rank, (id_, text, aspect, polarity), sentence, score, shares, counts, quotes, fallback, chance = row
        reason = ReasonOut(
            rank=rank,
            explanation=id_,
            text=text,
            sentence=sentence,
            score=score,
            parts=dict(zip(names, shares, strict=True)),
            evidence=counts,
            aspect=aspect,
            polarity=polarity,
            quotes=quotes,
            fallback=fallback,
            sentiment=sentiment,
            propensity=chance if drawn else UNSET,
            other_rank=None if others is None else others.get((at, id_)),
        )
        made[at].append(reason)
    return made


def _other_ranks(found: Sequence[Explained]) -> list[Mapping[tuple[int, str], int] | None]:
    """Return, for each model, the ranks of reasons in the other one's lists."""
    if len(found) < 2:
        return list(repeat(None, len(found)))
    ranks = [
        dict(zip(zip(each.row.tolist(), each.ids, strict=True), each.rank.tolist(), strict=True)) for each in found
    ]
    return [ranks[1], ranks[0]]


def titles_of(served: ServedModel, items: Numbers) -> list[str | None]:
    """Return the titles of items by number."""
    return [None] * len(items) if served.titles is None else served.titles.gather(items).to_list()
