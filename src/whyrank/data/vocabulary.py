"""External ids and their internal numbers."""

from __future__ import annotations

import difflib
import hashlib
from bisect import bisect_left
from collections.abc import Iterable
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.errors import DataError, UnknownId

NEAR = 1000  # ids that are compared with an unknown one
ALIKE = 0.6  # from this likeness on, an id is suggested instead of an unknown one
LONG = 100  # characters of it that are
RECENT = 50_000  # ids whose numbers are remembered when they were looked up one by one
FEW = 64  # up to here a walk down the sorted ids beats a vectorized search


class Vocabulary:
    """A frozen list of external ids; the number of an id is its place.

    A new vocabulary is sorted, so the numbering is a function of the set of ids and of nothing else. `grown` appends,
    so that numbers handed out before stay valid.

    >>> items = Vocabulary.of(["b", "a", "b"])
    >>> items.numbers(["b", "zz"], missing="negative").tolist()
    [1, -1]
    """

    __slots__ = ("_order", "_recent", "_sorted", "ids", "kind")

    def __init__(self, ids: pl.Series, kind: str = "id") -> None:
        self.ids = ids
        self.kind = kind
        self._recent: dict[str, int] = {}
        ordered = ids.is_sorted()
        self._order = None if ordered else ids.arg_sort()
        self._sorted = ids if self._order is None else ids.gather(self._order)

    @classmethod
    def of(cls, ids: Iterable[object] | pl.Series, kind: str = "id") -> Vocabulary:
        """The vocabulary of all ids that occur in `ids`, sorted."""
        series = ids if isinstance(ids, pl.Series) else pl.Series([str(each) for each in ids], dtype=pl.String)
        return cls(series.cast(pl.String).unique().sort().rename(kind), kind)

    def __len__(self) -> int:
        return len(self.ids)

    def __contains__(self, term: object) -> bool:
        return isinstance(term, str) and self._find(term) >= 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and len(self) == len(other) and self.ids.equals(other.ids)

    def __repr__(self) -> str:
        return f"Vocabulary({len(self):,} {self.kind}s)"

    def intern(self, terms: pl.Series) -> NDArray[np.int32]:
        """Numbers of many terms that are known to be in the vocabulary: one hash pass."""
        return terms.cast(pl.Enum(self.ids)).to_physical().to_numpy().astype(np.int32)

    def number(self, term: object) -> int:
        """The number of one id; raises UnknownId."""
        return int(self.numbers([term])[0])

    def numbers(
        self, terms: Iterable[object] | pl.Series, missing: Literal["error", "negative"] = "error"
    ) -> NDArray[np.int32]:
        """Numbers of the given ids; unknown ones raise UnknownId or become -1."""
        if isinstance(terms, list) and len(terms) <= FEW:  # no detour through a column for single look-ups
            asked: list[str | None] | pl.Series = [None if term is None else str(term) for term in terms]
        else:
            series = _as_strings(terms)
            asked = series.to_list() if len(series) <= FEW else series
        found = self._many(asked) if isinstance(asked, pl.Series) else self._few(asked)
        if missing == "error" and len(found) and found.min() < 0:
            self._raise_unknown(asked[int(np.argmin(found))])
        return found

    def terms(self, numbers: NDArray[np.integer]) -> pl.Series:
        """The ids behind the given numbers."""
        return self.ids.gather(numbers)

    def grown(self, terms: Iterable[object] | pl.Series) -> Vocabulary:
        """This vocabulary with unseen ids appended (sorted among themselves)."""
        series = _as_strings(terms).unique().sort()
        fresh = series.filter(pl.Series(self.numbers(series, missing="negative") < 0))
        return Vocabulary(pl.concat([self.ids, fresh.rename(self.ids.name)]), self.kind)

    def digest(self) -> str:
        """SHA-256 of the ids in order; equal vocabularies have equal digests."""
        hasher = hashlib.sha256()
        feed_ids(hasher, self.ids)
        return hasher.hexdigest()

    def nearest(self, term: object, n: int = 3) -> list[str]:
        """Known ids that look most like `term`, for error messages."""
        text = str(term).strip()[:LONG]
        if len(self) > NEAR:  # comparing all would take seconds: look among the sorted neighbours only
            at = int(self._sorted.search_sorted(text))
            pool = self._sorted.slice(max(0, at - NEAR // 2), NEAR).to_list()
        else:
            pool = self._sorted.to_list()
        matcher = difflib.SequenceMatcher(b=text)
        near = []
        for each in pool:
            matcher.set_seq1(each)
            if matcher.real_quick_ratio() >= ALIKE and matcher.quick_ratio() >= ALIKE and matcher.ratio() >= ALIKE:
                # Among equals, a typing error at the end is likelier than one at the beginning.
                near.append((-matcher.ratio(), -_same_beginning(text, each), each))
        return [each for *_, each in sorted(near)[:n]]

    def _few(self, terms: list[str | None]) -> NDArray[np.int32]:
        return np.array([-1 if term is None else self._find(term) for term in terms], np.int32)

    def _find(self, term: str) -> int:
        known = self._recent.get(term)
        if known is not None:
            return known
        at = bisect_left(self._sorted, term)
        if at == len(self._sorted) or self._sorted[at] != term:
            return -1
        number = at if self._order is None else int(self._order[at])
        if len(self._recent) >= RECENT:
            self._recent.clear()
        self._recent[term] = number
        return number

    def _many(self, terms: pl.Series) -> NDArray[np.int32]:
        if not len(self):
            return np.full(len(terms), -1, np.int32)
        places = self._sorted.search_sorted(terms).to_numpy().astype(np.int64)
        places = np.minimum(places, len(self) - 1)
        hit = (self._sorted.gather(places) == terms).fill_null(False).to_numpy()
        numbers = places if self._order is None else self._order.to_numpy()[places]
        return np.where(hit, numbers.astype(np.int32), np.int32(-1))  # numbers of polars have no sign

    def _raise_unknown(self, term: object) -> None:
        raise UnknownId(self.kind, term, self.nearest(term))


def _same_beginning(one: str, other: str) -> int:
    """How many characters two texts have in common before they differ."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def feed_ids(hasher: hashlib._Hash | hashlib.blake2b, ids: pl.Series) -> None:
    """Ids into a digest, each after its length."""
    for start in range(0, len(ids), 1 << 16):
        for term in ids.slice(start, 1 << 16).to_list():
            encoded = term.encode()
            hasher.update(len(encoded).to_bytes(4, "little"))
            hasher.update(encoded)


def _as_strings(terms: Iterable[object] | pl.Series) -> pl.Series:
    if isinstance(terms, pl.Series):
        return terms.cast(pl.String)
    if isinstance(terms, str):
        raise DataError(f"expected several ids, got the single text {terms!r}")
    return pl.Series([None if each is None else str(each) for each in terms], dtype=pl.String)
