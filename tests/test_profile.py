"""Profile: what it learns from, and the way from counts alone to what is learned."""

from __future__ import annotations

import gc
import os
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from whyrank import COUNTS, POP, SHARE, USERPOP, Model, Profile, ProfileJ, Split, Triplets, compare, evaluate
from whyrank.errors import ArtifactError
from whyrank.index.form import Bonus, bonus_of
from whyrank.lab.simulate import simulate
from whyrank.models._evidence import SideMentions, Strength, evidence_at, evidence_of_rows, merged
from whyrank.models.counts import MANY, held_out
from whyrank.models.profile_mixture import best_counts, counts_alone, mixture, simplest_best
from whyrank.models.profile_stages import Learning, ReasonStage
from whyrank.training import Epoch, Monitor, Run, Storage
from whyrank.training.softmax import SoftmaxTraining

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


# -- data that are joined ----------------------------------------------------------------------------------------------


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


def test_validation_is_learned_from_after_it_has_chosen(moody: Triplets) -> None:
    split = moody.split(seed=2)
    with_it, without = Profile(**SETTINGS).fit(split), Profile(**SETTINGS, refit=False).fit(split)
    assert with_it.catalog_.popularity.sum() == len(split.training)
    assert without.catalog_.popularity.sum() == len(split.train)
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


def test_when_things_were_said_changes_nothing(moody: Triplets) -> None:
    assert moody.time is not None
    fits = [Profile(**SETTINGS).fit(replace(moody, time=time)) for time in (moody.time, moody.time[::-1], None)]
    for name in Profile.fitted:
        assert len({getattr(each, f"{name}_").tobytes() for each in fits}) == 1, name


def test_what_is_no_better_than_counts_on_held_out_records_is_not_used(data: Triplets) -> None:
    model, rng = Profile(factors=4, epochs=1).fit(data), np.random.default_rng(0)
    fitted = {"keys": model.vectors_, "first": model.user_inputs_, "second": model.item_inputs_}
    noise = {name: rng.normal(size=array.shape).astype(np.float32) for name, array in fitted.items()}
    noise |= {"bias": rng.normal(size=model.bias_.shape).astype(np.float32), "theta": np.full(6, -9.0)}
    stage = ReasonStage(model, Learning.of(data, None, data), Run())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("whyrank.models.profile_stages.SMALL", 0)
        stage.finish(noise, noise, (0, 1))
    assert model.learned_share_.tolist() == [0, 0]
    assert not model.vectors_.any()
    assert model.chosen().startswith("uses counts alone")


def world_of_few(rng: np.random.Generator, by_item: bool) -> Triplets:
    """Sixty records of people who say what an item is known for, or what everybody says."""
    likely = 1 / np.arange(1, 31)
    known = rng.choice(30, (10, 3))
    said = [rng.choice(known[n % 10]) if by_item else rng.choice(30, p=likely / likely.sum()) for n in range(60)]
    return timed([(f"u{n % 7}", f"i{n % 10}", f"e{word:02}", None) for n, word in enumerate(said)])


@pytest.mark.parametrize(("by_item", "simple"), [(True, COUNTS), (False, POP)])
def test_of_few_records_it_is_as_good_as_the_best_simple_model(by_item: bool, simple: type[Model]) -> None:
    found = np.zeros(2)
    for seed in range(10):
        split = world_of_few(np.random.default_rng(seed), by_item).split(seed=seed)
        found += [evaluate(kind().fit(split), split, items=False).explanation["ndcg"] for kind in (Profile, simple)]
    assert found[0] >= 0.97 * found[1]


def test_a_lead_within_its_noise_does_not_decide() -> None:
    rng = np.random.default_rng(0)
    simple, noise = rng.random(400), rng.normal(size=400)
    noise -= noise.mean()
    assert simplest_best(np.array([simple, simple + noise + 0.02])) == 0
    assert simplest_best(np.array([simple, simple + noise + 0.06, simple + noise + 0.07])) == 2
    assert simplest_best(np.array([simple, simple])) == 0


