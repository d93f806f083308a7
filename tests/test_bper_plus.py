"""BPER+: its form, its training, its cold explanations."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from threadpoolctl import threadpool_limits

from test_text import needs_encoder, tiny_encoder  # noqa: F401 - a fixture
from whyrank.cli import main
from whyrank.data import Split, Triplets
from whyrank.errors import ArtifactError, DataError, ParameterError
from whyrank.evaluation import evaluate
from whyrank.explain.options import Options
from whyrank.explain.rank import rank
from whyrank.models import POP, load
from whyrank.models.bper import BPER
from whyrank.models.bper_plus import BPERPlus
from whyrank.training import Epoch, Monitor, Run, Storage
from whyrank.training.text_features import Preparation


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def planted(seed: int = 0, hidden: int = 0) -> tuple[Triplets, np.ndarray, list[str]]:
    """Explanations lie in two groups that their features tell apart; users and items stick to one group."""
    rng = np.random.default_rng(seed)
    ids = [f"e{number:02d}" for number in range(40)]
    group = np.arange(40) % 2
    features = rng.normal(size=(40, 8)) + 2 * (group[:, None] == np.arange(8) % 2)
    rows = []
    for record in range(600):
        user, item = record % 60, int(rng.integers(0, 20)) * 2 + record % 2
        said = rng.choice(np.flatnonzero(group == record % 2)[: 20 - hidden], 2, replace=False)
        rows += [(f"u{user}", f"i{item}", ids[each]) for each in said]
    frame = pl.DataFrame(rows, schema=["user", "item", "explanation"], orient="row")
    return Triplets.from_frame(frame), features.astype(np.float32), ids


def fitted(**changes: object) -> BPERPlus:
    train, features, ids = planted()
    settings = {"features": features, "feature_ids": ids, "factors": 6, "epochs": 3, "learning_rate": 0.02}
    return BPERPlus(**settings | changes).fit(train)


def scores(model: BPER | BPERPlus, users: np.ndarray, items: np.ndarray) -> np.ndarray:
    return model.queries(users, items) @ model.keys().T


# -- the form ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mu", [0.0, 0.3, 1.0])
def test_scores_are_the_papers_equations(mu: float) -> None:
    model = fitted(mu=mu)
    text = model.explanation_features_ @ model.text_layer_ + model.text_shift_
    for u, i, e in ((0, 0, 0), (3, 7, 11), (9, 2, 30)):
        by_user = model.user_factors_[u] @ (model.explanation_by_user_[e] * text[e]) + model.user_bias_[e]
        by_item = model.item_factors_[i] @ (model.explanation_by_item_[e] * text[e]) + model.item_bias_[e]
        score = scores(model, np.array([u], np.int32), np.array([i], np.int32))[0, e]
        assert score == pytest.approx(mu * by_user + (1 - mu) * by_item, rel=1e-4, abs=1e-5)


def test_mu_may_be_changed_after_the_fit() -> None:
    model, users, items = fitted(mu=0.2), np.arange(5, dtype=np.int32), np.arange(5, dtype=np.int32)
    model.search()
    model.mu = 0.9
    fresh = fitted(mu=0.9)
    np.testing.assert_array_equal(rank(model, users, items, 5).numbers, rank(fresh, users, items, 5).numbers)


def test_with_text_vectors_of_ones_it_equals_bper() -> None:
    model = fitted()
    model.text_layer_ = np.zeros_like(model.text_layer_)
    model.text_shift_ = np.ones_like(model.text_shift_)
    plain = BPER(factors=6, mu=model.mu)
    for name in ("user_factors_", "item_factors_", "explanation_by_user_", "explanation_by_item_"):
        setattr(plain, name, getattr(model, name))
    plain.user_bias_, plain.item_bias_ = model.user_bias_, model.item_bias_
    users, items = np.array([0, 5, -1], np.int32), np.array([3, -1, 2], np.int32)
    np.testing.assert_array_equal(scores(model, users, items), scores(plain, users, items))
    assert model.blocks() == plain.blocks()


@pytest.mark.parametrize("fusion", ["multiply", "mlp"])
def test_it_is_a_special_case_of_cd(fusion: str) -> None:
    model = fitted(mu=0.3, fusion=fusion)
    cd = model.as_cd()
    users, items = np.arange(10, dtype=np.int32), np.arange(10, dtype=np.int32)
    three_way = (cd.user_factors_[users] * cd.item_factors_[items]) @ cd.explanation_factors_.T
    np.testing.assert_allclose(three_way, scores(model, users, items), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(rank(cd, users, items, 5).numbers, rank(model, users, items, 5).numbers)


# -- training ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        *({"fusion": fusion} for fusion in ("multiply", "add", "gate", "mlp")),
        *({"fusion": fusion, "negatives": "uniform"} for fusion in ("multiply", "mlp")),
        {"start": "random", "learning_rate": 0.05},  # the paper's
    ],
    ids=str,
)
def test_it_learns_planted_groups(changes: dict[str, object]) -> None:
    train, features, ids = planted()
    split, settings = train.split(seed=1), {"factors": 6, "epochs": 12, "learning_rate": 0.02}
    model = BPERPlus(features=features, feature_ids=ids, **settings | changes).fit(split)
    floor = evaluate(POP().fit(split), split, 5, beyond_accuracy=False).explanation["recall"]
    assert evaluate(model, split, 5, beyond_accuracy=False).explanation["recall"] > 1.4 * floor


def test_the_same_seed_gives_the_same_bits_and_another_seed_others() -> None:
    one, again, other = fitted(seed=4), fitted(seed=4), fitted(seed=5)
    np.testing.assert_array_equal(one.keys(), again.keys())
    assert not np.array_equal(one.keys(), other.keys())


class Stop(Monitor):
    """Ends the training after an epoch, and remembers what it was told."""

    def __init__(self, after: int) -> None:
        self.after, self.epochs, self.start = after, [], -1

    def on_start(self, done: int, of: int) -> None:
        self.start = done

    def on_epoch(self, epoch: Epoch, storage: Storage | None) -> bool:
        self.epochs.append(epoch.number)
        return epoch.number >= self.after


def test_a_resumed_training_gives_the_same_bits(tmp_path: Path) -> None:
    train, features, ids = planted()
    settings = {"features": features, "feature_ids": ids, "factors": 6, "epochs": 4}
    stopped, going = Stop(2), Stop(99)
    path = tmp_path / "checkpoint"
    BPERPlus(**settings).fit(train, run=Run(monitors=(stopped,), checkpoint=path))
    resumed = BPERPlus(**settings).fit(train, run=Run(monitors=(going,), checkpoint=path, resume=True))
    assert (stopped.epochs, going.start, going.epochs) == ([1, 2], 2, [3, 4])
    np.testing.assert_array_equal(resumed.keys(), BPERPlus(**settings).fit(train).keys())
    with pytest.raises(ArtifactError, match="other data or settings"):
        BPERPlus(**settings | {"seed": 9}).fit(train, run=Run(checkpoint=path, resume=True))
    with pytest.raises(ArtifactError, match="other data or settings"):  # whose features have the same mean and spread
        BPERPlus(**settings | {"feature_ids": ids[::-1]}).fit(train, run=Run(checkpoint=path, resume=True))


def test_the_number_of_cores_that_blas_uses_changes_no_bit(split: Split) -> None:
    rng = np.random.default_rng(0)
    many, own = (rng.normal(size=(rows, 384)).astype(np.float32) for rows in (1500, len(split.data.explanations)))
    directions, digests = [], []
    for cores in (1, 2):
        with threadpool_limits(limits=cores, user_api="blas"):
            directions.append(Preparation.of(many, 128).projection.tobytes())
            model = BPERPlus(features=own, epochs=1).fit(split)
            digests.append((model.digest(), model.keys().tobytes()))
    assert directions[0] == directions[1]
    assert digests[0] == digests[1]


def test_a_user_who_knows_the_whole_pool_is_no_trouble() -> None:
    frame = pl.DataFrame({"user": ["a", "a", "b"], "item": ["x", "y", "x"], "explanation": ["1", "2", "1"]})
    model = BPERPlus(features=np.eye(2), factors=2, epochs=2).fit(Triplets.from_frame(frame))
    assert np.isfinite(model.keys()).all()


def test_the_papers_preset_trains_everything_by_one_constant_rate(tiny_encoder: Path, tiny: Triplets) -> None:  # noqa: F811
    preset = BPERPlus.paper(encoder=str(tiny_encoder), epochs=2)
    assert {preset.learning_rate, preset.text_learning_rate, preset.encoder_learning_rate} == {0.0001}
    assert (preset.start, preset.negatives, preset.pooling, preset.encoder_mode) == (
        *("random", "uniform", "cls", "finetune"),
    )
    constant = preset.fit(tiny)
    assert constant.encoder_weights_.size
    falling = BPERPlus.paper(encoder=str(tiny_encoder), epochs=2, schedule="linear").fit(tiny)
    assert not np.array_equal(constant.user_factors_, falling.user_factors_)
    other = BPERPlus.paper(encoder=str(tiny_encoder), epochs=2, epsilon=1.0).fit(tiny)
    assert not np.array_equal(constant.user_factors_, other.user_factors_)


# -- features ----------------------------------------------------------------------------------------------------------


def test_the_order_of_feature_rows_does_not_matter() -> None:
    _, features, ids = planted()
    shuffled = np.random.default_rng(0).permutation(len(ids))
    same = fitted(features=features[shuffled], feature_ids=[ids[each] for each in shuffled])
    np.testing.assert_array_equal(fitted().keys(), same.keys())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"feature_ids": None, "features": np.ones((3, 2))}, "give feature_ids"),
        ({"features": None}, "without features"),
        ({"encoder_mode": "finetune"}, "needs texts"),
        ({"fusion": "subtract"}, "one of"),
        ({"mu": 1.5}, "at most 1"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        fitted(**changes)


def test_a_model_of_features_is_saved_without_them_and_loads(tmp_path: Path) -> None:
    model = fitted()
    model.save(tmp_path / "model")
    loaded = BPERPlus.restore(*_stored(tmp_path / "model"))
    np.testing.assert_array_equal(loaded.keys(), model.keys())
    loaded.add_explanations(["new"], features=np.ones((1, 8)))
    assert len(loaded.keys()) == len(model.keys()) + 1
    with pytest.raises(ParameterError, match="what the model was fitted to"):
        loaded.add_explanations(["newer"], ["a text"])


def _stored(path: Path) -> tuple[object, Path]:
    from whyrank import artifacts

    return artifacts.load(path, "model"), path


# -- cold explanations -------------------------------------------------------------------------------------------------


def test_explanations_without_triplets_are_ranked_by_what_they_say() -> None:
    train, features, ids = planted(hidden=5)
    said = set(train.explanations.ids)
    cold = [each for each in ids if each not in said]
    rows = [ids.index(each) for each in train.explanations.ids]
    model = BPERPlus(features=features[rows], factors=6, epochs=12, learning_rate=0.02).fit(train)
    model.add_explanations(cold, features=features[[ids.index(each) for each in cold]])
    numbers = model.catalog_.explanations.numbers(cold)
    right = 0
    for user, item in (("u0", "i0"), ("u1", "i1"), ("u2", "i2"), ("u3", "i3")):
        users, items = model.catalog_.users.numbers([user]), model.catalog_.items.numbers([item])
        of = scores(model, users, items)[0, numbers]
        best = [cold[place] for place in np.argsort(-of)[:3]]
        right += sum(int(each[1:]) % 2 == int(user[1:]) % 2 for each in best)
    assert right >= 10


def test_explanations_that_only_the_vocabulary_knows_are_cold_too() -> None:
    train, features, _ = planted()
    said = train.record_explanations
    without = train.take(np.array([record for record in range(train.records) if said.row(record).min() > 1]))
    model = BPERPlus(features=features, factors=6, epochs=2).fit(without)
    assert (without.popularity[:2] == 0).all()
    assert np.isfinite(model.keys()).all()
    assert model.keys()[0].any()


def test_new_explanations_leave_the_old_scores_alone_and_have_their_own_texts() -> None:
    model = fitted()
    before = model.keys().copy()
    model.explain("u0", "i0")
    model.add_explanations(["zz", "aa"], ["last text", "first text"], features=np.array([[9.0] * 8, [-9.0] * 8]))
    np.testing.assert_array_equal(model.keys()[: len(before)], before)
    assert dict(zip(model.catalog_.table()["id"], model.catalog_.table()["text"], strict=True))["zz"] == "last text"
    place = model.catalog_.explanations.number("zz")
    np.testing.assert_allclose(
        model.explanation_features_[place],
        (np.full(8, 9.0) - model.feature_mean_) @ model.feature_projection_,
        rtol=1e-4,
    )
    assert len(model.explain("u0", "i0", n=100, **vars(Options.plain()))) == len(before) + 2


def test_the_command_line_adds_explanations_to_a_fitted_model(
    tiny_encoder: Path,  # noqa: F811
    tiny: Triplets,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def call(*arguments: object) -> int:
        with pytest.raises(SystemExit) as leaving:
            main([str(each) for each in arguments])
        return int(leaving.value.code or 0)

    BPERPlus(encoder=str(tiny_encoder), factors=4, epochs=1).fit(tiny).save(tmp_path / "model")
    POP().fit(tiny).save(tmp_path / "pop")
    new = tmp_path / "new.csv"
    new.write_text("explanation,text\nlovely,The pool was lovely\n")
    assert call("add", tmp_path / "model", new, "-o", tmp_path / "larger", "--json") == 0
    assert '"added": 1' in capsys.readouterr().out
    assert "The pool was lovely" in [
        each.text for each in load(tmp_path / "larger").explain("ann", "inn", n=99, grounded=False)
    ]
    assert call("add", tmp_path / "larger", new, "-o", tmp_path / "again") == 2
    assert "already known" in capsys.readouterr().err
    assert call("add", tmp_path / "pop", new, "-o", tmp_path / "again") == 2
    assert "does not read texts" in capsys.readouterr().err
    assert not (tmp_path / "again").exists()


def test_known_or_repeated_new_explanations_are_refused() -> None:
    model = fitted()
    with pytest.raises(DataError, match="already known"):
        model.add_explanations(["e00"], features=np.ones((1, 8)))
    with pytest.raises(DataError, match="different ids"):
        model.add_explanations(["x", "x"], features=np.ones((2, 8)))
    with pytest.raises(ParameterError, match="rows of 8 numbers"):
        model.add_explanations(["x"], features=np.ones((1, 3)))


# -- users and items that come later -----------------------------------------------------------------------------------


@pytest.mark.parametrize("fusion", ["multiply", "mlp"])
def test_new_users_and_items_are_folded_in_and_nothing_learned_changes(fusion: str) -> None:
    whole, features, ids = planted()
    frame = whole.frame()
    late = frame.filter(pl.col("user").is_in(["u0", "u1"]) | pl.col("item").is_in(["i4", "i5"]))
    old = Triplets.from_frame(frame.join(late, on=["user", "item"], how="anti"))
    settings = {"features": features, "feature_ids": ids, "factors": 6, "epochs": 12, "learning_rate": 0.02}
    model = BPERPlus(fusion=fusion, **settings).fit(old)
    keys, users, items = model.keys().copy(), model.user_factors_.copy(), model.item_factors_.copy()
    model.fold_in(Triplets.from_frame(late))
    np.testing.assert_array_equal(model.keys(), keys)
    np.testing.assert_array_equal(model.user_factors_[: len(users)], users)
    np.testing.assert_array_equal(model.item_factors_[: len(items)], items)
    for user, item, parity in (("u0", "i4", 0), ("u1", "i5", 1)):
        best = [int(reason.explanation[1:]) % 2 for reason in model.explain(user, item, n=10, **vars(Options.plain()))]
        assert best.count(parity) >= 8


# -- texts -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_it_reads_texts_with_minilm(split: Split) -> None:
    needs_encoder()
    few = split.train.take(np.arange(40))
    model = BPERPlus(epochs=1).fit(few)
    model.add_explanations(["new"], ["The pool is lovely"])
    assert len(model.explain(few.users.ids[0], few.items.ids[0], n=3, grounded=False)) == 3


@pytest.mark.parametrize("layers", [1, 9])
def test_finetuning_changes_the_last_layers_and_survives_saving(
    tiny_encoder: Path,  # noqa: F811
    tiny: Triplets,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    layers: int,
) -> None:
    settings = {"encoder": str(tiny_encoder), "encoder_mode": "finetune", "trainable_layers": layers, "epochs": 3}
    settings |= {"encoder_learning_rate": 0.01, "factors": 4, "batch": 2}
    path = tmp_path / "checkpoint"
    model = BPERPlus(**settings).fit(tiny)
    BPERPlus(**settings).fit(tiny, run=Run(monitors=(Stop(1),), checkpoint=path))
    resumed = BPERPlus(**settings).fit(tiny, run=Run(checkpoint=path, resume=True))
    np.testing.assert_allclose(resumed.keys(), model.keys(), atol=1e-5)
    frozen = BPERPlus(**settings | {"encoder_mode": "frozen"}).fit(tiny)
    assert not np.allclose(frozen.explanation_features_, model.explanation_features_, atol=1e-3)
    model.save(tmp_path / "model")
    loaded = BPERPlus.restore(*_stored(tmp_path / "model"))
    loaded.add_explanations(["again"], ["Quiet rooms"])
    same = loaded.catalog_.explanations.number("again"), loaded.catalog_.explanations.number("quiet")
    np.testing.assert_allclose(*loaded.explanation_features_[list(same)], atol=1e-4)


def test_a_model_loads_without_its_encoder_and_asks_for_it_only_when_texts_are_new(
    tiny_encoder: Path,  # noqa: F811
    tiny: Triplets,
    tmp_path: Path,
) -> None:
    model = BPERPlus(encoder=str(tiny_encoder), factors=4, epochs=1).fit(tiny)
    model.save(tmp_path / "model")
    tiny_encoder.rename(tmp_path / "gone")
    loaded = BPERPlus.restore(*_stored(tmp_path / "model"))
    assert loaded.explain("ann", "inn", n=2) == model.explain("ann", "inn", n=2)
    with pytest.raises(ParameterError, match="encoder"):
        loaded.add_explanations(["new"], ["Warm water"])


def test_an_encoder_that_is_not_there_is_refused_before_training(tiny: Triplets) -> None:
    with pytest.raises(ParameterError, match="encoder"):
        BPERPlus(encoder="/no/such/folder").fit(tiny)
