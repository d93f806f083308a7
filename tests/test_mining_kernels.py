"""The kernels behind mining against plain Python."""

from __future__ import annotations

import re

import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from whyrank.mining import _sentences as kernel
from whyrank.mining._jaccard import near_pairs, rarest_first, star_groups
from whyrank.mining.groups import Pairs, group, near_rows, promising, smallest_near
from whyrank.mining.rules import MiningRules
from whyrank.mining.sentences import Cutter, as_bytes, normalize, word_set

WORDS = ("a", "the", "and", "i", "room", "Staff", "clean", "B&B", "don't", "3.5", "&", "café", "well-kept", "we've")
GLUE = (" ", " ", " ", ", ", ". ", "! ", " - ", "   ", "\n", " (", ") ", '" ', "; ", "'", "--", "/")
RULES = MiningRules(english=0.0)
texts = st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from(GLUE)), max_size=14).map(
    lambda parts: "".join(word + glue for word, glue in parts)
)


def shingles_of(normalized: str, size: int = 2) -> frozenset[tuple[str, ...]]:
    words = normalized.split()
    return frozenset(tuple(words[k : k + size]) for k in range(max(1, len(words) - size + 1)))


def sentences_in_python(text: str, rules: MiningRules) -> list[str]:
    """The kept sentences of one review, normalized, the slow and plain way."""
    pieces = re.split(r"(?<!\d)[.,:;?!()\[\]{}*|~]|[.,:;?!()\[\]{}*|~](?!\d)|\n|(?<=\s)-|-(?=[\s-])|\s(?=\s\s)", text)
    kept: dict[frozenset[tuple[str, ...]], str] = {}
    for piece in pieces:
        words = normalize(piece).split()
        while len(words) > 1 and words[0] in rules.openers:
            words = words[1:]
        bare = words[1:] if len(words) > 1 and words[0] in rules.articles else words
        personal = any(part in rules.first_person for word in words for part in (word, word.split("'")[0]))
        if len(bare) >= rules.min_words and not personal:
            kept.setdefault(shingles_of(" ".join(bare)), " ".join(bare))
    return list(kept.values())


def cut(text: str, rules: MiningRules = RULES) -> list[str]:
    found = Cutter.of(rules).cut(pl.DataFrame({"title": [""], "text": [text]}))
    places = zip(found.starts, found.lengths, strict=True)
    return [bytes(found.text[start : start + length]).decode() for start, length in places]


@settings(max_examples=300, deadline=None)
@given(texts)
def test_cutting_agrees_with_plain_python(text: str) -> None:
    assert [normalize(sentence, RULES.articles) for sentence in cut(text)] == sentences_in_python(text, RULES)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(st.sampled_from(WORDS[4:12]), min_size=2, max_size=6).map(" ".join), min_size=2, max_size=8))
def test_keys_are_equal_exactly_when_shingle_sets_are(sentences: list[str]) -> None:
    cutter = Cutter.of(RULES)
    keys = kernel.set_keys(*cutter.shingles(*as_bytes(pl.Series(sentences))))
    sets = [shingles_of(normalize(sentence, RULES.articles)) for sentence in sentences]
    for one, _ in enumerate(sentences):
        for other, _ in enumerate(sentences):
            assert (keys[one] == keys[other]) == (sets[one] == sets[other])


def test_numbers_contractions_and_hyphens_are_read_as_people_mean_them() -> None:
    assert cut("A 3.5 star hotel, open at 7:30 daily.Great pool") == [
        "A 3.5 star hotel",
        "open at 7:30 daily",
        "Great pool",
    ]
    assert cut("I'm sure, we've seen, the staff isn't nice") == ["the staff isn't nice"]
    assert cut("top-notch service - good food") == ["top-notch service", "good food"]


def test_openers_are_cut_and_articles_make_no_difference() -> None:
    assert cut("And also the room was clean") == ["the room was clean"]
    assert cut("The room was clean. room was clean! A room was clean") == ["The room was clean"]


def test_a_sentence_counts_once_per_review_and_broken_characters_drop_it() -> None:
    assert cut("Great pool. GREAT POOL! great, pool. Great p\ufffdol") == ["Great pool"]


def test_a_review_in_another_language_is_left_out_and_a_short_one_is_not_judged() -> None:
    german = "Das Zimmer war sehr schön und sauber, das Personal war immer freundlich und hilfsbereit, " * 3
    rules = MiningRules()
    assert cut(german, rules) == []
    assert cut("Schönes Zimmer", rules) == ["Schönes Zimmer"]
    assert len(cut(german, MiningRules(english=0.0))) == 2


def test_word_table_holds_exactly_its_words() -> None:
    table = word_set(["we", "our", "i"])
    for word, inside in (("we", True), ("i", True), ("it", False), ("w", False)):
        assert kernel.in_table(table, np.uint64(kernel.hash_word(np.frombuffer(word.encode(), np.uint8)))) == inside


sets = st.lists(st.sets(st.integers(0, 25), min_size=1, max_size=24), min_size=1, max_size=40)


@settings(max_examples=150, deadline=None)
@given(sets, st.sampled_from([0.3, 0.5, 0.7, 0.8, 0.9, 1.0]))
def test_near_pairs_are_those_of_brute_force(rows: list[set[int]], similarity: float) -> None:
    rows = sorted(rows, key=len)
    indptr = np.cumsum([0, *map(len, rows)])
    scramble = np.uint64(0x9E3779B97F4A7C15)
    hashes = np.concatenate([np.array(sorted(row), np.uint64) * scramble for row in rows])
    left, right = near_rows(indptr, hashes, similarity)
    expected = {
        (a, b)
        for b, second in enumerate(rows)
        for a, first in enumerate(rows[:b])
        if len(first & second) / len(first | second) >= similarity - 1e-12
    }
    assert set(zip(left.tolist(), right.tolist(), strict=True)) == expected
    assert len(left) == len(expected)


@given(st.integers(1, 99))
def test_no_two_different_small_sets_are_near(percent: int) -> None:
    similarity = percent / 100
    least = smallest_near(similarity)
    assert least / (least + 1) >= similarity - 1e-6
    assert least == 1 or (least - 1) / least < similarity


def test_groups_are_stars_around_the_most_frequent_not_chains() -> None:
    # 0 - 1 - 2 is a chain: the most frequent takes its neighbour, the far end stays alone.
    pairs = Pairs(np.array([0, 1]), np.array([1, 2]))
    texts = pl.Series(["a", "b", "c"])
    assert group(np.array([9, 1, 5]), texts, pairs).tolist() == [0, 0, 2]
    assert group(np.array([1, 9, 1]), texts, pairs).tolist() == [1, 1, 1]
    assert group(np.array([1, 1, 1]), texts, pairs).tolist() == [0, 0, 2]


def test_only_what_could_be_said_often_enough_is_promising() -> None:
    pairs = Pairs(np.array([0, 1]), np.array([1, 2]))
    assert promising(np.array([1, 2, 1, 3, 4]), pairs, 4).tolist() == [True, True, True, False, True]


def test_kernels_take_no_rows_at_all() -> None:
    empty = np.zeros(1, np.int64)
    tokens = rarest_first(empty, np.empty(0, np.uint64))
    assert [len(side) for side in near_pairs(empty, tokens, 0.9)] == [0, 0]
    assert len(star_groups(empty, np.empty(0, np.int64), np.empty(0, np.int64))) == 0
