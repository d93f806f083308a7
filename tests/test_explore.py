"""Lists that are drawn: exact chances, and nothing that the options forbid."""

from __future__ import annotations

from collections import Counter
from itertools import permutations
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import whyrank as wr
from whyrank.errors import ParameterError
from whyrank.explain import bulk
from whyrank.explain._drawn import Drawing, along_lists, at_positions, draw_lists
from whyrank.explain.rank import candidates, drawing, pair_places, rank
from whyrank.explain.reasons import table
from whyrank.explain.result import explain
from whyrank.index._grounded import ListRules
from whyrank.lab.simulate import simulate_people
from whyrank.rng import key_of

ASPECT = np.array([0, 0, 1, 2, 2, -1], np.int32)
SENSE = np.array([0, 1, 0, -1, -1, -1], np.int32)
GROUPS = np.stack([ASPECT, ASPECT, SENSE])
SIGNS = np.array([1, -1, 1, 1, 1, 0], np.int8)
POOL = np.array([[4, 0, 1, 2, 5, -1]], np.int32)
SCORES = np.array([[2.0, 1.5, 1.0, 0.2, -0.5, -np.inf]], np.float32)


@pytest.fixture(scope="module")
def model() -> wr.Model:
    return wr.COUNTS().fit(simulate_people(users=80, items=12, explanations=48, records=500, seed=4).triplets)


