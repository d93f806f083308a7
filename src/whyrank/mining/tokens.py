"""Tokens and sentences of English review texts: one pattern, and a few rules for ends."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

LONGEST_SENTENCE = 80  # tokens; longer ones are cut at joints

EMOTICON = r"(?:[:;=]|8(?=[-o*']))[-o*']?[)(\]\[DPp/\\|]+(?!\w)|<3|\^_*\^"
TOKEN = re.compile(
    r"((?:https?://|www\.)\S*[\w/]|[\w.+-]+@[\w-]+\.\w[\w.]*\w|\w+\.(?:com|net|org|gov|co\.uk)\b(?:/\S*\w)?"
    rf"|{EMOTICON}"
    r"|w/o?(?!\w)"
    r"|(?:[A-Za-z]\.){2,}"
    r"|\d+(?:st|nd|rd|th|s)\b"
    r"|\d+(?:[.,:/]\d+)*(?:-[^\W\d_]+)*"  # 4.5, 10:30, 5-star
    r"|[^\W\d_][^\W_]*(?:[-'’&][^\W_]+)*"  # bed, wi-fi, B&B, mp3
    r"|\.{2,}|…+|[!?]+|-{2,}|\*+|=+|~+|_+|[^\w\s])"
)
CONTRACTION = re.compile(
    r"(.+)(n['’]t)|(.+)(['’](?:s|re|ve|ll|d|m))|(can)(not)"
    r"|(do|does|did|is|was|were|are|have|has|had|would|could|should|ca|wo|ai)(nt)",
    re.IGNORECASE,
)
EMOTICONS = re.compile(EMOTICON)
TITLES = frozenset(["mr", "mrs", "ms", "dr", "prof", "st", "mt", "ft", "no", "nos", "vol", "vs"])
ABBREVIATIONS = frozenset(  # they may end a sentence before a capital
    ["approx", "apt", "ave", "blvd", "dept", "est", "etc", "hr", "hrs", "inc", "incl", "jr", "lb"]
).union(["lbs", "ltd", "max", "min", "mins", "oz", "rd", "sq", "sr", "tel", "temp"])
CLOSERS = frozenset("\"'”’)]}»")
CONTINUERS = frozenset(",;:)]}")
JOINTS = (
    frozenset((";", ":", "--", "-", "–", "—", "..", "...", "…")),
    frozenset(",(*"),
    frozenset(("and", "but", "so")),
)


class Tokens(NamedTuple):
    """The words of a text, where they stand in it, and its sentences."""

    words: list[str]
    starts: NDArray[np.int32]  # of characters: text[starts[i]:ends[i]] == words[i]
    ends: NDArray[np.int32]
    sentences: NDArray[np.int32]  # the first word of every sentence, and the number of words


def tokenize(text: str) -> Tokens:
    """Split a text into words and sentences.

    Contractions are two words (did | n't, guest | 's), hyphenated words are one.

    >>> tokens = tokenize("The wi-fi didn't work. Great host!")
    >>> tokens.words
    ['The', 'wi-fi', 'did', "n't", 'work', '.', 'Great', 'host', '!']
    >>> tokens.sentences.tolist()
    [0, 6, 9]
    """
    parts = TOKEN.split(text)
    split_contractions(parts)
    edges = np.cumsum(np.fromiter(map(len, parts), np.int32, len(parts)), dtype=np.int32)
    words, gaps = parts[1::2], parts[0::2]
    return Tokens(words, edges[0:-1:2], edges[1::2], np.array(find_sentences(words, gaps), np.int32))


def chain(texts: Iterable[Tokens]) -> Tokens:
    """Join the tokens of several texts; their sentences and offsets stay as they are."""
    every = list(texts)
    words = [word for tokens in every for word in tokens.words]
    firsts = np.cumsum([0, *(len(tokens.words) for tokens in every)])
    sentences = [tokens.sentences[:-1] + first for tokens, first in zip(every, firsts[:-1], strict=True)]
    empty = np.zeros(0, np.int32)
    return Tokens(
        words,
        np.concatenate([empty, *(tokens.starts for tokens in every)]),
        np.concatenate([empty, *(tokens.ends for tokens in every)]),
        np.concatenate([empty, *sentences, [len(words)]]).astype(np.int32),
    )


def split_contractions(parts: list[str]) -> None:
    """Split contractions in a list of gap, word, gap, word, ..., gap."""
    for i in range(len(parts) - 2, 0, -2):
        word = parts[i]
        if word[-1] in "tT" or "'" in word or "’" in word:
            found = CONTRACTION.fullmatch(word)
            if found:
                head, tail = (group for group in found.groups() if group)
                parts[i : i + 1] = [head, "", tail]


def find_sentences(words: list[str], gaps: list[str]) -> list[int]:
    """Find the first word of every sentence; the number of words stands at the end."""
    starts = {0, len(words)}
    last = 0
    for i, word in enumerate(words):
        if gaps[i] not in ("", " ") and "\n" in gaps[i]:
            starts.add(i)
            last = max(last, i)
        if (word[-1] == "." or not word[0].isalnum()) and i >= last and is_end(words, gaps, i, last):
            after = skip_closers(words, gaps, i + 1)
            if not continues(words, gaps, i, after):
                starts.add(after)
                last = after
    return cut_long(words, sorted(starts))


def is_end(words: list[str], gaps: list[str], i: int, first: int) -> bool:
    """Tell whether a word may end the sentence that begins at `first`."""
    word = words[i]
    after = words[i + 1] if i + 1 < len(words) else ""
    if word[0] in "!?":
        return True
    if word in ("..", "…") or word.startswith("..."):
        return after[:1].isupper()
    if word == ".":
        before = words[i - 1] if i > first else ""
        if before.lower() in TITLES or (len(before) == 1 and before.isupper() and before != "I"):
            return False
        if before.lower() in ABBREVIATIONS:
            return after[:1].isupper()
        if i == first + 1 and before.isdigit():  # 1. the first of a list
            return False
        return bool(gaps[i + 1]) or not after[:1].isalnum() or (len(before) > 1 and after[0].isalpha())
    if word[-1] == ".":
        return word.lower() in ("a.m.", "p.m.") and after[:1].isupper()
    return len(word) > 1 and EMOTICONS.fullmatch(word) is not None


def skip_closers(words: list[str], gaps: list[str], i: int) -> int:
    """Skip quotes and brackets that close at an end, further marks and emoticons."""
    while i < len(words):
        word = words[i]
        closes = word in CLOSERS and not gaps[i]
        if not (closes or word[0] in "!?." or (len(word) > 1 and EMOTICONS.fullmatch(word))) or "\n" in gaps[i]:
            break
        i += 1
    return i


def continues(words: list[str], gaps: list[str], end: int, after: int) -> bool:
    """Tell whether the sentence goes on after an end: (great!) but ..."""
    if after == len(words):
        return True
    word = words[after]
    return word in CONTINUERS or (word[0].islower() and words[after - 1] in CLOSERS and "\n" not in gaps[after])


def cut_long(words: Sequence[str], starts: list[int]) -> list[int]:
    """Cut sentences that are too long behind their last joint of the strongest kind."""
    bounds = [starts[0]]
    for end in starts[1:]:
        while end - bounds[-1] > LONGEST_SENTENCE:
            bounds.append(find_joint(words, bounds[-1] + LONGEST_SENTENCE // 2, bounds[-1] + LONGEST_SENTENCE))
        if end > bounds[-1]:
            bounds.append(end)
    return bounds


def find_joint(words: Sequence[str], first: int, end: int) -> int:
    """Find where to cut between two words of a long sentence."""
    for kind in JOINTS:
        for i in range(end - 1, first, -1):
            if words[i].lower() in kind:
                return i if words[i][0].isalpha() else i + 1
    return end
