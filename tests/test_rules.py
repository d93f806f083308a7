"""Rules over the parse: their examples, the patterns they are made of, what denies or reports, and frozen probes."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from reading import Found, language, read_texts
from whyrank.errors import DataError, MissingExtra, ParameterError
from whyrank.mining.language import _valences, language_of
from whyrank.mining.patterns import MentionRule, SeenWords, compile_rules, match

FILE = Path(__file__).with_name("probes.jsonl")
PROBES = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
FLOOR = 0.74  # share of the probes that are right, a little below what is
EXAMPLES = language().examples


@pytest.fixture(scope="module")
def found() -> dict[str, list[Found]]:
    """Return what is found in all examples of all rules."""
    texts = [text for rule in EXAMPLES for text in (*(each[0] for each in rule["gives"]), *rule["not"])]
    return dict(zip(texts, read_texts(texts), strict=True))


@pytest.mark.parametrize("rule", EXAMPLES, ids=[rule["id"] for rule in EXAMPLES])
def test_a_rule_gives_what_its_examples_say(rule: dict[str, list], found: dict[str, list[Found]]) -> None:
    for text, aspect, said, sign in rule["gives"]:
        own = [each for each in found[text] if each.rule == rule["id"] and not each.matter]
        fitting = [each for each in own if aspect in each.names and said in each.says and sign in (0, each.sign)]
        assert fitting, (text, found[text])
    for text in rule["not"]:
        assert not [each for each in found[text] if each.rule == rule["id"] and not each.matter], text


def hit(wanted: list[object], found: list[Found]) -> bool:
    """Tell whether a mention is found: its aspect, its property by word or sense, and its sign where it is given."""
    aspect, said, *sign = wanted
    return any(
        not each.matter and aspect in each.names and said in each.says and (not sign or each.sign == sign[0])
        for each in found
    )


def test_frozen_probes() -> None:
    right, every = Counter[str](), Counter(probe["kind"] for probe in PROBES)
    for probe, mentions in zip(PROBES, read_texts([probe["text"] for probe in PROBES]), strict=True):
        named = [each for each in mentions if each.named]  # what the shop or the buyer has is not the item's
        wrong = any(hit(each, named) for each in probe["never"])
        right[probe["kind"]] += all(hit(each, mentions) for each in probe["want"]) and not wrong
    for kind in sorted(every, key=lambda kind: right[kind] / every[kind]):
        print(f"{right[kind]} of {every[kind]}  {kind}")
    print(f"{right.total() / every.total():.3f} of {every.total()}")
    assert right.total() >= FLOOR * every.total()


COUNTS, WISHED, REPORTED, ELSEWHERE, ASKED, ADVISED, CONDITIONAL = 0, 1, 2, 4, 8, 16, 32


@pytest.mark.parametrize(
    ("text", "sign", "matter"),
    [
        ("The bed was comfortable.", 1, COUNTS),
        ("The bed was not comfortable.", -1, COUNTS),
        ("The bed was never comfortable.", -1, COUNTS),
        ("The bed was hardly comfortable.", -1, COUNTS),
        ("The bed was not uncomfortable.", 1, COUNTS),
        ("Nobody found the bed comfortable.", -1, COUNTS),
        ("The bed was not only comfortable but also clean.", 1, COUNTS),
        ("I don't think the bed was comfortable.", -1, COUNTS),
        ("The bed was neither clean nor comfortable.", -1, COUNTS),
        ("The bed could not be more comfortable.", 1, COUNTS),
        ("The bed could not have been less comfortable.", -1, COUNTS),
        ("The bed is no longer comfortable.", -1, COUNTS),
        ("The bed could be comfortable.", 1, WISHED),
        ("I hoped that the bed was comfortable.", 1, WISHED),
        ("The bed used to be comfortable.", 1, WISHED),
        ("My friend says the bed is comfortable.", 1, REPORTED),
        ("Supposedly the bed is comfortable.", 1, REPORTED),
        ("The owner mentions the comfortable bed.", 1, REPORTED),
        ("We had a terrible sofa instead of a comfortable bed.", 1, ELSEWHERE),
        ("Our previous hotel had a comfortable bed.", 1, ELSEWHERE),
        ("Is the bed comfortable?", 1, ASKED),
        ("Bring a comfortable bed.", 1, ADVISED),
        ("If the bed is comfortable, we stay.", 1, CONDITIONAL),
        ("It is good for a comfortable bed.", 1, CONDITIONAL),
    ],
)
def test_what_denies_wishes_reports_asks_and_advises(text: str, sign: int, matter: int) -> None:
    (mentions,) = read_texts([text])
    said = [each for each in mentions if each.aspect == "bed" and {"comfortable", "uncomfortable"} & each.says]
    assert said
    assert all(each.matter == 0 if matter == 0 else each.matter & matter for each in said)
    assert {each.sign for each in said} == {sign}


LABELS = ("nsubj", "nsubjpass", "dobj", "amod", "neg", "root")
CLASSES = {"noun": 0, "verb": 1, "adj": 2, "good": 3, "not": 4, "also_good": 3}


def matched(lines: tuple[str, ...], label: str = "", subject: list[int] | None = None) -> list[list[int]]:
    """Match a rule in: bed(0) is(1) not(2) good(3) room(4), the room hangs on good."""
    rule = MentionRule("rule", "opinion", lines, label, "A", "P", "", 0)
    program = compile_rules([rule], CLASSES, LABELS)
    bits = np.array([1, 2, 16, 4 | 8, 1], np.uint64)
    labels = np.array([LABELS.index(each) for each in ("nsubj", "root", "neg", "amod", "dobj")], np.int8)
    heads, own = np.array([1, 1, 1, 1, 3], np.int32), np.array(subject or range(5), np.int32)
    found = match(program, SeenWords(bits, labels, heads, own, np.array([0, 5], np.int32)), 0, 1)
    return [row[1 : 1 + len(lines)].tolist() for row in found]


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (("P: adj", "A = head of P: verb"), [[3, 1]]),
        (("P: verb", "A = nsubj of P: noun"), [[1, 0]]),
        (("P: verb", "A = nsubj|neg of P"), [[1, 0], [1, 2]]),
        (("P: verb", "A = child of P: noun|adj"), [[1, 0], [1, 3]]),
        (("P: verb", "A = subject of P: noun"), [[1, 0]]),
        (("P: adj", "A = next of P"), [[3, 4]]),
        (("P: adj", "A = before of P: not"), [[3, 2]]),
        (("P: adj good", "A = head of P"), [[3, 1]]),
        (("P: good|also_good", "A = head of P"), [[3, 1]]),
        (("P: adj !good", "A = head of P"), []),
        (("P: verb", "A = amod of P", "no neg of P"), []),
        (("P: verb", "A = amod of P", "no dobj of P"), [[1, 3, 1]]),
        (("P: verb", "A = nsubj of P", "B = amod of P", "C = dobj of B"), [[1, 0, 3, 4]]),
    ],
)
def test_patterns_match_by_hand(lines: tuple[str, ...], found: list[list[int]]) -> None:
    assert matched(lines) == found


def test_a_verb_has_the_subject_of_another_one_or_a_noun() -> None:
    lines = ("P: adj", "A = subject of P: noun")
    assert matched(lines) == []
    assert matched(lines, subject=[0, 1, 2, 1, 4]) == [[3, 0]]
    assert matched(lines, subject=[0, 1, 2, ~4, 4]) == [[3, 4]]
    assert matched(("P: adj", "A = head of P"), "neg") == []


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (("P: adj", "A = head of X"), "no line of a pattern"),
        (("A = head of P",), "no line of a pattern"),
        (("P: adj", "A = uncle of P"), "there is no 'uncle'"),
        (("P: adj", "A = head of P: house"), "there is no 'house'"),
        (("P: adj", "A = head of P: noun adj verb good"), "room for so many"),
        (("P: adj", "B = head of P"), "no line names A"),
        (("P: adj", "A = head of P", *(f"B{k} = head of P" for k in range(5))), "more than 6 lines"),
    ],
)
def test_a_mistake_in_a_rule_is_named(lines: tuple[str, ...], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        matched(lines)


def test_a_folder_of_a_domain_adds_words_and_rules(tmp_path: Path) -> None:
    (tmp_path / "senses.txt").write_text("bouldery +: crimpy\n", encoding="utf-8")
    (tmp_path / "rules.toml").write_text(
        '[[rule]]\nid = "own"\nkind = "opinion"\nmatch = ["P: judged", "A = head of P: noun"]\naspect = "A"\n'
        'property = "P"\n',
        encoding="utf-8",
    )
    (there,) = read_texts(["A crimpy wall."], tmp_path)
    assert {("wall", "crimpy", 1)} == {(each.aspect, each.word, each.sign) for each in there}
    assert "own" in {each.rule for each in there}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("senses.txt", "soft fluffy\n", "is no sense"),
        ("verbs.txt", "leave leaves\n", "has no colon"),
        ("rules.toml", "rule = 1 2\n", "not readable"),
        ("rules.toml", '[[rule]]\nid = "x"\n', "rule x lacks"),
    ],
)
def test_a_mistake_in_a_language_is_named(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        language_of("en", tmp_path)
    with pytest.raises(ParameterError, match="there is no language"):
        language_of(str(tmp_path / "nowhere"))


def test_without_its_word_lists_mining_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whyrank.mining.language.find_spec", lambda package: None)
    _valences.cache_clear()
    try:
        with pytest.raises(MissingExtra, match=r"whyrank\[mine\]"):
            _valences()
    finally:
        _valences.cache_clear()
