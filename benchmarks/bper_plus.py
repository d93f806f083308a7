"""BPER+ on real data: against BPER, fusion operators, cold explanations, encoding and epochs.

    python benchmarks/bper_plus.py SPLITS --parts quality,changes,cold,speed
    python benchmarks/bper_plus.py triplets.parquet --parts speed

SPLITS is what `whyrank split` writes; a Parquet file with user, item, explanation is cut down to users with 3 pairs and
explanations with 5 uses, and split. Settings are chosen on the validation part of split 1, `mu` on that of every split;
the test part is looked at once. Prints one JSON object per line.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.data import Split, Triplets, read_splits, splits
from whyrank.data.csr import CSR
from whyrank.errors import MissingExtra
from whyrank.evaluation import evaluate
from whyrank.evaluation.comparison import test_ratio
from whyrank.evaluation.significance import resampled, student
from whyrank.models import POP, Model
from whyrank.models.bper import BPER
from whyrank.models.bper_plus import BPERPlus
from whyrank.text import Encoder
from whyrank.training import Run
from whyrank.training.fusion import FUSIONS

MUS = (0.3, 0.5, 0.7, 0.9)
BPER_GRID: list[dict[str, object]] = [
    {"learning_rate": 0.05, "epochs": 30},
    {"learning_rate": 0.05, "epochs": 200, "factors": 100, "regularization": 0.001},
    # What `whyrank tune` found for hotels and for tags with 15 trials each.
    {"learning_rate": 0.01153, "epochs": 750, "factors": 121, "regularization": 0.06009},
    {"learning_rate": 0.0846, "epochs": 1000, "factors": 117, "regularization": 0.0003833},
]
CHANGES: list[dict[str, object]] = [
    *({"fusion": fusion, "pooling": pooling} for fusion in FUSIONS for pooling in ("mean", "cls")),
    {"negatives": "uniform"},
    {"start": "random", "negatives": "uniform", "pooling": "cls"},
]


def read(path: Path) -> list[Split]:
    if path.is_dir():
        return read_splits(path)
    frame = pl.read_parquet(path).select("user", "item", "explanation")
    return splits(Triplets.from_frame(frame).filtered(user_pairs=3, explanation_uses=5))


def report(part: str, **found: object) -> None:
    rounded = {name: round(value, 5) if isinstance(value, float) else value for name, value in found.items()}
    print(json.dumps({"part": part, **rounded}), flush=True)


def score(model: Model, pairs: Triplets) -> float:
    return evaluate(model, pairs, items=False, beyond_accuracy=False).explanation["ndcg_paper"]


def tuned(model: Model, split: Split) -> Model:
    """The model with the mu that is best on validation, from which it must not have learned."""
    if hasattr(model, "mu"):
        found = []
        for mu in MUS:
            model.mu = mu
            found.append((score(model, split.validation), -mu))
        model.mu = -max(found)[1]
    return model


def chosen(make: Callable[..., Model], grid: list[dict[str, object]], split: Split, run: Run) -> dict[str, object]:
    """The settings of a grid that are best on validation."""
    values = [score(tuned(make(**settings).fit(split.train, run=run), split), split.validation) for settings in grid]
    return grid[int(np.argmax(values))]


def both(split: Split, run: Run) -> dict[str, tuple[Callable[..., Model], dict[str, object]]]:
    """BPER with the settings that are best on validation, and BPER+ as it is."""
    plain = chosen(BPER, BPER_GRID, split, run)
    return {"BPER": (BPER, plain), "BPER+": (BPERPlus, {})}


def quality(parts: list[Split], run: Run) -> None:
    """BPER+ against BPER over splits: the paper's NDCG, tested over the means of splits (of one: by user)."""
    values: dict[str, list[NDArray[np.float64]]] = {"POP": []}
    models = both(parts[0], run)
    for split in parts:
        values["POP"].append(_per_pair(POP().fit(split), split))
        fits = {name: make(**settings) for name, (make, settings) in models.items()}
        fits["BPER+, texts exchanged"] = BPERPlus(features=exchanged(split.data), **models["BPER+"][1])
        for name, model in fits.items():
            tuned(model.fit(split.train, run=run), split)
            values.setdefault(name, []).append(_per_pair(model, split))
            report("split", model=name, mu=model.mu, ndcg_paper=float(values[name][-1].mean()))
    base = np.concatenate(values["BPER"])
    for name, each in values.items():
        means = np.array([one.mean() for one in each])
        others = np.array([one.mean() for one in values["BPER"]])
        if len(parts) > 1:
            p = resampled(means, others, test_ratio(parts))
        else:
            p = student(each[0], values["BPER"][0], parts[0].test.record_user)
        settings = models[name][1] if name in models else None
        report(
            "quality", model=name, settings=settings, splits=len(parts), ndcg_paper=float(means.mean()),
            deviation=float(means.std(ddof=1)) if len(parts) > 1 else None,
            against_bper=float(np.concatenate(each).mean() / base.mean() - 1), p=float(p),
        )  # fmt: skip


