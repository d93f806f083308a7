"""Patterns over a parse: rules as data, compiled to arrays, and matched at every word.

A rule lists what must stand where, a line each: `V: be`, `A = subject of V: noun`, `P = acomp of V: adj`. The first
line is the anchor. A line names a word, says how it hangs on a word named before, and which classes it has: `noun
adj` asks for both, `noun|pron` for one of them, `!neg` for none. `no neg of V` asks that there is none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyrank.compile import inner, kernel
from whyrank.errors import ParameterError

NODES = 6  # words a rule may name
GROUPS = 3  # conditions that a word must meet, each with alternatives
ANCHOR, CHILD, HEAD, SUBJECT, NEXT, BEFORE = range(6)
RELATIONS = {"head": HEAD, "subject": SUBJECT, "next": NEXT, "before": BEFORE}
LINE = re.compile(
    r"(?:(?P<absent>no) |(?P<name>\w+)(?: = )?)(?:(?P<relation>[\w|]+) of (?P<of>\w+))?(?:: (?P<has>.+))?"
)

Bits = NDArray[np.uint64]


class MentionRule(NamedTuple):
    """A rule: what it looks for, and what it gives."""

    id: str
    kind: str
    lines: tuple[str, ...]
    label: str  # of the anchor; empty: any
    aspect: str  # the name of the aspect's word, or "it"
    property: str  # the name of the property's word
    verb: str  # the name of the word that says it of an effect or a use; may be empty
    sign: int  # of what is said; 0: that of the property


class Program(NamedTuple):
    """Rules as arrays: a row a node."""

    starts: NDArray[np.int32]  # of rules among nodes
    relation: NDArray[np.int8]
    of: NDArray[np.int8]  # the node it hangs on
    labels: Bits  # as a child; 0: any
    groups: Bits  # nodes x GROUPS: one bit of each that is not 0
    never: Bits
    absent: NDArray[np.bool_]


class SeenWords(NamedTuple):
    """What patterns see of a parse, word by word."""

    bits: Bits  # classes
    label: NDArray[np.int8]  # conjuncts have that of the first
    head: NDArray[np.int32]
    subject: NDArray[
        np.int32
    ]  # of a verb: the verb whose subjects are its own, or ~ the noun; itself: none but its own
    sentences: NDArray[np.int32]


def compile_rules(rules: Sequence[MentionRule], classes: Mapping[str, int], labels: Sequence[str]) -> Program:
    """Compile rules to arrays.

    Args:
        rules: The rules.
        classes: The bit of each class that conditions name.
        labels: The names of the labels of a parse.

    Raises:
        ParameterError: A line cannot be read, or names what is not there.
    """
    starts, rows = [0], []
    for rule in rules:
        names: list[str] = []
        for line in rule.lines:
            found = LINE.fullmatch(line)
            if not found or (found["of"] and found["of"] not in names) or bool(names) != bool(found["of"]):
                raise ParameterError(f"rule {rule.id}: {line!r} is no line of a pattern")
            try:
                row = _node(found, names, classes, labels)
                if not names and rule.label:
                    row = (*row[:2], _mask(rule.label, labels), *row[3:])
                rows.append(row)
            except KeyError as error:
                raise ParameterError(f"rule {rule.id}: {line!r}: there is no {error}") from error
            names.append(found["name"] or "")
        for name in (rule.aspect, rule.property):
            if name not in (*names, "it", ""):
                raise ParameterError(f"rule {rule.id}: no line names {name}")
        if len(names) > NODES:
            raise ParameterError(f"rule {rule.id} has more than {NODES} lines")
        starts.append(len(rows))
    columns = list(zip(*rows, strict=True))
    kinds = (np.int8, np.int8, np.uint64, np.uint64, np.uint64, np.bool_)
    return Program(
        np.array(starts, np.int32), *(np.array(each, kind) for each, kind in zip(columns, kinds, strict=True))
    )


def _node(
    found: re.Match[str], names: list[str], classes: Mapping[str, int], labels: Sequence[str]
) -> tuple[int, int, int, list[int], int, bool]:
    """Read one line of a pattern."""
    relation, allowed = ANCHOR, 0
    if found["relation"]:
        relation = RELATIONS.get(found["relation"], CHILD)
        if relation == CHILD and found["relation"] != "child":
            allowed = _mask(found["relation"], labels)
    groups, never = [], 0
    for condition in (found["has"] or "").split():
        if condition.startswith("!"):
            never |= _bits(condition[1:], classes)
        else:
            groups.append(_bits(condition, classes))
    if len(groups) > GROUPS:
        raise KeyError("room for so many conditions")
    of = names.index(found["of"]) if found["of"] else 0
    return relation, of, allowed, groups + [0] * (GROUPS - len(groups)), never, bool(found["absent"])


def _bits(names: str, classes: Mapping[str, int]) -> int:
    """Return the bits of classes, separated by |; several may share one."""
    return reduce(or_, (1 << classes[each] for each in names.split("|")))


def _mask(names: str, labels: Sequence[str]) -> int:
    """Return the bits of labels, separated by |."""
    unknown = set(names.split("|")) - set(labels)
    if unknown:
        raise KeyError(min(unknown))
    return sum(1 << labels.index(each) for each in names.split("|"))


@inner
def _fits(program: Program, node: int, words: SeenWords, i: int) -> bool:
    """Tell whether a word has the classes that a node asks for."""
    bits = words.bits[i]
    if bits & program.never[node]:
        return False
    for group in range(GROUPS):
        asked = program.groups[node, group]
        if asked and not bits & asked:
            return False
    return True


@inner
def _labelled(program: Program, node: int, words: SeenWords, i: int) -> bool:
    """Tell whether a word has one of the labels that a node asks for."""
    allowed = program.labels[node]
    return bool(allowed == 0 or (allowed >> np.uint64(words.label[i])) & np.uint64(1) != 0)


@inner
def _hangs(program: Program, node: int, words: SeenWords, i: int, on: int) -> bool:
    """Tell whether word `i` stands to the word `on` as the node asks for."""
    relation = program.relation[node]
    if relation == CHILD:
        if words.head[i] != on or i == on:
            return False
        return _labelled(program, node, words, i)
    if relation == HEAD:
        return words.head[on] == i and i != on
    if relation == NEXT:
        return i == on + 1
    if relation == BEFORE:
        return i == on - 1
    own = words.subject[on]
    if own < 0:
        return bool(i == ~own)
    return words.head[i] == own and i != own and is_subject(words, i)


@inner
def is_subject(words: SeenWords, i: int) -> bool:
    """Tell whether a word is the subject of its head."""
    return bool(words.label[i] == SUBJECT_LABELS[0] or words.label[i] == SUBJECT_LABELS[1])


SUBJECT_LABELS = (0, 1)  # nsubj and nsubjpass come first among the labels that patterns see


@inner
def _find(program: Program, node: int, words: SeenWords, span: tuple[int, int], after: int, on: int) -> int:
    """Find the next word after `after` that a node accepts; -1: there is none."""
    for i in range(max(after + 1, span[0]), span[1]):
        if _hangs(program, node, words, i, on) and _fits(program, node, words, i):
            return i
    return -1


@kernel
def _grown(found: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return rows with room for as many again."""
    more = np.empty((2 * len(found), NODES + 1), np.int32)
    for row in range(len(found)):
        for node in range(NODES + 1):
            more[row, node] = found[row, node]
    return more


