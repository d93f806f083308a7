"""The miner's join of near-duplicates in stages of files: signature, band, verify, union.

Two sets that are similar enough have one of their rarest few elements in common (see `kernels.jaccard`). So a wording
goes to the bands of its rarest shingles, every band compares what came to it, and pairs that several bands found are
made one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whyrank.atomic import new_file
from whyrank.kernels.jaccard import SLACK
from whyrank.mining.groups import Pairs, Wordings, near_rows, promising

Arrays = dict[str, NDArray[Any]]
Keys = NDArray[np.uint64]
BUCKETS = 1 << 16  # how often shingles are used is counted by so many of their bits
SPREAD, HALF = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)


def write_arrays(path: Path, arrays: Arrays) -> None:
    with new_file(path) as aside, aside.open("wb") as handle:
        np.savez(handle, **arrays)  # type: ignore[arg-type]  # names are ours


def read_arrays(path: Path) -> Arrays:
    with np.load(path, allow_pickle=False) as stored:
        return dict(stored)


def write_signatures(
    folder: Path, place: int, wordings: Wordings, indptr: NDArray[np.int64], hashes: NDArray[np.uint64]
) -> None:
    """Sets of shingles of wordings, and how often shingles are used."""
    used = np.bincount((hashes % np.uint64(BUCKETS)).astype(np.int64), minlength=BUCKETS)
    arrays: Arrays = {"keys": wordings.keys, "counts": wordings.counts, "indptr": indptr, "hashes": hashes}
    write_arrays(folder / f"signatures-{place:05d}.npz", arrays)
    write_arrays(folder / f"used-{place:05d}.npz", {"used": used})


def send_to_bands(folder: Path, place: int, ranges: int, similarity: float) -> None:
    """Every wording of a range to the bands of its rarest shingles; there are as many bands as ranges."""
    found = read_arrays(folder / f"signatures-{place:05d}.npz")
    indptr, hashes = found["indptr"].astype(np.int64), found["hashes"].astype(np.uint64)
    used = np.sum([read_arrays(folder / f"used-{number:05d}.npz")["used"] for number in range(ranges)], axis=0)
    sizes = np.diff(indptr)
    row = np.repeat(np.arange(len(sizes)), sizes)
    order = np.lexsort((hashes, used[hashes % np.uint64(BUCKETS)], row))
    rarest = np.arange(len(hashes)) - indptr[row] <= (sizes - np.ceil(similarity * sizes - SLACK))[row]
    band = ((hashes[order][rarest] * SPREAD) >> HALF) % np.uint64(ranges)
    for number in range(ranges):
        rows = np.unique(row[rarest][band == number])
        entries = np.isin(row, rows)
        write_arrays(
            folder / f"band-{number:05d}-{place:05d}.npz",
            {
                "keys": found["keys"][rows],
                "counts": found["counts"][rows],
                "sizes": sizes[rows],
                "hashes": hashes[entries],
            },
        )


def join_band(folder: Path, band: int, ranges: int, similarity: float) -> None:
    """Write the pairs of a band that are similar enough, with how often each of the two is said."""
    parts = [read_arrays(folder / f"band-{band:05d}-{place:05d}.npz") for place in range(ranges)]
    keys, counts, sizes, hashes = (np.concatenate([part[name] for part in parts]) for name in parts[0])
    order = np.argsort(sizes, kind="stable")  # as the join needs them
    starts, ordered = np.cumsum(sizes) - sizes, sizes[order]
    indptr = np.concatenate([[0], np.cumsum(ordered)]).astype(np.int64)
    entries = np.arange(indptr[-1]) + np.repeat(starts[order] - indptr[:-1], ordered)
    one, other = (order[rows] for rows in near_rows(indptr, hashes[entries].astype(np.uint64), similarity))
    pairs = {"left": keys[one], "right": keys[other], "left_count": counts[one], "right_count": counts[other]}
    write_arrays(folder / f"pairs-{band:05d}.npz", pairs)


def unite(folder: Path, ranges: int, min_count: int) -> None:
    """Write the pairs of all bands, each once, and which wordings in them can be part of a group said often enough."""
    parts = [read_arrays(folder / f"pairs-{band:05d}.npz") for band in range(ranges)]
    left, right, left_count, right_count = (np.concatenate([part[name] for part in parts]) for name in parts[0])
    keys, first, place = np.unique(np.concatenate([left, right]), return_index=True, return_inverse=True)
    counts = np.concatenate([left_count, right_count])[first].astype(np.int64)
    ends = np.sort(place.reshape(2, -1), axis=0)
    one, other = np.unique(ends, axis=1)
    kept = promising(counts, Pairs(one, other), min_count)
    write_arrays(folder / "near.npz", {"keys": keys, "kept": kept, "left": keys[one], "right": keys[other]})


def kept_of(folder: Path, wordings: Wordings, min_count: int) -> NDArray[np.bool_]:
    """Which wordings can be part of a group that is said often enough."""
    near = read_arrays(folder / "near.npz")
    kept = wordings.counts >= min_count
    _, mine, theirs = np.intersect1d(wordings.keys, near["keys"], assume_unique=True, return_indices=True)
    kept[mine] = near["kept"][theirs]
    return kept


def near_keys(folder: Path) -> tuple[Keys, Keys]:
    """All pairs, by key."""
    near = read_arrays(folder / "near.npz")
    return near["left"].astype(np.uint64), near["right"].astype(np.uint64)
