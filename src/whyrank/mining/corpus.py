"""Everything that was found in the reviews: opinions, counts of nouns, words. Parts of it can be written and joined."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl

from whyrank.mining.opinions import PHRASE, Found, Mentions


@dataclass
class Corpus:
    """Everything that was found in the reviews."""

    reviews: list[pl.DataFrame] = field(default_factory=list)
    mentions: list[pl.DataFrame] = field(default_factory=list)
    nouns: dict[int, list[int]] = field(
        default_factory=dict
    )  # hash: how often, with a capital, behind `this`, as what an item is
    texts: dict[int, str] = field(default_factory=dict)  # hash: word
    size: int = 0  # reviews
    length: int = 0  # bytes of their texts

    def add(self, found: Found) -> None:
        """Take in one table's findings; its text follows those before it."""
        self.reviews.append(found.table.with_columns(foreign=pl.Series(found.foreign)))
        self.mentions.append(_frame(found.mentions, self.size, self.length))
        for h, count, capital in zip(*(each.tolist() for each in found.capitals), strict=True):
            self._count(h, (count, capital, 0, 0))
        for h, count in zip(*(each.tolist() for each in found.pointed), strict=True):
            self._count(h, (0, 0, count, 0))
        for h, count in zip(*(each.tolist() for each in found.kinds), strict=True):
            self._count(h, (0, 0, 0, count))
        self.size += found.table.height
        self.length += len(found.text)

    def _count(self, noun: int, counts: Iterable[int]) -> None:
        entry = self.nouns.setdefault(noun, [0, 0, 0, 0])
        for place, count in enumerate(counts):
            entry[place] += count

    def write(self, folder: Path) -> None:
        """Write everything but the texts of the reviews into a folder."""
        pl.concat(self.reviews).write_ipc(folder / "reviews.arrow")
        pl.concat(self.mentions).write_ipc(folder / "mentions.arrow")
        hashes = list(self.nouns)
        counts = np.array([self.nouns[h] for h in hashes], np.int64).reshape(-1, 4)
        words = pl.DataFrame(
            {"hash": list(self.texts), "text": list(self.texts.values())}, {"hash": pl.UInt64, "text": pl.String}
        )
        words.write_ipc(folder / "words.arrow")
        np.savez(folder / "nouns.npz", hashes=np.array(hashes, np.uint64), counts=counts, length=self.length)

    def append(self, folder: Path) -> None:
        """Take in what `write` wrote, behind what is there."""
        reviews = pl.read_ipc(folder / "reviews.arrow")
        mentions = pl.read_ipc(folder / "mentions.arrow")
        stored = np.load(folder / "nouns.npz", allow_pickle=False)
        self.reviews.append(reviews)
        self.mentions.append(mentions.with_columns(pl.col("review") + self.size, pl.col("start") + self.length))
        for noun, counts in zip(stored["hashes"].tolist(), stored["counts"].tolist(), strict=True):
            self._count(noun, counts)
        self.texts.update(pl.read_ipc(folder / "words.arrow").iter_rows())
        self.size += reviews.height
        self.length += int(stored["length"])


def _frame(mentions: Mentions, first: int, offset: int) -> pl.DataFrame:
    columns = {f"a{k}": mentions.aspect[:, k] for k in range(PHRASE)}
    return pl.DataFrame(
        {
            "review": mentions.review + np.int32(first),
            **columns,
            "modifier": mentions.modifier,
            "inner": mentions.inner,
            "opinion": mentions.opinion,
            "adverb": mentions.adverb,
            "sign": mentions.sign,
            "rule": mentions.rule,
            "verbal": mentions.verbal,
            "whole": mentions.whole,
            "alone": mentions.alone,
            "capital": mentions.capital,
            "start": mentions.start + offset,
            "length": mentions.length,
        }
    )
