"""One list does not repeat itself: neither a sense, nor an aspect under another name, nor a detail."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import whyrank as wr
from whyrank.data import Triplets
from whyrank.data.csr import CSR
from whyrank.explain import evidence
from whyrank.explain.evidence import Counted
from whyrank.explain.topics import groups_of, topic_of
from whyrank.index._grounded import ListRules, first_that_fit

Statements = dict[str, tuple[str, int]]  # id: text, people
MANY: Statements = {
    "control|simple|+": ("simple controls", 9),
    "gameplay|simple|+": ("simple gameplay", 8),
    "art|beautiful|+": ("beautiful art", 7),
    "graphic|retro|+": ("retro graphics", 6),
    "rooftop bar|lively|+": ("lively rooftop bar", 5),
    "bar|cozy|+": ("cozy bar", 4),
    "level|short|+": ("short levels", 3),
}


def model_of(statements: Statements) -> wr.Model:
    rows = [
        (f"u{n}", "i", each, text, *each.split("|")[:2], -1 if each[-1] == "-" else 1)
        for each, (text, people) in statements.items()
        for n in range(people)
    ]
    columns = ["user", "item", "explanation", "text", "aspect", "sense", "polarity"]
    return wr.POP().fit(Triplets.from_frame(pl.DataFrame(rows, columns, orient="row")))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("cocktail", "drink", True),
        ("art style", "graphic", True),
        ("rooftop bar", "bar", True),
        ("sound quality", "sound", True),
        ("battery life", "battery", True),
        ("food quality", "build quality", False),
        ("bed", "room", False),
        ("to work", "work", False),
        ("quality", "food", False),
    ],
)
def test_kinds_of_a_thing_and_other_words_for_it_are_one_topic(one: str, other: str, same: bool) -> None:
    assert (topic_of(one) == topic_of(other)) == same


def test_a_list_has_a_sense_and_a_topic_once() -> None:
    found = model_of(MANY).explain("new", "i", n=7)
    assert [each.text for each in found] == ["simple controls", "beautiful art", "lively rooftop bar", "short levels"]


def test_all_is_listed_where_no_limit_is_wanted() -> None:
    found = model_of(MANY).explain("new", "i", n=7, per_aspect=0)
    assert [each.text for each in found] == [text for text, _ in MANY.values()]


def test_what_the_item_itself_is_may_come_more_than_once_but_not_with_its_opposite() -> None:
    itself: Statements = {
        "it|tasty|+": ("delicious recipe", 9),
        "it|easy|+": ("easy recipe", 8),
        "to make|easy|+": ("easy to make", 7),
        "it|difficult|-": ("difficult recipe", 6),
    }
    rows = [
        (f"u{n}", "i", each, text, "it", each.split("|")[1], -1 if each[-1] == "-" else 1)
        for each, (text, people) in itself.items()
        for n in range(people)
    ]
    columns = ["user", "item", "explanation", "text", "aspect", "sense", "polarity"]
    model = wr.POP().fit(Triplets.from_frame(pl.DataFrame(rows, columns, orient="row")))
    for polarity in ("positive", "any"):
        found = model.explain("new", "i", polarity=polarity, backing=0.0)
        assert [each.text for each in found] == ["delicious recipe", "easy recipe"]


def test_drawn_and_diverse_lists_do_not_repeat_either() -> None:
    model = model_of(MANY)
    topics, _, senses = groups_of(model.catalog_)
    for options in ({"explore": 9.0, "draw": 3}, {"explore": 9.0, "draw": 4}, {"diversity": 0.3}):
        found = model.explain("new", "i", n=7, **options)
        numbers = [model.catalog_.explanations.number(each.explanation) for each in found]
        assert len(numbers) == 4
        assert len(set(topics[numbers])) == len(set(senses[numbers])) == 4


def test_plain_praise_and_absences_say_something_new_about_every_aspect() -> None:
    plain: Statements = {
        "bed|great|+": ("great bed", 5),
        "pool|great|+": ("great pool", 4),
        "water|missing|-": ("no water", 3),
        "parking|missing|-": ("no parking", 2),
    }
    model = model_of(plain)
    assert [each.text for each in model.explain("new", "i")] == ["great bed", "great pool"]
    assert [each.text for each in model.explain("new", "i", polarity="negative")] == ["no water", "no parking"]


def test_a_detail_is_told_once_a_list_and_not_beside_a_reason_that_says_it() -> None:
    told: Statements = {
        "cake|great|+": ("great cakes", 9),
        "tea|great|+": ("great tea", 8),
        "cake|delicious|+": ("delicious cakes", 3),
        "tea|delicious|+": ("delicious tea", 2),
    }
    first, second = (each.sentence for each in model_of(told).explain("new", "i", vague=0.0))
    assert "Three call them delicious" in first
    assert "delicious" not in second
    told |= {"scone|delicious|+": ("delicious scones", 7)}
    sentences = [each.sentence for each in model_of(told).explain("new", "i", vague=0.0)]
    assert sum("delicious" in each for each in sentences) == 1


lists = st.lists(st.lists(st.tuples(st.integers(-1, 2), st.integers(-1, 2)), min_size=1, max_size=4), max_size=4)


@given(lists)
def test_details_are_told_as_by_the_definition(each: list[list[tuple[int, int]]]) -> None:
    rank = np.array([place + 1 for listed in each for place in range(len(listed))], np.int32)
    own, told = (np.array([pair[k] for listed in each for pair in listed], np.int32) for k in (0, 1))
    expected = [
        -1 if detail in [one for one, _ in listed] or detail in [other for _, other in listed[:place]] else detail
        for listed in each
        for place, (_, detail) in enumerate(listed)
    ]
    size, empty, nobody = len(rank), CSR.empty(1), np.full(len(each), -1, np.int32)
    unknown, none, zeros = np.full(size + 3, -1, np.int32), np.empty(0, np.int32), np.zeros(size, np.int32)
    said = CSR(np.array([0, size]), np.arange(size, dtype=np.int32), zeros)
    known = Counted(
        aspect=unknown,
        position=unknown,
        sense=np.concatenate([own, np.arange(3, dtype=np.int32)]),  # the last three explanations are details
        said=said,
        supporting=zeros,
        mixed=zeros,
        details=np.where(told < 0, -1, size + told).astype(np.int32),
        detail_people=none,
        times=np.empty(0, np.int64),
        opposing=empty,
        aspects=empty,
        praising=none,
        blaming=none,
        by_user=empty,
        aspects_by_user=empty,
        items_by_user=empty,
    )
    numbers = np.full((len(each), max(map(len, each), default=0)), -1, np.int32)
    numbers[[k for k, listed in enumerate(each) for _ in listed], rank - 1] = np.arange(size)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evidence, "_counted_of", lambda _: known)
        lists = (numbers, np.zeros(numbers.shape, np.float32))
        found = evidence.count_reasons(None, (nobody, np.zeros(len(each), np.int32)), lists).told["detailed"]  # type: ignore[arg-type]
    assert [each - size if each >= 0 else -1 for each in found.tolist()] == expected


@given(st.permutations(range(6)), st.integers(0, 2), st.booleans(), st.integers(1, 6))
def test_lists_are_chosen_one_by_one(order: list[int], per_aspect: int, consistent: bool, n: int) -> None:
    topic, sense = np.array([0, 0, 1, 2, 2, -1]), np.array([0, 1, 0, 2, -1, -1])
    counted = np.array([0, 0, 1, -1, -1, -1])
    signs = np.array([1, -1, 1, 1, 1, 0], np.int8)
    expected: list[int] = []
    for e in order:
        same = [o for o in expected if topic[e] >= 0 and topic[o] == topic[e]]
        if consistent and any(signs[o] * signs[e] < 0 for o in same):
            continue
        limit = [o for o in same if counted[e] >= 0]
        if per_aspect and (len(limit) >= per_aspect or any(sense[o] == sense[e] >= 0 for o in expected)):
            continue
        expected.append(e)
    numbers, scores = np.array([order], np.int32), np.zeros((1, 6), np.float32)
    groups = np.stack([topic, counted, sense]).astype(np.int32)
    found, _ = first_that_fit(numbers, scores, ListRules(groups, signs, per_aspect, consistent), n)
    assert found[0][found[0] >= 0].tolist() == expected[:n]


def test_what_more_people_say_than_praise_the_aspect_is_no_detail_of_the_praise() -> None:
    for large, told in ((2, True), (3, False)):
        model = model_of({"pool|great|+": ("great pool", 2), "pool|large|+": ("large pool", large)})
        (found,) = model.explain("new", "i", exclude=["pool|large|+"])
        assert ("large" in found.sentence) == told
