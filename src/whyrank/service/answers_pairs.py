"""The answer of POST /v1/pairs: items and reasons ranked together."""

from __future__ import annotations

import numpy as np

from whyrank.models import Model
from whyrank.ranking.form import Floats, Numbers
from whyrank.ranking.options import Options
from whyrank.ranking.rank import Ranked, rank
from whyrank.ranking.recommend import recommend_pairs
from whyrank.service.answers import (
    Chosen,
    Document,
    Models,
    best_items,
    check_mu,
    find,
    item_ranker,
    options_of,
    ranks_no_items,
    reason_rows,
    titles_of,
)
from whyrank.service.schemas import PairsRequest


def pairs(models: Models, asked: PairsRequest) -> Document:
    """The answer of POST /v1/pairs."""
    wanted = find(models, asked.model)
    loaded = wanted if asked.model else item_ranker(models, None, wanted)
    if not loaded.model.ranks_items:
        raise ranks_no_items(loaded.id)
    check_mu(asked.mu, [loaded])
    chosen = Chosen(loaded, loaded.at(asked.mu))
    user = int(chosen.model.catalog_.users.numbers([asked.user], missing="negative")[0])
    fallback = None if user >= 0 else "unknown_user"
    options = options_of(asked)
    head = {**chosen.head, "user": asked.user, "fallback": fallback, "weight": asked.weight}
    if user >= 0:
        best = recommend_pairs(chosen.model, asked.user, asked.n, asked.weight, options)
        items = chosen.model.catalog_.items.numbers([each.item for each in best])
        item_scores = np.array([each.item_score for each in best], np.float32)
        numbers = chosen.model.catalog_.explanations.numbers([each.reason.explanation for each in best])
        scores = np.array([each.reason.score for each in best], np.float32)
        totals = [each.score for each in best]
    else:
        items, item_scores, numbers, scores = _pairs_without_user(chosen.model, asked.n, asked.weight, options)
        totals = (item_scores + asked.weight * scores).tolist()
    listed = reason_rows(
        chosen, np.full(len(items), user, np.int32), items, Ranked(numbers[:, None], scores[:, None]), asked.similar
    )
    rows = zip(items.tolist(), titles_of(loaded, items), totals, item_scores.tolist(), listed, strict=True)
    ids = chosen.model.catalog_.items.ids
    found = [
        {
            "rank": at,
            "item": ids[item],
            "title": title,
            "score": total,
            "item_score": item_score,
            "reason": {**reason, "rank": at},
        }
        for at, (item, title, total, item_score, (reason,)) in enumerate(rows, 1)
    ]
    return {**head, "pairs": found}


def _pairs_without_user(
    model: Model, n: int, weight: float, options: Options
) -> tuple[Numbers, Floats, Numbers, Floats]:
    """Items, their scores, explanations and their scores for somebody unknown, among the items best for everybody."""
    items, item_scores = best_items(model, -1, max(50, 5 * n))
    ranked = rank(model, np.full(len(items), -1, np.int32), items, n, options, threads=1)
    row, place = np.nonzero(ranked.numbers >= 0)
    scores = ranked.scores[row, place]
    best = np.argsort(-(item_scores[row] + weight * scores), kind="stable")[:n]
    return items[row[best]], item_scores[row[best]], ranked.numbers[row, place][best], scores[best]
