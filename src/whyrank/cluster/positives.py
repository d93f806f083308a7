"""A pass's positives on their way: from the parts of a data set to an epoch's shards of rows, sorted into blocks."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from whyrank.cluster.dataset import Dataset, Side, changes, relation
from whyrank.cluster.partitions import Cut, in_order
from whyrank.cluster.session import Cluster, Reference
from whyrank.cluster.store import Arrays
from whyrank.data.csr import CSR
from whyrank.kernels.negatives import build_filters
from whyrank.kernels.rng import key_of
from whyrank.kernels.shards import Sorting, count_blocks, fill_blocks, run_positions
from whyrank.kernels.start import draw_one_per_run
from whyrank.training.loop import RECORD_DOMAIN
from whyrank.training.passes import PairwisePass, Pass

KINDS = ("user", "item", "explanation")
EVERYTHING = np.zeros(1, np.int32)  # one group: the rows of a shard


def kind_of(table: str) -> str:
    """Whose rows a table has; tables are named after them."""
    return next(kind for kind in KINDS if table.startswith(kind))


@dataclass(frozen=True)
class Columns:
    """What a pass takes of the data: the kind of its rows and of the columns of its blocks, one or two."""

    rows: Side
    columns: tuple[str, ...]

    @classmethod
    def of(cls, one: Pass) -> Columns:
        kinds = [kind_of(name) for name in one.tables]
        columns = kinds[1:2] if isinstance(one, PairwisePass) else ["item", "explanation"]
        return cls(kinds[0], tuple(columns))  # type: ignore[arg-type]

    @property
    def three_way(self) -> bool:
        return len(self.columns) > 1


def read_part(data: Dataset, take: Columns, number: int) -> Arrays:
    """A part as a pass needs it: rows, columns, records; of two-way passes also what each row knows."""
    part, limits = data.part(take.rows, number), data.bounds(take.rows)
    found = {"row": part[take.rows], "record": part["record"], "column": part[take.columns[0]]}
    if take.three_way:
        return found | {"other": part[take.columns[1]]}
    width = len({"item": data.items, "explanation": data.explanations}[take.columns[0]])
    first, end = limits[number : number + 2]
    known = relation(part, take.rows, take.columns[0], first, end - first, width)
    return found | {"known_row": known.rows_of_entries() + np.int32(first), "known_column": known.indices}


def sort_pass(
    cluster: Cluster, parts: list[Reference], take: Columns, cuts: tuple[Cut, ...], by_record: bool
) -> list[Reference]:
    """For every shard of rows of this epoch its positives, sorted into blocks; `cuts` are of rows and columns."""
    shards = cuts[0].shards
    pieces = [cluster.submit_many(shards, scatter, part, take, cuts[0], by_record) for part in parts]
    return [cluster.submit(collect, take, cuts, shard, *(piece[shard] for piece in pieces)) for shard in range(shards)]


def scatter(part: Arrays, take: Columns, cut: Cut, by_record: bool) -> list[Arrays] | Arrays:
    """A part's positives by the shard that their rows go to, row by row in its order."""
    active = np.ones(len(part["row"]), np.bool_)
    if by_record:
        active = draw_one_per_run(part["record"], key_of(cut.seed, RECORD_DOMAIN, cut.epoch))
    if take.three_way:
        entries = {name: part[name] for name in ("column", "other", "record")} | {"active": active}
        pieces = _by_shard(part["row"], entries, cut)
    else:
        pieces = _by_shard(part["row"][active], {"column": part["column"][active]}, cut)
        known = _by_shard(part["known_row"], {"column": part["known_column"]}, cut)
        for piece, knows in zip(pieces, known, strict=True):
            piece.update({f"known_{name}": array for name, array in knows.items()})
    return pieces if cut.shards > 1 else pieces[0]


def _by_shard(rows: NDArray[np.int32], columns: Arrays, cut: Cut) -> list[Arrays]:
    """Entries with their rows side by side, by shard; whole rows move, so that rows are sorted and not entries."""
    starts = np.flatnonzero(changes(rows))
    sizes = np.diff(starts, append=len(rows))
    to, place = cut.locate(rows[starts])
    order = in_order(to, place)
    counts, firsts = sizes[order], starts[order]
    entries = np.arange(len(rows)) + np.repeat(firsts - (np.cumsum(counts) - counts), counts)
    ends = [0, *np.cumsum(np.bincount(to, sizes, cut.shards)).astype(np.int64).tolist()]
    arrays = {"row": np.repeat(place[order], counts)} | {name: array[entries] for name, array in columns.items()}
    return [{name: array[start:end].copy() for name, array in arrays.items()} for start, end in pairwise(ends)]


