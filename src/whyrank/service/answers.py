"""From a checked request to the JSON of its answer: everything between HTTP and the library's ranking."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from whyrank.models import Model
from whyrank.ranking.evidence import evidence
from whyrank.ranking.form import Floats, Numbers
from whyrank.ranking.options import Options
from whyrank.ranking.rank import Ranked, rank, rank_items
from whyrank.ranking.reasons import score_parts
from whyrank.service.problems import Problem
from whyrank.service.schemas import (
    ExplainMany,
    ExplainOne,
    ListOptions,
    RankOptions,
    RecommendRequest,
    ShownOptions,
)
from whyrank.service.shelf import Loaded, own_mu

Document = dict[str, Any]
Models = dict[str, Loaded]


class Chosen(NamedTuple):
    """A model as one request uses it."""

    loaded: Loaded
    model: Model

    @property
    def head(self) -> Document:
        return {"model": self.loaded.id, "mu": own_mu(self.model)}


def find(models: Models, id_: str | None) -> Loaded:
    """A model by id, or the default one."""
    if id_ is None:
        return next(iter(models.values()))
    if id_ not in models:
        raise Problem("unknown-model", 404, f"no model {id_!r} here; there is {', '.join(models)}", models=list(models))
    return models[id_]


def choose(models: Models, asked: RankOptions) -> tuple[Chosen, Chosen | None]:
    """The model and the second model of a request, with the mu it asks for."""
    found = [find(models, asked.model)] + ([find(models, asked.compare)] if asked.compare else [])
    if len(found) == 2 and found[0] is found[1]:
        raise Problem("invalid-request", 422, "compare names the same model; name another one")
    check_mu(asked.mu, found)
    first, *rest = [Chosen(each, each.at(asked.mu)) for each in found]
    return first, rest[0] if rest else None


def explain(models: Models, asked: ExplainOne | ExplainMany) -> Document:
    """The answer of POST /v1/explain."""
    first, second = choose(models, asked)
    pairs = asked.pairs
    users, items = [pair.user for pair in pairs], [pair.item for pair in pairs]
    options = options_of(asked)
    results = _results(first, users, items, asked.n, options, asked.similar)
    if isinstance(asked, ExplainOne) and results[0]["status"] == "unknown_item":
        first.model.catalog_.items.numbers(items)  # raises UnknownId, with the nearest known ones
    answer = {**first.head, "results": results, "compare": None}
    if second is not None:
        other = _results(second, users, items, asked.n, options, asked.similar)
        answer["compare"] = {**second.head, "results": other}
        for one, two in zip(results, other, strict=True):
            _mark(one["reasons"], two["reasons"])
    return answer


def recommend(models: Models, asked: RecommendRequest) -> Document:
    """The answer of POST /v1/recommend."""
    first, second = choose(models, asked)
    ranker = item_ranker(models, asked.items_by, first.loaded)
    by = Chosen(ranker, ranker.at(asked.mu))
    number = int(by.model.catalog_.users.numbers([asked.user], missing="negative")[0])
    items, scores = best_items(by.model, number, asked.n)
    ids = by.model.catalog_.items.terms(items).to_list()
    options, lists = options_of(asked), []
    for chosen in (first, second):
        if chosen is not None:
            found = (
                _results(chosen, [asked.user] * len(ids), ids, asked.reasons, options, asked.similar)
                if asked.reasons
                else []
            )
            lists.append([each["reasons"] for each in found] or [[] for _ in ids])
    if second is not None:
        for one, two in zip(*lists, strict=True):
            _mark(one, two)
    popularity = by.model.catalog_.item_popularity[items].tolist()
    titles = titles_of(ranker, items)
    rows = zip(ids, titles, scores.tolist(), popularity, lists[0], strict=True)
    named = ("item", "title", "score", "users", "reasons")
    known = number >= 0 and first.model.catalog_.users.numbers([asked.user], missing="negative")[0] >= 0
    return {
        **first.head,
        "items_by": ranker.id,
        "user": asked.user,
        "fallback": None if known else "unknown_user",
        "recommendations": [{"rank": at, **dict(zip(named, row, strict=True))} for at, row in enumerate(rows, 1)],
        "compare": {**second.head, "reasons": lists[1]} if second is not None else None,
    }


def options_of(asked: ShownOptions) -> Options:
    """The library's options."""
    return Options(
        grounded=asked.grounded,
        polarity=asked.polarity,
        diversity=asked.diversity if isinstance(asked, ListOptions) else 0.0,
        specificity=asked.specificity,
        exclude=tuple(asked.exclude),
        banned=tuple(asked.banned),
    )