def test_what_was_learned_is_used_where_it_helps(data: Triplets) -> None:
    model = Profile(factors=8).fit(data)
    assert model.learned_share_.min() > 0
    assert model.vectors_.any()
    assert "learned" in model.chosen()


def test_where_nobody_wrote_twice_nothing_is_learned_of_users() -> None:
    rows = [(f"u{n}", f"i{n % 20}", f"e{(n % 20 + n // 20 % 3) % 15}", None) for n in range(900)]
    model = Profile(factors=4).fit(timed(rows))
    assert model.learned_share_[0] == 0
    assert not model.vectors_[:, :4].any()
    assert model.strengths_[:2].tolist() == [np.log(0.1), 0.5]  # what they will say counts


def test_somebody_with_one_record_is_held_out_where_nearly_nobody_has_more() -> None:
    rows = [(f"u{n}", f"i{n % 9}", f"e{n % 5}", None) for n in range(400)]
    learn, check = held_out(timed(rows), None)
    assert 20 <= check.records <= 60
    assert learn.records + check.records == 400
    few = learn.take(np.arange(2))
    assert held_out(learn, few)[1].records > 20  # two validation records decide nothing


def test_a_mixture_lies_between_counts_alone_and_what_was_learned(moody: Triplets) -> None:
    counts = best_counts(moody, 3)
    rng = np.random.default_rng(0)
    learned = {name: rng.normal(size=array.shape).astype(array.dtype) for name, array in counts.items()}
    whole = mixture(counts, learned, np.ones(2))
    assert all(np.array_equal(array, learned[name]) for name, array in whole.items())
    alone = mixture(counts, learned, np.zeros(2))
    assert not alone["keys"].any()  # so that profiles add nothing
    assert np.array_equal(alone["bias"], counts["bias"])
    assert np.array_equal(alone["theta"], counts["theta"])
    half = mixture(counts, learned, np.full(2, 0.5))
    assert half["theta"] == pytest.approx((counts["theta"] + learned["theta"]) / 2)
    assert half["keys"] == pytest.approx(learned["keys"] / 2)
    of_items = mixture(counts, learned, np.array([0.0, 1.0]))
    assert not of_items["keys"][:, :3].any()
    assert np.array_equal(of_items["keys"][:, 3:], learned["keys"][:, 3:])
    assert of_items["theta"].tolist() == [*counts["theta"][:3], *learned["theta"][3:]]
    assert counts_alone(moody.popularity, 3)["bias"] == pytest.approx(counts["bias"])


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


@pytest.mark.parametrize("logs", [True, False])
def test_evidence_is_that_of_both_sides_entry_by_entry(split: Split, logs: bool) -> None:
    catalog, rng = COUNTS().fit(split).catalog_, np.random.default_rng(0)
    users, items = rng.integers(-1, 40, 30).astype(np.int32), rng.integers(-1, 40, 30).astype(np.int32)
    pool, everyone = len(catalog.explanations), np.arange(30)
    user = SideMentions(catalog.user_explanations, Strength(rng.random(pool), 0.5, 1.0, 0.3), logs)
    item = SideMentions(catalog.item_explanations, Strength(catalog.popularity * 0.1), logs)
    row, explanations = np.repeat(everyone, pool), np.tile(np.arange(pool, dtype=np.int32), 30)
    sums = np.zeros((30, pool))
    for rows, side in ((users, user), (items, item)):
        expected, (scales, weight, shift, activity) = np.zeros((30, pool)), side.strength
        for place, number in enumerate(rows):
            if number >= 0:
                inside = slice(*side.relation.indptr[number : number + 2])
                counts, said = side.relation.counts[inside], side.relation.indices[inside]
                expected[place, said] = counts * scales[said] * weight / (shift + counts.sum()) ** activity
        expected = np.log1p(expected) if logs else expected
        np.testing.assert_allclose(evidence_at(rows, row, explanations, side), expected.ravel(), rtol=1e-5)
        ends, said, values = evidence_of_rows(rows, side)
        np.testing.assert_allclose(bonus_of(Bonus(ends, said, values), row, explanations), expected.ravel(), rtol=1e-5)
        sums += expected
    assert sums.any()
    both = Bonus(*merged(evidence_of_rows(users, user), everyone, evidence_of_rows(items, item), everyone))
    np.testing.assert_allclose(bonus_of(both, row, explanations), sums.ravel(), rtol=1e-5)


