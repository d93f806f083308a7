"""Sentences: grammatical, true to the counts, replaceable; and claims of other texts checked against reasons."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Mapping
from pathlib import Path

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
from whyrank.wording.templates import Templates, Told, default_templates

ENGLISH = default_templates()
GUESTS = Templates.of({**ENGLISH.settings, "people": ["guest", "guests"], "items": ["film", "films"]}, Path("guests"))


@pytest.mark.parametrize(
    ("text", "aspect", "phrase", "topic", "several"),
    [
        ("comfortable bed", "bed", "the comfortable beds", "beds", True),
        ("comfortable beds", "bed", "the comfortable beds", "beds", True),
        ("friendly staff", "staff", "the friendly staff", "staff", True),
        ("tasty breakfast", "breakfast", "the tasty breakfast", "breakfast", False),
        ("great location", "location", "the great location", "the location", False),
        ("easy check-in", "check-in", "the easy check-in", "the check-in", False),
        ("sharp screen", "screen", "the sharp screen", "the screen", False),
        ("thin walls", "wall", "the thin walls", "walls", True),
        ("special effects", "special effects", "the special effects", "special effects", True),
        ("long battery life", "battery life", "the long battery life", "the battery life", False),
        ("fresh side dish", "side dish", "the fresh side dishes", "side dishes", True),
        ("nice facility", "facility", "the nice facilities", "facilities", True),
        ("fair price", "price", "the fair price", "the price", False),
        ("fair prices", "price", "the fair prices", "the prices", True),
        ("clean glass", "glass", "the clean glass", "the glass", False),
        ("bus", "bus", "the bus", "the bus", False),
        ("smart AI", "ai", "the smart AI", "the AI", False),
        ("chewy cookies", "cookie", "the chewy cookies", "the cookies", True),
    ],
)
def test_noun_phrases(text: str, aspect: str, phrase: str, topic: str, several: bool) -> None:
    found = phrase_of(text, aspect, ENGLISH.words)
    assert (found.phrase, found.topic, found.several) == (phrase, topic, several)


def test_what_is_no_noun_phrase_is_quoted_or_reported() -> None:
    assert phrase_of("no hot water", "water", ENGLISH.words).lack == "no hot water"
    assert phrase_of("plenty of space", "space", ENGLISH.words).lack == "plenty of space"
    assert phrase_of("lack of light", "light", ENGLISH.words).lack == "a lack of light"
    assert phrase_of("worth the money", "price", ENGLISH.words).itself == "worth the money"
    assert phrase_of("works well", "to work", ENGLISH.words).does == "works well"
    assert phrase_of("free parking", "parking", ENGLISH.words).adjective is None
    small = phrase_of("too small room", "room", ENGLISH.words)
    assert (small.phrase, small.noun, small.adjective) == (None, "the rooms", "too small")


@pytest.mark.parametrize(
    ("one", "many"),
    [
        ("bed", "beds"),
        ("dish", "dishes"),
        ("facility", "facilities"),
        ("key", "keys"),
        ("box", "boxes"),
        ("child", "children"),
        ("waitress", "waitresses"),
        ("shelf", "shelves"),
        ("side dish", "side dishes"),
    ],
)
def test_plurals(one: str, many: str) -> None:
    assert plural_of(one, ENGLISH.words) == many
    assert plural_of(many, ENGLISH.words) == many
    assert singular_of(many.split()[-1], ENGLISH.words) == one.split()[-1]


STATEMENTS = {
    "bed+": ("comfortable bed", "bed", 1),
    "wall-": ("thin walls", "wall", -1),
    "water-": ("no hot water", "water", -1),
    "money+": ("worth the money", "price", 1),
    "breakfast+": ("tasty breakfast", "breakfast", 1),
    "breakfast-": ("cold breakfast", "breakfast", -1),
    "room0": ("large room", "room", 0),
    "tag": ("Very good!", None, 0),
}


def frame_of(rows: list[tuple[str, str, str]], statements: Mapping[str, tuple[object, ...]]) -> pl.DataFrame:
    columns = ["user", "item", "explanation", "text", "aspect", "polarity", "sense", "opposite"]
    made = [(*row, *statements[row[2]]) for row in rows]
    return pl.DataFrame(made, schema=columns[: len(made[0])], orient="row")


def catalog_of(statements: Mapping[str, tuple[object, ...]]) -> Catalog:
    return Catalog.of(Triplets.from_frame(frame_of([("u", "i", each) for each in statements], statements)))


CATALOG = catalog_of(STATEMENTS)


def sentence(each: str, templates: Templates = GUESTS, catalog: Catalog = CATALOG, **counts: int) -> str:
    told = {"explanation": catalog.explanations.number(each), "rank": 1, "supporting": 0, **counts}
    return templates.writer(catalog).sentence(Told(**told))


@pytest.mark.parametrize(
    ("each", "counts", "expected"),
    [
        ("bed+", {"supporting": 1}, "One guest finds the beds comfortable."),
        ("bed+", {"supporting": 2}, "Two guests find the beds comfortable."),
        ("bed+", {"supporting": 2, "rank": 2}, "The beds are comfortable, two guests say."),
        ("bed+", {"supporting": 4, "rank": 3}, "Four guests praise the comfortable beds."),
        ("bed+", {"supporting": 5, "rank": 2}, "Guests praise the comfortable beds."),
        ("bed+", {"supporting": 12, "rank": 3}, "The beds are comfortable, 12 guests say."),
        ("bed+", {"supporting": 1234, "rank": 4}, "1,234 guests praise the comfortable beds."),
        ("bed+", {"supporting": 12, "opposing": 2}, "12 guests find the beds comfortable, though two disagree."),
        ("bed+", {"supporting": 3, "opposing": 1}, "Three guests find the beds comfortable, though one disagrees."),
        (
            "bed+",
            {"supporting": 3, "familiar": 1},
            "Three guests find the beds comfortable; you have mentioned beds before.",
        ),
        (
            "breakfast+",
            {"supporting": 9, "opposing": 2, "familiar": 2},
            "You often mention breakfast: nine guests find the breakfast tasty, though two disagree.",
        ),
        (
            "breakfast-",
            {"supporting": 3, "familiar": 2},
            "You often mention breakfast: three guests found the breakfast cold.",
        ),
        ("wall-", {"supporting": 5}, "Five guests found the walls thin."),
        ("wall-", {"supporting": 1, "rank": 2}, "One guest complains about the thin walls."),
        ("wall-", {"supporting": 5, "rank": 3}, "The walls are thin, five guests say."),
        ("water-", {"supporting": 1}, "One guest reports no hot water."),
        ("water-", {"supporting": 3, "rank": 2}, "Three guests report no hot water."),
        ("money+", {"supporting": 2}, "Two guests find it worth the money."),
        ("money+", {"supporting": 1, "familiar": 1}, "One guest finds it worth the money."),
        ("money+", {"supporting": 4, "opposing": 1}, "Four guests find it worth the money, though one disagrees."),
        ("wall-", {"supporting": 5, "opposing": 1}, "Five guests found the walls thin, though one disagrees."),
        ("room0", {"supporting": 7}, "Seven guests mention the large rooms."),
        ("tag", {"supporting": 12}, "12 guests said “Very good” about this."),
        (
            "tag",
            {"supporting": 2, "user_says": 2},
            "Two guests said “Very good” about this; so did you about two films.",
        ),
        (
            "tag",
            {"supporting": 2, "user_says": 1},
            "Two guests said “Very good” about this; so did you about one film.",
        ),
        ("bed+", {}, "Nobody mentions the comfortable beds here yet."),
        ("bed+", {"mixed": 2}, "Two guests say “comfortable bed”, and the opposite, too."),
        ("bed+", {"user_says": 2}, "Nobody mentions the comfortable beds here yet; you have elsewhere."),
        ("water-", {}, "Nobody reports no hot water here yet."),
        ("tag", {}, "Nobody has said “Very good” about this yet."),
    ],
)
def test_sentences_follow_the_counts(each: str, counts: dict[str, int], expected: str) -> None:
    assert sentence(each, **counts) == expected


PLAIN = {
    "view|great|+": ("great views", "view", 1, "great", "bad"),
    "view|beautiful|+": ("stunning views", "view", 1, "beautiful", "ugly"),
    "view|bad|-": ("bad view", "view", -1, "bad", "great"),
    "staff|great|+": ("great staff", "staff", 1, "great", "bad"),
}
PLAIN_CATALOG = catalog_of(PLAIN)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"supporting": 12}, "12 guests praise the views."),
        ({"supporting": 12, "detail": 4}, "12 guests praise the views; four call them stunning."),
        ({"supporting": 12, "detail": 1, "rank": 2}, "12 guests like the views; one calls them stunning."),
        ({"supporting": 12, "rank": 3}, "The views are praised by 12 guests."),
        (
            {"supporting": 12, "opposing": 2, "detail": 4},
            "12 guests praise the views, though two disagree; four call them stunning.",
        ),
        ({"supporting": 12, "opposing": 1, "rank": 3}, "The views are praised by 12 guests, though one disagrees."),
        ({"supporting": 12, "familiar": 2}, "You often mention views: 12 guests praise the views."),
    ],
)
def test_plain_praise_is_told_without_its_adjective_but_with_what_people_say(
    counts: dict[str, int], expected: str
) -> None:
    detail = PLAIN_CATALOG.explanations.number("view|beautiful|+") if "detail" in counts else -1
    assert sentence("view|great|+", GUESTS, PLAIN_CATALOG, detailed=detail, **counts) == expected


def test_details_are_what_most_people_say_about_the_same_aspect_of_the_item() -> None:
    said = {"view|great|+": 5, "view|beautiful|+": 3, "view|bad|-": 1, "staff|great|+": 2}
    rows = [(f"u{n}", item, each) for each, most in said.items() for n in range(most) for item in "ij"]
    rows = [row for row in rows if not (row[1] == "j" and row[2] == "view|beautiful|+")]
    model = POP().fit(Triplets.from_frame(frame_of(rows, PLAIN)))
    sentences = {(item, each.explanation): each.sentence for item in "ij" for each in model.explain("new", item)}
    assert "three call them stunning" in sentences["i", "view|great|+"]
    assert "stunning" not in sentences["j", "view|great|+"]
    assert "call" not in sentences["i", "staff|great|+"]


def test_tags_are_tagged() -> None:
    frame = pl.DataFrame({"user": ["u"], "item": ["i"], "explanation": ["prison"]})
    catalog = Catalog.of(Triplets.from_frame(frame))
    counts = {"supporting": 12, "user_says": 4}
    assert (
        sentence("prison", GUESTS, catalog, **counts) == "12 guests tagged this “prison”; so did you with four films."
    )
    assert sentence("prison", ENGLISH, catalog, supporting=1) == "One person tagged this “prison”."


def test_three_sentences_of_a_card_do_not_all_start_alike() -> None:
    for counts in ({"supporting": 3}, {"supporting": 9}):
        starts = {sentence("bed+", rank=rank, **counts)[:9] for rank in (1, 2, 3)}
        assert len(starts) > 1


def test_every_sentence_has_no_place_left_and_one_full_stop() -> None:
    for each in STATEMENTS:
        for supporting in (0, 1, 2, 30):
            for rank in range(1, 7):
                for more in ({}, {"opposing": 1}, {"mixed": 2}, {"user_says": 1}, {"familiar": 1}, {"familiar": 2}):
                    found = sentence(each, rank=rank, supporting=supporting, **more)
                    assert "{" not in found
                    assert "None" not in found
                    assert found[0].isupper() or found[0] in "“0123456789"
                    assert found.endswith(".")


def test_templates_are_a_file_that_can_be_replaced(tmp_path: Path) -> None:
    file = tmp_path / "templates.json"
    file.write_text(json.dumps({"people": ["reader", "readers"], "sentences": {"mentioned": ["{phrase}!"]}}))
    found = wr.Templates.read(file)
    assert sentence("room0", found, supporting=2) == "The large rooms!"
    assert sentence("wall-", found, supporting=2) == "Two readers found the walls thin."
    assert sentence("wall-", pickle.loads(pickle.dumps(found)), supporting=2) == "Two readers found the walls thin."


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"sentences": {"mentioned": ["{nobody}"]}}, "no placeholder {nobody}"),
        ({"sentences": {"mentioned": ["{people.__class__}"]}}, "no placeholder"),
        ({"sentences": {"mentioned": ["{people!r}"]}}, "no placeholder"),
        ({"sentences": {"mentioned": ["{"]}}, "not a template"),
        ({"sentences": {"mentioned": []}}, "not a list of templates"),
        ({"sentences": {"sung": ["{text}"]}}, "no sentence 'sung'"),
        ({"sentences": []}, "not an object"),
        ({"people": ["reader"]}, "not a pair"),
        ({"colour": "red"}, "no setting 'colour'"),
        ({"additions": {"never": "{sentence}"}}, "no sentence 'never'"),
        ({"additions": {"often": ["{sentence}"]}}, "not a template"),
        ({"language": "de"}, "no sentence 'praised'"),
        ({"verbs": {"is": "is"}}, "not a pair"),
        ([], "not a JSON object"),
        ("{", "not readable JSON"),
    ],
)
def test_wrong_templates_are_named(tmp_path: Path, document: object, problem: str) -> None:
    file = tmp_path / "templates.json"
    file.write_text(document if isinstance(document, str) else json.dumps(document))
    with pytest.raises(DataError) as raised:
        wr.Templates.read(file)
    assert problem in str(raised.value)
    assert "templates.json" in str(raised.value)


def test_templates_are_shipped_beside_the_module() -> None:
    from whyrank.wording import templates

    assert templates.DEFAULT.is_file()
    assert templates.DEFAULT.parent == Path(templates.__file__).parent


# -- claims ------------------------------------------------------------------------------------------------------------


def reason(text: str, aspect: str | None, polarity: int, **counts: int) -> Reason:
    known = {each.name: None if each.optional else 0 for each in Evidence.declared()}
    said = Evidence(**{**known, **counts})
    return Reason(1, text, text, f"Sentence about {text}.", 1.0, {}, said, aspect, polarity, [], None)


REASONS = [
    reason(
        "friendly staff", "staff", 1, supporting=12, praise=14, mentions=16, opposing=1, complaints=2, user_mentions=3
    ),
    reason("comfortable bed", "bed", 1, supporting=3, praise=3, mentions=3),
    reason("thin walls", "wall", -1, supporting=5, complaints=5, mentions=6, opposing=1),
    reason("no hot water", "water", -1, supporting=2, complaints=2, mentions=4),
    reason("large room", "room", 0, supporting=4, mentions=9),
    reason("quiet garden", "garden", 1),
]


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("12 guests praise the friendly staff.", "backed"),
        ("The staff is friendly.", "backed"),
        ("14 of 16 people praise the staff.", "backed"),
        ("Two people complain about the staff.", "backed"),
        ("You often mention friendly staff.", "backed"),
        ("All three guests praise the comfortable beds.", "backed"),
        ("Five people found the walls thin.", "backed"),
        ("Guests complain about the thin walls.", "backed"),
        ("There is no hot water.", "backed"),
        ("Several people mention the large rooms.", "backed"),
        ("Sentence about thin walls.", "backed"),
        # numbers
        ("13 guests praise the friendly staff.", "not backed"),
        ("Three people praise the friendly staff.", "not backed"),  # three is how many items the user mentions it of
        ("Two people praise the friendly staff.", "not backed"),  # two complain, one disagrees
        ("One person praises the friendly staff.", "not backed"),
        ("90% of guests praise the friendly staff.", "not backed"),
        ("All guests praise the friendly staff.", "not backed"),
        ("Many guests praise the comfortable beds.", "not backed"),
        # negation and polarity
        ("The staff is not friendly.", "not backed"),
        ("The staff isn't friendly.", "not backed"),
        ("The walls aren't thin.", "not backed"),
        ("There is hot water.", "not backed"),
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
    assert supported("", REASONS) == []
    assert [each.verdict for each in supported("The staff is friendly.", [])] == ["not recognized"]


def test_our_own_sentences_are_backed_and_claims_are_json() -> None:
    frame = pl.DataFrame(
        [(f"u{n}", "i", each, *about) for n in range(5) for each, about in STATEMENTS.items() if (n + len(each)) % 3],
        schema=["user", "item", "explanation", "text", "aspect", "polarity"],
        orient="row",
    )
    model = POP().fit(Triplets.from_frame(frame))
    for polarity in ("positive", "negative"):
        reasons = model.explain("u1", "i", polarity=polarity)
        assert reasons
        text = " ".join(each.sentence for each in reasons)
        assert {each.verdict for each in supported(text, reasons)} == {"backed"}
        listed = json.loads(json.dumps(claims(reasons)))
        assert [each["supporting"] for each in listed] == [each.evidence.supporting for each in reasons]


# -- one number, one meaning -------------------------------------------------------------------------------------------

MANY_FORMS = (
    STATEMENTS
    | PLAIN
    | {
        "wall+": ("thick walls", "wall", 1, "thick", "thin"),
        "it+": ("fun game", "it", 1, "fun", "boring"),
        "it-": ("boring game", "it", -1, "boring", "fun"),
        "work+": ("works well", "to work", 1, "well", None),
        "room-": ("too small room", "room", -1, "small", None),
        "quoted": ("as good as home", "breakfast", 1, "homely", None),
    }
)
NUMBER = rf"(?P<n>\d[\d,]*|{'|'.join(ENGLISH.settings['numbers'][1:])})"
SAID = {  # every way in which a sentence speaks of a number, and the count of the evidence that it must be
    rf"though {NUMBER} disagrees?": "opposing",
    rf"; {NUMBER} calls? (?:it|them) \w+": "detail",
    rf"so did you (?:about|with) {NUMBER} items?": "user_says",
    rf"{NUMBER} (?:person says|people say) “[^”]+”, and the opposite, too": "mixed",
    rf"{NUMBER} (?:person|people)": "supporting",
}


def numbers_of(sentence: str) -> dict[str, int]:
    """The numbers of a sentence by the count that they must be; what no form accounts for is an error."""
    found, rest = {}, sentence[:1].lower() + sentence[1:]
    for form, name in SAID.items():
        match = re.search(form, rest)
        if match:
            word = match["n"].replace(",", "")
            found[name] = int(word) if word.isdigit() else ENGLISH.settings["numbers"].index(word)
            rest = rest.replace(match[0], "", 1)
    assert not re.search(rf"\b{NUMBER}\b", re.sub("“[^”]*”", "", rest)), sentence
    return found


def test_sentence_evidence_card_and_claims_have_the_same_numbers_in_ten_thousand_reasons() -> None:
    rng = np.random.default_rng(0)
    names = list(MANY_FORMS)
    rows = [(f"u{u}", f"i{i}", each) for u in range(70) for i in range(9) for each in names if rng.random() < 0.03]
    rows += [(f"u{u}", "i0", each) for u in range(70) for each in names if rng.random() < 0.5]
    rows += [("u0", "i9", each) for each in ("view|great|+", "view|bad|-", "it+", "it-")]
    statements = {each: (*about, *(None,) * (5 - len(about))) for each, about in MANY_FORMS.items()}
    model = POP().fit(Triplets.from_frame(frame_of(rows, statements)))
    free = {"grounded": False, "polarity": "any", "per_aspect": 0, "consistent": False, "vague": 0.0}
    kinds = (free, free | {"exclude": ["view|beautiful|+"]})
    lists = [model.explain(f"u{u}", f"i{i}", n=99, **kinds[u % 2]) for u in range(70) for i in range(10)]
    assert sum(map(len, lists)) >= 10_000
    seen: set[str] = set()
    for found in lists:
        for each, claim in zip(found, claims(found), strict=True):
            numbers, said = numbers_of(each.sentence), each.evidence
            evidence = said.as_dict()
            assert numbers == {name: evidence[name] for name in numbers}, each
            assert numbers == {name: claim[name] for name in numbers}, each
            assert ("opposing" in numbers) == (said.opposing > 0 and said.supporting > 0), each
            assert said.shown()[0] == f"{said.supporting:,} say so"
            seen |= set(numbers)
    assert seen == set(SAID.values())
