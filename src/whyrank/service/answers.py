"""From a checked request to the JSON of its answer: everything between HTTP and the library's ranking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from whyrank.explain import result as ranking
from whyrank.explain.options import Options
from whyrank.explain.rank import fallback_of, user_numbers
from whyrank.explain.recommend import best_items
from whyrank.explain.result import Explained
from whyrank.index.form import Numbers
from whyrank.models import Model
from whyrank.service.problems import Problem
from whyrank.service.schemas import ExplainMany, ExplainOne, RankOptions, RecommendRequest, goals_of
from whyrank.service.shelf import Loaded

Document = dict[str, Any]
Models = dict[str, Loaded]


class Answer(NamedTuple):
    """What is answered, and the columns it was made from: those of the model, and of the one compared with it."""

    document: Document
    explained: list[Explained]


class Chosen(NamedTuple):
    """A model as one request uses it."""

    loaded: Loaded
    mu: float | None  # None: the model's own, or none at all

    @property
    def model(self) -> Model:
        return self.loaded.model

    @property
    def head(self) -> Document:
        return {"model": self.loaded.id, "mu": self.loaded.mu if self.mu is None else self.mu}

    def fitting(self, options: Options) -> Options:
        """Options as this model takes them: `mu` only if it has one."""
        return options if options.mu == self.mu else replace(options, mu=self.mu)


def chosen_of(loaded: Loaded, mu: float | None) -> Chosen:
    """Bounds of items are kept for every value of mu, so it comes in steps of 0.01."""
    return Chosen(loaded, None if mu is None or loaded.mu is None else round(mu, 2))


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
    first, *rest = [chosen_of(each, asked.mu) for each in found]
    return first, rest[0] if rest else None


def pairs_of(asked: ExplainOne | ExplainMany) -> list[tuple[str, str]]:
    """The users and items of a request in either form."""
    many = getattr(asked, "pairs", None)
    return [(asked.user, asked.item)] if many is None else [(pair.user, pair.item) for pair in many]


def explain(models: Models, asked: ExplainOne | ExplainMany, options: Options) -> Answer:
    """The answer of POST /v1/explain."""
    first, second = choose(models, asked)
    pairs = pairs_of(asked)
    found = [_explained(each, pairs, asked.n, options, asked.similar) for each in (first, second) if each is not None]
    if not hasattr(asked, "pairs") and found[0].items[0] < 0:
        first.model.catalog_.items.numbers([pairs[0][1]])  # raises UnknownId, with the nearest known ones
    results = _results(first, pairs, found[0], other_ranks(*found) if second else None)
    answer = Answer({**first.head, "results": results, "compare": None}, found)
    if second is not None:
        others = _results(second, pairs, found[1], other_ranks(*reversed(found)))
        answer.document["compare"] = {**second.head, "results": others}
    return answer


def recommend(models: Models, asked: RecommendRequest, options: Options) -> Answer:
    """The answer of POST /v1/recommend."""
    first, second = choose(models, asked)
    ranker = item_ranker(models, asked.items_by, first.loaded)
    by = chosen_of(ranker, asked.mu)
    number = int(user_numbers(by.model.catalog_, [asked.user], options)[0])
    goals = goals_of(asked, ranker.groups)
    items, scores, ndcg = best_items(by.model, np.array([number], np.int32), asked.n, goals, options)
    ids = by.model.catalog_.items.terms(items).to_list()
    lists: list[list[Any]] = [[[] for _ in ids] for chosen in (first, second) if chosen is not None]
    explained: list[Explained] = []
    if asked.reasons:
        pairs = [(asked.user, item) for item in ids]
        both = [chosen for chosen in (first, second) if chosen is not None]
        explained = [_explained(chosen, pairs, asked.reasons, options, asked.similar) for chosen in both]
        marks = [other_ranks(*explained), other_ranks(*reversed(explained))] if second else [None]
        told = zip(both, explained, marks, strict=True)
        lists = [list(chosen.loaded.documents.lists(found, others)) for chosen, found, others in told]
    popularity = by.model.catalog_.item_popularity[items].tolist()
    titles = titles_of(ranker, items)
    rows = zip(ids, titles, scores.tolist(), popularity, lists[0], strict=True)
    named = ("item", "title", "score", "users", "reasons")
    known = number >= 0 and user_numbers(first.model.catalog_, [asked.user], options)[0] >= 0
    document = {
        **first.head,
        "items_by": ranker.id,
        "user": asked.user,
        "fallback": None if known else fallback_of(options),
        "recommendations": [{"rank": at, **dict(zip(named, row, strict=True))} for at, row in enumerate(rows, 1)],
        "compare": {**second.head, "reasons": lists[1]} if second is not None else None,
    }
    if goals is not None:
        document["ndcg"] = ndcg
    return Answer(document, explained)


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


def _explained(chosen: Chosen, pairs: list[tuple[str, str]], n: int, options: Options, similar: bool) -> Explained:
    return ranking.explain(chosen.model, pairs, chosen.fitting(options), n, similar=similar, threads=1)


def _results(
    chosen: Chosen, pairs: list[tuple[str, str]], found: Explained, others: list[int | None] | None
) -> list[Document]:
    """The reasons of every pair, in order."""
    lists = chosen.loaded.documents.lists(found, others)
    rows = zip(pairs, found.statuses(), found.fallbacks(), lists, strict=True)
    return [
        {"user": user, "item": item, "status": status, "fallback": fallback, "reasons": reasons}
        for (user, item), status, fallback, reasons in rows
    ]


def other_ranks(one: Explained, two: Explained) -> list[int | None]:
    """The rank of every reason in the other model's list for the same pair."""
    ranks = dict(zip(zip(two.row.tolist(), two.ids, strict=True), two.rank.tolist(), strict=True))
    return [ranks.get(key) for key in zip(one.row.tolist(), one.ids, strict=True)]


def titles_of(loaded: Loaded, items: Numbers) -> list[str | None]:
    return [None] * len(items) if loaded.titles is None else loaded.titles.gather(items).to_list()


def check_mu(mu: float | None, models: Sequence[Loaded]) -> None:
    if mu is not None and all(each.mu is None for each in models):
        raise Problem("no-mu", 422, f"{' or '.join(each.id for each in models)} has no mu; leave it out")


def ranks_no_items(id_: str) -> Problem:
    detail = f"{id_} does not rank items; ask a joint model such as profile-j, or for reasons of given items"
    return Problem("ranks-no-items", 422, detail)