# -- stopped, interrupted, resumed ------------------------------------------------------------------------------------


class Losses(Monitor):
    """Remembers the loss of every epoch."""

    def __init__(self) -> None:
        self.losses: list[tuple[int, float]] = []

    def on_epoch(self, epoch: Epoch, storage: Storage | None) -> bool:
        self.losses.append((epoch.number, epoch.loss))
        return False


class StopAfter(Monitor):
    """Wants no epoch after the given one, of any training; counts those of each curve."""

    def __init__(self, epoch: int) -> None:
        self.epoch, self.seen = epoch, {"loss": 0, "item_loss": 0}

    def on_epoch(self, epoch: Epoch, storage: Storage | None) -> bool:
        self.seen[epoch.curve] += 1
        return epoch.number >= self.epoch


class Stop(Monitor):
    """Interrupts a given epoch, counted over all trainings, as Ctrl-C does."""

    def __init__(self, after: int) -> None:
        self.left = after

    def on_epoch(self, epoch: Epoch, storage: Storage | None) -> bool:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGINT)
        return False


def test_a_flagship_that_a_monitor_stopped_goes_on_to_the_same_bits(data: Triplets, tmp_path: Path) -> None:
    settings = {"factors": 4, "epochs": 3, "item_epochs": 3}
    whole, checkpoint = ProfileJ(**settings).fit(data), tmp_path / "checkpoint"
    stopped = StopAfter(1)
    ProfileJ(**settings).fit(data, run=Run(monitors=(stopped,), checkpoint=checkpoint))
    assert stopped.seen == {"loss": 3, "item_loss": 2}
    resumed = ProfileJ(**settings).fit(data, run=Run(checkpoint=checkpoint, resume=True))
    for name in ProfileJ.fitted:
        assert np.array_equal(getattr(resumed, f"{name}_"), getattr(whole, f"{name}_")), name


def test_the_tables_of_a_candidate_that_lost_are_let_go_of(data: Triplets) -> None:
    alive = []

    class Count(Monitor):
        def on_epoch(self, epoch: Epoch, storage: Storage | None) -> bool:
            gc.collect()
            alive.append(sum(type(each) is SoftmaxTraining for each in gc.get_objects()))
            return False

    gc.collect()
    before = sum(type(each) is SoftmaxTraining for each in gc.get_objects())
    Profile(factors=4, epochs=3).fit(data, run=Run(monitors=(Count(),)))
    assert {count - before for count in alive} == {1}


@pytest.mark.parametrize(("after", "raced"), [(1, 4000), (3, 4000), (5, 4000), (7, 4000), (9, 4000), (1, 1), (2, 1)])
def test_an_interrupted_flagship_goes_on_to_the_same_bits(
    data: Triplets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int, raced: int
) -> None:
    monkeypatch.setattr("whyrank.models.profile_stages.COMPARED", raced)
    settings = {"factors": 4, "epochs": 3, "item_epochs": 3}
    told, rest = Losses(), Losses()
    whole, checkpoint = ProfileJ(**settings).fit(data, run=Run(monitors=(told,))), tmp_path / "checkpoint"
    with pytest.raises(KeyboardInterrupt):
        ProfileJ(**settings).fit(data, run=Run(monitors=(Stop(after),), checkpoint=checkpoint))
    resumed = ProfileJ(**settings).fit(data, run=Run(monitors=(rest,), checkpoint=checkpoint, resume=True))
    for name in ProfileJ.fitted:
        assert np.array_equal(getattr(resumed, f"{name}_"), getattr(whole, f"{name}_")), name
    assert rest.losses == told.losses[after:]  # nothing is done twice
    with pytest.raises(ArtifactError, match="other data or settings"):
        Profile(factors=3).fit(data, run=Run(checkpoint=checkpoint, resume=True))
