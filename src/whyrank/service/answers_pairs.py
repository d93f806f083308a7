"""The answer of POST /v1/pairs: items and reasons ranked together."""

from __future__ import annotations

import msgspec

from whyrank.explain.options import Options
from whyrank.explain.rank import fallback_of, user_numbers
from whyrank.explain.recommend import top_items_and_reasons
from whyrank.explain.result import explained
from whyrank.service.answers import (
    Answer,
    Models,
    check_mu,
    chosen_of,
    find,
    item_ranker,
    ranks_no_items,
    titles_of,
)
from whyrank.service.schemas import PairsRequest


def pairs(models: Models, asked: PairsRequest, options: Options) -> Answer:
    """The answer of POST /v1/pairs."""
    wanted = find(models, asked.model)
    loaded = wanted if asked.model else item_ranker(models, None, wanted)
    if not loaded.model.ranks_items:
        raise ranks_no_items(loaded.id)
    check_mu(asked.mu, [loaded])
    chosen = chosen_of(loaded, asked.mu)
    options, model = chosen.fitting(options), chosen.model
    best = top_items_and_reasons(model, asked.user, asked.n, asked.weight, options)
    ids = model.catalog_.items.terms(best.items).to_list()
    named = ([asked.user] * len(ids), ids)
    found = explained(model, named, (best.users, best.items), best.ranked, options, similar=asked.similar)
    reasons = loaded.documents.each(found, range(1, len(ids) + 1))
    columns = (best.scores.tolist(), best.item_scores.tolist(), reasons)
    rows = zip(ids, titles_of(loaded, best.items), *columns, strict=True)
    known = user_numbers(model.catalog_, [asked.user], options)[0] >= 0
    document = {
        **chosen.head,
        "user": asked.user,
        "fallback": None if known else fallback_of(options),
        "weight": asked.weight,
        "pairs": [
            {
                "rank": at,
                "item": item,
                "title": title,
                "score": total,
                "item_score": item_score,
                "reason": msgspec.Raw(reason),
            }
            for at, (item, title, total, item_score, reason) in enumerate(rows, 1)
        ],
    }
    return Answer(document, [found])