@kernel
def match(program: Program, words: SeenWords, first: int, last: int) -> NDArray[np.int32]:
    """Match all rules in the sentences from `first` to `last`: rows of rule and the words of its nodes."""
    found = np.empty((64, NODES + 1), np.int32)
    n = 0
    place = np.empty(NODES, np.int32)
    for sentence in range(first, last):
        span = (words.sentences[sentence], words.sentences[sentence + 1])
        for anchor in range(span[0], span[1]):
            for rule in range(len(program.starts) - 1):
                start, stop = program.starts[rule], program.starts[rule + 1]
                if not _fits(program, start, words, anchor) or not _labelled(program, start, words, anchor):
                    continue
                for node in range(NODES):
                    place[node] = -1
                place[0] = anchor
                depth = 1
                while depth > 0:
                    if start + depth == stop:
                        if n == len(found):
                            found = _grown(found)
                        found[n, 0] = rule
                        for node in range(NODES):
                            found[n, 1 + node] = place[node]
                        n += 1
                        depth -= 1
                        continue
                    node = start + depth
                    on = place[program.of[node]]
                    if program.absent[node]:
                        seen = place[depth] != -1  # a second time: back
                        if seen or _find(program, node, words, span, -1, on) >= 0:
                            place[depth] = -1
                            depth -= 1
                        else:
                            place[depth] = on
                            depth += 1
                        continue
                    after = place[depth]
                    nxt = _find(program, node, words, span, after, on)
                    place[depth] = nxt
                    depth += 1 if nxt >= 0 else -1
    return found[:n].copy()
