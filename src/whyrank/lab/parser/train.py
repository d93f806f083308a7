"""Training of the parser that mining uses: a small network learns silver trees.

    python -m whyrank.lab.parser.train SHARDS WEIGHTS.npz --steps 15400

All that is multiplied is rounded to whole numbers in training as well (with the gradient of what
was not rounded), so that the parser gives the same result on every machine.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from whyrank.lab.parser.silver import read_shard
from whyrank.mining.features import FIRST_ROWS, TABLES, rows_of_words
from whyrank.mining.parse import LABELS, TAGS
from whyrank.mining.tokens import LONGEST_SENTENCE

WIDTH = 96
PAIR = 64
WINDOWS = (1, 2, 4)  # words on each side that a layer sees
FAR = 16  # words; greater distances count as this
STEP = 32  # whole numbers for 1 of what flows through the network
CONVOLUTION_STEP = 256  # the same for weights
HEAD_STEP = 64
POOL = 400  # sentences of like lengths are batched out of so many batches
LOWER, UPPER = 0.10, 0.03  # share of sentences that are learned without, or all in, capitals
UNKNOWN = 0.03  # share of words that are learned by their suffixes, prefix and shape alone


Ints = NDArray[np.int32]


class SentenceBatch(NamedTuple):
    """Sentences side by side: (sentences, words); heads count from 1, 0 is the root, -1 nothing."""

    rows: Tensor  # of the tables, for each distinct word
    words: Tensor  # the distinct words
    heads: Tensor
    labels: Tensor
    tags: Tensor


class Silver(NamedTuple):
    """Silver trees as numbers, sentences chained."""

    rows: Ints  # (distinct words, tables)
    shapes: Ints  # rows of the shapes as written, in lower and in upper case
    words: Ints
    heads: Ints
    labels: Ints
    tags: Ints
    firsts: Ints


def read_silver(folder: Path) -> Silver:
    """Read the shards of a folder."""
    known: dict[str, int] = {}
    label_ids, tag_ids = ({name: i for i, name in enumerate(names)} for names in (LABELS, TAGS))
    shards: list[list[Ints]] = []
    for path in sorted(folder.glob("*.npz")):
        shard = read_shard(path)
        values = (
            [known.setdefault(word, len(known)) for word in shard.words],
            shard.heads,
            [label_ids.get(label, -1) for label in shard.labels],  # -1: not learned from
            [tag_ids.get(tag, -1) for tag in shard.tags],
            shard.lengths,
        )
        shards.append([np.asarray(each, np.int32) for each in values])
    columns = [np.concatenate(column) for column in zip(*shards, strict=True)]
    written = list(known)
    cases = (written, [word.lower() for word in written], [word.upper() for word in written])
    shapes = np.stack([rows_of_words(case)[:, -1] for case in cases], axis=1)
    firsts = np.concatenate([[0], np.cumsum(columns.pop())])
    print(f"{len(firsts) - 1:,} sentences, {len(written):,} distinct words", flush=True)
    words, heads, labels, tags = columns
    return Silver(rows_of_words(written), shapes, words, heads, labels, tags, firsts)


def batches(folder: Path, words: int, seed: int) -> Iterator[SentenceBatch]:
    """Yield batches of about so many words, for ever; a pass takes the shards that are there."""
    rng = np.random.default_rng(seed)
    while True:
        silver = read_silver(folder)
        lengths = np.diff(silver.firsts)
        order = rng.permutation(np.flatnonzero(lengths <= LONGEST_SENTENCE))
        for pool in np.array_split(order, max(1, int(lengths[order].sum()) // (words * POOL))):
            alike = pool[np.argsort(lengths[pool], kind="stable")]
            filled = np.cumsum(lengths[alike]) // words
            cuts = np.split(alike, np.flatnonzero(np.diff(filled)) + 1)
            for i in rng.permutation(len(cuts)):
                draw = rng.random(len(cuts[i]))
                case = np.where(draw < LOWER, 1, np.where(draw < LOWER + UPPER, 2, 0))
                yield batch_of(silver, cuts[i], case)


def batch_of(silver: Silver, sentences: Ints, case: Ints) -> SentenceBatch:
    """Put sentences side by side, each as written (0), in lower (1) or in upper case (2)."""
    lengths = np.diff(silver.firsts)[sentences]
    filled = np.arange(lengths.max()) < lengths[:, None]
    at = np.where(filled, silver.firsts[sentences][:, None] + np.arange(lengths.max()), 0)
    distinct, words = np.unique(silver.words[at] * 3 + case[:, None], return_inverse=True)
    rows = silver.rows[distinct // 3]
    rows[:, -1] = silver.shapes[distinct // 3, distinct % 3]
    relative = silver.heads[at]
    heads = np.where(relative == 0, 0, np.arange(lengths.max()) + relative + 1)
    columns = (np.where(filled, each, -1) for each in (heads, silver.labels[at], silver.tags[at]))
    arrays = (rows, words.reshape(at.shape), *columns)
    return SentenceBatch(*(torch.from_numpy(each.astype(np.int64)) for each in arrays))


def rounded(values: Tensor, step: int) -> Tensor:
    """Round to whole steps of at most 127; the gradient passes where nothing was cut."""
    cut = values.clamp(-127 / step, 127 / step)
    return cut + ((cut.detach() * step).round() / step - cut.detach())


class Network(nn.Module):
    """Hashed embeddings, three convolutions, and what says tags, heads and labels."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(FIRST_ROWS[-1], WIDTH, sparse=True)
        nn.init.normal_(self.table.weight, std=0.25)
        self.layers = nn.ModuleList(nn.Conv1d(WIDTH, WIDTH, 2 * w + 1, padding=w, bias=False) for w in WINDOWS)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in WINDOWS)
        self.tag = nn.Linear(WIDTH, len(TAGS))
        self.roles = nn.Linear(WIDTH, 4 * PAIR)  # as dependent, as head, own label, label of those below
        self.root = nn.Parameter(torch.randn(2, PAIR) * 0.3)  # as head, label of those below
        self.distance = nn.Parameter(torch.zeros(2 * FAR + 2))  # the last: of roots
        self.label = nn.Linear(PAIR, len(LABELS))

    def encode(self, batch: SentenceBatch) -> Tensor:
        """Return what the network knows of each word: (sentences, words, WIDTH)."""
        filled = (batch.heads >= 0)[..., None]
        parts = rounded(self.table(batch.rows), STEP)
        unknown = self.training & (torch.rand(len(parts), 1, 1) < UNKNOWN)
        of_whole_word = torch.arange(len(TABLES))[:, None] < 2
        vectors = rounded((parts * ~(unknown & of_whole_word)).sum(1), STEP)
        x = F.embedding(batch.words, vectors) * filled
        for layer, norm in zip(self.layers, self.norms, strict=True):
            weight = rounded(layer.weight, CONVOLUTION_STEP)
            y = F.conv1d(x.transpose(1, 2), weight, padding=layer.padding).transpose(1, 2)
            x = rounded(x + F.relu(norm(y)), STEP) * filled
        return x

    def forward(self, batch: SentenceBatch) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return scores of tags, scores of heads (0 is the root), and vectors for labels."""
        x = self.encode(batch)
        tags = F.linear(x, rounded(self.tag.weight, HEAD_STEP), self.tag.bias)
        roles = rounded(F.linear(x, rounded(self.roles.weight, HEAD_STEP), self.roles.bias), STEP)
        dependent, head, own, below = roles.split(PAIR, -1)
        root = rounded(self.root, STEP).expand(len(x), 1, 2, PAIR)
        n = x.shape[1]
        reach = (torch.arange(n) - torch.arange(n)[:, None]).clamp(-FAR, FAR) + FAR
        arcs = dependent @ head.transpose(1, 2) + self.distance[reach]
        never = torch.eye(n, dtype=torch.bool) | (batch.heads < 0)[:, None]
        to_root = dependent @ root[:, :, 0].transpose(1, 2) + self.distance[-1]
        arcs = torch.cat([to_root, arcs.masked_fill(never, -1e4)], 2)
        return tags, arcs, own, torch.cat([root[:, :, 1], below], 1)

    def label_scores(self, own: Tensor, below: Tensor, heads: Tensor) -> Tensor:
        """Return the scores of labels, given heads."""
        above = below.gather(1, heads.clamp(min=0)[..., None].expand(*heads.shape, PAIR))
        pair = (own + above).clamp(0, 127 / STEP)
        return F.linear(pair, rounded(self.label.weight, HEAD_STEP), self.label.bias)

    def loss(self, batch: SentenceBatch) -> Tensor:
        """Return the sum of the mean losses of tags, heads and labels."""
        tags, arcs, own, below = self(batch)
        labels = self.label_scores(own, below, batch.heads)
        pairs = ((tags, batch.tags), (arcs, batch.heads), (labels, batch.labels))
        return sum(
            (F.cross_entropy(s.flatten(0, 1), g.flatten(), ignore_index=-1) for s, g in pairs),
            torch.zeros(()),
        )


def whole(values: Tensor, step: int, largest: int = 127) -> NDArray[np.float64]:
    """Return values in whole steps."""
    return (values.detach().double() * step).round().clamp(-largest, largest).numpy()


def weights_of(network: Network) -> dict[str, Any]:
    """Return the arrays that the parser reads."""
    logit = STEP * HEAD_STEP
    arrays: dict[str, Any] = {
        "table": whole(network.table.weight, STEP).astype(np.int8),
        "tag": whole(network.tag.weight.T, HEAD_STEP).astype(np.int8),
        "tag_bias": whole(network.tag.bias, logit, 2**22).astype(np.int32),
        "roles": whole(network.roles.weight.T, HEAD_STEP).astype(np.int8),
        "roles_bias": whole(network.roles.bias, logit, 2**22).astype(np.int32),
        "root": whole(network.root, STEP).astype(np.int8),
        "distance": whole(network.distance, STEP**2, 2**22).astype(np.int32),
        "label": whole(network.label.weight.T, HEAD_STEP).astype(np.int8),
        "label_bias": whole(network.label.bias, logit, 2**22).astype(np.int32),
    }
    for i, (layer, norm) in enumerate(zip(network.layers, network.norms, strict=True)):
        matrix = layer.weight.permute(2, 1, 0).reshape(-1, WIDTH)  # (window x width, width)
        arrays[f"layer{i}"] = whole(matrix, CONVOLUTION_STEP).astype(np.int8)
        added = torch.full((WIDTH,), norm.eps * (STEP * CONVOLUTION_STEP) ** 2)
        scaled = torch.stack([norm.weight * STEP, norm.bias * STEP, added])
        arrays[f"norm{i}"] = scaled.detach().numpy()
    return arrays


def train(network: Network, every: Iterator[SentenceBatch], steps: int, rate: float) -> None:
    """Train with Adam; the rate rises for 200 steps and falls to nothing."""
    dense = [p for name, p in network.named_parameters() if name != "table.weight"]
    optimizers = [
        torch.optim.Adam(dense, lr=rate, betas=(0.9, 0.99)),
        torch.optim.SparseAdam([network.table.weight], lr=rate, betas=(0.9, 0.99)),
    ]
    began, mean = time.monotonic(), 0.0
    for step, batch in enumerate(islice(every, steps)):
        for optimizer in optimizers:
            optimizer.param_groups[0]["lr"] = rate * min(1, (step + 1) / 200) * (1 - step / steps)
            optimizer.zero_grad()
        loss = network.loss(batch)
        loss.backward()
        nn.utils.clip_grad_norm_(dense, 2.0)
        for optimizer in optimizers:
            optimizer.step()
        mean += (loss.item() - mean) * max(0.01, 1 / (step + 1))
        if step % 100 == 99:
            seconds = time.monotonic() - began
            print(f"{step + 1} steps, loss {mean:.3f}, {seconds:.0f} s", flush=True)


def main() -> None:
    """Train and write the weights."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("shards", type=Path)
    options.add_argument("weights", type=Path)
    options.add_argument("--steps", type=int, default=15_400)
    options.add_argument("--words", type=int, default=2_000, help="of a batch")
    options.add_argument("--rate", type=float, default=3e-3)
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    torch.manual_seed(given.seed)
    torch.set_num_threads(1)
    network = Network()
    train(network, batches(given.shards, given.words, given.seed), given.steps, given.rate)
    np.savez_compressed(given.weights, **weights_of(network))


if __name__ == "__main__":
    main()
