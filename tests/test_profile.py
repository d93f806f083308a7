"""Profile's second version: time, all records, and the way from counts alone to what is learned."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whyrank import COUNTS, SHARE, USERPOP, Model, Profile, Split, Triplets, compare, evaluate, load
from whyrank.data.people import end_of
from whyrank.errors import ArtifactError
from whyrank.explain.rank import rank
from whyrank.lab.simulate import simulate
from whyrank.models.counts import MANY
from whyrank.models.learned import Correction, with_correction
from whyrank.models.profile import TIMELESS
from whyrank.models.profile_mixture import best_counts, counts_alone, mixture
from whyrank.models.profile_records import comes_last, reason_records, recent_counts, usual_gap
from whyrank.online.forget import _unlinked

SETTINGS = {"factors": 4, "epochs": 2}


def timed(rows: list[tuple[str, str, str, int | None]]) -> Triplets:
    names = ("user", "item", "explanation", "time")
    return Triplets.from_frame(pl.DataFrame(rows, schema=names, orient="row"))


@pytest.fixture(scope="module")
def moody() -> Triplets:
    """Users who say one thing in the first half of the year, and another in the second."""
    rng, rows = np.random.default_rng(0), []
    for user in range(60):
        first, second = rng.permutation(12)[:2]
        for visit in range(14):
            said = first if visit < 7 else second
            rows.append((f"u{user}", f"i{rng.integers(40)}", f"e{said}", 1000 + 100 * visit + int(rng.integers(9))))
    return timed(rows)


@pytest.fixture(scope="module")
def fitted(moody: Triplets) -> Profile:
    return Profile(**SETTINGS).fit(moody)


# -- the kernel --------------------------------------------------------------------------------------------------------


def weight(now: int, then: int, scale: float) -> float:
    age = scale if 0 in (now, then) else abs(now - then)
    return float(1 / np.sqrt(1 + age / scale))


@given(
    said=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(0, 5), st.integers(0, 9)), min_size=1, max_size=40
    ),
    scale=st.sampled_from([0.5, 3.0, 1e6]),
    past=st.booleans(),
)
def test_recent_mentions_count_as_the_formula_says(
    said: list[tuple[int, int, int, int]], scale: float, past: bool
) -> None:
    data = timed([(f"u{u}", f"i{i}", f"e{e}", t * 1000) for u, i, e, t in said])
    assert data.time is not None
    lists = reason_records(data, scale, past).of(np.arange(data.records))
    for record in range(data.records):
        now, own = int(data.time[record]), set(data.record_explanations.row(record).tolist())
        expected = np.zeros(len(data.explanations))
        for other in np.flatnonzero(data.record_user == data.record_user[record]).tolist():
            then = int(data.time[other])
            if other != record and (not past or then <= now or now == 0):
                expected[data.record_explanations.row(other)] += weight(now, then, scale)
        found = np.zeros(len(data.explanations))
        inside = slice(lists.places[2 * record], lists.places[2 * record + 1])
        found[lists.numbers[inside]] = lists.counts[inside]
        assert found == pytest.approx(expected, abs=1e-5), own


def test_the_most_distant_times_are_told_apart() -> None:
    ends = np.iinfo(np.int64)
    data = timed([("ann", "inn", "quiet", int(ends.min)), ("ann", "spa", "clean", int(ends.max))])
    counts = reason_records(data, 1e18).of(np.arange(2)).counts
    assert np.isfinite(counts).all()
    assert (counts > 0).all()


def test_what_a_user_says_at_a_time_is_worked_out_by_hand(moody: Triplets) -> None:
    data = timed([("ann", "inn", "quiet", 100), ("ann", "spa", "quiet", 400), ("ann", "spa", "clean", 400)])
    catalog = Profile(**SETTINGS).fit(data).catalog_
    found = recent_counts(catalog, np.array([0, -1, 0], np.int32), np.array([400, 400, 700]), 100.0)
    assert found.sizes().tolist() == [2, 0, 2]
    clean, quiet = 1.0, 1.0 + 1 / np.sqrt(1 + 3)
    later = [1 / np.sqrt(1 + 3), 1 / np.sqrt(1 + 3) + 1 / np.sqrt(1 + 6)]
    assert found.counts.tolist() == pytest.approx([clean, quiet, *later])


# -- times of data -----------------------------------------------------------------------------------------------------


def test_the_usual_gap_is_the_median_and_unknown_times_do_not_count() -> None:
    rows = [("ann", "a", "x", 10), ("ann", "b", "x", 20), ("ann", "c", "x", 50), ("bob", "a", "x", 5)]
    assert usual_gap(timed(rows)) == 20
    assert usual_gap(timed([*rows, ("ann", "d", "x", None), ("bob", "b", "x", None)])) == 20
    assert usual_gap(timed(rows[-1:])) == 0


def test_a_few_wrong_times_do_not_move_the_end_of_the_data() -> None:
    rng = np.random.default_rng(0)
    times = rng.integers(1_000, 2_000, 1_000)
    assert end_of(times) == times.max()
    assert end_of(np.concatenate([times, [0, 2**62, 900_000]])) == times.max()
    assert end_of(np.concatenate([times, [-(2**62), 2_500]])) == 2_500  # later than all, but not by more than they span
    assert end_of(np.array([3, 0, 9])) == 9  # too few to tell
    assert end_of(np.zeros(7, np.int64)) == end_of(np.zeros(0, np.int64)) == 0


def test_validation_comes_last_where_nearly_all_of_it_is_later(moody: Triplets) -> None:
    later, drawn = moody.split(method="leave-last"), moody.split(method="random", seed=1)
    assert comes_last(later.test, later.training)
    assert not comes_last(drawn.test, drawn.training)
    assert later.test.time is not None
    unknown = replace(later.test, time=np.zeros_like(later.test.time))
    assert not comes_last(unknown, later.training)


@pytest.mark.parametrize("method", ["random", "leave-last"])
def test_parts_joined_are_the_whole(method: str) -> None:
    data = simulate("small", users=40, items=20, explanations=30, records=200, triplets=300, seed=0)
    split = data.split(seed=3, method=method) if data.time is not None else data.split(seed=3)
    assert split.train.joined(split.validation).digest() == split.training.digest()
    assert split.validation.joined(split.train).digest() == split.training.digest()
    nothing = split.train.take(np.empty(0, np.int64))
    assert split.train.joined(nothing) is split.train


def test_what_one_part_does_not_know_is_unknown_in_both_joined() -> None:
    whole = pl.DataFrame({"user": ["ann"] * 2, "item": ["inn", "spa"], "explanation": ["quiet"] * 2, "time": [5, 6]})
    data = Triplets.from_frame(whole.with_columns(rating=pl.lit(4.0), sentence=pl.lit("so quiet")))
    first, second = data.take(np.array([0])), data.take(np.array([1]))
    both = replace(second, time=None, rating=None, sentences=None).joined(first)
    assert both.time is not None
    assert both.rating is not None
    assert both.sentences is not None
    assert both.time.tolist() == [5, 0]
    assert np.isnan(both.rating).tolist() == [False, True]
    assert both.sentences.to_list() == ["so quiet", None]


# -- the model ---------------------------------------------------------------------------------------------------------


def test_who_changes_is_understood_by_time(moody: Triplets, fitted: Profile) -> None:
    assert fitted.recency_[0] > 0
    split = moody.split(method="leave-last")
    scores = [
        evaluate(Profile(**SETTINGS, recent=recent).fit(split), split, items=False, beyond_accuracy=False).explanation
        for recent in (True, False)
    ]
    assert scores[0]["mrr"] > scores[1]["mrr"] + 0.05


def test_lists_at_the_end_of_the_data_are_those_without_a_wrong_time_in_the_future(
    moody: Triplets, fitted: Profile
) -> None:
    assert moody.time is not None
    wrong = moody.time.copy()
    wrong[0] = 4_102_444_800
    found = Profile(**SETTINGS).fit(replace(moody, time=wrong))
    assert found.recency_[1] == fitted.recency_[1] == moody.time.max()
    user = int(moody.record_user[0])
    others = np.setdiff1d(np.arange(len(moody.users)), [user]).astype(np.int32)
    for one, other in zip(found.said().take(others), fitted.said().take(others), strict=True):
        assert np.array_equal(one, other)


def test_without_a_scale_time_changes_nothing(moody: Triplets) -> None:
    """Times that are all the same, or none: every bit as without them."""
    assert moody.time is not None
    without = Profile(**SETTINGS).fit(replace(moody, time=None))
    plain = Profile(**SETTINGS, recent=False).fit(moody)
    same = Profile(**SETTINGS).fit(replace(moody, time=np.full_like(moody.time, 7)))
    assert same.recency_.tolist() == plain.recency_.tolist() == list(TIMELESS)
    for name in Profile.fitted:
        assert np.array_equal(getattr(plain, f"{name}_"), getattr(without, f"{name}_")), name
    users = np.arange(5, dtype=np.int32)
    view, numbers = plain.at(users, np.zeros(5, np.int64))
    assert view is plain
    assert numbers is users


def test_a_view_ranks_every_pair_at_its_own_time(moody: Triplets, fitted: Profile) -> None:
    users, items = np.array([3, 3, -1, 5], np.int32), np.array([0, 0, 1, 2], np.int32)
    times = np.array([1000, 2400, 2400, 2400])
    view, numbers = fitted.at(users, times)
    assert numbers.tolist() == [0, 1, -1, 3]
    together = rank(view, numbers, items, 5)
    for place in range(len(users)):
        one = slice(place, place + 1)
        alone, number = fitted.at(users[one], times[one])
        assert np.array_equal(rank(alone, number, items[one], 5).numbers[0], together.numbers[place])
    assert not np.array_equal(together.scores[0], together.scores[1])
    end = np.full(2, int(fitted.recency_[1]))
    default = rank(fitted, users[:2], items[:2], 5)
    now, asking = fitted.at(users[:2], end)
    assert np.array_equal(rank(now, asking, items[:2], 5).scores, default.scores)


def test_a_view_of_a_corrected_model_takes_the_correction_of_the_pairs_user(fitted: Profile) -> None:
    catalog = fitted.catalog_
    plain, rng = Correction.none(catalog), np.random.default_rng(0)
    sizes = (len(catalog.explanations), len(catalog.users), len(catalog.items))
    units, users, items = (rng.normal(size=(size, 2)).astype(np.float32) for size in sizes)
    model = with_correction(fitted, Correction(plain.bias, units, users, items), "reactions")
    chosen, of = np.array([7, 2], np.int32), np.array([1, 1], np.int32)
    view, numbers = model.at(chosen, np.full(2, int(fitted.recency_[1])))
    assert np.allclose(view.queries(numbers, of), model.queries(chosen, of), atol=1e-6)


def test_validation_is_learned_from_after_it_has_chosen(moody: Triplets) -> None:
    split = moody.split(seed=2)
    with_it, without = Profile(**SETTINGS).fit(split), Profile(**SETTINGS, refit=False).fit(split)
    assert with_it.catalog_.popularity.sum() == len(split.training)
    assert without.catalog_.popularity.sum() == len(split.train)
    assert np.array_equal(with_it.recency_, without.recency_)
    assert with_it.data_digest_ == split.training.digest()


def test_where_all_that_is_said_about_items_is_ranked_it_is_learned_from(moody: Triplets) -> None:
    split, given = moody.split(seed=0), Profile(**SETTINGS)
    by_hand = Profile(**SETTINGS, candidates="item-all").fit(split)
    found = compare({"simple": USERPOP(), "ours": given}, split, candidates="item-all")
    expected = evaluate(by_hand, split, candidates="item-all")
    assert found.row("ours").mean("ndcg") == expected.explanation["ndcg"]
    assert expected.learned_among == "item-all"
    assert "; ours learned from such candidates (candidates=item-all); " in found.note()
    assert given.candidates == "pool"  # what was given is not changed
    assert "learned from" not in compare({"ours": given}, split, candidates="item").note()


def test_a_mixture_lies_between_counts_alone_and_what_was_learned(moody: Triplets) -> None:
    counts = best_counts(moody, 3)
    rng = np.random.default_rng(0)
    learned = {name: rng.normal(size=array.shape).astype(array.dtype) for name, array in counts.items()}
    assert mixture(counts, learned, 1.0) is learned
    alone = mixture(counts, learned, 0.0)
    assert not alone["keys"].any()  # so that profiles add nothing
    assert np.array_equal(alone["bias"], counts["bias"])
    assert np.array_equal(alone["theta"], counts["theta"])
    half = mixture(counts, learned, 0.5)
    assert half["theta"] == pytest.approx((counts["theta"] + learned["theta"]) / 2)
    assert half["keys"] == pytest.approx(learned["keys"] / 2)
    assert counts_alone(moody.popularity, 3)["bias"] == pytest.approx(counts["bias"])


def test_new_mentions_are_counted_with_their_times(fitted: Profile, moody: Triplets, tmp_path: Path) -> None:
    model = load(fitted.save(tmp_path / "model"))
    before = model.explain("u3", "i0", 3)
    assert [each.explanation for each in before] == [each.explanation for each in fitted.explain("u3", "i0", 3)]
    new = {"user": ["u3"] * 2, "item": ["new a", "new b"], "explanation": ["e11"] * 2, "time": [9000, 9100]}
    model.fold_in(new)
    catalog = model.catalog_
    assert catalog.user_times is not None
    assert len(catalog.user_times) == catalog.user_explanations.counts.sum() == len(moody) + 2
    assert catalog.user_times.max() == 9100
    user = int(catalog.users.numbers(["u3"])[0])
    mine = catalog.user_explanations.row(user)
    assert model.said().row(user).tolist() == mine.tolist()  # type: ignore[attr-defined]
    left = _unlinked(catalog, user)
    assert left.user_times is not None
    assert len(left.user_times) == left.user_explanations.counts.sum()
    assert sorted(left.user_times.tolist()) != sorted(catalog.user_times.tolist())
    assert 9100 not in left.user_times


def test_a_scale_without_times_and_one_that_is_none_are_refused(fitted: Profile, tmp_path: Path) -> None:
    damaged = load(fitted.save(tmp_path / "whole"))
    damaged.catalog_ = replace(damaged.catalog_, user_times=None)
    with pytest.raises(ArtifactError, match="times of what users say are missing"):
        load(damaged.save(tmp_path / "timeless"))
    for number, bad in enumerate(([-1.0, 5.0], [np.inf, 5.0], [1.0, np.nan], [1.0, 1e30])):
        damaged = load(tmp_path / "whole")
        damaged.recency_ = np.array(bad)
        with pytest.raises(ArtifactError, match="recency is not a scale"):
            load(damaged.save(tmp_path / f"damaged-{number}"))


@pytest.mark.parametrize("kind", [Profile, COUNTS, SHARE])
def test_pairs_that_share_users_and_items_are_scored_with_the_bits_of_each_alone(
    kind: type[Model], split: Split
) -> None:
    model = kind(**({"epochs": 1, "factors": 8} if kind is Profile else {})).fit(split)
    rng = np.random.default_rng(0)
    users = rng.integers(-1, len(model.catalog_.users), MANY + 50).astype(np.int32)
    items = rng.integers(-1, len(model.catalog_.items), MANY + 50).astype(np.int32)
    queries, bonus = model.queries(users, items), model.bonus(users, items, 10)
    assert bonus is not None
    for at in range(0, len(users), 37):
        one = model.bonus(users[at : at + 1], items[at : at + 1], 10)
        assert one is not None
        np.testing.assert_array_equal(queries[at : at + 1], model.queries(users[at : at + 1], items[at : at + 1]))
        row = slice(bonus.indptr[at], bonus.indptr[at + 1])
        np.testing.assert_array_equal(bonus.explanations[row], one.explanations)
        np.testing.assert_array_equal(bonus.values[row], one.values)