def test_no_two_parts_of_a_file_are_drawn_alike(
    model: wr.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = model.catalog_.items.ids[0]
    pl.DataFrame({"user": ["nobody"] * 40, "item": [item] * 40}).write_csv(tmp_path / "pairs.csv")
    options = wr.Options(explore=5.0, grounded=False, draw=3)
    files = []
    for rows in (10, 1000):
        monkeypatch.setattr(bulk, "ROWS", rows)
        bulk.explain_file(model, tmp_path / "pairs.csv", tmp_path / f"{rows}.parquet", 3, options)
        files.append(pl.read_parquet(tmp_path / f"{rows}.parquet"))
    assert files[0].equals(files[1])
    chances = files[0]["propensity"].to_list()
    assert all(0 < chance < 1 for chance in chances)
    found = model.explain("nobody", item, 3, explore=5.0, grounded=False, draw=3)  # another draw than those of rows
    assert all(each.propensity is not None and 0 < each.propensity < 1 for each in found)
    assert {each.propensity for each in model.explain("nobody", item, 3, grounded=False)} == {None}
    drawn = files[0]["explanation"].to_numpy().reshape(4, 30)
    assert len({tuple(part) for part in drawn.tolist()}) == 4


def oracle(listed: tuple[int, ...], per_aspect: int, consistent: bool, explore: float, epsilon: float) -> list[float]:
    """The chances along a list, by the definition and without kernels."""
    found = []
    for place, shown in enumerate(listed):
        above = listed[:place]
        open_ = []
        for c, e in enumerate(POOL[0]):
            same = [a for a in above if ASPECT[a] == ASPECT[e] and ASPECT[e] >= 0]
            repeated = per_aspect > 0 and any(SENSE[a] == SENSE[e] >= 0 for a in above)
            opposed = consistent and any(SIGNS[a] * SIGNS[e] < 0 for a in same)
            if e >= 0 and e not in above and not (opposed or repeated) and (per_aspect == 0 or len(same) < per_aspect):
                open_.append(c)
        scores = SCORES[0][open_].astype(np.float64)
        even = np.full(len(open_), 1 / max(len(open_), 1))
        soft = np.exp(scores / explore) / np.exp(scores / explore).sum() if explore else np.eye(1, len(open_))[0]
        mixed = (1 - epsilon) * soft + epsilon * even
        at = [k for k, c in enumerate(open_) if POOL[0][c] == shown]
        found.append(float(mixed[at[0]]) if at else 0.0)
    return found


def drawn_by(per_aspect: int, consistent: bool, explore: float, epsilon: float) -> Drawing:
    return Drawing(ListRules(GROUPS, SIGNS, per_aspect, consistent), explore, epsilon)


rules = st.tuples(st.integers(0, 2), st.booleans(), st.sampled_from([0.0, 0.3, 2.0]), st.sampled_from([0.0, 0.2, 1.0]))


@given(rules)
def test_chances_along_lists_and_at_positions_are_those_of_the_definition(
    rule: tuple[int, bool, float, float],
) -> None:
    lists = list(permutations([0, 1, 2, 4, 5], 3))
    marginal = np.zeros((3, 6))
    for listed in lists:
        expected = oracle(listed, *rule)
        whole = np.array([listed], np.int32)
        got, _ = along_lists(POOL, SCORES, drawn_by(*rule), whole, np.zeros((6, 3)))
        reached = np.cumprod([1.0, *expected[:-1]]) > 0
        assert np.allclose(got[0][reached], np.array(expected)[reached])
        for place in range(3):
            marginal[place, listed[place]] += float(np.prod(expected))
    full = marginal.sum(1)[2]  # lists that reach three reasons
    if full == pytest.approx(1.0):
        for listed in lists[::7]:
            at = at_positions(POOL, SCORES, drawn_by(*rule), np.array([listed], np.int32))[0]
            assert np.allclose(at, [marginal[place, e] for place, e in enumerate(listed)])


def test_lists_come_as_often_as_their_chances_say() -> None:
    times, rule = 40_000, (1, True, 0.8, 0.1)
    many = (np.repeat(POOL, times, 0), np.repeat(SCORES, times, 0))
    listed, scores, chances = draw_lists(*many, drawn_by(*rule), key_of(3), np.arange(times, dtype=np.uint64), 3)
    seen = Counter(map(tuple, listed.tolist()))
    assert len(seen) > 10
    for each, count in seen.items():
        share = float(np.prod(oracle(each, *rule)))
        assert count / times == pytest.approx(share, abs=5 * np.sqrt(share / times))
    first = listed[0]
    assert np.allclose(chances[0], oracle(tuple(first.tolist()), *rule))
    assert scores[0].tolist() == [SCORES[0][POOL[0].tolist().index(e)] for e in first]


def test_drawn_lists_keep_to_every_option(model: wr.Model) -> None:
    catalog = model.catalog_
    users = np.arange(600, dtype=np.int32) % len(catalog.users)
    items = np.arange(600, dtype=np.int32) % len(catalog.items)
    hidden = catalog.explanations.ids[0]
    options = wr.Options(explore=5.0, epsilon=0.3, exclude=[hidden], draw=8)
    found = rank(model, users, items, 4, options)
    may = rank(model, users, items, 48, wr.Options(exclude=[hidden], per_aspect=0, consistent=False)).numbers
    for row, listed in enumerate(found.numbers):
        shown = listed[listed >= 0]
        assert set(shown) <= set(may[row])
        assert len(set(catalog.aspect[shown])) == len(shown)
        assert 0 not in shown
    plain = rank(model, users, items, 4, wr.Options(exclude=[hidden]))
    assert plain.propensities is None
    assert (found.numbers != plain.numbers).any()


def test_a_cold_draw_is_the_ranking_itself(model: wr.Model) -> None:
    users, items = np.arange(60, dtype=np.int32), np.arange(60, dtype=np.int32) % 12
    cold = rank(model, users, items, 3, wr.Options(explore=1e-6))
    assert np.array_equal(cold.numbers, rank(model, users, items, 3, wr.Options()).numbers)


def test_a_draw_depends_on_its_number_and_row_and_its_chances_can_be_found_again(model: wr.Model) -> None:
    users, items = np.arange(70, dtype=np.int32), np.arange(70, dtype=np.int32) % 12
    options = wr.Options(explore=0.7, draw=5)
    found = rank(model, users, items, 3, options)
    assert np.array_equal(found.numbers, rank(model, users, items, 3, options, threads=1).numbers)
    assert not np.array_equal(found.numbers, rank(model, users, items, 3, wr.Options(explore=0.7, draw=6)).numbers)
    rows = candidates(model, users, items, 3, options)
    again, _ = along_lists(*rows, drawing(model.catalog_, options), found.numbers, np.zeros((48, 3)))
    shown = found.numbers >= 0
    assert found.propensities is not None
    assert np.allclose(again[shown], found.propensities[shown])
    pairs = [(model.catalog_.users.ids[k], model.catalog_.items.ids[k % 12]) for k in range(70)]
    by_pair = rank(model, users, items, 3, options, places=pair_places(*zip(*pairs, strict=True)))
    assert by_pair.propensities is not None
    assert np.allclose(explain(model, pairs, options, 3).propensity, by_pair.propensities[by_pair.numbers >= 0])


def test_what_is_drawn_for_a_pair_does_not_depend_on_other_pairs(model: wr.Model) -> None:
    catalog, options = model.catalog_, wr.Options(explore=5.0, draw=5)
    pairs = [(catalog.users.ids[k], catalog.items.ids[k % 12]) for k in range(20)]
    together = table(explain(model, [*pairs, ("nobody", "nothing")], options, 3))
    backwards = table(explain(model, pairs[::-1], options, 3))
    alone = pl.concat([table(explain(model, [pair], options, 3)) for pair in pairs])
    order = ["user", "item", "rank"]
    assert together.drop_nulls("rank").sort(order).equals(alone.drop_nulls("rank").sort(order))
    assert backwards.sort(order).equals(alone.sort(order))
    assert explain(model, pairs, options, 3).propensity.min() < 0.5  # type: ignore[union-attr]


def test_drawing_and_choosing_for_diversity_exclude_each_other() -> None:
    with pytest.raises(ParameterError, match="use one of the two"):
        wr.Options(explore=0.5, diversity=0.5)
    assert not wr.Options().drawn
