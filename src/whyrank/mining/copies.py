"""Copies and near-copies of reviews, whoever posted them and wherever."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.data.columns import to_lines
from whyrank.mining import _copies_kernels as kernel

LEAST = 20  # words of a text that can be called a copy
SHARE = 0.9  # of the runs of five words that copies have in common
NEEDED = 3  # hashes of eight that candidates share: copies share seven in the mean
CROWD = 50  # texts with one hash of which all pairs are compared; in larger groups each with the next ones


def sketch(texts: pl.Series) -> tuple[NDArray[np.int32], NDArray[np.uint64]]:
    """Return how many words each text has, and the hashes that stand for its runs of five words."""
    ends = np.cumsum(texts.str.len_bytes().to_numpy().astype(np.int64) + 1) - 1
    words, starts = kernel.word_hashes(np.frombuffer(to_lines(texts), np.uint8), ends)
    return np.diff(starts).astype(np.int32), kernel.sketches(words, starts)


def copy_groups(
    words: NDArray[np.int32], sketches: NDArray[np.uint64], texts_of: Callable[[NDArray[np.int64]], pl.Series]
) -> NDArray[np.int64]:
    """Group texts that are copies: the first row of the group, or the text's own row.

    Texts are copies if they share nine tenths of their runs of five words. Texts of fewer than twenty words are not
    judged.

    Args:
        words: How many words each text has.
        sketches: As `sketch` returns them.
        texts_of: Returns the texts of rows.

    >>> texts = pl.Series([" ".join(f"w{k}" for k in range(60)), "Nice.", " ".join(f"w{k}" for k in range(59))])
    >>> copy_groups(*sketch(texts), lambda rows: texts.gather(rows)).tolist()
    [0, 1, 0]
    """
    group = np.arange(len(words))
    pairs = _candidates(words, sketches)
    rows, place = np.unique(pairs, return_inverse=True)
    if not len(rows):
        return group
    texts = texts_of(rows)
    ends = np.cumsum(texts.str.len_bytes().to_numpy().astype(np.int64) + 1) - 1
    hashes, starts = kernel.word_hashes(np.frombuffer(to_lines(texts), np.uint8), ends)
    runs = [kernel.run_hashes(hashes[start:stop]) for start, stop in pairwise(starts)]
    for a, b in place.reshape(-1, 2):
        if kernel.shared_runs(runs[a], runs[b]) >= SHARE * max(len(runs[a]), len(runs[b])):
            _join(group, int(rows[a]), int(rows[b]))
    return np.array([_first(group, row) for row in range(len(group))])


def _candidates(words: NDArray[np.int32], sketches: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Find pairs of texts that share hashes of their sketches, each pair once, as rows of two."""
    long = np.flatnonzero(words >= LEAST)
    key = words[long].astype(np.uint64)  # of a text's own: the order of the rows decides nothing
    for column in sketches[long].T:
        key = (key ^ column) * kernel.MIX
    every = {
        "row": np.repeat(long, kernel.SKETCH),
        "key": np.repeat(key, kernel.SKETCH),
        "hash": sketches[long].ravel(),
    }
    table = pl.DataFrame(every).filter(pl.col("hash") != int(kernel.NONE)).filter(pl.len().over("hash") > 1)
    table = table.sort("hash", "key", "row").drop("key")
    numbered = table.with_columns(place=pl.int_range(pl.len()).over("hash"), size=pl.len().over("hash"))
    few = numbered.filter(pl.col("size") <= CROWD)
    pairs = few.join(few, on="hash", suffix="_other").filter(pl.col("row") < pl.col("row_other"))
    shared = pairs.group_by("row", "row_other").len().filter(pl.col("len") >= NEEDED).select("row", "row_other")
    many = numbered.filter(pl.col("size") > CROWD)
    ahead = many.with_columns(row_other=pl.col("row").shift(-1).over("hash")).drop_nulls("row_other")
    ahead = ahead.select(
        pl.min_horizontal("row", "row_other"), pl.max_horizontal("row", "row_other").alias("row_other")
    )
    both = pl.concat([shared, ahead]).unique().sort("row", "row_other")
    return both.to_numpy().astype(np.int64).reshape(-1, 2)


def _first(group: NDArray[np.int64], row: int) -> int:
    """Return the first row of a row's group."""
    while group[row] != row:
        group[row] = group[group[row]]
        row = int(group[row])
    return row


def _join(group: NDArray[np.int64], one: int, other: int) -> None:
    """Make two groups one."""
    first, second = sorted((_first(group, one), _first(group, other)))
    group[second] = first
