"""Opinions in reviews: texts to tokens, tokens to word classes, and the rules of the language over them."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.data.columns import to_lines
from whyrank.mining import _opinions as rules
from whyrank.mining import _tokens as kernel
from whyrank.mining import _wordclasses as classes
from whyrank.mining._kinds import kinds
from whyrank.mining._opinion_rows import R_ATTRIBUTE
from whyrank.mining.clean import clean_texts, digests
from whyrank.mining.language import Word
from whyrank.mining.nouns import StatementEnglish

PHRASE = 4  # nouns of an aspect
LONGEST = 80  # tokens of a sentence; longer ones are cut
NEWLINE = 10
STRANGE = 0.25  # share of words that no lexicon has: a twentieth in English, more than two fifths in other languages
SPEAKING = (classes.T_V, classes.T_COP, classes.T_AUX, classes.T_O)  # tags that make more than a fragment
LEADING = (classes.T_D, classes.T_R, classes.T_J)  # tags that can open a noun phrase
BETWEEN = (classes.T_COMMA, classes.T_AND, classes.T_BUT)  # tags that join one fragment to the next
Hashes = NDArray[np.uint64]


def byte_classes() -> NDArray[np.uint8]:
    """The class of every byte for the tokenizer."""
    classes = np.full(256, kernel.SPACE, np.uint8)
    classes[128:] = kernel.LETTER
    for letters, kind in (
        ("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", kernel.LETTER),
        ("0123456789$%", kernel.DIGIT),
        ("'", kernel.APOSTROPHE),
        ("-", kernel.HYPHEN),
        (",:;()[]/&+", kernel.MARK),
        (".!?\n", kernel.BREAK),
    ):
        classes[np.frombuffer(letters.encode(), np.uint8)] = kind
    return classes


class Mentions(NamedTuple):
    """Opinions found in a table of reviews, one row each; words are hashes, 0 where there is none."""

    review: NDArray[np.int32]  # row of the table
    aspect: Hashes  # (rows, PHRASE): the last words of the aspect, the head at the end
    modifier: Hashes  # a describing word right before the aspect, which may be the opinion itself: hot water
    inner: NDArray[np.int8]  # nouns at the end of the aspect that stand together: 1 in selection of wines
    opinion: Hashes
    adverb: Hashes  # the word before the opinion that gives it its polarity: well prepared
    sign: NDArray[np.int8]
    rule: NDArray[np.int8]
    verbal: NDArray[np.bool_]  # the aspect is what is done: easy to use
    whole: NDArray[np.bool_]  # the aspect is the item itself: it is addictive
    alone: NDArray[np.bool_]  # said in a fragment: friendly staff, clean rooms.
    capital: NDArray[np.int8]  # whether the aspect's last word has a capital: 1 or 0; -1: it opens the sentence
    start: NDArray[np.int64]  # first byte of the sentence
    length: NDArray[np.int32]


@dataclass
class SeenWords:
    """Words seen so far, by hash: their classes and texts. Filled by several threads."""

    language: StatementEnglish
    words: dict[int, Word] = field(default_factory=dict)
    texts: dict[int, str] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def look_up(self, hashes: Hashes, starts: NDArray[np.int64], lengths: NDArray[np.int32], text: bytes) -> list[Word]:
        """The words behind distinct hashes, whose texts stand at the given places."""
        found = []
        with self.lock:
            for h, start, length in zip(hashes.tolist(), starts.tolist(), lengths.tolist(), strict=True):
                word = self.words.get(h)
                if word is None:
                    plain = text[start : start + length].decode("utf-8", "replace").lower()
                    word = self.words[h] = self.language.word(plain)
                    self.texts[h] = plain
                found.append(word)
        return found


class Found(NamedTuple):
    """What one table of reviews gave."""

    table: pl.DataFrame  # user, item, rating, time, source, words
    text: bytes
    mentions: Mentions
    foreign: NDArray[np.bool_]
    capitals: tuple[
        Hashes, NDArray[np.int64], NDArray[np.int64]
    ]  # nouns, how often, how often with a capital inside a sentence
    pointed: tuple[Hashes, NDArray[np.int64]]  # nouns behind `this`, how often
    kinds: tuple[Hashes, NDArray[np.int64]]  # nouns that an item is said to be, how often


class Finder:
    """Finds the opinions of tables of reviews."""

    def __init__(self, language: StatementEnglish, english: float, english_words: int, titles: bool = True) -> None:
        self.titles = titles
        self.lexicon = SeenWords(language)
        self.classes = byte_classes()
        self.english, self.english_words = english, english_words
        self.phrases = Phrases.of(language)
        wholes = list(language.phrases.values())
        self.lexicon.texts.update(zip(hashes_of(wholes).tolist(), wholes, strict=True))
        self.common = np.sort(hashes_of(language.common))
        self.this = hashes_of(["this"])[0]

    def find(self, table: pl.DataFrame) -> Found:
        """The opinions of one table of reviews (user, item, title, text, rating, time)."""
        whole = pl.concat_str("title", "text", separator="\n") if self.titles else pl.col("text")
        texts = clean_texts(table.select(whole).to_series())
        text = to_lines(texts)
        ends = np.cumsum(texts.str.len_bytes().to_numpy().astype(np.int64) + 1)
        array = np.frombuffer(text, np.uint8)
        hashes, starts, lengths, reviews, capital = kernel.tokenize(array, ends, self.classes)
        distinct, first, place = np.unique(hashes, return_index=True, return_inverse=True)
        words = self.lexicon.look_up(distinct, starts[first], lengths[first], text)
        bits = np.array([word.bits for word in words], np.int64)[place]
        sense = np.array([word.polarity for word in words], np.int8)[place]
        unknown = np.array([word.unknown for word in words], np.bool_)[place]
        word = self.classes[array[starts]] == kernel.LETTER
        foreign = self._foreign(hashes, unknown, word, reviews, table.height)
        bits, sense, hashes = self.phrases.joined(bits, sense, hashes)
        cuts = kernel.cut_sentences(bits & classes.END != 0, reviews, LONGEST)
        opens = np.zeros(len(bits), np.bool_)
        opens[cuts[:-1][cuts[:-1] < len(bits)]] = True
        bits |= np.where((capital == 1) & (~opens | unknown), classes.CAPITAL, 0)
        rows, tags = rules.find_opinions(bits, sense, cuts)
        rows = rows[~foreign[reviews[rows[:, 2]]]] if len(rows) else rows
        capitals_at = np.where(opens, -1, capital > 0).astype(np.int8)
        mentions = self._mentions(rows, tags, hashes, starts, lengths, reviews, cuts, array, capitals_at)
        known = table.select("user", "item", "rating", "time", "source").with_columns(
            copy=digests(texts), words=pl.Series(np.bincount(reviews[word], minlength=table.height).astype(np.int32))
        )
        nouns = (tags == classes.T_N) & (~opens | unknown)
        capitals = _counted(hashes[nouns], capital[nouns] > 0)
        is_said = np.unique(hashes[kinds(bits, tags, cuts)], return_counts=True)
        return Found(known, text, mentions, foreign, capitals, self._pointed(hashes, tags), is_said)

    def _foreign(
        self,
        hashes: Hashes,
        unknown: NDArray[np.bool_],
        word: NDArray[np.bool_],
        reviews: NDArray[np.int32],
        count: int,
    ) -> NDArray[np.bool_]:
        """Which reviews have too few of the language's most frequent words, and many that it does not have at all.

        `Friendly staff, clean rooms, fair prices` has none of the first and none of the others. Marks count for the
        length, because some languages have no blanks between words.
        """
        known = self.common[np.minimum(np.searchsorted(self.common, hashes), len(self.common) - 1)] == hashes
        length, words, common, strange = (
            np.bincount(reviews, each, minlength=count) for each in (None, word, known, unknown & word)
        )
        few, many = common < self.english * words, strange >= STRANGE * words
        return (length >= self.english_words) & few & many

    def _pointed(self, hashes: Hashes, tags: NDArray[np.int8]) -> tuple[Hashes, NDArray[np.int64]]:
        places = np.flatnonzero(hashes[:-1] == self.this) + 1
        heads = places[tags[places] == classes.T_N]
        found, counts = np.unique(hashes[heads], return_counts=True)
        return found, counts

    def _mentions(
        self,
        rows: NDArray[np.int32],
        tags: NDArray[np.int8],
        hashes: Hashes,
        starts: NDArray[np.int64],
        lengths: NDArray[np.int32],
        reviews: NDArray[np.int32],
        cuts: NDArray[np.int64],
        text: NDArray[np.uint8],
        written: NDArray[np.int8],
    ) -> Mentions:
        a0, a1, o0, o1 = (rows[:, column].astype(np.int64) for column in (1, 2, 3, 4))
        a0 = np.minimum(a0, a1)
        aspect = np.zeros((len(rows), PHRASE), np.uint64)
        whole = (tags[a1] == classes.T_O) | ((tags[a1] == classes.T_J) & (a1 == o1))  # it is addictive; addictive!
        verbal = (tags[a1] != classes.T_N) & ~whole
        inner, joined = np.zeros(len(rows), np.int8), np.ones(len(rows), np.bool_)
        for back in range(PHRASE):
            place = a1 - back
            inside = place >= a0
            words = np.where(inside, hashes[np.maximum(place, 0)], 0)
            noun = inside & ((tags[np.maximum(place, 0)] == classes.T_N) | (back == 0) | verbal)
            joined &= noun
            inner += joined
            aspect[:, PHRASE - 1 - back] = np.where(noun, words, 0)
        before = np.maximum(a1 - inner, 0)
        plain = (before >= cuts[rows[:, 0]]) & (tags[before] == classes.T_J)
        first, last = cuts[rows[:, 0]], cuts[rows[:, 0] + 1] - 1
        begin, finish = starts[first], starts[last] + lengths[last]
        finish -= text[finish - 1] == NEWLINE
        return Mentions(
            reviews[a1],
            aspect,
            np.where(plain, hashes[before], 0).astype(np.uint64),
            inner,
            hashes[o1],
            np.where(o0 < o1, hashes[o0], 0).astype(np.uint64),
            rows[:, 5].astype(np.int8),
            rows[:, 6].astype(np.int8),
            verbal,
            whole,
            _alone(rows, tags, cuts),
            written[a1],
            begin,
            (finish - begin).astype(np.int32),
        )


def _alone(rows: NDArray[np.int32], tags: NDArray[np.int8], cuts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which opinions are said in a fragment: a sentence without a verb, in which the noun phrase depends on nothing."""
    verbs = np.concatenate([[0], np.cumsum(np.isin(tags, SPEAKING))])
    start = cuts[rows[:, 0]]
    place = np.minimum(rows[:, 1], rows[:, 3]).astype(np.int64) - 1
    for _ in range(3):
        place -= (place >= start) & np.isin(tags[place], LEADING)
    free = (place < start) | np.isin(tags[place], BETWEEN)
    return (verbs[cuts[rows[:, 0] + 1]] == verbs[start]) & free & (rows[:, 6] == R_ATTRIBUTE)


