"""Learning from reactions: it helps where there is something to learn, and the gate holds back what is worse."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import whyrank as wr
from whyrank.cli import main
from whyrank.errors import DataError, ParameterError
from whyrank.explain.rank import rank
from whyrank.lab.simulate import SimulatedPeople, simulate_people
from whyrank.lab.simulate.log import log_of
from whyrank.models.learned import Correction, before_reactions, with_correction
from whyrank.online.learn import Learned, learn
from whyrank.online.log import Log
from whyrank.online.reactions import SWEEPS, ReactionTrainer, learn_reactions
from whyrank.online.rewards import lists_of
from whyrank.training import Run
from whyrank.training.loop import Trained

SHOWN = {"distinctive": 1.0, "support": 1}
DRAWN = wr.Options(explore=1.0, epsilon=0.1, **SHOWN)
LISTS = 12_000
Made = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.float64], NDArray[np.bool_]]


@pytest.fixture(scope="module")
def people() -> SimulatedPeople:
    return simulate_people(users=100, items=15, explanations=80, records=900, seed=6)


@pytest.fixture(scope="module")
def model(people: SimulatedPeople) -> wr.Model:
    return wr.ProfileJ(epochs=1, item_epochs=1, factors=8, seed=0).fit(people.triplets)


@pytest.fixture(scope="module")
def made(people: SimulatedPeople, model: wr.Model) -> Made:
    rng = np.random.default_rng(1)
    users, items = people.visits(LISTS, rng)
    found = rank(model, users, items, 3, DRAWN)
    assert found.propensities is not None
    return users, items, found.numbers, found.propensities, people.react(users, items, found.numbers, rng)


@pytest.fixture(scope="module")
def log(model: wr.Model, made: Made) -> Log:
    users, items, *shown = made
    return log_of(model.catalog_, (users, items), *shown)


@pytest.fixture(scope="module")
def learned(model: wr.Model, log: Log) -> Learned:
    return learn(model, log, DRAWN)


def clicks(people: SimulatedPeople, model: wr.Model) -> float:
    users, items = people.visits(3000, np.random.default_rng(8))
    return float(people.expected_clicks(users, items, rank(model, users, items, 3, wr.Options(**SHOWN)).numbers).mean())


def corrected(model: wr.Model, seed: int = 0) -> wr.Model:
    rng, catalog = np.random.default_rng(seed), model.catalog_
    sizes = ((len(catalog.explanations), 3), (len(catalog.users), 3), (len(catalog.items), 3))
    tables = (rng.normal(size=size).astype(np.float32) for size in sizes)
    bias = rng.normal(size=sizes[0][0]).astype(np.float32)
    return with_correction(model, Correction(bias, *tables), "digest")


def test_reactions_raise_clicks_and_the_gate_sees_it(
    people: SimulatedPeople, model: wr.Model, learned: Learned
) -> None:
    assert clicks(people, learned.model) > 1.15 * clicks(people, model)
    assert learned.passed
    assert learned.estimate.line.uplift > 0.05
    assert learned.verdict().startswith("Passed")


def test_attention_is_told_from_liking(learned: Learned) -> None:
    looked = np.array(learned.attention)
    assert looked[:, 0] == pytest.approx([1, 0.7, 0.5], abs=0.12)
    assert looked[1:, 1] == pytest.approx([0.42, 0.3], abs=0.15)


def first_of(log: Log, rows: int) -> Log:
    """The first rows of exposures, and the events that refer to them."""
    shown = log.exposures.head(rows)
    return Log(shown, log.events.join(shown, on="exposure", how="semi"))


def test_the_same_log_gives_the_same_model_and_leaves_the_old_one_alone(model: wr.Model, log: Log) -> None:
    before = model.digest()
    small = first_of(log, 4000)
    assert learn(model, small, DRAWN).model.digest() == learn(model, small, DRAWN).model.digest()
    assert model.digest() == before


@pytest.mark.parametrize("at", [1, SWEEPS, 2 * SWEEPS + 3])
def test_a_run_that_was_killed_goes_on_to_the_same_bits(
    model: wr.Model, log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    small, ran = first_of(log, 4000), [0]
    run = Run(checkpoint=tmp_path / "checkpoint", checkpoint_seconds=0)
    calm, whole = learn(model, small, DRAWN), ReactionTrainer.epoch

    def epoch(self: ReactionTrainer) -> Trained | None:
        if ran[0] == at:
            raise MemoryError
        ran[0] += 1
        return whole(self)

    monkeypatch.setattr(ReactionTrainer, "epoch", epoch)
    with pytest.raises(MemoryError):
        learn(model, small, DRAWN, run=run)
    first, ran[0] = ran[0], at + 1
    assert learn(model, small, DRAWN, run=run).model.digest() == calm.model.digest()
    second, ran[0] = ran[0] - at - 1, at + 1
    assert learn(model, first_of(log, 5000), DRAWN, run=run).model.digest() != calm.model.digest()  # begins anew
    assert first == at
    assert (first + second) % SWEEPS == 0


def test_bper_plus_learns_and_takes_in_new_explanations_and_users(people: SimulatedPeople, log: Log) -> None:
    triplets = people.triplets
    features = np.random.default_rng(0).normal(size=(len(triplets.explanations), 6)).astype(np.float32)
    plain = wr.BPERPlus(features=features, factors=4, dimensions=6).fit(triplets)
    new = learn(plain, first_of(log, 6000), DRAWN).model
    numbers = np.arange(5, dtype=np.int32)
    gained = scores(new, numbers, numbers) - scores(plain, numbers, numbers)
    own = new.learned_users_[:5] + new.learned_items_[:5]  # type: ignore[attr-defined]
    assert np.allclose(gained, new.learned_bias_ + own @ new.learned_units_.T, atol=1e-4)  # type: ignore[attr-defined]
    assert np.abs(gained).max() > 0.01
    cd = new.as_cd()  # type: ignore[attr-defined]
    assert np.allclose(scores(cd, numbers, numbers), scores(new, numbers, numbers), atol=1e-4)
    frame = triplets.frame().head(4).with_columns(user=triplets.frame().head(4)["user"] + "new")
    for each in (plain, new):
        each.fold_in(wr.Triplets.from_frame(frame))
        each.add_explanations(["later"], features=features[:1])  # type: ignore[attr-defined]
    assert np.array_equal(plain.user_factors_, new.user_factors_)  # type: ignore[attr-defined]
    assert new.keys().shape[0] == len(triplets.explanations) + 1
    assert before_reactions(new).keys() == pytest.approx(plain.keys(), abs=1e-5)


def test_random_clicks_change_next_to_nothing(people: SimulatedPeople, model: wr.Model, made: Made) -> None:
    users, items, lists, chances, _ = made
    rng = np.random.default_rng(3)
    noise = (rng.random(lists.shape) < np.array([0.15, 0.1, 0.07])) & (lists >= 0)
    log = log_of(model.catalog_, (users, items), lists, chances, noise)
    found = learn_reactions(before_reactions(model), lists_of(log))
    after = with_correction(model, found.correction, "x")
    assert clicks(people, after) > 0.93 * clicks(people, model)


def test_misleading_reactions_do_not_pass(model: wr.Model, people: SimulatedPeople, made: Made) -> None:
    users, items, lists, chances, clicked = made
    wrong = clicked.copy()
    older = slice(0, int(0.7 * LISTS))
    appeal = people.appeal(users[:, None], items[:, None], np.maximum(lists, 0))
    drawn = np.random.default_rng(5).random(lists.shape)
    wrong[older] = ((drawn < 0.3 * (1 - appeal) ** 8) & (lists >= 0))[older]  # clicks on what nobody likes
    found = learn(model, log_of(model.catalog_, (users, items), lists, chances, wrong), DRAWN)
    assert clicks(people, found.model) < 0.98 * clicks(people, model)
    assert not found.passed


def test_a_corrected_model_scores_as_defined_and_is_saved_whole(model: wr.Model, tmp_path: Path) -> None:
    new = corrected(model)
    users, items = np.array([0, 5, -1], np.int32), np.array([2, 3, 4], np.int32)
    tastes = new.learned_items_[items].copy()  # type: ignore[attr-defined]
    tastes[:2] += new.learned_users_[users[:2]]  # type: ignore[attr-defined]
    gained = new.learned_bias_ + tastes @ new.learned_units_.T  # type: ignore[attr-defined]
    assert np.allclose(scores(new, users, items), scores(model, users, items) + gained, atol=1e-4)
    back = wr.load(new.save(tmp_path / "new"))
    assert back.digest() == new.digest() != model.digest()
    user, item = model.catalog_.users.ids[0], model.catalog_.items.ids[0]
    assert back.explain(user, item, 3, **SHOWN) == new.explain(user, item, 3, **SHOWN)
    assert sum(back.explain(user, item, 1, **SHOWN)[0].parts.values()) == pytest.approx(
        back.explain(user, item, 1, **SHOWN)[0].score, abs=1e-3
    )
    assert before_reactions(back).digest() != new.digest()


def scores(model: wr.Model, users: NDArray[np.int32], items: NDArray[np.int32]) -> NDArray[np.float32]:
    return model.queries(users, items) @ model.keys().T


def test_a_corrected_bper_is_a_cd_with_more_factors(people: SimulatedPeople) -> None:
    new, numbers = corrected(wr.BPER(epochs=1, factors=4, mu=0.3).fit(people.triplets)), np.arange(9, dtype=np.int32)
    cd, plain = new.as_cd(), before_reactions(new)  # type: ignore[attr-defined]
    assert cd.factors == 2 * (4 + new.learned_units_.shape[1]) + 2  # type: ignore[attr-defined]
    assert np.allclose(scores(cd, numbers, numbers), scores(new, numbers, numbers), atol=1e-4)
    as_it_was = plain.as_cd().queries(numbers, numbers) @ plain.keys().T  # type: ignore[attr-defined]
    assert not np.allclose(scores(cd, numbers, numbers), as_it_was, atol=1e-2)


def test_pairs_of_a_corrected_model_are_exact(model: wr.Model) -> None:
    new, options = corrected(model, 1), wr.Options.plain()
    catalog, user = new.catalog_, np.array([4], np.int32)
    fresh = np.setdiff1d(np.arange(len(catalog.items)), catalog.user_items.row(4)).astype(np.int32)
    everything = rank(new, np.repeat(user, len(fresh)), fresh, len(catalog.explanations), options)
    of_items = (new.item_keys() @ new.item_queries(user)[0])[fresh]
    best = np.sort((everything.scores + of_items[:, None]).ravel())[::-1][:8]
    found = new.recommend_pairs(catalog.users.ids[4], 8, **vars(options))
    assert [each.score for each in found] == pytest.approx(best.tolist(), rel=1e-5)


def test_corrected_models_take_in_new_users_and_forget_when_fitted_again(
    people: SimulatedPeople, model: wr.Model
) -> None:
    new = corrected(wr.BPER(epochs=3, factors=4).fit(people.triplets))
    frame = people.triplets.frame().head(4).with_columns(user=people.triplets.frame().head(4)["user"] + "new")
    new.fold_in(wr.Triplets.from_frame(frame))
    assert new.explain(frame["user"][0], frame["item"][0], 2, **SHOWN)
    new.fit(people.triplets)
    plain = wr.BPER(epochs=3, factors=4).fit(people.triplets)
    assert np.array_equal(new.keys(), plain.keys())
    with pytest.raises(ParameterError, match="learn again"):
        new.partial_fit(people.triplets)  # type: ignore[attr-defined]
    with pytest.raises(ParameterError, match="pop cannot learn"):
        before_reactions(wr.POP().fit(people.triplets))


def test_the_command_writes_only_what_passes(
    model: wr.Model, log: Log, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def call(log: str, output: str, *more: str) -> tuple[int, str]:
        options = ["--explore", "1", "--epsilon", "0.1", "--distinctive", "1", "--support", "1"]
        places = [str(tmp_path / "model"), "--log", str(tmp_path / log), "-o", str(tmp_path / output)]
        with pytest.raises(SystemExit) as done:
            main(["learn", *places, *options, *more])
        return int(done.value.code or 0), capsys.readouterr().out

    model.save(tmp_path / "model")
    log.write(tmp_path / "log")
    Log(log.exposures, log.events.clear()).write(tmp_path / "silent")
    code, printed = call("log", "new", "--json")
    assert (code, json.loads(printed)["passed"]) == (0, True)
    assert wr.load(tmp_path / "new").id == "profile-j"
    code, printed = call("silent", "worse")
    assert (code, (tmp_path / "worse").exists()) == (3, False)
    printed = " ".join(printed.split())
    assert "nobody reacted" in printed
    assert "What helps: more lists, or more exploration" in printed
    assert call("silent", "worse", "--force")[0] == 0
    assert (tmp_path / "worse").exists()


def test_short_logs_are_refused(model: wr.Model, log: Log) -> None:
    with pytest.raises(DataError, match="lists"):
        learn(model, first_of(log, 30))
