"""What is shown sets an item apart: enough people say it, more than elsewhere, and it says why."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whyrank import COUNTS, POP
from whyrank.data import Triplets
from whyrank.data import catalog as module
from whyrank.data.catalog import Catalog
from whyrank.data.statements import statement_id

POOL = [
    ("food", "great", 1),
    ("food", "tasty", 1),
    ("staff", "friendly", 1),
    ("room", "small", -1),
    ("pool", "great", 1),
]


def triplets(rows: list[tuple[int, int, int]]) -> Triplets:
    """Triplets of (user, item, statement) by number."""
    table = [
        {
            "user": f"u{user:03d}",
            "item": f"i{item:03d}",
            "explanation": statement_id(*POOL[number]),
            "text": f"{POOL[number][1]} {POOL[number][0]}",
            "aspect": POOL[number][0],
            "polarity": POOL[number][2],
            "sense": POOL[number][1],
        }
        for user, item, number in rows
    ]
    return Triplets.from_frame(pl.DataFrame(table))


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 7), st.integers(0, 4)), min_size=20, max_size=150))
@settings(max_examples=40, deadline=None)
def test_standings_are_ranks_by_the_steadied_share_of_people(rows: list[tuple[int, int, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "COMPARED", 2)
        catalog = Catalog.of(triplets(rows))
        standing = catalog.standing
    said = {(item, number, user) for user, item, number in rows}
    people = {item: len({user for user, i, _ in rows if i == item}) for _, item, _ in rows}
    pairs = sum(people.values())
    items, pool = catalog.items.ids.to_list(), catalog.explanations.ids.to_list()
    known = [item for item, count in people.items() if count >= module.SPOKEN_OF]
    entries = list(
        zip(
            catalog.item_explanations.rows_of_entries().tolist(),
            catalog.item_explanations.indices.tolist(),
            strict=True,
        )
    )
    ids = [statement_id(*each) for each in POOL]

    def share(item: int, number: int) -> float:
        own = len({u for i, k, u in said if (i, k) == (item, number)})
        base = len({(i, u) for i, k, u in said if k == number}) / pairs
        return (own + module.STEADY * base) / (people[item] + module.STEADY)

    for place, (row, column) in enumerate(entries):
        item, number = int(items[row][1:]), ids.index(pool[column])
        if len(known) < 2 or item not in known:
            assert standing[place] == 0
            continue
        others = [share(i, number) for i in known if any((i, number, u) in said for u in range(13))]
        better = sum(each > share(item, number) + 1e-12 for each in others)
        alike = sum(abs(each - share(item, number)) <= 1e-12 for each in others)
        assert better <= round(standing[place] * len(known)) < better + alike


def many() -> Triplets:
    """Thirty items with twelve people each: eleven praise the food, one the pool; five items have friendly staff."""
    rows = [(20 * item + k, item, 0) for item in range(30) for k in range(11)]
    rows += [(20 * item + k, item, 2) for item in range(5) for k in range(6)]
    rows += [(20 * item + 19, item, 4) for item in range(30)]
    return triplets(rows)


def test_what_is_said_everywhere_is_shown_for_few_items() -> None:
    model = COUNTS().fit(many())
    shown = [model.explain("nobody", f"i{item:03d}", 3) for item in range(30)]
    assert not any(reason.explanation == "food|great|+" for each in shown for reason in each)
    assert all(any(reason.explanation == "staff|friendly|+" for reason in each) for each in shown[:5])
    everything = model.explain("nobody", "i029", 3, distinctive=1.0)
    assert [reason.explanation for reason in everything] == ["food|great|+"]


def test_one_voice_is_enough_only_where_few_people_speak() -> None:
    model = COUNTS().fit(many())
    assert not any(r.explanation == "pool|great|+" for r in model.explain("nobody", "i000", 3, distinctive=1.0))
    alone = model.explain("nobody", "i000", 3, distinctive=1.0, support=1)
    assert any(r.explanation == "pool|great|+" for r in alone)


def test_plain_praise_steps_back() -> None:
    rows = [(k, 0, 0) for k in range(6)] + [(k, 0, 1) for k in range(5)] + [(9, 1, 2)]
    model = POP().fit(triplets(rows))
    assert model.explain("nobody", "i000", 1)[0].explanation == "food|tasty|+"
    assert model.explain("nobody", "i000", 1, vague=0.0)[0].explanation == "food|great|+"


def test_only_statements_can_be_general() -> None:
    tags = Triplets.from_frame(
        pl.DataFrame({"user": ["a", "b"], "item": ["x", "y"], "explanation": ["great", "prison"]})
    )
    assert Catalog.of(tags).general is None
    assert not Catalog.of(tags).standing.any()


def test_lists_of_triplets_without_aspects_are_as_before() -> None:
    frame = pl.DataFrame({"user": ["a", "b", "c"], "item": ["x"] * 3, "explanation": ["slow", "slow", "fast"]})
    model = POP().fit(Triplets.from_frame(frame))
    assert [reason.explanation for reason in model.explain("a", "x", 3, support=1)] == ["slow", "fast"]
    assert np.isfinite([reason.score for reason in model.explain("a", "x", 3)]).all()