def exchanged(data: Triplets) -> NDArray[np.float32]:
    """The vectors of the texts, each given to another explanation: the same numbers without their meaning."""
    pool = len(data.explanations)
    vectors = Encoder.find("minilm", pooling="mean")(data.text_of(np.arange(pool)).to_list())
    return vectors[np.random.default_rng(3).permutation(pool)]


def _per_pair(model: Model, split: Split) -> NDArray[np.float64]:
    return evaluate(model, split, items=False, beyond_accuracy=False).per_pair["ndcg_paper"]


def changes(parts: list[Split], run: Run) -> None:
    """Fusion operators and pooling, and the paper's negatives and start, with the default's other settings."""
    for change in CHANGES:
        values = [score(tuned(BPERPlus(**change).fit(split.train, run=run), split), split.test) for split in parts]
        report(
            "changes",
            change=change,
            splits=len(parts),
            ndcg_paper=np.mean(values),
            deviation=np.std(values, ddof=min(1, len(values) - 1)),
        )


def without(triplets: Triplets, hidden: NDArray[np.bool_]) -> Triplets:
    """The triplets whose explanation is not hidden, under the same vocabularies."""
    records, kept = triplets.record_explanations.rows_of_entries(), ~hidden[triplets.explanation]
    said = CSR.from_pairs(records[kept], triplets.explanation[kept], triplets.records, len(hidden))
    return replace(triplets, record_explanations=said, sentences=None).take(np.flatnonzero(said.sizes()))


def cold(parts: list[Split], run: Run) -> None:
    """Hide a tenth of the explanations from training and rank the hidden ones among themselves; one draw a split.

    A draw says little: where a popular tag is hidden, it is in most of the pairs. Settings are those of `quality`.
    """
    settings = both(parts[0], run)["BPER+"][1]
    found: dict[str, list[tuple[float, float]]] = {}
    for number, split in enumerate(parts):
        for name, hits in _cold(split, number, settings, run).items():
            found.setdefault(name, []).append(hits)
            report("cold draw", ranker=name, split=number + 1, recall=hits[0], mrr=hits[1])
    for name, each in found.items():
        (recall, mrr), spread = np.mean(each, axis=0), np.std(each, axis=0, ddof=min(1, len(each) - 1))
        report(
            "cold", ranker=name, draws=len(each), recall=float(recall), mrr=float(mrr),
            recall_deviation=float(spread[0]), mrr_deviation=float(spread[1]),
        )  # fmt: skip


