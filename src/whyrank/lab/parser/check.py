"""How well the parser does: against its teacher on domains held out, and against people.

python -m whyrank.lab.parser.check --silver recipes=FOLDER --trees reviews.conllu ...
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyrank.lab.parser.silver import read_shard
from whyrank.mining.parse import LABELS, TAGS, WEIGHTS, Parser, load
from whyrank.mining.tokens import Tokens

SHOWN = ("nsubj", "amod", "acomp", "dobj", "neg", "compound", "conj")
NEGATIONS = frozenset(("not", "n't", "nt", "n’t", "never"))
Pairs = set[tuple[int, int, bool]]  # noun, adjective, whether it is negated


class Trees(NamedTuple):
    """Sentences with their heads (absolute, own number: root), labels and tags."""

    tokens: Tokens
    heads: NDArray[np.int32]
    labels: NDArray[np.str_]
    tags: NDArray[np.str_]


def chained(words: list[str], lengths: Iterable[int]) -> Tokens:
    """Return words as tokens without offsets."""
    ends = np.array([0, *accumulate(lengths)], np.int32)
    return Tokens(words, ends[:0], ends[:0], ends)


def read_silver_trees(folder: Path) -> Trees:
    """Read the first shard of a folder."""
    words, lengths, relative, labels, tags = read_shard(min(folder.glob("*.npz")))
    heads = (relative + np.arange(len(words))).astype(np.int32)
    return Trees(chained(words, map(int, lengths)), heads, np.array(labels), np.array(tags))


def read_conllu(paths: Iterable[Path]) -> Trees:
    """Read Universal Dependencies trees."""
    blocks = [b for path in paths for b in path.read_text(encoding="utf-8").strip().split("\n\n")]
    rows: list[list[str]] = []
    heads: list[int] = []
    lengths: list[int] = []
    for block in blocks:
        cells = [line.split("\t") for line in block.split("\n") if line[0] != "#"]
        own = [row for row in cells if row[0].isdigit()]
        heads += [len(rows) + (int(row[6]) or int(row[0])) - 1 for row in own]
        lengths.append(len(own))
        rows += own
    tokens = chained([row[1].replace(" ", "") for row in rows], lengths)
    labels, tags = (np.array([row[column] for row in rows]) for column in (7, 4))
    return Trees(tokens, np.array(heads, np.int32), labels, tags)


def parse_trees(parser: Parser, tokens: Tokens) -> Trees:
    """Parse words anew."""
    parse = parser.parse(tokens)
    return Trees(tokens, parse.heads, np.array(LABELS)[parse.labels], np.array(TAGS)[parse.tags])


def f1(found: int, guessed: int, true: int) -> float:
    """Return F1 in percent."""
    return 200 * found / max(guessed + true, 1)


def compare(found: Trees, true: Trees) -> dict[str, float]:
    """Return the shares of tags, heads and arcs that agree (punctuation apart), and F1s."""
    counted = true.labels != "punct"
    heads = found.heads == true.heads
    arcs = heads & (found.labels == true.labels)
    scores = {
        "tags": 100 * float((found.tags == true.tags).mean()),
        "UAS": 100 * float(heads[counted].mean()),
        "LAS": 100 * float(arcs[counted].mean()),
    }
    for label in SHOWN:
        guessed, real = found.labels == label, true.labels == label
        scores[label] = f1(int((arcs & real).sum()), int(guessed.sum()), int(real.sum()))
    one, other = pairs_of_teacher(found), pairs_of_teacher(true)
    return scores | {"pairs": f1(len(one & other), len(one), len(other))}


def is_adjective(tag: str) -> bool:
    """Tell whether a word may be an opinion in a pair."""
    return tag.startswith("JJ")


def is_noun(tag: str) -> bool:
    """Tell whether a word may be an aspect in a pair."""
    return tag.startswith("NN")


def pairs_of_teacher(trees: Trees) -> Pairs:
    """Find pairs of noun and adjective in trees with the teacher's labels."""
    children = children_of(trees)
    pairs: Pairs = set()
    for i, head in enumerate(trees.heads):
        if trees.labels[i] == "amod" and is_noun(trees.tags[head]) and is_adjective(trees.tags[i]):
            pairs |= with_conjuncts(trees, children, [head], i, False)
        if trees.labels[i] == "acomp" and is_adjective(trees.tags[i]):
            subjects = [j for j in children[head] if trees.labels[j] == "nsubj"]
            negated = any(trees.labels[j] == "neg" for j in children[head])
            pairs |= with_conjuncts(trees, children, subjects, i, negated)
    return pairs


def pairs_of_people(trees: Trees) -> Pairs:
    """Find pairs of noun and adjective in Universal Dependencies."""
    children = children_of(trees)
    pairs: Pairs = set()
    for i, head in enumerate(trees.heads):
        if trees.labels[i] == "amod" and is_noun(trees.tags[head]) and is_adjective(trees.tags[i]):
            pairs |= with_conjuncts(trees, children, [head], i, False)
        if is_adjective(trees.tags[i]) and any(trees.labels[j] == "cop" for j in children[i]):
            subjects = [j for j in children[i] if trees.labels[j] == "nsubj"]
            pairs |= with_conjuncts(trees, children, subjects, i, False)
    return pairs


def with_conjuncts(trees: Trees, children: list[list[int]], nouns: list[int], adjective: int, negated: bool) -> Pairs:
    """Pair nouns and what is joined to them with an adjective and what is joined to it."""
    every = [n for noun in nouns for n in joined(trees, children, noun) if is_noun(trees.tags[n])]
    pairs: Pairs = set()
    for a in joined(trees, children, adjective):
        own = any(trees.labels[j] == "neg" or trees.tokens.words[j].lower() in NEGATIONS for j in children[a])
        if is_adjective(trees.tags[a]) and (a == adjective or not has_subject(trees, children, a)):
            pairs |= {(n, a, negated or own) for n in every}
    return pairs


def has_subject(trees: Trees, children: list[list[int]], i: int) -> bool:
    """Tell whether a word has a subject of its own."""
    return any(trees.labels[j].startswith("nsubj") for j in children[i])


def joined(trees: Trees, children: list[list[int]], i: int) -> list[int]:
    """Return a word and all that "and" joins to it."""
    found = [i]
    for word in found:
        found += [j for j in children[word] if trees.labels[j] == "conj"]
    return found


def children_of(trees: Trees) -> list[list[int]]:
    """Return the words that depend on each word."""
    children: list[list[int]] = [[] for _ in trees.heads]
    for i, head in enumerate(trees.heads):
        if head != i:
            children[head].append(i)
    return children


def main() -> None:
    """Print a table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--weights", type=Path, default=WEIGHTS)
    options.add_argument("--silver", nargs="*", default=[], help="NAME=FOLDER of shards")
    options.add_argument("--trees", nargs="*", type=Path, default=[], help="conllu files")
    given = options.parse_args()
    parser = load(given.weights)
    for name, folder in (each.split("=", 1) for each in given.silver):
        true = read_silver_trees(Path(folder))
        scores = compare(parse_trees(parser, true.tokens), true)
        print(name, "  ".join(f"{key} {value:.1f}" for key, value in scores.items()))
    if given.trees:
        true = read_conllu(given.trees)
        found, real = pairs_of_teacher(parse_trees(parser, true.tokens)), pairs_of_people(true)
        f = f1(len(found & real), len(found), len(real))
        print(f"people's trees: {len(real)} pairs, F1 {f:.1f}")


if __name__ == "__main__":
    main()
