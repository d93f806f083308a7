"""Fitted models against plain transcriptions of what the paper says they are."""

from __future__ import annotations

import numpy as np
import pytest

from oracles import best_items, neighbour_scores
from whyrank.data import Split
from whyrank.explain.rank import rank, rank_items
from whyrank.models import BPERJ, BPR, CDJ, PITFJ, RICF, RUCF, Model, ProfileJ


@pytest.mark.parametrize("size", [None, 3])
@pytest.mark.parametrize("kind", [RUCF, RICF])
def test_neighbour_models_follow_the_papers_equations(split: Split, kind: type[RUCF | RICF], size: int | None) -> None:
    model, train = kind(neighbours=size).fit(split), split.training
    for user, item in zip(split.test.record_user[:20], split.test.record_item[:20], strict=True):
        scores = neighbour_scores(train, user, item, "user" if kind is RUCF else "item", size)
        ranked = rank(model, np.array([user], np.int32), np.array([item], np.int32), 10)
        assert np.allclose(ranked.scores[0], np.sort(scores)[::-1][:10], atol=1e-5)
        assert np.allclose(ranked.scores[0], scores[ranked.numbers[0]], atol=1e-5)


@pytest.mark.parametrize(
    "model",
    [*(kind(epochs=10) for kind in (BPERJ, BPR, CDJ, PITFJ)), ProfileJ(epochs=1, item_epochs=1)],
    ids=lambda m: m.id,
)
def test_joint_models_rank_items_as_brute_force_does(split: Split, model: Model) -> None:
    model.fit(split)
    ranked = rank_items(model, np.arange(25, dtype=np.int32), 10)
    for user in range(25):
        assert ranked.numbers[user].tolist() == best_items(model, user, 10)
