"""Wordings: sentences with the same set of shingles, how often each is said, and groups of nearly equal ones."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.mining._jaccard import near_pairs, rarest_first, star_groups
from whyrank.mining.sentences import Cutter, Spool

Ints = NDArray[np.int64]


class Wordings(NamedTuple):
    """Distinct keys in ascending order; a wording is known by its place here."""

    keys: NDArray[np.uint64]
    counts: Ints  # reviews that say it
    first: Ints  # number of its first sentence
    sizes: NDArray[np.int32]  # distinct shingles

    def take(self, places: NDArray[np.integer] | NDArray[np.bool_]) -> Wordings:
        return Wordings(self.keys[places], self.counts[places], self.first[places], self.sizes[places])


class Pairs(NamedTuple):
    """Pairs of wordings (by place) that are similar enough, each once."""

    left: Ints
    right: Ints

    def among(self, kept: NDArray[np.bool_]) -> Pairs:
        """The pairs of kept wordings, under the places they have among the kept ones."""
        both = kept[self.left] & kept[self.right]
        place = np.cumsum(kept) - 1
        return Pairs(place[self.left[both]], place[self.right[both]])


def count_wordings(spool: Spool) -> Wordings:
    """Count the sentences of the spool by key, block by block: memory follows the distinct ones."""
    merged: Wordings | None = None
    for block in spool.blocks():
        keys, first, counts = np.unique(spool.keys[block], return_index=True, return_counts=True)
        sizes = spool.sizes[block][first]
        part = Wordings(keys, counts, first + block.start, sizes)
        merged = part if merged is None else merge_wordings(merged, part)
    if merged is not None and spool.known:  # nobody says the wordings of an earlier pool in these reviews
        np.subtract.at(merged.counts, np.searchsorted(merged.keys, spool.keys[: spool.known]), 1)
    empty = np.empty(0, np.int64)
    return merged or Wordings(empty.astype(np.uint64), empty, empty, empty.astype(np.int32))


def merge_wordings(old: Wordings, new: Wordings) -> Wordings:
    keys, first, inverse = np.unique(np.concatenate([old.keys, new.keys]), return_index=True, return_inverse=True)
    counts = np.bincount(inverse, weights=np.concatenate([old.counts, new.counts])).astype(np.int64)
    firsts, sizes = np.concatenate([old.first, new.first]), np.concatenate([old.sizes, new.sizes])
    return Wordings(keys, counts, firsts[first], sizes[first])


def smallest_near(similarity: float) -> int:
    """The least size of a set that another, different set can come near to.

    Sets of n and n + 1 elements have a Jaccard similarity of at most n / (n + 1): at 0.9 sets of fewer than nine
    shingles are near only when they are equal, which equal keys have already found.
    """
    if similarity >= 1:
        return np.iinfo(np.int32).max
    return max(1, int(np.ceil(similarity / (1 - similarity) - 1e-6)))


def find_pairs(spool: Spool, cutter: Cutter, wordings: Wordings) -> Pairs:
    """All pairs of different wordings whose shingle sets have at least the rules' Jaccard similarity."""
    large = np.flatnonzero(can_be_near(wordings, cutter.rules.similarity))
    large = large[np.argsort(wordings.sizes[large], kind="stable")]  # as the join needs them
    first = wordings.first[large]
    rows = cutter.shingles(spool.text, spool.starts[first], spool.lengths[first])
    left, right = near_rows(*rows, float(cutter.rules.similarity))
    return Pairs(large[left], large[right])


def can_be_near(wordings: Wordings, similarity: float) -> NDArray[np.bool_]:
    """The wordings that another one can come near to."""
    return wordings.sizes >= smallest_near(float(similarity))


def near_rows(indptr: Ints, hashes: NDArray[np.uint64], similarity: float) -> tuple[Ints, Ints]:
    """The pairs of similar rows; rows are sets of hashes in ascending order of size."""
    return near_pairs(indptr, rarest_first(indptr, hashes), similarity)


def promising(counts: Ints, pairs: Pairs, min_count: int) -> NDArray[np.bool_]:
    """Which wordings could belong to a group that is said often enough: the rest is never tagged."""
    reach = counts.astype(np.float64)
    for one, other in ((pairs.left, pairs.right), (pairs.right, pairs.left)):
        reach += np.bincount(one, weights=counts[other], minlength=len(reach))
    center = reach >= min_count
    kept = center.copy()
    kept[pairs.left[center[pairs.right]]] = True
    kept[pairs.right[center[pairs.left]]] = True
    return kept


def group(counts: NDArray[np.integer], texts: pl.Series, pairs: Pairs) -> Ints:
    """The center of every wording (by place).

    The wording said most often becomes a center and takes all free wordings near it; then the next free one, and so
    on. Ties are broken by the normalized text, so neither the order of the reviews nor threads matter.
    """
    n = len(counts)
    one, other = np.concatenate(pairs), np.concatenate(pairs[::-1])
    order = np.argsort(one, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(one, minlength=n))]).astype(np.int64)
    ranks = pl.DataFrame({"count": counts, "text": texts}).select(
        pl.arg_sort_by("count", "text", descending=[True, False])
    )
    return star_groups(indptr, other[order].astype(np.int64), ranks.to_series().to_numpy().astype(np.int64))