def _counted(hashes: Hashes, capital: NDArray[np.bool_]) -> tuple[Hashes, NDArray[np.int64], NDArray[np.int64]]:
    found, place, counts = np.unique(hashes, return_inverse=True, return_counts=True)
    return found, counts, np.bincount(place, capital, minlength=len(found)).astype(np.int64)


def hashes_of(words: list[str] | tuple[str, ...]) -> Hashes:
    """The hashes of words, as the tokenizer computes them."""
    arrays = (np.frombuffer(word.encode(), np.uint8) for word in words)
    return np.array([kernel.hash_bytes(array, 0, len(array)) for array in arrays], np.uint64)


class Phrases(NamedTuple):
    """Opinions of several words (top notch, out of this world): taken as one word, that of its last token."""

    keys: dict[int, tuple[Hashes, Hashes, NDArray[np.int64], NDArray[np.int8]]]  # by length

    @classmethod
    def of(cls, language: StatementEnglish) -> Phrases:
        keys = {}
        for size in sorted({len(words) for words in language.phrases}, reverse=True):
            chosen = [(words, whole) for words, whole in language.phrases.items() if len(words) == size]
            joined = np.array([_join(hashes_of(words)) for words, _ in chosen], np.uint64)
            known = [language.word(whole) for _, whole in chosen]
            order = np.argsort(joined)
            keys[size] = (
                joined[order],
                hashes_of([whole for _, whole in chosen])[order],
                np.array([word.bits for word in known], np.int64)[order],
                np.array([word.polarity for word in known], np.int8)[order],
            )
        return cls(keys)

    def joined(
        self, bits: NDArray[np.int64], sense: NDArray[np.int8], hashes: Hashes
    ) -> tuple[NDArray[np.int64], NDArray[np.int8], Hashes]:
        """Classes, senses and hashes with phrases in place of their words."""
        bits, sense, out = bits.copy(), sense.copy(), hashes.copy()
        taken = np.zeros(len(hashes), np.bool_)
        for size, (keys, wholes, joined_bits, senses) in self.keys.items():
            if len(hashes) < size:
                continue
            runs = np.lib.stride_tricks.sliding_window_view(hashes, size)
            joined = _join(runs.T)
            place = np.minimum(np.searchsorted(keys, joined), len(keys) - 1)
            found = np.flatnonzero(keys[place] == joined)
            found = found[~np.lib.stride_tricks.sliding_window_view(taken, size)[found].any(axis=1)]
            last = found + size - 1
            for back in range(size):
                taken[last - back] = True
            for back in range(1, size):
                bits[last - back], sense[last - back] = classes.GLUE, 0
            bits[last], sense[last], out[last] = joined_bits[place[found]], senses[place[found]], wholes[place[found]]
        return bits, sense, out


def _join(hashes: Hashes) -> Hashes:
    """One key for the words of a phrase; the first axis runs over them."""
    key = np.zeros(hashes[0].shape, np.uint64)
    with np.errstate(over="ignore"):
        for word in hashes:
            key = (key * np.uint64(0x9E3779B97F4A7C15)) ^ word
    return key


def find_all(reviews: Iterator[pl.DataFrame], finder: Finder, threads: int | None) -> Iterator[Found]:
    """The opinions of every table, several tables at a time, in their order."""
    workers = threads if threads is not None else min(8, os.cpu_count() or 1)
    waiting: deque[Future[Found]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        for table in reviews:
            if table.height:
                waiting.append(pool.submit(finder.find, table))
            if len(waiting) > workers + 1:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
