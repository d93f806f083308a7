"""ExpGCN: the convolution is a matrix's, gradients are those of finite differences, and it stops by validation."""

from __future__ import annotations

import signal
from pathlib import Path

import numpy as np
import pytest

from whyrank.data import Split, Triplets
from whyrank.errors import ArtifactError, ParameterError
from whyrank.models.expgcn import ExpGCN
from whyrank.thread_pool import ThreadPool
from whyrank.training import Run
from whyrank.training.graph import GraphSettings, GraphTrainer
from whyrank.training.monitor import Epoch, History, Monitor


def normalized(pairs: tuple[np.ndarray, np.ndarray], rows: int, pool: int) -> np.ndarray:
    """The whole symmetric matrix of one graph, counts over the roots of both degrees."""
    counts = np.zeros((rows, pool))
    np.add.at(counts, pairs, 1)
    whole = np.block([[np.zeros((rows, rows)), counts], [counts.T, np.zeros((pool, pool))]])
    roots = np.sqrt(np.maximum(whole.sum(1), 1e-9))
    return whole / roots[:, None] / roots[None]


@pytest.mark.parametrize("layers", [0, 1, 3])
def test_convolution_is_the_mean_of_the_matrix_powers(split: Split, layers: int) -> None:
    train = split.train
    settings = GraphSettings(5, layers, 0.01, 0.0, negatives=2, batch=64, epochs=1, seed=0)
    training = GraphTrainer(train, settings, lambda tables: 0.0, ThreadPool(2))
    users, items, pool = training.base
    found = training.convolved()
    sides = ((train.user, users, found[:2]), (train.item, items, found[2:]))
    for rows, table, (left, right) in sides:
        matrix = normalized((rows, train.explanation), len(table), len(pool))
        stacked = np.vstack([table, pool]).astype(np.float64)
        expected = sum(np.linalg.matrix_power(matrix, power) for power in range(layers + 1)) @ stacked / (layers + 1)
        assert np.vstack([left, right]) == pytest.approx(expected, abs=1e-5)


def loss_of(tables: list[np.ndarray], train: Triplets, batch: np.ndarray, negatives: np.ndarray) -> float:
    p, zu, q, zi = tables
    total = 0.0
    for t, drawn in zip(batch, negatives, strict=True):
        u, i, e = train.user[t], train.item[t], train.explanation[t]
        own = set(train.record_explanations.row(train.record_explanations.rows_of_entries()[t]).tolist())
        score = zu @ p[u] + zi @ q[i]
        total += sum(np.log1p(np.exp(score[n] - score[e])) for n in drawn if n not in own)
    return total / negatives.size


def test_gradients_agree_with_finite_differences(split: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    train, rng = split.train, np.random.default_rng(0)
    sizes = (len(train.users), len(train.explanations), len(train.items), len(train.explanations))
    tables = [rng.normal(0, 0.5, (size, 3)) for size in sizes]
    batch, negatives = rng.integers(0, len(train), 40), rng.integers(0, len(train.explanations), (40, 4))
    settings = GraphSettings(3, 0, 0.01, 0.0, negatives=4, batch=40, epochs=1, seed=0)
    trainer = GraphTrainer(train, settings, lambda tables: 0.0, ThreadPool(1))
    monkeypatch.setattr(trainer, "convolved", lambda: tuple(table.astype(np.float32) for table in tables))
    loss, slopes = trainer.gradients(batch, negatives.ravel())
    assert loss == pytest.approx(loss_of(tables, train, batch, negatives), rel=1e-5)
    rows = (train.user[batch[0]], train.explanation[batch[0]], train.item[batch[0]], negatives[0, 0])
    for table, slope, row in zip(tables, slopes, rows, strict=True):
        for k in range(3):
            ends = []
            for step in (1e-5, -2e-5):
                table[row, k] += step
                ends.append(loss_of(tables, train, batch, negatives))
            table[row, k] += 1e-5
            assert slope[row, k] == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-5)


def test_training_lowers_the_loss_and_the_best_look_stays(split: Split) -> None:
    told = History()
    model = ExpGCN(factors=8, epochs=60, batch=256, learning_rate=0.02).fit(split, run=Run(monitors=(told,)))
    losses = [row["loss"] for row in told.rows]
    assert losses[-1] < 0.8 * losses[0]
    assert len(losses) < 60  # it stops by itself
    again = ExpGCN(factors=8, epochs=60, batch=256, learning_rate=0.02).fit(split, run=Run(threads=1))
    assert again.digest() == model.digest()


class Interrupt(Monitor):
    """Ctrl-C in the middle of an epoch's report."""

    def __init__(self, at: int) -> None:
        self.at = at

    def on_epoch(self, epoch: Epoch, storage: object) -> bool:
        if epoch.number == self.at:
            signal.raise_signal(signal.SIGINT)
        return False


@pytest.mark.parametrize("at", [1, 5])
def test_an_interrupted_fit_goes_on_to_the_same_bits(split: Split, tmp_path: Path, at: int) -> None:
    settings = {"factors": 4, "epochs": 7, "batch": 256, "learning_rate": 0.02}
    whole = ExpGCN(**settings).fit(split)
    file = tmp_path / "checkpoint"
    with pytest.raises(KeyboardInterrupt):
        ExpGCN(**settings).fit(split, run=Run(checkpoint=file, monitors=(Interrupt(at),)))
    told = History()
    resumed = ExpGCN(**settings).fit(split, run=Run(checkpoint=file, resume=True, monitors=(told,)))
    assert [row["epoch"] for row in told.rows] == list(range(at + 1, 8))
    assert resumed.digest() == whole.digest()
    with pytest.raises(ArtifactError, match="other data or settings"):
        ExpGCN(**settings | {"layers": 1}).fit(split, run=Run(checkpoint=file, resume=True))


def test_new_users_need_a_new_fit(split: Split) -> None:
    frame = split.test.frame().head(3)
    new = Triplets.from_frame(frame.with_columns(user="new " + frame["user"]))
    with pytest.raises(ParameterError, match="cannot fold in"):
        ExpGCN(epochs=1).fit(split).fold_in(new)
