"""Reviews cut into sentences, kept on disk: text once, and per sentence a key, a place and the review it is from."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.data.columns import from_lines, to_lines
from whyrank.mining import _sentences as kernel
from whyrank.mining.clean import clean_texts
from whyrank.mining.rules import MiningRules
from whyrank.mining.words import ENGLISH

Number = TypeVar("Number", bound=np.generic)
KEPT = kernel.KEPT
CAUSES = {  # why a sentence is left out before it is counted, in the order of the kernel's codes
    kernel.SHORT: "min_words",
    kernel.LONG: "max_words",
    kernel.PERSONAL: "first_person",
    kernel.GARBLED: "garbled",
    kernel.REPEATED: "repeated",
    kernel.FOREIGN: "english",
}
BLOCK = 4_000_000  # sentences that are counted together
LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}  # as the kernel: ASCII only
WORD = re.compile(r"(?:[^\W_]|[%$]|(?<=\d)[.,:](?=\d)|(?<=[^\W_])['&](?=[^\W_])|[^\x00-\x7f])+|&")


def normalize(text: str, articles: Container[str] = ()) -> str:
    """A sentence reduced to what makes it the same: words in lower case with one space between, no leading article.

    >>> normalize("The front-desk staff & B&B: 3.5 stars!", articles=("a", "the"))
    'front desk staff and b&b 3.5 stars'
    """
    words = ["and" if word == "&" else word.translate(LOWER) for word in WORD.findall(text)]
    return " ".join(words[1:] if len(words) > 1 and words[0] in articles else words)


def byte_classes(boundaries: str) -> NDArray[np.uint8]:
    """The class of every byte for the kernel that cuts sentences."""
    classes = np.full(256, kernel.SPACE, np.uint8)
    classes[128:] = kernel.LETTER
    for letters, kind in (
        ("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ%$", kernel.LETTER),
        ("0123456789", kernel.DIGIT),
        ("'", kernel.APOSTROPHE),
        ("-", kernel.HYPHEN),
        ("&", kernel.AMPERSAND),
        (boundaries, kernel.BOUNDARY),
    ):
        classes[np.frombuffer(letters.encode(), np.uint8)] = kind
    return classes


def word_set(words: Iterable[str]) -> NDArray[np.uint64]:
    """A table of word hashes for the kernel."""
    hashes = [kernel.hash_word(np.frombuffer(word.encode(), np.uint8)) for word in sorted(set(words))]
    return kernel.word_table(np.array(hashes, np.uint64))


class Cut(NamedTuple):
    """The kept sentences of some reviews, and what was left out."""

    text: NDArray[np.uint8]
    keys: NDArray[np.uint64]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int32]
    reviews: NDArray[np.int32]
    sizes: NDArray[np.int32]
    counts: NDArray[np.int64]
    examples: NDArray[np.int64]
    foreign: NDArray[np.bool_]


@dataclass(frozen=True)
class Cutter:
    """Cuts tables of reviews into sentences; the same for every thread."""

    rules: MiningRules
    classes: NDArray[np.uint8]
    personal: NDArray[np.uint64]
    openers: NDArray[np.uint64]
    articles: NDArray[np.uint64]
    english: NDArray[np.uint64]

    @classmethod
    def of(cls, rules: MiningRules) -> Cutter:
        words = (word_set(words) for words in (rules.first_person, rules.openers, rules.articles, ENGLISH))
        return cls(rules, byte_classes(rules.boundaries), *words)

    def cut(self, reviews: pl.DataFrame) -> Cut:
        """The sentences of a table with columns title and text."""
        rules = self.rules
        texts = reviews["title"] + "\n" + reviews["text"] if rules.review_titles else reviews["text"]
        text, starts, lengths = as_bytes(clean_texts(texts))
        found = kernel.split_sentences(
            text,
            starts + lengths,
            self.classes,
            self.personal,
            self.openers,
            self.articles,
            self.english,
            rules.split_dashes,
            rules.min_words,
            rules.max_words,
            rules.shingle,
            float(rules.english),
            rules.english_words,
        )
        return Cut(text, *found)

    def shingles(
        self, text: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int32]
    ) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        """The shingle sets of sentences at places of a text: (indptr, hashes)."""
        return kernel.sentence_shingles(text, starts, lengths, self.classes, self.articles, self.rules.shingle)


def as_bytes(texts: pl.Series) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int32]]:
    """Texts with a new line after each, the first byte of each and its length without the new line."""
    lengths = texts.str.len_bytes().cast(pl.Int32).to_numpy()
    steps = lengths.astype(np.int64) + 1
    return np.frombuffer(to_lines(texts), np.uint8), np.cumsum(steps) - steps, lengths


@dataclass
class Spool:
    """Cut reviews in a folder: memory holds none of them, whatever their number."""

    folder: Path
    text_bytes: int = 0
    reviews: int = 0
    known: int = 0  # the first so many sentences are wordings of an earlier pool, each a review of nobody
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(kernel.CAUSES, np.int64))
    foreign: int = 0
    examples: dict[int, list[str]] = field(default_factory=dict)

    def add(self, reviews: pl.DataFrame, cut: Cut) -> None:
        """Append; calls come in the order of the reviews."""
        self._append("text", cut.text)
        self._append("keys", cut.keys)
        self._append("starts", cut.starts + self.text_bytes)
        self._append("lengths", cut.lengths)
        self._append("reviews", cut.reviews.astype(np.int64) + self.reviews)
        self._append("sizes", cut.sizes)
        self._append("pairs", (reviews["user"].hash(1) ^ reviews["item"].hash(2)).to_numpy())
        reviews.select("user", "item", "rating", "time").write_ipc(self.folder / f"reviews-{self.reviews:012}.arrow")
        for code in CAUSES:
            shown = self.examples.setdefault(code, [])
            for start, end in cut.examples[code][: max(0, kernel.EXAMPLES - len(shown))]:
                if end > start:
                    shown.append(bytes(cut.text[start:end]).decode("utf-8", "replace"))
        self.text_bytes += len(cut.text)
        self.reviews += reviews.height
        self.counts += cut.counts
        self.foreign += int(cut.foreign.sum())

    def add_known(self, texts: pl.Series, cutter: Cutter) -> None:
        """Put in the wordings of an earlier pool, one sentence each whatever the rules say; before any review."""
        text, starts, lengths = as_bytes(texts)
        indptr, shingles = cutter.shingles(text, starts, lengths)
        numbers, none = np.arange(len(texts), dtype=np.int32), np.zeros(0, np.bool_)
        counts = np.zeros(kernel.CAUSES, np.int64)
        counts[KEPT] = self.known = len(texts)
        sizes = np.diff(indptr).astype(np.int32)
        examples = np.zeros((kernel.CAUSES, 0, 2), np.int64)
        keys = kernel.set_keys(indptr, shingles)
        kinds = {"user": pl.String, "item": pl.String, "rating": pl.Float32, "time": pl.Int64}
        nobody = pl.select(pl.repeat(None, len(texts), dtype=kind).alias(name) for name, kind in kinds.items())
        self.add(nobody, Cut(text, keys, starts, lengths, numbers, sizes, counts, examples, none))

    @property
    def text(self) -> NDArray[np.uint8]:
        return self._column("text", np.uint8)

    @property
    def keys(self) -> NDArray[np.uint64]:
        return self._column("keys", np.uint64)

    @property
    def starts(self) -> NDArray[np.int64]:
        return self._column("starts", np.int64)

    @property
    def lengths(self) -> NDArray[np.int32]:
        return self._column("lengths", np.int32)

    @property
    def review_numbers(self) -> NDArray[np.int64]:
        return self._column("reviews", np.int64)

    @property
    def pairs(self) -> NDArray[np.uint64]:
        """Per review, a hash of its user and item."""
        return self._column("pairs", np.uint64)

    @property
    def sizes(self) -> NDArray[np.int32]:
        return self._column("sizes", np.int32)

    def _append(self, name: str, values: NDArray[np.generic]) -> None:
        with (self.folder / name).open("ab") as file:
            values.tofile(file)

    def _column(self, name: str, kind: type[Number]) -> NDArray[Number]:
        """A column of all sentences, mapped from disk."""
        path = self.folder / name
        if not path.is_file() or not path.stat().st_size:
            return np.empty(0, kind)
        return np.memmap(path, kind, "r")

    def blocks(self) -> Iterator[slice]:
        """The sentences a few million at a time."""
        total = int(self.counts[kernel.KEPT])
        return (slice(start, min(start + BLOCK, total)) for start in range(0, total, BLOCK))

    def texts(self, sentences: NDArray[np.integer]) -> pl.Series:
        """The sentences of the given numbers, as people wrote them."""
        return from_lines(kernel.gather_lines(self.text, self.starts[sentences], self.lengths[sentences]))

    def who(self, reviews: NDArray[np.integer]) -> pl.DataFrame:
        """User, item, rating and time of the reviews of the given numbers."""
        table = pl.scan_ipc(sorted(self.folder.glob("reviews-*.arrow")), glob=False, row_index_name="review")
        wanted = pl.Series("review", np.unique(reviews), pl.UInt32)
        found = table.join(wanted.to_frame().lazy(), on="review", how="semi").collect()
        return pl.DataFrame({"review": pl.Series(reviews, dtype=pl.UInt32)}).join(
            found, on="review", how="left", maintain_order="left"
        )
