"""A dependency parser for English reviews: a small network that learned from silver trees.

`lab/parser` says what it learned from. Weights and all that is multiplied with them are whole
numbers whose sums float32 holds exactly, so that the parse does not depend on batch, threads or
machine. Labels and tags are those of spaCy's English models.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import cache, partial
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from whyrank.mining import _parse_kernels as k
from whyrank.mining.features import rows_of_words
from whyrank.mining.tokens import Tokens, chain, tokenize
from whyrank.thread_pool import shared_thread_pool

WEIGHTS = Path(__file__).with_name("parser.npz")
CHUNK = 512  # words that are multiplied together: they fit into a processor's cache
BLOCK = 100_000  # characters of texts that one thread parses together
LABELS = (
    *("ROOT", "acl", "acomp", "advcl", "advmod", "agent", "amod", "appos", "attr", "aux"),
    *("auxpass", "case", "cc", "ccomp", "compound", "conj", "csubj", "csubjpass", "dative", "dep"),
    *("det", "dobj", "expl", "intj", "mark", "meta", "neg", "nmod", "npadvmod", "nsubj"),
    *("nsubjpass", "nummod", "oprd", "parataxis", "pcomp", "pobj", "poss", "preconj", "predet"),
    *("prep", "prt", "punct", "quantmod", "relcl", "xcomp"),
)
TAGS = (
    *("$", "''", ",", "-LRB-", "-RRB-", ".", ":", "ADD", "AFX", "CC", "CD", "DT", "EX", "FW"),
    *("HYPH", "IN", "JJ", "JJR", "JJS", "LS", "MD", "NFP", "NN", "NNP", "NNPS", "NNS", "PDT"),
    *("POS", "PRP", "PRP$", "RB", "RBR", "RBS", "RP", "SYM", "TO", "UH", "VB", "VBD", "VBG"),
    *("VBN", "VBP", "VBZ", "WDT", "WP", "WP$", "WRB", "XX", "``"),
)


class _OneBlasThread:
    """Hold BLAS to one thread while any thread is inside: its own cost more than they bring."""

    def __init__(self) -> None:
        self._controller = ThreadpoolController()
        self._lock = Lock()
        self._inside = 0

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._limit = self._controller.limit(limits=1, user_api="blas")
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._limit.restore_original_limits()


_one_blas_thread = cache(_OneBlasThread)


class Parse(NamedTuple):
    """The trees over the words of some tokens."""

    heads: NDArray[np.int32]  # the word that each word depends on; itself: a root
    labels: NDArray[np.int8]  # of the arc to the head: numbers of LABELS
    tags: NDArray[np.int8]  # numbers of TAGS


class Layer(NamedTuple):
    """A convolution over the words around a word, and what normalizes its results."""

    matrix: NDArray[np.float32]
    norm: NDArray[np.float32]  # factors, summands, what is added to the variance

    @property
    def reach(self) -> int:
        """Return how many words on each side it sees."""
        rows, columns = self.matrix.shape
        return int(rows // columns // 2)

    def apply(self, x: NDArray[np.float32], sentences: NDArray[np.int32]) -> NDArray[np.float32]:
        """Add to each word what its neighbours say."""
        out = np.empty_like(x)
        windows = np.empty((min(CHUNK, len(x)), len(self.matrix)), np.float32)
        for rows in _chunks(len(x)):
            own = windows[: rows.stop - rows.start]
            k.gather_windows(x, sentences, rows.start, self.reach, own)
            k.add_layer(x[rows], own @ self.matrix, self.norm, out[rows])
        return out


class LinearChoice(NamedTuple):
    """Scores for names of a kind, of which the best is chosen."""

    matrix: NDArray[np.float32]
    bias: NDArray[np.int32]

    def choose(self, x: NDArray[np.float32]) -> NDArray[np.int8]:
        """Return the number of the best name for every row."""
        chosen = np.empty(len(x), np.int8)
        for rows in _chunks(len(x)):
            k.choose_columns(x[rows] @ self.matrix, self.bias, chosen[rows])
        return chosen


class Parser(NamedTuple):
    """The weights of the network. Safe to use from several threads."""

    table: NDArray[np.int8]
    layers: tuple[Layer, ...]
    tag: LinearChoice
    roles: LinearChoice  # four vectors: as dependent, as head, for the own label, for those below
    root: NDArray[np.int8]  # as head, for the labels of those below
    distance: NDArray[np.int32]  # summands of arcs by distance; the last for roots
    label: LinearChoice

    def parse(self, tokens: Tokens) -> Parse:
        """Parse sentences: of one text, or of several in a chain.

        >>> tokens = tokenize("The bed was not comfortable.")
        >>> parse = load().parse(tokens)
        >>> [(LABELS[n], tokens.words[i]) for n, i in zip(parse.labels, parse.heads, strict=True)]
        ... # doctest: +NORMALIZE_WHITESPACE
        [('det', 'bed'), ('nsubj', 'was'), ('ROOT', 'was'), ('neg', 'was'), ('acomp', 'was'),
         ('punct', 'was')]
        """
        sentences = np.ascontiguousarray(tokens.sentences, np.int32)
        with _one_blas_thread():
            x = self._encode(tokens.words, sentences)
            roles = np.empty((len(x), self.roles.matrix.shape[1]), np.int16)
            for rows in _chunks(len(x)):
                k.round_roles(x[rows] @ self.roles.matrix, self.roles.bias, roles[rows])
            heads = np.empty(len(x), np.int32)
            k.choose_heads(roles, sentences, self.root, self.distance, heads)
            pairs = np.empty((len(x), self.root.shape[1]), np.float32)
            k.add_pairs(roles, heads, self.root, pairs)
            return Parse(heads, self.label.choose(pairs), self.tag.choose(x))

    def parse_texts(self, texts: Iterable[str], threads: int | None = None) -> Iterator[tuple[Tokens, Parse]]:
        """Parse many texts with so many threads, or as many as there are cores."""
        threads = threads or os.cpu_count() or 1
        pool = shared_thread_pool(threads)
        blocks = _blocks(texts)
        while group := list(islice(blocks, threads)):
            with _one_blas_thread():
                parsed = pool.run([partial(self._parse_block, block) for block in group])
            for block in parsed:
                yield from block

    def _parse_block(self, texts: list[str]) -> list[tuple[Tokens, Parse]]:
        """Parse texts together and part them again."""
        every = [tokenize(text) for text in texts]
        parse = self.parse(chain(every))
        parts, first = [], 0
        for tokens in every:
            own = slice(first, first + len(tokens.words))
            parts.append((tokens, Parse(parse.heads[own] - first, parse.labels[own], parse.tags[own])))
            first = own.stop
        return parts

    def _encode(self, words: list[str], sentences: NDArray[np.int32]) -> NDArray[np.float32]:
        """Return what the network knows of each word. Each distinct word is looked up once."""
        numbers = {word: number for number, word in enumerate(dict.fromkeys(words))}
        types = np.fromiter(map(numbers.__getitem__, words), np.int32, len(words))
        width = self.table.shape[1]
        vectors = np.empty((len(numbers), width), np.float32)
        k.add_embeddings(self.table, rows_of_words(list(numbers)), vectors)
        first, *others = self.layers
        sides = first.matrix.reshape(-1, width, width).transpose(1, 0, 2).reshape(width, -1)
        x = np.empty((len(words), width), np.float32)
        k.apply_first_layer(vectors, vectors @ sides, types, sentences, first.norm, x)
        for layer in others:
            x = layer.apply(x, sentences)
        return x


@cache
def load(path: Path = WEIGHTS) -> Parser:
    """Read the parser; it stays in memory."""
    with np.load(path, allow_pickle=False) as arrays:
        layers = [Layer(arrays[f"layer{i}"].astype(np.float32), arrays[f"norm{i}"]) for i in range(3)]
        tag, roles, label = (
            LinearChoice(arrays[name].astype(np.float32), arrays[f"{name}_bias"]) for name in ("tag", "roles", "label")
        )
        root, distance = arrays["root"], arrays["distance"]
        return Parser(arrays["table"], tuple(layers), tag, roles, root, distance, label)


def _chunks(words: int) -> Iterator[slice]:
    """Yield the rows of words that are multiplied together."""
    return (slice(first, min(first + CHUNK, words)) for first in range(0, words, CHUNK))


def _blocks(texts: Iterable[str]) -> Iterator[list[str]]:
    """Yield texts in blocks of like size."""
    block: list[str] = []
    size = 0
    for text in texts:
        block.append(text)
        size += len(text)
        if size >= BLOCK:
            yield block
            block, size = [], 0
    if block:
        yield block
