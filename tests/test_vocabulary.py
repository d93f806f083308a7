from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whyrank.data import CSR, Vocabulary
from whyrank.errors import DataError, UnknownId

ids = st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=120)


@given(ids)
def test_numbers_and_terms_are_inverse_to_each_other(terms: list[str]) -> None:
    vocabulary = Vocabulary.of(terms)
    assert vocabulary.terms(vocabulary.numbers(terms)).to_list() == terms


@given(ids)
def test_the_numbering_is_a_function_of_the_set(terms: list[str]) -> None:
    vocabulary = Vocabulary.of(terms)
    assert vocabulary.ids.to_list() == sorted(set(terms), key=str.encode)
    assert vocabulary == Vocabulary.of(reversed(terms))
    assert vocabulary.digest() == Vocabulary.of(reversed(terms)).digest()


@given(ids, ids)
def test_growing_keeps_old_numbers(old: list[str], new: list[str]) -> None:
    before = Vocabulary.of(old)
    after = before.grown(new)
    assert after.ids[: len(before)].to_list() == before.ids.to_list()
    assert set(after.ids) == set(old) | set(new)
    assert after.terms(after.numbers(new)).to_list() == new


@given(ids, ids)
def test_few_and_many_lookups_agree(known: list[str], asked: list[str]) -> None:
    vocabulary = Vocabulary.of(known).grown(asked[:1])
    few = [vocabulary.numbers([term], missing="negative")[0] for term in asked]
    many = vocabulary.numbers(pl.Series(asked * 70), missing="negative")
    assert many.tolist() == few * 70


def test_of_ids_that_are_equally_near_those_with_the_same_beginning_come_first() -> None:
    ids = Vocabulary.of([f"u{number:06d}" for number in range(600)], "user")
    assert ids.nearest("u00022x") == ["u000220", "u000221", "u000222"]


def test_unknown_ids_are_named_with_their_nearest() -> None:
    with pytest.raises(UnknownId, match=r"unknown user 'an'; nearest known: ann"):
        Vocabulary.of(["ann", "bob"], "user").number("an")


def test_integers_are_ids_too_and_none_is_none() -> None:
    assert Vocabulary.of([10, 9]).numbers([9, "10", None], missing="negative").tolist() == [1, 0, -1]


def test_a_single_text_is_not_several_ids() -> None:
    with pytest.raises(DataError):
        Vocabulary.of(["a"]).numbers("a")


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 7)), max_size=60))
def test_csr_groups_pairs_as_a_dict_of_sets_would(pairs: list[tuple[int, int]]) -> None:
    rows, columns = (np.array([pair[side] for pair in pairs], np.int64) for side in (0, 1))
    csr = CSR.from_pairs(rows, columns, 6, 8)
    for row in range(6):
        expected = sorted({column for r, column in pairs if r == row})
        assert csr.row(row).tolist() == expected
        counts = csr.counts[csr.indptr[row] : csr.indptr[row + 1]].tolist()
        assert counts == [pairs.count((row, column)) for column in expected]
    taken = csr.take(np.array([3, 0, 3]))
    assert [taken.row(at).tolist() for at in range(3)] == [csr.row(at).tolist() for at in (3, 0, 3)]
