"""Sentences: grammatical, true to the counts, replaceable; and claims of other texts checked against reasons."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import whyrank as wr
from whyrank.data.catalog import Catalog
from whyrank.data.triplets import Triplets
from whyrank.errors import DataError
from whyrank.explain.evidence import Evidence
from whyrank.explain.reasons import Reason
from whyrank.models import POP
from whyrank.wording.claims import claims, supported
from whyrank.wording.phrases import phrase_of, plural_of, singular_of
from whyrank.wording.templates import OF_SHARE, SentenceWriter, Templates, Told, default_templates

ENGLISH = default_templates()
WORDS = ENGLISH.words
COLUMNS = ["user", "item", "explanation", "text", "aspect", "sense", "polarity", "opposite", "sentence"]
Statement = tuple[str, str | None, str | None, int]  # text, aspect, sense, polarity
STATEMENTS: dict[str, Statement] = {  # of all kinds
    "bed+": ("comfortable bed", "bed", "comfortable", 1),
    "bed-": ("hard bed", "bed", "hard", -1),
    "wall-": ("thin walls", "wall", "thin", -1),
    "room0": ("large room", "room", "large", 0),
    "room-": ("too small room", "room", "small", -1),
    "host+": ("responsive host", "host", "responsive", 1),
    "host great": ("great host", "host", "great", 1),
    "staff great": ("great staff", "staff", "great", 1),
    "staff bad": ("bad staff", "staff", "bad", -1),
    "view great": ("great views", "view", "great", 1),
    "view stunning": ("stunning views", "view", "beautiful", 1),
    "food average": ("average food", "food", "average", 0),
    "parking+": ("free parking", "parking", "free", 1),
    "it+": ("easy to use", "it", "easy to use", 1),
    "it-": ("uncomfortable", "it", "uncomfortable", -1),
    "game+": ("fun game", "it", "fun", 1),
    "price+": ("worth the money", "price", "worth", 1),
    "use+": ("good for families", "it", "for families", 1),
    "use-": ("not good for children", "it", "for children", -1),
    "hair+": ("leaves hair soft", "hair", "leaves soft", 1),
    "skin-": ("leaves skin dry", "skin", "leaves dry", -1),
    "stain+": ("removes stains", "stain", "removes", 1),
    "heater+": ("works well", "heater", "works well", 1),
    "lasts+": ("lasts", "battery", "lasts", 1),
    "fit+": ("fits well", "it", "well", 1),
    "beach+": ("close to the beach", "it", "near the beach", 1),
    "park+": ("8 minutes to the park", "it", "near the park", 1),
    "elevator-": ("no elevator", "elevator", "missing", -1),
    "effects+": ("no side effects", "side effect", "missing", 1),
    "salt-": ("too much salt", "salt", "excessive", -1),
    "towel-": ("no towel", "towel", "missing", -1),
    "sticky+": ("not sticky", "it", "not sticky", 1),
    "parking there": ("has a parking", "parking", "there", 1),
    "space+": ("plenty of space", "space", "plenty", 1),
    "washer+": ("has a washer", "washer", "there", 1),
    "own+": ("room for all seven of us", "room", '"room for all seven of us', 1),
    "own-": ("it broke after 2 weeks", "strap", '"it broke after 2 weeks', -1),
    "edited": ("Kids adore it here", "it", "for families", 1),
    "blank": ("...", " ", "", 1),
    "tag": ("Very good!", None, None, 0),
}


def triplets_of(rows: Iterable[tuple[str, str, str]], quotes: dict[str, str] | None = None) -> Triplets:
    """Triplets of (user, item, statement), each with what the user wrote."""
    opposites = {"bed+": "hard", "bed-": "comfortable", "it+": "hard to use"}
    quoted = quotes or {}
    made = [(u, i, s, *STATEMENTS[s], opposites.get(s), quoted.get(s)) for u, i, s in rows]
    frame = pl.DataFrame(made, COLUMNS, orient="row", infer_schema_length=None)
    return Triplets.from_frame(frame if quotes else frame.drop("sentence"))


CATALOG = Catalog.of(triplets_of(("u", "i", each) for each in STATEMENTS))
GUESTS = Templates.of({**ENGLISH.settings, "people": ["guest", "guests"], "items": ["film", "films"]})


def sentence(each: str, quote: str | None = None, templates: Templates = GUESTS, **counts: Any) -> str:
    if "detailed" in counts:
        counts["detailed"] = CATALOG.explanations.number(counts["detailed"])
    told = {"explanation": CATALOG.explanations.number(each), "variant": 0, "supporting": 0, **counts}
    return templates.writer(CATALOG).sentence(tuple(Told(**told)), quote)


# -- phrases -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "aspect", "phrase", "topic", "several"),
    [
        ("comfortable bed", "bed", "the comfortable beds", "beds", True),
        ("comfortable beds", "bed", "the comfortable beds", "beds", True),
        ("friendly staff", "staff", "the friendly staff", "staff", True),
        ("tasty breakfast", "breakfast", "the tasty breakfast", "breakfast", False),
        ("scenic location", "location", "the scenic location", "the location", False),
        ("thin walls", "wall", "the thin walls", "walls", True),
        ("special effects", "special effects", "the special effects", "special effects", True),
        ("long battery life", "battery life", "the long battery life", "the battery life", False),
        ("fresh side dish", "side dish", "the fresh side dishes", "side dishes", True),
        ("cosy living room", "living room", "the cosy living room", "the living room", False),
        ("fair prices", "price", "the fair prices", "the prices", True),
        ("clean glass", "glass", "the clean glass", "the glass", False),
        ("bus", "bus", "the bus", "the bus", False),
        ("smart AI", "ai", "the smart AI", "the AI", False),
        ("chewy cookies", "cookie", "the chewy cookies", "the cookies", True),
        ("too small room", "room", None, "rooms", True),
        ("easy to find key", "key", None, "keys", True),
        ("great view", "view", "the views", "views", True),
    ],
)
def test_noun_phrases(text: str, aspect: str, phrase: str | None, topic: str, several: bool) -> None:
    found = phrase_of(text, aspect, None, WORDS)
    assert (found.phrase, found.topic, found.several) == (phrase, topic, several)


@pytest.mark.parametrize(
    ("each", "kind"),
    [
        *(("bed+", "opinion"), ("staff great", "whole"), ("it+", "itself"), ("price+", "itself"), ("use-", "use")),
        *(("hair+", "effect"), ("fit+", "effect"), ("beach+", "near"), ("park+", "near"), ("effects+", "lack")),
        *(
            ("blank", "said"),
            ("space+", "lack"),
            ("washer+", "fact"),
            ("own-", "words"),
            ("edited", "words"),
            ("tag", "said"),
        ),
    ],
)
def test_kinds_follow_from_aspect_and_sense_and_other_texts_are_quoted(each: str, kind: str) -> None:
    text, aspect, sense, _ = STATEMENTS[each]
    assert phrase_of(text, aspect, sense, WORDS).kind == kind


@pytest.mark.parametrize(
    ("one", "many"),
    [
        *(("bed", "beds"), ("dish", "dishes"), ("facility", "facilities"), ("key", "keys"), ("box", "boxes")),
        *(("child", "children"), ("waitress", "waitresses"), ("shelf", "shelves"), ("movie", "movies")),
        *(("size", "sizes"), ("series", "series"), ("pie", "pies"), ("course", "courses"), ("bus", "buses")),
    ],
)
def test_plurals(one: str, many: str) -> None:
    assert (plural_of(one, WORDS.irregular), plural_of(many, WORDS.irregular)) == (many, many)
    assert (singular_of(many, WORDS.irregular), singular_of(one, WORDS.irregular)) == (one, one)


# -- sentences ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("each", "counts", "expected"),
    [
        ("bed+", {"supporting": 1}, "One guest finds the beds comfortable."),
        ("bed+", {"supporting": 2, "variant": 1}, "The beds are comfortable, say two guests."),
        ("bed+", {"supporting": 1234, "variant": 2}, "1,234 guests praise the comfortable beds."),
        ("bed+", {"supporting": 12, "opposing": 2}, "12 guests find the beds comfortable. Two disagree."),
        ("bed+", {"supporting": 3, "opposing": 1}, "Three guests find the beds comfortable. One disagrees."),
        ("bed+", {"supporting": 7, "reviewers": 13}, "7 of 13 guests find the beds comfortable."),
        ("bed+", {"supporting": 1, "reviewers": 3}, "One of three guests finds the beds comfortable."),
        ("bed+", {"supporting": 7, "reviewers": 130}, "Seven guests find the beds comfortable."),
        (
            "bed+",
            {"supporting": 3, "familiar": 1},
            "Three guests find the beds comfortable. You have mentioned beds before.",
        ),
        (
            "wall-",
            {"supporting": 9, "opposing": 1, "familiar": 2},
            "Nine guests find the walls thin. One disagrees. You often mention walls.",
        ),
        ("wall-", {"supporting": 1, "variant": 1}, "One guest complains about the thin walls."),
        ("room-", {"supporting": 2, "variant": 1}, "The rooms are too small, say two guests."),
        ("room0", {"supporting": 7}, "Seven guests mention the large rooms."),
        ("host+", {"supporting": 4, "variant": 1}, "The host is responsive, say four guests."),
        ("parking+", {"supporting": 5}, "Five guests praise the free parking."),
        ("view great", {"supporting": 12}, "12 guests praise the views."),
        (
            "view great",
            {"supporting": 12, "opposing": 2, "detail": 4, "detailed": "view stunning"},
            "12 guests praise the views. Two disagree. Four call them stunning.",
        ),
        (
            "staff bad",
            {"supporting": 5, "detail": 1, "detailed": "host+"},
            "Five guests complain about the staff. One calls them responsive.",
        ),
        ("host great", {"supporting": 2, "detail": 1, "detailed": "host+", "variant": 1}, None),
        ("it+", {"supporting": 6, "variant": 1}, "It is easy to use, say six guests."),
        ("game+", {"supporting": 6}, "Six guests find it fun."),
        ("price+", {"supporting": 2}, "Two guests find it worth the money."),
        ("use+", {"supporting": 6}, "Good for families, say at least six guests."),
        ("use+", {"supporting": 2}, "Two guests find it good for families."),
        ("use-", {"supporting": 2}, "It is not good for children, say two guests."),
        ("hair+", {"supporting": 5}, "It leaves hair soft, say five guests."),
        ("skin-", {"supporting": 1}, "One guest complains that it leaves skin dry."),
        ("heater+", {"supporting": 5, "variant": 1}, "Five guests say the heater works well."),
        ("lasts+", {"supporting": 2}, "The battery lasts, say two guests."),
        ("beach+", {"supporting": 6}, "Close to the beach, say at least six guests."),
        ("park+", {"supporting": 6, "variant": 1}, "Six guests mention that it is 8 minutes to the park."),
        ("elevator-", {"supporting": 2}, "There is no elevator, say two guests."),
        ("effects+", {"supporting": 8, "variant": 1}, "There are no side effects, say eight guests."),
        ("towel-", {"supporting": 2}, "There are no towels, say two guests."),
        ("sticky+", {"supporting": 2}, "It is not sticky, say two guests."),
        ("parking there", {"supporting": 2}, "It has parking, say two guests."),
        ("salt-", {"supporting": 1, "variant": 1}, "One guest complains that there is too much salt."),
        ("space+", {"supporting": 1}, "One guest reports plenty of space."),
        ("washer+", {"supporting": 4, "variant": 1}, "Four guests mention that it has a washer."),
        ("own+", {"supporting": 6}, "Six guests agree: “room for all seven of us”."),
        ("own+", {"supporting": 1}, "One guest says: “room for all seven of us”."),
        ("edited", {"supporting": 6}, "Six guests agree: “Kids adore it here”."),
        ("tag", {"supporting": 12}, "12 guests said “Very good” about this."),
        (
            "tag",
            {"supporting": 2, "user_says": 1},
            "Two guests said “Very good” about this. You have said so about one film.",
        ),
        ("bed+", {}, "Nobody mentions the comfortable beds here yet."),
        ("bed+", {"mixed": 2}, "Two guests say “comfortable bed”, and the opposite, too."),
        ("bed+", {"user_says": 2}, "Nobody mentions the comfortable beds here yet. You have said so elsewhere."),
        ("elevator-", {}, "Nobody has said “no elevator” about this yet."),
    ],
)
def test_sentences_follow_the_counts(each: str, counts: dict[str, Any], expected: str | None) -> None:
    expected = expected or "Two guests like the host. One calls them responsive."
    assert sentence(each, **counts) == expected


@pytest.mark.parametrize(
    ("each", "quote", "expected"),
    [
        ("staff great", "they found us a pram", "Six guests praise the staff: “they found us a pram”. One disagrees."),
        ("staff great", "They found a pram.", "Six guests praise the staff: “They found a pram.” One disagrees."),
        ("bed+", "The bed was so comfortable", "Six guests find the beds comfortable. One disagrees."),  # nothing new
        ("bed+", "long " * 30, "Six guests find the beds comfortable. One disagrees."),
        ("own+", "my own words", "Six guests agree: “room for all seven of us”. One disagrees."),
    ],
)
def test_the_general_point_is_counted_and_the_detail_quoted(each: str, quote: str, expected: str) -> None:
    assert sentence(each, quote, supporting=6, opposing=1) == expected
    assert "pram" not in sentence(each, quote, Templates.read(None, quotes=False), supporting=6)


def test_tags_are_tagged() -> None:
    catalog = Catalog.of(Triplets.from_frame({"user": ["u"], "item": ["i"], "explanation": ["prison"]}))
    found = GUESTS.writer(catalog).sentence(tuple(Told(0, 0, 12, user_says=4)))
    assert found == "12 guests tagged this “prison”. You have given this tag to four films."


NUMBER = rf"(?:\d[\d,]*|{'|'.join(ENGLISH.settings['numbers'][1:])})"
COUNTED = {  # every way in which a sentence speaks of a number, and the count of the evidence that it must be
    rf"({NUMBER}) disagrees?": "opposing",
    rf"({NUMBER}) calls? (?:it|them) \w+": "detail",
    rf"(?:about|to) ({NUMBER}) items?": "user_says",
    rf"({NUMBER}) (?:person says|people say) “[^”]+”, and the opposite, too": "mixed",
    rf"({NUMBER})(?: of {NUMBER})? (?:person|people)": "supporting",
}


def numbers_of(text: str) -> dict[str, int]:
    """The numbers of a sentence by the count that they must be; what no form accounts for is an error."""
    found, rest = {}, text.lower().replace("8 minutes", "")
    for form, name in COUNTED.items():
        for match in re.finditer(form, rest):
            word = match[1].replace(",", "")
            found[name] = int(word) if word.isdigit() else ENGLISH.settings["numbers"].index(word)
        rest = re.sub(form, "", rest)
    assert not re.search(rf"\b{NUMBER}\b", re.sub("“[^”]*”", "", rest)), text
    return found


def reason(text: str, aspect: str | None, polarity: int, said: str = "", quote: str = "", **counts: int) -> Reason:
    known: dict[str, Any] = {each.name: None if each.optional else 0 for each in Evidence.declared()}
    evidence, quotes = Evidence(**known | counts), [dict[str, object](text=quote)] if quote else []
    shown = said or f"Sentence about {text}."
    return Reason(1, text, text, shown, 1.0, {}, evidence, aspect, polarity, quotes, None)


QUOTES = (
    None,
    "we counted 40 steps to the gate",
    "So light, so quiet!",
    "it says “welcome”; then it sings.",
    "such a joy to watch…",
)


def test_ten_thousand_sentences_are_well_formed_true_and_backed_and_no_other_number_is() -> None:
    rng = np.random.default_rng(0)
    writer: SentenceWriter = ENGLISH.writer(CATALOG)
    verbs = ENGLISH.settings["verbs"].values()
    disagree = "|".join(rf"people {one}|person {many}|{many} one" for one, many in verbs)
    wrong = re.compile(rf"  |[{{}}\0]|None|“”|[^.“]\.\.|\b(?:{disagree})\b")
    for _ in range(10_000):
        each = list(STATEMENTS)[rng.integers(len(STATEMENTS))]
        text, aspect, _, sign = STATEMENTS[each]
        most, counts = int(rng.choice([1, 2, 12, 3000])), {}
        counts["supporting"] = int(rng.integers(1, most + 1))
        counts["opposing"], counts["user_says"] = (int(n) for n in rng.integers(0, 3, 2))
        detailed = CATALOG.explanations.number("view stunning") if each == "view great" else -1
        detail = min(2, counts["supporting"])
        reviewers = int(rng.choice([0, 1, 3])) * counts["supporting"]
        told = Told(CATALOG.explanations.number(each), int(rng.integers(12)), **counts, detail=detail)
        told = told._replace(detailed=detailed, reviewers=reviewers, familiar=int(rng.integers(3)))
        quote = QUOTES[rng.integers(len(QUOTES))]
        found = writer.sentence(tuple(told), quote)
        assert not wrong.search(re.sub(rf"\b(?:[Oo]ne|1) of {NUMBER} people", "one person", found)), found
        assert re.match(r"[A-Z\d]", found), found
        assert re.search(r"(?:[.!?…]|[.!?…]”)$", found), found
        assert (quote is None) or each[:3] in ("own", "edi", "tag", "bla") or f": “{quote}”" in found, found
        assert not ({"host", "staff"} & set(found.lower().split()) and " it " in found.replace(f"“{quote}”", "")), found
        numbers = numbers_of(found.replace(f"“{quote}”", ""))
        evidence = {**counts, "detail": detail}
        assert numbers == {name: evidence[name] for name in numbers}, found
        assert numbers["supporting"] == counts["supporting"], found
        assert ("opposing" in numbers) == (counts["opposing"] > 0), found
        told_of = reviewers > 1 and counts["supporting"] >= OF_SHARE * reviewers
        assert bool(re.search(rf"{NUMBER} of {NUMBER} people", found, re.IGNORECASE)) == told_of, found
        backing = reason(text, aspect, sign, found, quote or "", **counts, mentions=counts["supporting"], detail=detail)
        assert {claim.verdict for claim in supported(f"{found} {found}", [backing])} == {"backed"}, found
        other = counts["supporting"] + 11
        lie = re.sub(rf"(?i)\b{NUMBER}((?: of {NUMBER})? (?:person|people))", rf"{other}\1", found)
        assert lie != found
        assert any(claim.verdict != "backed" for claim in supported(lie, [backing])), lie


def test_a_list_takes_turns_with_the_templates_and_lists_begin_differently() -> None:
    rows = [(f"u{n}", item, each) for n in range(3) for each in ("bed+", "view stunning", "host+") for item in "ij"]
    rows += [("u4", "j", "host+")]
    model = POP().fit(triplets_of(rows))
    found = [[each.sentence for each in model.explain("new", item)] for item in "ij"]
    assert all(len({each.split(" the ")[0] for each in listed}) == 3 for listed in found), found
    assert found == [[each.sentence for each in model.explain("new", item)] for item in "ij"]


def test_sentences_tables_claims_and_evidence_of_a_model_have_the_same_numbers() -> None:
    rng = np.random.default_rng(0)
    rows = [(f"u{u}", f"i{i}", s) for u in range(30) for i in range(5) for s in STATEMENTS if rng.random() < 0.2]
    rows += [("u0", "i9", each) for each in ("bed+", "bed-")]
    model = POP().fit(triplets_of(rows, {"bed+": "I slept like a baby"}))
    free: dict[str, Any] = {"grounded": False, "polarity": "any", "per_aspect": 0, "consistent": False, "vague": 0.0}
    seen: set[str] = set()
    for user, item in [(f"u{u}", f"i{i}") for u in range(6) for i in (*range(5), 9)]:
        options = free | {"exclude": ["view stunning"] if user < "u3" else []}
        found = model.explain(user, item, n=99, **options)
        for each, claim in zip(found, claims(found), strict=True):
            numbers, evidence = numbers_of(each.sentence), each.evidence.as_dict()
            assert numbers == {name: evidence[name] for name in numbers} == {name: claim[name] for name in numbers}
            assert ("opposing" in numbers) == (each.evidence.opposing > 0 and each.evidence.supporting > 0), each
            assert ("baby" in each.sentence) == (each.explanation == "bed+" and each.evidence.supporting > 0), each
            seen |= set(numbers)
        text = " ".join(each.sentence for each in found if each.evidence.supporting)
        assert {each.verdict for each in supported(text, found)} <= {"backed"}
        assert json.loads(json.dumps(claims(found))) == claims(found)
        table = model.explain_many([(user, item)], n=99, **options)
        assert table["sentence"].to_list() == [each.sentence for each in found]
    assert seen == set(COUNTED.values())


# -- templates ---------------------------------------------------------------------------------------------------------


def test_templates_are_a_file_that_can_be_replaced(tmp_path: Path) -> None:
    file = tmp_path / "templates.json"
    own = {"people": ["reader", "readers"], "sentences": {"opinion0": ["{phrase}!"]}, "pieces": {"quoted": "«{quote}»"}}
    file.write_text(json.dumps(own | {"verbs": {"adore": ["adores", "adore"]}, "irregular": {"ox": "oxen"}}))
    found = wr.Templates.read(file)
    for templates in (found, pickle.loads(pickle.dumps(found))):
        assert sentence("room0", None, templates, supporting=2) == "The large rooms!"
        assert sentence("wall-", None, templates, supporting=2) == "Two readers find the walls thin."
        assert sentence("wall-", "heard every word!", templates, supporting=2) == "«heard every word!»"
    assert templates.words.irregular["ox"] == "oxen"


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"sentences": {"whole": ["{nobody}"]}}, "no placeholder {nobody}"),
        ({"sentences": {"whole": ["{people.__class__}"]}}, "no placeholder"),
        ({"sentences": {"whole": ["{people!r}"]}}, "no placeholder"),
        ({"sentences": {"whole": ["{"]}}, "not a template"),
        ({"sentences": {"whole": []}}, "at least one template"),
        ({"sentences": {"whole": "{text}"}}, "not a list"),
        ({"sentences": {"sung": ["{text}"]}}, "no 'sung' in sentences"),
        ({"sentences": []}, "not an object"),
        ({"people": ["reader"]}, "not a pair"),
        ({"verbs": {"adore": ["adore"]}}, "not a pair"),
        ({"numbers": [1]}, "not a list of texts"),
        ({"the": 1}, "not a text"),
        ({"colour": "red"}, "no 'colour' in settings"),
        ({"pieces": {"never": "{sentence}"}}, "no 'never' in pieces"),
        ({"pieces": {"often": ["{sentence}"]}}, "not a text"),
        ({"language": "de"}, "'opinion' is missing"),
        ({"verbs": {"is": "is"}}, "not a list"),
        ({"irregular": {"ox": 1}}, "not a text"),
        ([], "not a JSON object"),
        ("{", "not readable JSON"),
    ],
)
def test_wrong_templates_are_named(tmp_path: Path, document: object, problem: str) -> None:
    file = tmp_path / "templates.json"
    file.write_text(document if isinstance(document, str) else json.dumps(document))
    with pytest.raises(DataError, match=re.escape(problem)) as raised:
        wr.Templates.read(file)
    assert "templates.json" in str(raised.value)


# -- claims ------------------------------------------------------------------------------------------------------------

REASONS = [
    reason(
        *("friendly staff", "staff", 1),
        quote="Maria found us a pram; within minutes.",
        supporting=12,
        praise=14,
        mentions=16,
        opposing=1,
        complaints=2,
        user_mentions=3,
    ),
    reason("comfortable bed", "bed", 1, supporting=3, praise=3, mentions=3),
    reason("thin walls", "wall", -1, supporting=5, complaints=5, mentions=6, opposing=1),
    reason("no hot water", "water", -1, supporting=2, complaints=2, mentions=4),
    reason("large room", "room", 0, supporting=4, mentions=9),
    reason("quiet garden", "garden", 1),
    reason("leaves hair soft", "hair", 1, supporting=5, praise=5, mentions=5),
    reason("room for all seven of us", "family", 1, supporting=6, mentions=9),
]


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("12 guests praise the friendly staff.", "backed"),
        ("The staff is friendly.", "backed"),
        ("14 of the 16 guests who mention the staff praise it.", "backed"),
        ("Two people complain about the staff.", "backed"),
        ("You often mention friendly staff.", "backed"),
        ("All three guests praise the comfortable beds.", "backed"),
        ("Five people found the walls thin.", "backed"),
        ("Guests complain about the thin walls.", "backed"),
        ("There is no hot water.", "backed"),
        ("Several people mention the large rooms.", "backed"),
        ("Sentence about thin walls.", "backed"),
        ("It leaves hair soft, say five people.", "backed"),
        ("Six people say there is room for all seven of us.", "backed"),
        ("“Maria found us a pram; within minutes”", "backed"),
        # numbers
        ("13 guests praise the friendly staff.", "not backed"),
        ("Three people praise the friendly staff.", "not backed"),  # three is how many items the user mentions it of
        ("Two people praise the friendly staff.", "not backed"),  # two complain, one disagrees
        ("One person praises the friendly staff.", "not backed"),
        ("14 of 16 people praise the staff.", "not backed"),  # 16 people mention it; how many there are is unknown
        ("90% of guests praise the friendly staff.", "not backed"),
        ("All guests praise the friendly staff.", "not backed"),
        ("Many guests praise the comfortable beds.", "not backed"),
        ("Seven people say there is room for all seven of us.", "not backed"),
        # negation and polarity
        ("The staff is not friendly.", "not backed"),
        ("The staff isn't friendly.", "not backed"),
        ("The walls aren't thin.", "not backed"),
        ("There is hot water.", "not backed"),
        ("It never leaves hair soft.", "not backed"),
        ("Guests love the thin walls.", "not backed"),
        ("People complain about the comfortable beds.", "not backed"),
        ("People love the large rooms.", "not backed"),
        ("The staff is rude.", "not backed"),
        # nobody says it, or not this user
        ("The garden is quiet.", "not backed"),
        ("Because you like comfortable beds.", "not backed"),
        ("You often mention comfortable beds.", "not backed"),
        # what no reason is about
        ("The pool is heated.", "not recognized"),
        ("Friendly staff and a heated pool.", "not recognized"),
        ("The staff is very friendly.", "not recognized"),
        ("The staff could be friendly.", "not recognized"),
        ("Comfortable staff and friendly beds.", "not recognized"),
        ("It is false that Sentence about thin walls", "not recognized"),
        ("Have a nice day!", "not recognized"),
        ("Is the staff friendly?", "not recognized"),
    ],
)
def test_a_claim_is_backed_only_by_the_evidence(text: str, verdict: str) -> None:
    found = supported(text, REASONS)
    assert [each.verdict for each in found] == [verdict], found


def test_a_text_is_cut_into_claims() -> None:
    text = "The staff is friendly, but the walls are thin. There is a heated pool! The beds aren't comfortable."
    verdicts = [(each.text, each.verdict) for each in supported(text, REASONS)]
    assert verdicts == [
        ("The staff is friendly", "backed"),
        ("the walls are thin", "backed"),
        ("There is a heated pool", "not recognized"),
        ("The beds aren't comfortable", "not backed"),
    ]
    quoted = "12 people praise the friendly staff: “Maria found us a pram; within minutes.” Nobody says “thin walls”."
    assert [each.verdict for each in supported(quoted, REASONS)] == ["backed", "backed", "not backed"]
    assert supported("", REASONS) == []
    assert [each.verdict for each in supported("The staff is friendly.", [])] == ["not recognized"]