def collect(take: Columns, cuts: tuple[Cut, ...], shard: int, *pieces: Arrays) -> Arrays:
    """The positives of a shard of rows in blocks, with local numbers; and what rows (or records) know."""
    rows = len(cuts[0].pool(shard))
    if take.three_way:
        return _three_way(cuts, _joined(pieces, ("row", "column", "other", "record", "active"), rows)[0])
    entries, _ = _joined(pieces, ("row", "column"), rows)
    known, indptr = _joined(pieces, ("known_row", "known_column"), rows)
    to, place = cuts[1].locate(entries["column"])
    offsets, block_rows, order = _blocks(entries["row"], (to,), cuts[0].shards, np.empty(0, np.bool_))
    sorted_: Arrays = {"offsets": offsets, "rows": block_rows, "columns": place[order]}
    return sorted_ | _known(indptr, known["known_column"])


def _three_way(cuts: tuple[Cut, ...], entries: Arrays) -> Arrays:
    (item_shard, item), (other_shard, other) = (
        cut.locate(entries[name]) for cut, name in zip(cuts[1:], ("column", "other"), strict=True)
    )
    active = np.empty(0, np.bool_) if entries["active"].all() else entries["active"]
    offsets, _, order = _blocks(entries["row"], (item_shard, other_shard), cuts[0].shards, active)
    indptr = np.append(np.flatnonzero(changes(entries["record"])), len(item)).astype(np.int64)
    pair_of = entries["row"][indptr[:-1]] * np.int64(cuts[1].rows) + entries["column"][indptr[:-1]]
    pairs, place = np.unique(pair_of, return_inverse=True)
    several = len(pairs) < len(place)  # records of a pair share what they know
    of_entries = np.repeat(place if several else np.arange(len(place)), np.diff(indptr)).astype(np.int32)
    known = entries["other"]
    if several:
        indptr, known, _ = CSR.from_pairs(of_entries, known, len(pairs), cuts[2].rows)
    numbered: Arrays = {"user": entries["row"], "item": item, "explanation": other, "record": of_entries}
    return numbered | {"offsets": offsets, "chosen": order} | _known(indptr, known)


def _joined(pieces: tuple[Arrays, ...], names: tuple[str, ...], rows: int) -> tuple[Arrays, NDArray[np.int64]]:
    """Pieces put together by row, the first of the names; and where each row starts."""
    counts = np.zeros(rows + 1, np.int64)
    for piece in pieces:
        counts[1:] += np.bincount(piece[names[0]], minlength=rows)
    indptr = np.cumsum(counts)
    arrays = {name: np.empty(indptr[-1], pieces[0][name].dtype) for name in names}
    for piece in pieces:
        at = run_positions(piece[names[0]], indptr)
        for name in names:
            arrays[name][at] = piece[name]
    return arrays, indptr


def _blocks(
    rows: NDArray[np.int32], shards_of: tuple[NDArray[np.uint8], ...], shards: int, active: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
    """The engine's sorting of one shard's entries: where blocks start, and the row and number of each entry."""
    entries = np.arange(len(rows), dtype=np.int32)
    others, other_shards = (entries, shards_of[1]) if len(shards_of) > 1 else (entries[:0], shards_of[0][:0])
    starts = np.array([0, len(rows)], np.int64)
    work = Sorting(starts, rows, entries, shards_of[0], others, other_shards, shards, active)
    counts = np.zeros(shards ** len(shards_of), np.int64)
    count_blocks(counts, EVERYTHING, work)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    block_rows, order = np.empty((2, offsets[-1]), np.int32)
    fill_blocks(offsets[:-1].copy(), block_rows, order, EVERYTHING, work)
    return offsets, block_rows, order


def _known(indptr: NDArray[np.int64], columns: NDArray[np.int32]) -> Arrays:
    known = CSR(indptr, columns, columns)
    return {"filters": build_filters(known.indptr, known.indices), "indptr": known.indptr, "indices": known.indices}
