"""A pass's positives on their way: from the parts of a data set to the shards of rows that own them during a fit."""

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
from whyrank.kernels.negatives import Known, known_of
from whyrank.kernels.shards import run_positions
from whyrank.kernels.triple import Entries
from whyrank.training.passes import Pass
from whyrank.training.shards import NOTHING, RowShard, SortedBlocks, sorted_blocks

KINDS = ("user", "item", "explanation")


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
        return cls(kind_of(one.tables[0]), tuple(kind_of(name) for name in one.column_tables))  # type: ignore[arg-type]

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


def row_shards(cluster: Cluster, parts: list[Reference], take: Columns, cut: Cut, by_record: bool) -> list[Reference]:
    """The positives of every shard of rows, for a whole fit."""
    pieces = [cluster.submit_many(cut.shards, scatter, part, take, cut) for part in parts]
    return [
        cluster.submit(collect, take, cut, by_record, shard, *(piece[shard] for piece in pieces))
        for shard in range(cut.shards)
    ]


def scatter(part: Arrays, take: Columns, cut: Cut) -> list[Arrays] | Arrays:
    """A part's positives by the shard that their rows go to, row by row in its order."""
    names = ("column", "other", "record") if take.three_way else ("column", "record")
    pieces = _by_shard(part["row"], {name: part[name] for name in names}, cut)
    if not take.three_way:
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


def collect(take: Columns, cut: Cut, by_record: bool, shard: int, *pieces: Arrays) -> RowShard:
    """The positives of a shard of rows, by their places in it; and what rows (or records) know."""
    rows = len(cut.pool(shard))
    if take.three_way:
        entries, _ = _joined(pieces, ("row", "column", "other", "record"), rows)
        other, (known_row, known) = entries["other"], _known_of_pairs(entries)
    else:
        entries, _ = _joined(pieces, ("row", "column", "record"), rows)
        knows, indptr = _joined(pieces, ("known_row", "known_column"), rows)
        other, known_row, known = NOTHING, entries["row"], known_of(indptr, knows["known_column"])
    record = entries["record"] if by_record else entries["record"][:0]
    return RowShard(entries["row"], entries["column"], other, record, known_row, known)


def _known_of_pairs(entries: Arrays) -> tuple[NDArray[np.int32], Known]:
    """What records know, and the row there of each entry; records of a pair share it."""
    indptr = np.append(np.flatnonzero(changes(entries["record"])), len(entries["row"])).astype(np.int64)
    width = np.int64(entries["column"].max(initial=0)) + 1
    pair_of = entries["row"][indptr[:-1]] * width + entries["column"][indptr[:-1]]
    pairs, place = np.unique(pair_of, return_inverse=True)
    several = len(pairs) < len(place)
    of_entries = np.repeat(place if several else np.arange(len(place)), np.diff(indptr)).astype(np.int32)
    known = entries["other"]
    if several:
        indptr, known, _ = CSR.from_pairs(of_entries, known, len(pairs), int(known.max(initial=0)) + 1)
    return of_entries, known_of(indptr, known)


def sort_shard(own: RowShard, columns: tuple[Cut, ...], seed: int, epoch: int) -> tuple[SortedBlocks, Entries, Known]:
    """A row shard's positives in an epoch's blocks, with columns by their places in their shards."""
    blocks = sorted_blocks(own, [cut.partition for cut in columns], seed, epoch)
    if len(columns) == 1:
        _, places = columns[0].locate(blocks.columns)
        return blocks._replace(columns=places), own.entries, own.known
    item, other = (cut.locate(each)[1] for cut, each in zip(columns, (own.column, own.other), strict=True))
    return blocks, Entries(own.row, item, other, own.known_row), own.known


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
