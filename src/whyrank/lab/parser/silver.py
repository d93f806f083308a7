"""Silver trees: sentences of reviews as spaCy's small English model parses them.

Run it where spaCy and a folder of its model are installed:

    python -m whyrank.lab.parser.silver MODEL FOLDER --limit 600000 reviews.jsonl.gz ...
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
from collections.abc import Iterator
from itertools import count, islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.mining.clean import clean_texts
from whyrank.mining.tokens import tokenize

Shorts = NDArray[np.int16]
SHARD = 10_000  # sentences
BATCH = 1_000  # texts or sentences
FUNCTION_WORDS = frozenset(
    ["a", "an", "and", "are", "but", "for", "i", "in", "is", "it", "not", "of", "that", "the"]
).union(["this", "to", "was", "were", "with"])
HYPHENS = re.compile(r"[^-]+|-")
LINK = re.compile(r"www|http|\S*[@/]")


class Tree(NamedTuple):
    """A sentence as the teacher sees it; heads are relative, 0 is a root."""

    words: list[str]
    heads: list[int]
    labels: list[str]
    tags: list[str]


class Shard(NamedTuple):
    """Trees in a chain."""

    words: list[str]
    lengths: Shorts  # of the sentences
    heads: Shorts
    labels: list[str]
    tags: list[str]


def read_texts(path: Path, seed: int) -> list[str]:
    """Read the English texts and titles of a file of reviews, each once, in random order."""
    texts: set[str] = set()
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for review in map(json.loads, lines):
            if review.get("language", "english") == "english":
                texts.update(filter(None, [review.get("title"), review["text"]]))
    shuffled = sorted(texts)
    random.Random(seed).shuffle(shuffled)
    return shuffled


def sentences_of(texts: list[str]) -> Iterator[list[str]]:
    """Yield the words of each English sentence of two words or more, each sentence once."""
    seen = set()
    for first in range(0, len(texts), BATCH):
        for text in clean_texts(pl.Series(texts[first : first + BATCH], dtype=pl.String)):
            tokens = tokenize(text)
            for start, end in pairwise(tokens.sentences.tolist()):
                words = tokens.words[start:end]
                sentence = " ".join(words)
                if len(words) > 1 and sentence not in seen and is_english(words):
                    seen.add(sentence)
                    yield words


def is_english(words: list[str]) -> bool:
    """Tell whether a sentence may be English: longer ones have a word that sentences need."""
    return len(words) < 8 or any(word.lower() in FUNCTION_WORDS for word in words)


def interleave(streams: list[Iterator[list[str]]]) -> Iterator[list[str]]:
    """Take one of each stream in turn until the last one ends."""
    while streams:
        for stream in list(streams):
            words = next(stream, None)
            if words is None:
                streams.remove(stream)
            else:
                yield words


def pieces_of(word: str) -> list[str]:
    """Cut a word at its hyphens, as the teacher is used to."""
    if "-" in word and len(word) > 2 and not LINK.match(word):
        pieces = HYPHENS.findall(word)
        if all(piece == "-" or piece.isalnum() for piece in pieces):
            return pieces
    return [word]


def join_pieces(words: list[str], pieces: list[int], doc: Any) -> Tree:
    """Join the teacher's pieces: a word hangs where that of its pieces hangs which leaves it."""
    owner = np.repeat(np.arange(len(words)), pieces)
    heads, labels, tags = [0] * len(words), [""] * len(words), [""] * len(words)
    for token in doc:  # the last piece that leaves its word is the head of the word
        word, above = int(owner[token.i]), int(owner[token.head.i])
        if word != above or token.head.i == token.i:
            heads[word] = above - word
            labels[word], tags[word] = token.dep_, token.tag_
    return Tree(words, heads, labels, tags)


def parse(teacher: Any, sentences: list[list[str]]) -> Iterator[Tree]:
    """Parse sentences with the teacher, each as a document of its own."""
    from spacy.tokens import Doc

    cut = [[pieces_of(word) for word in words] for words in sentences]
    docs = [Doc(teacher.vocab, words=[p for pieces in words for p in pieces]) for words in cut]
    parsed = teacher.pipe(docs, batch_size=BATCH)
    for words, pieces, doc in zip(sentences, cut, parsed, strict=True):
        yield join_pieces(words, [len(p) for p in pieces], doc)


def write_shard(path: Path, trees: list[Tree]) -> None:
    """Write trees as arrays; words, labels and tags as one string each."""
    unfinished = path.with_suffix(".part")
    with unfinished.open("wb") as file:
        np.savez_compressed(
            file,
            words=np.array("\n".join(word for tree in trees for word in tree.words)),
            lengths=np.array([len(tree.words) for tree in trees], np.int16),
            heads=np.array([head for tree in trees for head in tree.heads], np.int16),
            labels=np.array("\n".join(label for tree in trees for label in tree.labels)),
            tags=np.array("\n".join(tag for tree in trees for tag in tree.tags)),
        )
    unfinished.rename(path)


def read_shard(path: Path) -> Shard:
    """Read a shard."""
    with np.load(path, allow_pickle=False) as arrays:
        words, labels, tags = (str(arrays[name]).split("\n") for name in ("words", "labels", "tags"))
        return Shard(words, arrays["lengths"], arrays["heads"], labels, tags)


def main() -> None:
    """Write shards of silver trees."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("teacher", type=Path)
    options.add_argument("out", type=Path)
    options.add_argument("reviews", type=Path, nargs="+")
    options.add_argument("--limit", type=int, default=600_000, help="sentences")
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    import spacy

    teacher = spacy.load(given.teacher, exclude=["ner", "lemmatizer", "attribute_ruler"])
    streams = [sentences_of(read_texts(path, given.seed)) for path in given.reviews]
    sentences = islice(interleave(streams), given.limit)
    given.out.mkdir(parents=True, exist_ok=True)
    for number in count():
        shard = list(islice(sentences, SHARD))
        if not shard:
            break
        write_shard(given.out / f"{number:03d}.npz", list(parse(teacher, shard)))
        print(f"{number * SHARD + len(shard):,} sentences", flush=True)


if __name__ == "__main__":
    main()