def item_ranker(models: Models, id_: str | None, first: Loaded) -> Loaded:
    """The model that ranks items: the one named, the model itself, or another one that can, best of the same data."""
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


def best_items(model: Model, user: int, n: int) -> tuple[Numbers, Floats]:
    """Items the user has not met, best first; for an unknown user (-1) by what is left of the score without them."""
    users, n = np.array([user], np.int32), min(n, len(model.catalog_.items))
    if user >= 0:
        numbers, scores = rank_items(model, users, n, 1)
    else:
        numbers, scores = model.item_search().top(model.item_queries(users), n, threads=1)
    found = numbers[0] >= 0
    return numbers[0][found], scores[0][found]


def _results(
    chosen: Chosen, users: Sequence[str], items: Sequence[str], n: int, options: Options, similar: bool
) -> list[Document]:
    """The reasons of every pair, in order; unknown users have no part in the scores, unknown items have no reasons."""
    catalog = chosen.model.catalog_
    user_numbers = catalog.users.numbers(users, missing="negative")
    item_numbers = catalog.items.numbers(items, missing="negative")
    known = np.flatnonzero(item_numbers >= 0)
    by_pair: dict[int, list[Document]] = {}
    if len(known):
        of_users, of_items = user_numbers[known], item_numbers[known]
        ranked = rank(chosen.model, of_users, of_items, n, options, 1)
        by_pair = dict(zip(known.tolist(), reason_rows(chosen, of_users, of_items, ranked, similar), strict=True))
    results = []
    for at, (user, item, number) in enumerate(zip(users, items, user_numbers.tolist(), strict=True)):
        shown = by_pair.get(at, [])
        status = "ok" if shown else "no_reason" if at in by_pair else "unknown_item"
        fallback = "unknown_user" if number < 0 and at in by_pair else None
        results.append({"user": user, "item": item, "status": status, "fallback": fallback, "reasons": shown})
    return results


def reason_rows(chosen: Chosen, users: Numbers, items: Numbers, ranked: Ranked, similar: bool) -> list[list[Document]]:
    """Ranked explanations as JSON, pair by pair.

    As the library's `reasons`, but straight to plain values: gathering texts column by column and making objects first
    takes three times as long for one pair.
    """
    loaded, model = chosen
    row, place = np.nonzero(ranked.numbers >= 0)
    numbers, scores = ranked.numbers[row, place], ranked.scores[row, place]
    parts = score_parts(model, users, items, row, numbers, scores)
    said = evidence(model.catalog_, users[row], items[row], numbers, similar=similar)
    ids = model.catalog_.explanations.ids
    texts = ids if model.catalog_.texts is None else model.catalog_.texts
    columns = zip(
        row.tolist(),
        place.tolist(),
        numbers.tolist(),
        scores.tolist(),
        zip(*(values.tolist() for values in parts.values()), strict=True) if parts else itertools.repeat(()),
        said.item.tolist(),
        said.similar_items.tolist() if similar else itertools.repeat(None),
        said.user.tolist(),
        loaded.sentiments(numbers),
        strict=False,
    )
    made: list[list[Document]] = [[] for _ in users]
    for pair, at, number, score, shares, of_item, of_similar, by_user, sentiment in columns:
        made[pair].append(
            {
                "rank": at + 1,
                "explanation": ids[number],
                "text": texts[number],
                "score": score,
                "parts": dict(zip(parts, shares, strict=True)),
                "evidence": {"item": of_item, "similar_items": of_similar, "user": by_user},
                "sentiment": sentiment,
                "other_rank": None,
            }
        )
    return made


def _mark(one: list[Document], two: list[Document]) -> None:
    """Tell every reason its rank in the other list."""
    for these, those in ((one, two), (two, one)):
        ranks = {each["explanation"]: each["rank"] for each in those}
        for each in these:
            each["other_rank"] = ranks.get(each["explanation"])


def titles_of(loaded: Loaded, items: Numbers) -> list[str | None]:
    return [None] * len(items) if loaded.titles is None else loaded.titles.gather(items).to_list()


def check_mu(mu: float | None, models: Sequence[Loaded]) -> None:
    if mu is not None and all(each.mu is None for each in models):
        raise Problem("no-mu", 422, f"{' or '.join(each.id for each in models)} has no mu; leave it out")


def ranks_no_items(id_: str) -> Problem:
    detail = f"{id_} does not rank items; ask a joint model such as profile-j, or for reasons of given items"
    return Problem("ranks-no-items", 422, detail)
