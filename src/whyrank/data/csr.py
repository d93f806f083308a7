"""Compressed rows of sorted column numbers: the one shape in which relations are looked up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class CSR(NamedTuple):
    """Row number -> sorted column numbers without repeats, and how often each stood there.

    >>> csr = CSR.from_pairs(np.array([1, 0, 1, 1]), np.array([2, 0, 0, 2]), rows=2, columns=3)
    >>> csr.row(1).tolist(), csr.counts[csr.indptr[1]:].tolist()
    ([0, 2], [1, 2])
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    counts: NDArray[np.int32]

    @classmethod
    def from_pairs(cls, rows_of: NDArray[np.integer], columns_of: NDArray[np.integer], rows: int, columns: int) -> CSR:
        """Group pairs (row, column), in any order and with repeats, into sorted rows."""
        keys = rows_of.astype(np.int64) * columns + columns_of
        keys.sort()
        first = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]])) if len(keys) else keys
        counts = np.diff(first, append=len(keys)).astype(np.int32)
        keys = keys[first]
        row, column = np.divmod(keys, max(columns, 1))
        indptr = np.zeros(rows + 1, np.int64)
        np.cumsum(np.bincount(row, minlength=rows), out=indptr[1:])
        return cls(indptr, column.astype(np.int32), counts)

    @classmethod
    def empty(cls, rows: int) -> CSR:
        """A relation without entries."""
        return cls(np.zeros(rows + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.int32))

    @property
    def rows(self) -> int:
        return len(self.indptr) - 1

    def row(self, number: int) -> NDArray[np.int32]:
        """The columns of one row."""
        return self.indices[self.indptr[number] : self.indptr[number + 1]]

    def sizes(self) -> NDArray[np.int64]:
        """How many columns each row has."""
        return np.diff(self.indptr)

    def rows_of_entries(self) -> NDArray[np.int32]:
        """The row number of every entry, in order."""
        return np.repeat(np.arange(self.rows, dtype=np.int32), self.sizes())

    def holds(self, rows: NDArray[np.integer], columns: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Which of the pairs (row, column) are there."""
        width = np.int64(max(self.indices.max(initial=0), columns.max(initial=0)) + 1)
        there = self.rows_of_entries() * width + self.indices  # rises
        wanted = rows.astype(np.int64) * width + columns
        place = np.minimum(np.searchsorted(there, wanted), max(len(there) - 1, 0))
        return there[place] == wanted if len(there) else np.zeros(len(wanted), np.bool_)

    def take(self, rows: NDArray[np.integer]) -> CSR:
        """The given rows, in the given order, as a CSR of their own."""
        starts, sizes = self.indptr[rows], self.indptr[rows + 1] - self.indptr[rows]
        indptr = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(sizes, out=indptr[1:])
        entries = np.arange(indptr[-1]) + np.repeat(starts - indptr[:-1], sizes)
        return CSR(indptr, self.indices[entries], self.counts[entries])


def checked_csr(arrays: Mapping[str, NDArray[np.generic]], name: str, rows: int, columns: int) -> CSR:
    """A saved relation; compiled code follows its numbers without looking, so they are looked at here."""
    indptr = checked_array(arrays, f"{name}.indptr", np.int64, rows + 1)
    indices = checked_array(arrays, f"{name}.indices", np.int32)
    counts = checked_array(arrays, f"{name}.counts", np.int32, len(indices))
    if indptr[0] != 0 or indptr[-1] != len(indices) or (np.diff(indptr) < 0).any():
        raise ValueError(f"the rows of {name} do not follow each other")
    if len(indices) and not 0 <= indices.min() <= indices.max() < columns:
        raise ValueError(f"{name} names a number that does not exist")
    if len(counts) and counts.min() < 0:
        raise ValueError(f"{name} counts less than nothing")
    return CSR(indptr, indices, counts)


def checked_array(arrays: Mapping[str, NDArray[np.generic]], name: str, kind: type, size: int | None = None) -> Any:
    """A saved array of one dimension, of the kind and size that it must have."""
    array = arrays[name]
    if array.dtype != kind or array.ndim != 1 or size not in (None, len(array)):
        raise ValueError(f"{name} has the wrong size or type")
    return array
