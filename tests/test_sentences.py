"""Sentences: grammatical, true to the counts, replaceable; and claims of other texts checked against reasons."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import polars as pl
import pytest

import whyrank as wr
from whyrank.data.catalog import Catalog
from whyrank.data.triplets import Triplets
from whyrank.errors import DataError
from whyrank.explain.claims import claims, supported
from whyrank.explain.evidence import Evidence
from whyrank.explain.facts import Facts
from whyrank.explain.phrases import phrase_of, plural_of, singular_of
from whyrank.explain.reasons import Reason
from whyrank.explain.sentences import Templates, default_templates
from whyrank.models import POP

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


def catalog_of(statements: dict[str, tuple[str, str | None, int]]) -> Catalog:
    rows = [("u", "i", each, *about) for each, about in statements.items()]
    columns = ["user", "item", "explanation", "text", "aspect", "polarity"]
    return Catalog.of(Triplets.from_frame(pl.DataFrame(rows, schema=columns, orient="row")))


CATALOG = catalog_of(STATEMENTS)


def sentence(each: str, templates: Templates = GUESTS, catalog: Catalog = CATALOG, **counts: int) -> str:
    items = counts.pop("user_items", 99)
    zero = dict.fromkeys(Facts._fields, 0) | {"rank": 1, "explanation": catalog.explanations.number(each), "detail": -1}
    own = {"user": min(counts.get("user", 0), items), "often": counts.get("user_aspect", 0) >= max(3, 0.3 * items)}
    return templates.sentence(catalog, Facts(**{**zero, **counts, **own}))


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
        ("bed+", {"supporting": 12, "opposing": 2}, "12 guests find the beds comfortable; two complain about them."),
        (
            "bed+",
            {"supporting": 3, "opposing": 1},
            "Three guests find the beds comfortable; one complains about them.",
        ),
        (
            "bed+",
            {"supporting": 3, "user_aspect": 1, "user_items": 9},
            "Three guests find the beds comfortable; you have mentioned beds before.",
        ),
        (
            "breakfast+",
            {"supporting": 9, "agreeing": 12, "mentions": 14, "opposing": 2, "user_aspect": 4, "user_items": 9},
            "You often mention breakfast: 12 of 14 guests who mention it here praise it.",
        ),
        (
            "bed+",
            {"supporting": 3, "agreeing": 3, "mentions": 3, "user_aspect": 4, "user_items": 9},
            "You often mention beds: three guests praise them here.",
        ),
        (
            "breakfast-",
            {"supporting": 3, "agreeing": 3, "mentions": 5, "user_aspect": 4, "user_items": 9},
            "You often mention breakfast: three of five guests who mention it here complain about it.",
        ),
        # Often is at least three items, and a good part of them.
        ("breakfast+", {"supporting": 2, "agreeing": 2, "mentions": 2, "user_aspect": 2, "user_items": 2}, None),
        ("breakfast+", {"supporting": 2, "agreeing": 2, "mentions": 2, "user_aspect": 5, "user_items": 99}, None),
        ("wall-", {"supporting": 5}, "Five guests found the walls thin."),
        ("wall-", {"supporting": 1, "rank": 2}, "One guest complains about the thin walls."),
        ("wall-", {"supporting": 5, "rank": 3}, "The walls are thin, five guests say."),
        ("water-", {"supporting": 1}, "One guest reports no hot water."),
        ("water-", {"supporting": 3, "rank": 2}, "Three guests report no hot water."),
        ("money+", {"supporting": 2}, "Two guests find it worth the money."),
        ("money+", {"supporting": 1, "user_aspect": 1}, "One guest finds it worth the money."),
        ("room0", {"supporting": 7}, "Seven guests mention the large rooms."),
        ("tag", {"supporting": 12}, "12 guests said “Very good” about this."),
        (
            "tag",
            {"supporting": 2, "user": 3, "user_items": 2},  # two records of one item
            "Two guests said “Very good” about this; so did you about two films.",
        ),
        ("tag", {"supporting": 2, "user": 1}, "Two guests said “Very good” about this; so did you about one film."),
        ("bed+", {}, "Nobody mentions the comfortable beds here yet."),
        ("bed+", {"user": 2}, "Nobody mentions the comfortable beds here yet; you have elsewhere."),
        ("water-", {}, "Nobody reports no hot water here yet."),
        ("tag", {}, "Nobody has said “Very good” about this yet."),
    ],
)
def test_sentences_follow_the_counts(each: str, counts: dict[str, int], expected: str | None) -> None:
    found = sentence(each, **counts)
    assert "often" not in found if expected is None else found == expected


PLAIN = {
    "view|great|+": ("great views", "view", 1),
    "view|beautiful|+": ("stunning views", "view", 1),
    "view|bad|-": ("bad view", "view", -1),
    "staff|great|+": ("great staff", "staff", 1),
}
PLAIN_CATALOG = catalog_of(PLAIN)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"supporting": 12}, "12 guests praise the views."),
        ({"supporting": 12, "details": 4}, "12 guests praise the views; four call them stunning."),
        ({"supporting": 12, "details": 1, "rank": 2}, "12 guests like the views; one calls them stunning."),
        ({"supporting": 12, "rank": 3}, "The views are praised by 12 guests."),
        (
            {"supporting": 12, "opposing": 2, "agreeing": 14, "mentions": 16, "details": 4},
            "14 of 16 guests who mention the views praise them; four call them stunning.",
        ),
        ({"supporting": 12, "opposing": 1, "rank": 1}, "The views are praised by 12 guests; one complains about them."),
        ({"supporting": 12, "opposing": 1, "rank": 2}, "12 guests like the views, though one complains about them."),
    ],
)
def test_plain_praise_is_told_without_its_adjective_but_with_what_people_say(
    counts: dict[str, int], expected: str
) -> None:
    detail = PLAIN_CATALOG.explanations.number("view|beautiful|+") if "details" in counts else -1
    assert sentence("view|great|+", GUESTS, PLAIN_CATALOG, detail=detail, **counts) == expected


def test_details_are_what_most_people_say_about_the_same_aspect_of_the_item() -> None:
    said = {"view|great|+": 5, "view|beautiful|+": 3, "view|bad|-": 1, "staff|great|+": 2}
    rows = [(f"u{n}", item, each, *PLAIN[each]) for each, most in said.items() for n in range(most) for item in "ij"]
    rows = [row for row in rows if not (row[1] == "j" and row[2] == "view|beautiful|+")]
    frame = pl.DataFrame(rows, ["user", "item", "explanation", "text", "aspect", "polarity"], orient="row")
    model = POP().fit(Triplets.from_frame(frame))
    sentences = {(item, each.explanation): each.sentence for item in "ij" for each in model.explain("new", item)}
    assert "three call them stunning" in sentences["i", "view|great|+"]
    assert "stunning" not in sentences["j", "view|great|+"]
    assert "call" not in sentences["i", "staff|great|+"]


def test_tags_are_tagged() -> None:
    frame = pl.DataFrame({"user": ["u"], "item": ["i"], "explanation": ["prison"]})
    catalog = Catalog.of(Triplets.from_frame(frame))
    counts = {"supporting": 12, "user": 4}
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
                often = {"user_aspect": 3, "user_items": 3, "agreeing": 30, "mentions": 30}
                for more in ({}, {"opposing": 1}, {"user": 1}, often):
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
        ({"language": "de"}, "no sentence 'often_all'"),
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
    from whyrank.explain import sentences

    assert sentences.DEFAULT.is_file()
    assert sentences.DEFAULT.parent.parent == Path(sentences.__file__).parent


# -- claims ------------------------------------------------------------------------------------------------------------


def reason(text: str, aspect: str | None, polarity: int, **counts: int) -> Reason:
    known = {"item": 0, "similar_items": None, "user": 0, "supporting": 0, "opposing": 0, "agreeing": 0}
    said = Evidence(**{**known, "mentions": 0, "user_aspect": 0, "latest": None, **counts})
    return Reason(1, text, text, f"Sentence about {text}.", 1.0, {}, said, aspect, polarity, [], None)


REASONS = [
    reason("friendly staff", "staff", 1, supporting=12, agreeing=14, mentions=16, opposing=2, user_aspect=3),
    reason("comfortable bed", "bed", 1, supporting=3, agreeing=3, mentions=3),
    reason("thin walls", "wall", -1, supporting=5, agreeing=5, mentions=6, opposing=1),
    reason("no hot water", "water", -1, supporting=2, agreeing=2, mentions=4),
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
        ("Two people praise the friendly staff.", "not backed"),  # two disagree
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
        assert [each["people_for"] for each in listed] == [each.evidence.supporting for each in reasons]