def _cold(split: Split, number: int, settings: dict[str, object], run: Run) -> dict[str, tuple[float, float]]:
    """Recall@10 and MRR of each ranker for one draw of hidden explanations."""
    pool = len(split.data.explanations)
    hidden = np.zeros(pool, bool)
    hidden[np.random.default_rng([5, number]).permutation(pool)[: pool // 10]] = True
    train, test, numbers = without(split.train, hidden), without(split.test, ~hidden), np.flatnonzero(hidden)
    test = test.take(np.sort(np.random.default_rng(0).permutation(test.records)[:4000]))
    users, items = test.record_user, test.record_item
    vectors = Encoder.find("minilm", pooling="mean")(split.data.text_of(np.arange(pool)).to_list())
    vectors = vectors - vectors.mean(0)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    alike = vectors[numbers] @ vectors.T
    model = BPERPlus(mu=0.5, **settings).fit(train, run=run)
    tables = {
        "random": np.random.default_rng(1).random((test.records, len(numbers))),
        "nearest text neighbour": _nearest(train.user_explanations, users, alike)
        + _nearest(train.item_explanations, items, alike),
        "BPER+": model.queries(users, items) @ model.keys()[numbers].T,
    }
    place = np.full(pool, -1)
    place[numbers] = np.arange(len(numbers))
    relevant = [place[test.record_explanations.row(record)] for record in range(test.records)]
    return {name: _hits(scores, relevant) for name, scores in tables.items()}


def _nearest(said: CSR, rows: NDArray[np.int32], alike: NDArray[np.float32]) -> NDArray[np.float32]:
    """How close each hidden explanation is to the closest that the user or item is known with."""
    return np.stack([alike[:, said.row(row)].max(1, initial=-1) for row in rows])


def _hits(scores: NDArray[np.floating], relevant: Iterable[NDArray[np.int64]]) -> tuple[float, float]:
    """Recall@10 and the mean reciprocal rank of the best relevant one."""
    ranks = np.argsort(np.argsort(-scores, axis=1, kind="stable"), axis=1, kind="stable")
    pairs = [
        (float((row[true] < 10).mean()), 1 / (1 + int(row[true].min())))
        for row, true in zip(ranks, relevant, strict=True)
    ]
    recall, reciprocal = np.mean(pairs, axis=0)
    return float(recall), float(reciprocal)


def speed(parts: list[Split], run: Run) -> None:
    """Texts encoded a second; seconds an epoch in both modes and of the same training in torch. Best of three."""
    split = parts[0]
    texts = split.data.text_of(np.arange(min(512, len(split.data.explanations)))).to_list()
    encoder = Encoder.find("minilm", cache=False)
    encoder(texts[:8])
    for threads in (1, 2):
        best = min(_seconds(lambda threads=threads: encoder(texts, threads=threads)) for _ in range(3))
        report("encoding", threads=threads, texts_per_second=len(texts) / best)
    few = split.train.take(np.arange(min(6000, split.train.records)))
    steps = -(-len(split.train) // 128) / -(-len(few) // 128)
    fit = BPERPlus(epochs=1)
    fit.fit(few, run=run)
    clock = _Clock()
    BPERPlus(epochs=3).fit(few, run=replace(run, monitors=(clock,)))
    report("epoch", mode="frozen", seconds=min(clock.seconds) * steps)
    report("epoch", mode="frozen, the same in torch", seconds=min(_torch_epoch(fit, few) for _ in range(2)) * steps)
    tiny = split.train.take(np.arange(200))
    steps = -(-len(split.train) // 128) / -(-len(tiny) // 128)
    for layers in (2, 6):
        clock = _Clock()
        model = BPERPlus(epochs=2, encoder_mode="finetune", trainable_layers=layers)
        model.fit(tiny, run=replace(run, monitors=(clock,)))
        report("epoch", mode=f"finetune, {layers} layers", seconds=min(clock.seconds) * steps)


def _seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


class _Clock:
    """A monitor that keeps the time of each epoch."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def on_start(self, done: int, of: int) -> None:
        self.last = time.perf_counter()

    def on_epoch(self, epoch: object, storage: object) -> bool:
        now = time.perf_counter()
        self.seconds.append(now - self.last)
        self.last = now
        return False


def _torch_epoch(model: BPERPlus, train: Triplets) -> float:
    """Seconds of the same epoch written with torch: dense layer by AdamW, tables by SparseAdam."""
    import torch

    from whyrank.training.text import TextBatches

    d, features = model.factors, torch.from_numpy(np.array(model.explanation_features_))
    sizes = {"user": len(train.users), "item": len(train.items), "by_user": len(features), "by_item": len(features)}
    tables = {name: torch.nn.Embedding(size, d + 1, sparse=True) for name, size in sizes.items()}
    layer = torch.nn.Linear(features.shape[1], d)
    dense = torch.optim.AdamW(layer.parameters(), lr=0.003)
    sparse = torch.optim.SparseAdam([weight for table in tables.values() for weight in table.parameters()], lr=0.003)
    begin = time.perf_counter()
    for batch in TextBatches(train, 128, 0, True).epoch(1):
        text, loss = layer(features[batch.explanations]), torch.zeros(())
        numbers = torch.from_numpy(batch.explanations.astype(np.int64))
        for side, name in enumerate(("user", "item")):
            ids = tables[f"by_{name}"](numbers)
            rows = tables[name](torch.from_numpy(batch.rows[side].astype(np.int64)))[:, :d]
            fused, bias = ids[:, :d] * text, ids[:, d]
            e, f = torch.from_numpy(batch.positive), torch.from_numpy(batch.negatives[side])
            r = (rows * (fused[e] - fused[f])).sum(1) + bias[e] - bias[f]
            loss = loss - torch.nn.functional.logsigmoid(r).mean()
        dense.zero_grad()
        sparse.zero_grad()
        loss.backward()
        dense.step()
        sparse.step()
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--parts", default="quality,changes,cold,speed")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    try:
        Encoder.find("minilm").load()
    except MissingExtra as error:
        parser.error(str(error))
    parts = read(arguments.data)
    report("data", triplets=repr(parts[0].data), splits=len(parts))
    known = {"quality": quality, "changes": changes, "cold": cold, "speed": speed}
    for name in arguments.parts.split(","):
        known[name](parts, Run(threads=arguments.threads))


if __name__ == "__main__":
    main()
