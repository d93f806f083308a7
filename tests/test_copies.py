"""Copies and near-copies of reviews: found wherever they were posted, and never where texts only begin alike."""

from __future__ import annotations

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from whyrank.mining.copies import copy_groups, sketch


def groups(texts: list[str]) -> list[int]:
    series = pl.Series(texts, dtype=pl.String)
    return copy_groups(*sketch(series), lambda rows: series.gather(rows)).tolist()


def words(first: int, count: int) -> str:
    return " ".join(f"word{first + k}" for k in range(count))


def runs(text: str) -> set[tuple[str, ...]]:
    listed = text.lower().split()
    return {tuple(listed[k : k + 5]) for k in range(len(listed) - 4)}


def test_copies_and_near_copies_are_one_group() -> None:
    text = words(0, 60)
    assert groups([text, words(100, 60), text.upper(), text + " and thanks"]) == [0, 1, 0, 0]


def test_short_texts_and_texts_that_begin_alike_are_no_copies() -> None:
    assert groups(["Great place!"] * 3) == [0, 1, 2]
    assert groups([words(0, 30) + " " + words(100 * k, 30) for k in (1, 2, 3)]) == [0, 1, 2]


def test_a_chain_of_copies_is_one_group_even_of_many() -> None:
    assert set(groups([f"{words(0, 80)} number{k}" for k in range(120)])) == {0}


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 69), max_size=4, unique=True), st.integers(25, 70))
def test_pairs_are_those_that_share_nine_tenths_of_their_runs(changed: list[int], count: int) -> None:
    one = [f"w{k}" for k in range(count)]
    other = ["x" if k in changed else each for k, each in enumerate(one)]
    a, b = runs(" ".join(one)), runs(" ".join(other))
    assert (groups([" ".join(one), " ".join(other)]) == [0, 0]) == (len(a & b) >= 0.9 * max(len(a), len(b)))
