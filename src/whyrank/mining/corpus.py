"""Everything that was read in the reviews: their parse, word by word. Parts of it can be written and joined."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.mining.clean import clean_texts, digests
from whyrank.mining.copies import sketch
from whyrank.mining.mentions import LABELS, Sentences
from whyrank.mining.parse import LABELS as PARSED
from whyrank.mining.parse import load
from whyrank.mining.rules import MiningRules

TO_LABELS = np.array([LABELS.index(name) for name in PARSED], np.int8)
ARRAYS = ("word", "capital", "tag", "label", "head", "start", "end", "sentences", "reviews")


class ParsedReviews(NamedTuple):
    """The parse of some reviews; words, sentences and reviews count from 0 in each block."""

    word: NDArray[np.int32]  # number in the vocabulary
    capital: NDArray[np.bool_]
    tag: NDArray[np.int8]
    label: NDArray[np.int8]
    head: NDArray[np.int32]
    start: NDArray[np.int32]  # of characters of the review's text
    end: NDArray[np.int32]
    sentences: NDArray[np.int32]  # the first word of each, and how many words there are
    reviews: NDArray[np.int32]  # the first sentence of each, and how many there are


@dataclass
class Corpus:
    """Everything that was read in the reviews."""

    reviews: list[pl.DataFrame] = field(default_factory=list)  # user, item, rating, time, source, text, copy, words ...
    blocks: list[ParsedReviews] = field(default_factory=list)
    vocabulary: dict[str, int] = field(default_factory=dict)
    size: int = 0  # reviews

    def read(self, table: pl.DataFrame, rules: MiningRules, common: frozenset[str], threads: int | None) -> None:
        """Parse one table of reviews (user, item, title, text, rating, time, source)."""
        whole = pl.concat_str("title", "text", separator="\n") if rules.review_titles else pl.col("text")
        texts = clean_texts(table.select(whole.str.strip_chars()).to_series())
        block, words, frequent = self._parse(texts, common, threads)
        long = words >= rules.english_words
        count, sketches = sketch(texts)
        self.blocks.append(block)
        self.reviews.append(
            table.select("user", "item", "rating", "time", "source").with_columns(
                text=texts,
                copy=digests(texts),
                words=pl.Series(count),
                sketch=pl.Series(sketches, dtype=pl.Array(pl.UInt64, sketches.shape[1])),
                foreign=pl.Series(long & (frequent < rules.english * words)),
            )
        )
        self.size += table.height

    def _parse(
        self, texts: pl.Series, common: frozenset[str], threads: int | None
    ) -> tuple[ParsedReviews, NDArray[np.int64], NDArray[np.int64]]:
        """Parse texts; return how many words each has, too, and how many of these are frequent in the language."""
        numbers = self.vocabulary
        parts: list[list[NDArray[np.generic]]] = [[] for _ in ARRAYS[:-2]]
        sentences, reviews = [np.zeros(1, np.int32)], [0]
        words, frequent = [], []
        total, ends = 0, 0
        for tokens, parse in load().parse_texts(texts.to_list(), threads):
            lower = [word.lower() for word in tokens.words]
            row: tuple[NDArray[Any], ...] = (
                np.array([numbers.setdefault(word, len(numbers)) for word in lower], np.int32),
                np.array([word[:1].isupper() for word in tokens.words], np.bool_),
                parse.tags,
                TO_LABELS[parse.labels],
                parse.heads.astype(np.int32) + total,
                tokens.starts,
                tokens.ends,
            )
            for place, each in zip(parts, row, strict=True):
                place.append(each)
            sentences.append(tokens.sentences[1:].astype(np.int32) + total)
            ends += len(tokens.sentences) - 1
            reviews.append(ends)
            total += len(lower)
            words.append(len(lower))
            frequent.append(sum(word in common for word in lower))
        kinds = (np.int32, np.bool_, np.int8, np.int8, np.int32, np.int32, np.int32)
        joined: list[NDArray[Any]] = [
            np.concatenate([np.zeros(0, kind), *part]).astype(kind) for part, kind in zip(parts, kinds, strict=True)
        ]
        block = ParsedReviews._make([*joined, np.concatenate(sentences), np.array(reviews, np.int32)])
        return block, np.array(words, np.int64), np.array(frequent, np.int64)

    def table(self) -> pl.DataFrame:
        """Return all reviews."""
        return pl.concat(self.reviews)

    def counting(self, counts: NDArray[np.bool_]) -> tuple[Sentences, NDArray[np.int32], NDArray[np.int32]]:
        """Return the parse of the reviews that count, and where each word begins and ends; the others have no words."""
        given, start, end = self.sentences()
        sizes = np.diff(given.reviews)
        sentences = np.repeat(counts, sizes)
        lengths = np.diff(given.starts)
        words = np.repeat(sentences, lengths)
        place = (np.cumsum(words) - 1).astype(np.int32)
        kept = Sentences(
            given.word[words],
            given.capital[words],
            given.tag[words],
            given.label[words],
            place[given.head[words]],
            np.append(0, np.cumsum(lengths[sentences])).astype(np.int32),
            np.append(0, np.cumsum(np.where(counts, sizes, 0))).astype(np.int64),
        )
        return kept, start[words], end[words]

    def sentences(self) -> tuple[Sentences, NDArray[np.int32], NDArray[np.int32]]:
        """Return the parse of all reviews, and where each word begins and ends in its review."""
        words = np.cumsum([0, *(len(block.word) for block in self.blocks)])
        counts = np.cumsum([0, *(len(block.sentences) - 1 for block in self.blocks)])

        def joined(name: str, first: NDArray[np.int64] | None = None, cut: int = 0) -> NDArray[np.generic]:
            arrays = [getattr(block, name)[: len(getattr(block, name)) - cut] for block in self.blocks]
            shifted = [each + add for each, add in zip(arrays, first, strict=False)] if first is not None else arrays
            return np.concatenate(shifted)

        given = Sentences(
            joined("word").astype(np.int32),
            joined("capital").astype(np.bool_),
            joined("tag").astype(np.int8),
            joined("label").astype(np.int8),
            joined("head", words).astype(np.int32),
            np.append(joined("sentences", words, 1), words[-1]).astype(np.int32),
            np.append(joined("reviews", counts, 1), counts[-1]).astype(np.int64),
        )
        return given, joined("start").astype(np.int32), joined("end").astype(np.int32)

    def write(self, folder: Path) -> None:
        """Write everything into a folder."""
        self.table().write_ipc(folder / "reviews.arrow")
        pl.DataFrame({"word": list(self.vocabulary)}, {"word": pl.String}).write_ipc(folder / "words.arrow")
        for number, block in enumerate(self.blocks):
            arrays: dict[str, Any] = dict(zip(ARRAYS, block, strict=True))
            np.savez(folder / f"block-{number:05d}.npz", **arrays)

    def append(self, folder: Path) -> None:
        """Take in what `write` wrote, behind what is there."""
        words = pl.read_ipc(folder / "words.arrow")["word"].to_list()
        into = np.array([self.vocabulary.setdefault(word, len(self.vocabulary)) for word in words], np.int32)
        for file in sorted(folder.glob("block-*.npz")):
            with np.load(file, allow_pickle=False) as arrays:
                block = ParsedReviews(*(arrays[name] for name in ARRAYS))
            self.blocks.append(block._replace(word=into[block.word]))
        self.reviews.append(pl.read_ipc(folder / "reviews.arrow"))
        self.size += self.reviews[-1].height
