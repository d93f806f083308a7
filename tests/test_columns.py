"""Columns of reasons against plain NumPy, and what is made once for eight threads."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from whyrank.explain.facts import Facts, Shown

import whyrank as wr
from whyrank.data import Split, Triplets
from whyrank.data.once import OncePer, made_once
from whyrank.errors import ParameterError
from whyrank.explain import diversity, evidence
from whyrank.explain import rank as ranking
from whyrank.explain.options import Options
from whyrank.explain.reasons import reasons
from whyrank.explain.result import explain
from whyrank.index import _columns as columns
from whyrank.index.form import Bonus, Candidates
from whyrank.index.search import Search
from whyrank.models import POP, Model, base
from whyrank.service import reason_documents
from whyrank.service.reason_documents import ReasonDocuments


@pytest.fixture(scope="module")
def model(split: Split) -> Model:
    return wr.BPER(factors=4, epochs=2).fit(split)


@given(st.lists(st.lists(st.integers(0, 9), max_size=4), min_size=1, max_size=5))
def test_lists_as_columns(lists: list[list[int]]) -> None:
    numbers = np.full((len(lists), 4), -1, np.int32)
    for row, each in enumerate(lists):
        numbers[row, : len(each)] = each
    scores = np.arange(numbers.size, dtype=np.float32).reshape(numbers.shape)
    expected = [(r, c + 1, e, scores[r, c]) for r, each in enumerate(lists) for c, e in enumerate(each)]
    found = [np.empty(numbers.size, kind) for kind in (np.int64, np.int32, np.int32, np.float32)]
    assert columns.listed(numbers, scores, *found) == len(expected)
    assert list(zip(*(each[: len(expected)].tolist() for each in found), strict=True)) == expected


def test_parts_are_those_of_the_blocks_and_the_bonus() -> None:
    rng = np.random.default_rng(0)
    queries, keys = (rng.normal(size=(rows, 7)).astype(np.float32) for rows in (3, 20))
    row, explanations = np.array([0, 0, 2, 2, 2]), np.array([3, 19, 0, 3, 8], np.int32)
    indptr, bonus, values = np.array([0, 2, 2, 4]), np.array([3, 5, 0, 8], np.int32), np.arange(1, 5, dtype=np.float32)
    table, rest = np.empty((3, 5), np.float32), np.empty(5, np.float32)
    columns.bonus_parts(indptr, bonus, values, row, explanations, table[2])
    assert table[2].tolist() == [1, 0, 3, 0, 4]
    products = queries[row] * keys[explanations]
    whole = products.sum(1) + table[2]
    for left in (0.0, 0.5):
        given_ = (queries, keys, row, explanations, np.array([4, 3]), np.arange(3), whole + np.float32(left))
        assert columns.parts_of(*given_, table, rest) is (left > 0)
        np.testing.assert_allclose(table[0], products[:, :4].sum(1), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(table[1], products[:, 4:].sum(1), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(rest, left, atol=1e-5)
    columns.bonus_parts(indptr, bonus, values, row, explanations, table[2])
    columns.parts_of(queries, keys, row, explanations, np.array([4, 3]), np.array([0, 1, 0]), whole, table, rest)
    np.testing.assert_allclose(table[0], products[:, :4].sum(1) + np.array([1, 0, 3, 0, 4]), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(rest, 0, atol=1e-5)


def test_a_model_that_divides_its_bonus_has_the_parts_of_some_explanations(model: Model) -> None:
    pool, rng = len(model.catalog_.explanations), np.random.default_rng(0)

    class Divides(wr.POP):
        id = "divides"

        def bonus_parts(self, users: Any, items: Any, mu: float | None = None) -> dict[str, Bonus]:
            return {"item": Bonus(np.array([0, 2, 2]), np.array([1, 4], np.int32), np.array([0.5, 2.0], np.float32))}

    row, explanations = np.array([0, 0, 1]), np.array([4, 2, 4], np.int32)
    pair = rng.integers(0, 9, (2, 2)).astype(np.int32)
    assert pool > 4
    assert Divides().bonus_at(*pair, row, explanations)["item"].tolist() == [2.0, 0.0, 0.0]


def test_facts_are_those_of_the_evidence(model: Model) -> None:
    users, items = model.catalog_.users.ids, model.catalog_.items.ids
    found = explain(model, [(users[at], items[at]) for at in range(40)], Options.plain(), 6, similar=True)
    said = found.evidence
    for at, row in enumerate(found.facts.tolist()):
        facts, shown = Facts(*row[:11]), Shown(*row[11:])
        assert (facts.explanation, facts.rank) == (found.explanation[at], found.rank[at])
        assert all(getattr(facts, name) == getattr(said, name)[at] for name in ("supporting", "opposing", "mentions"))
        assert facts.user == min(said.user[at], said.user_items[at])
        assert facts.often == (said.user_aspect[at] >= max(3, 0.3 * said.user_items[at]))
        assert (shown.item, shown.user, shown.similar) == (said.item[at], said.user[at], said.similar_items[at])
        assert shown.latest == said.latest[at]
        assert shown.entry == -1  # nobody wrote anything


def test_quotes_are_known_by_their_place_and_by_the_user_who_wrote_some() -> None:
    rows = [("ann", "inn", "nice", "ann wrote this"), ("bob", "inn", "nice", None), ("bob", "spa", "warm", None)]
    table = pl.DataFrame(rows, ["user", "item", "explanation", "sentence"], orient="row")
    model = wr.COUNTS().fit(Triplets.from_frame(table))
    catalog = model.catalog_
    found = explain(model, [("ann", "inn"), ("bob", "inn"), ("nobody", "inn"), ("ann", "spa")], Options.plain(), 2)
    written = int(np.flatnonzero(np.diff(catalog.people.quote_starts))[0])
    nice, ann = catalog.explanations.numbers(["nice"])[0], catalog.users.numbers(["ann"])[0]
    shown = [Shown(*row[11:]) for row in found.facts.tolist()]
    quoted = [(int(found.row[at]), each.entry, each.asker) for at, each in enumerate(shown) if each.entry >= 0]
    assert quoted == [(0, written, ann), (1, written, -1), (2, written, -1)]
    assert {found.explanation[at] for at, each in enumerate(shown) if each.entry >= 0} == {nice}


def test_times_and_places_come_in_halves() -> None:
    for number in (-1, 0, 1, 2**31, 2**32 + 5, 2**40):
        low = (number & 0xFFFFFFFF) - ((number & 0x80000000) << 1)
        assert Shown(0, 0, -1, number >> 32, low, number >> 32, low, -1).latest == number
        assert Shown(0, 0, -1, number >> 32, low, number >> 32, low, -1).entry == number


def test_texts_in_memory_are_bounded(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reason_documents, "MOST", 3000)
    users, items = model.catalog_.users.ids, model.catalog_.items.ids
    documents = ReasonDocuments(model.catalog_, None)
    found = explain(model, [(users[at], items[at]) for at in range(40)], Options(), 4)
    expected = ReasonDocuments(model.catalog_, None).lists(found)
    assert [bytes(each) for each in documents.lists(found)] == [bytes(each) for each in expected]
    assert sum(len(key) + sum(map(len, pieces)) for key, pieces in documents._known.items()) < 3000


@pytest.mark.parametrize("options", [Options(), Options.plain(), Options(explore=1.0, draw=3)])
def test_documents_are_reasons_as_dictionaries(model: Model, options: Options) -> None:
    users, items = model.catalog_.users.ids, model.catalog_.items.ids
    pairs = [(users[at], items[at]) for at in range(40)] + [("nobody", items[3]), (users[0], "nothing")]
    found = explain(model, pairs, options, 4, similar=True)
    documents = ReasonDocuments(model.catalog_, np.full(len(model.catalog_.explanations), 0.5))
    made = [msgspec.json.decode(each) for each in documents.lists(found)]
    assert made == [msgspec.json.decode(each) for each in documents.lists(found)]  # from memory
    expected = [[each.as_dict() for each in listed] for listed in reasons(found)]
    for each in (each for listed in expected for each in listed):
        assert ("propensity" in each) == options.drawn
        each |= {"sentiment": 0.5, "other_rank": None}
    assert made == expected
    assert any(made)


def test_one_pair_alone_is_as_among_others(model: Model) -> None:
    pairs = list(zip(model.catalog_.users.ids[:40].to_list(), model.catalog_.items.ids[:40].to_list(), strict=True))
    for options in (Options(), Options.plain(), Options(specificity=0.3, support=1)):
        together = reasons(explain(model, pairs, options, 5))
        assert together == [reasons(explain(model, [pair], options, 5))[0] for pair in pairs]


@pytest.mark.parametrize("kind", [wr.BPER, wr.COUNTS])
def test_grounded_lists_in_one_call_are_those_of_several(split: Split, kind: type[Model], monkeypatch: Any) -> None:
    fitted = kind(**({"factors": 4, "epochs": 2} if kind is wr.BPER else {})).fit(split)
    catalog, rng = fitted.catalog_, np.random.default_rng(1)
    users = rng.integers(-1, len(catalog.users), 300).astype(np.int32)
    items = rng.integers(0, len(catalog.items), 300).astype(np.int32)
    for options in (
        Options(support=1, distinctive=1.0),
        Options(support=1, distinctive=1.0, backing=0.0, polarity="any", per_aspect=0, consistent=False),
        Options(specificity=0.5, support=1, per_aspect=2),
    ):
        for n in (1, 4, 30):
            found = ranking.rank(fitted, users, items, n, options, 2)
            assert found.queries is not None
            with monkeypatch.context() as patch:
                patch.setattr(ranking, "_backed", lambda *_: None)
                expected = ranking.rank(fitted, users, items, n, options, 1)
            np.testing.assert_array_equal(found.numbers, expected.numbers)
            np.testing.assert_array_equal(found.scores, expected.scores)
            assert (found.numbers[:, 0] >= 0).mean() > 0.5


def test_what_a_search_refuses_is_refused_for_grounded_lists_too(split: Split) -> None:
    fitted = wr.BPER(factors=4, epochs=2).fit(split)
    fitted.item_factors_[0, 0] = np.nan
    with pytest.raises(ParameterError, match="NaN"):
        ranking.rank(fitted, np.zeros(1, np.int32), np.zeros(1, np.int32), 3, Options())


def small_search() -> Search:
    return Search(np.eye(4, 3, dtype=np.float32), [0, 1, 2, 3])


@pytest.mark.parametrize(
    ("given_", "said"),
    [
        ({"candidates": Candidates(np.array([0]), np.array([2]), np.array([2, 1], np.int32))}, "candidates"),
        ({"candidates": Candidates(np.array([0]), np.array([1]), np.array([4], np.int32))}, "candidates"),
        ({"candidates": Candidates(np.array([0, 0]), np.array([1, 1]), np.array([1], np.int32))}, "candidates"),
        ({"bonus": (np.array([0, 1]), np.array([1]), np.array([-1.0]))}, "bonus"),
        ({"bonus": (np.array([0, 2]), np.array([1]), np.array([1.0]))}, "bonus"),
        ({"bonus": (np.array([0, 1]), np.array([1]), np.array([1e38]))}, "scores"),
        ({"queries": np.array([[np.nan, 0, 0]])}, "NaN"),
        ({"queries": np.array([[1e38, 0, 0]])}, "scores"),
        ({"queries": np.array([[1.0, 0]])}, "columns"),
        ({"n": 0}, "n is 0"),
    ],
)
def test_a_search_among_candidates_says_what_is_wrong(given_: dict[str, Any], said: str) -> None:
    usual = {"queries": np.ones((1, 3), np.float32), "n": 2}
    usual["candidates"] = Candidates(np.array([0]), np.array([2]), np.array([0, 1], np.int32))
    asked = usual | given_
    with pytest.raises(ParameterError, match=said):
        small_search().top(asked.pop("queries"), asked.pop("n"), **asked)


def test_candidates_with_floors_and_different_constants() -> None:
    search = Search(np.eye(4, 3, dtype=np.float32), [0, 1, 2, 3], constant=1)
    queries = np.array([[1, 2, 0.5], [3, 1, 9]], np.float32)
    every = Candidates(np.array([0, 0]), np.array([4, 4]), np.arange(4, dtype=np.int32))
    numbers, scores = search.top(queries, 4, candidates=every, floors=np.array([0.6, 0.0], np.float32))
    assert numbers.tolist() == [[1, 0, -1, -1], [2, 0, 1, 3]]
    assert scores[1].tolist() == [9, 3, 1, 0]


def test_a_boost_is_added_once_unless_it_can_change() -> None:
    search, queries = small_search(), np.ones((1, 3), np.float32)
    every = Candidates(np.array([0]), np.array([4]), np.arange(4, dtype=np.int32))
    boost = np.array([0, 0, 0, 5], np.float32)
    assert search.top(queries, 1, boost=boost, candidates=every)[0].tolist() == [[3]]
    boost[:] = [0, 5, 0, 0]
    assert search.top(queries, 1, boost=boost, candidates=every)[0].tolist() == [[1]]
    boost.flags.writeable = False
    first = search._base(b"", None, boost)
    assert search._base(b"", None, boost) is first
    assert first.tolist() == [0, 5, 0, 0]


def test_boosts_of_a_catalog_are_made_once_for_equal_options(model: Model) -> None:
    one, two = (ranking._boost(model.catalog_, Options.plain(specificity=0.25)) for _ in range(2))
    assert one is two
    np.testing.assert_array_equal(one, Options.plain(specificity=0.25).boost(model.catalog_))
    for at in range(3 * ranking.BOOSTS):
        ranking._boost(model.catalog_, Options.plain(specificity=at / 100))
    assert len(ranking._boosts[model.catalog_]) <= ranking.BOOSTS


def test_a_boost_is_found_though_another_thread_forgets_it(model: Model) -> None:
    class Forgets(dict[Any, Any]):
        """As if another thread cleared it right after every question."""

        def __contains__(self, key: object) -> bool:
            known = super().__contains__(key)
            self.clear()
            return known

        def get(self, key: object, default: Any = None) -> Any:
            known = super().get(key, default)
            self.clear()
            return known

    options = Options.plain(specificity=0.25)
    expected = options.boost(model.catalog_)
    ranking._boosts[model.catalog_] = Forgets()
    for _ in range(3):
        np.testing.assert_array_equal(ranking._boost(model.catalog_, options), expected)
    del ranking._boosts[model.catalog_]


def together(work: Callable[[], object], threads: int = 8) -> list[BaseException]:
    """Do the same in many threads that start at once; what they raised."""
    start, errors = threading.Barrier(threads), list[BaseException]()

    def run() -> None:
        start.wait()
        try:
            work()
        except BaseException as error:
            errors.append(error)

    running = [threading.Thread(target=run) for _ in range(threads)]
    for each in running:
        each.start()
    for each in running:
        each.join()
    return errors


def test_eight_threads_that_ask_a_cold_model_prepare_it_once(split: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    model, made = POP().fit(split), Counter[str]()

    def counted(where: object, name: str) -> None:
        function = getattr(where, name)

        def note(*given_: Any) -> Any:
            made[name] += 1
            return function(*given_)

        monkeypatch.setattr(where, name, note)

    counted(base, "prepared")
    counted(diversity, "word_rows")
    counted(evidence._said_of_items, "_make")
    user, item = split.train.users.ids[0], split.train.items.ids[0]
    assert together(lambda: model.explain(user, item, 3, diversity=0.3)) == []
    assert made == {"prepared": 1, "word_rows": 1, "_make": 1}


def test_threads_wait_for_what_the_first_of_them_makes() -> None:
    made, started = list[int](), threading.Event()

    class Table:
        @made_once
        def total(self) -> int:
            started.wait(1)  # others come meanwhile
            made.append(1)
            return len(made)

    table = Table()
    assert together(lambda: (started.set(), table.total)) == []
    assert (made, table.total) == ([1], 1)
    of_table = OncePer(lambda each: made.append(2) or each.total)
    assert together(lambda: of_table(table)) == []
    assert made == [1, 2]
