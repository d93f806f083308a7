"""Mining statements: reviews in, statements about aspects with polarity, evidence and quotes out."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from whyrank.data.triplets import Triplets
from whyrank.errors import DataError, ParameterError
from whyrank.mining import Mined, MiningRules, apply_review, mine, write_review
from whyrank.mining._opinion_rows import R_ATTRIBUTE
from whyrank.mining.aspects import LEVELS
from whyrank.mining.nouns import StatementEnglish
from whyrank.mining.quotes import read_quotes
from whyrank.mining.statements import limits_for, place_names

PRAISE = ("The bed was really comfortable.", "Comfy beds!", "We had a comfortable bed and a quiet room.")
BLAME = ("The bed was not comfortable.", "The walls were thin and the bed was hard.", "There was no hot water.")
OTHERS = (
    "Great hotel, we will come back to this hotel.",
    "The hot water was good.",
    "We arrived on Monday and left on Friday.",
    "The hotel next door is noisy.",
    "The staff could not have been friendlier.",
    "Friendly staff, and the rooftop bar was lovely.",
    "I loved the rooftop bar.",
    "The rooftop bar was too small.",
    "It would be better with air conditioning.",
)


def reviews(count: int = 240, seed: int = 0) -> pl.DataFrame:
    """Reviews of twelve hotels; the first six have comfortable beds, the others hard ones."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        item = int(rng.integers(12))
        own = PRAISE if item < 6 else BLAME
        said = [own[rng.integers(3)], *(OTHERS[k] for k in rng.choice(len(OTHERS), 3, replace=False))]
        rating = float(rng.integers(4, 6) if item < 6 else rng.integers(1, 4))
        said.append(f"We paid on day {number} of our journey.")
        rows.append((f"u{rng.integers(60)}", f"i{item}", " ".join(said), rating, 1_500_000_000 + number))
    return pl.DataFrame(rows, ["user", "item", "text", "rating", "time"], orient="row")


@pytest.fixture(scope="module")
def mined() -> Mined:
    return mine(reviews())


def polarity(result: Mined, text: str) -> int:
    return int(result.explanations.filter(pl.col("text") == text)["polarity"].item())


def test_one_statement_has_many_wordings(mined: Mined) -> None:
    bed = mined.explanations.filter(pl.col("id") == "bed|comfortable|+")
    assert bed["text"].item() == "comfortable bed"
    wordings = mined.wordings.filter(pl.col("explanation") == "bed|comfortable|+")["text"].to_list()
    assert {"comfortable bed", "comfy beds"} <= set(wordings)


def test_negation_makes_the_opposite_statement(mined: Mined) -> None:
    ids = set(mined.explanations["id"])
    assert {"bed|uncomfortable|-", "staff|friendly|+", "hot water|missing|-", "wall|thin|-"} <= ids
    assert "bed|hard|-" in ids


def test_what_is_wished_for_or_said_about_others_is_no_statement(mined: Mined) -> None:
    aspects = " ".join(mined.explanations["aspect"])
    assert "air conditioning" not in aspects
    assert "it|noisy|-" not in set(mined.explanations["id"])


def test_a_wish_for_more_is_not_too_much_of_it_and_money_is_no_aspect() -> None:
    texts = ("The staff could be friendlier.", "The rooms could be cleaner.", "Ten euros for a tea is too expensive.")
    texts += ("The wifi works well.", "The staff was nice.", "The rooms were nice.", "The bar could be better.")
    rows = [(f"u{k}", f"i{k % 5}", texts[k % len(texts)], 3.0) for k in range(30 * len(texts))]
    found = mine(pl.DataFrame(rows, ["user", "item", "text", "rating"], orient="row")).explanations
    assert not [each for each in found["id"] if "too" in each or "euro" in each or "dirty" in each]
    assert "bar|bad|-" in set(found["id"])
    assert "well-working wifi" in set(found["text"])


def test_overall_judgements_are_kept_apart(mined: Mined) -> None:
    assert "it|great|+" not in set(mined.explanations["id"])
    assert mined.coverage["judgements"] > 0
    assert "it|great|+" in set(mine(reviews(), judgements=True).explanations["id"])


def test_no_two_statements_have_the_same_words_and_polarity(mined: Mined) -> None:
    table = mined.explanations
    words = table["text"].str.split(" ").list.sort().list.join(" ")
    assert pl.DataFrame({"words": words, "polarity": table["polarity"]}).is_unique().all()


def test_the_order_of_reviews_and_threads_make_no_difference(mined: Mined) -> None:
    shuffled = mine(reviews().sample(fraction=1.0, shuffle=True, seed=3), threads=3)
    assert shuffled.explanations.equals(mined.explanations)
    assert shuffled.frame().drop("source").equals(mined.frame().drop("source"))


def test_the_same_review_twice_counts_once(mined: Mined) -> None:
    twice = mine([reviews(), reviews()])
    assert twice.explanations.equals(mined.explanations)
    copied = reviews().with_columns(pl.col("time") + 10**6, user=pl.lit("copyist"))
    assert mine([reviews(), copied]).explanations.equals(mined.explanations)


def test_ratings_decide_where_words_do_not() -> None:
    texts = ["The waiting time was long.", "The queue was short.", "The battery life is long."]
    rows = [(f"u{k}", f"i{k % 3}", texts[k % 3], (1.0, 5.0, 5.0)[k % 3]) for k in range(60)]
    result = mine(pl.DataFrame(rows, ["user", "item", "text", "rating"], orient="row"))
    signs = dict(zip(result.explanations["aspect"], result.explanations["polarity"], strict=True))
    assert signs["queue"] == 1
    assert signs["battery life"] == 1


def test_one_rating_outside_the_scale_does_not_stretch_it(mined: Mined) -> None:
    broken = reviews().with_columns(
        rating=pl.when(pl.int_range(pl.len()) == 0)
        .then(26.0)
        .when(pl.int_range(pl.len()) == 1)
        .then(float("inf"))
        .otherwise("rating")
    )
    assert mine(broken).explanations["polarity"].equals(mined.explanations["polarity"])
    assert mine(broken).explanations["rating"].max() <= 5


def test_thresholds_follow_the_size_of_the_data() -> None:
    counts = [limits_for(n, 100).records for n in (100, 10_000, 100_000, 1_000_000)]
    assert counts == sorted(counts)
    assert counts[0] == 3


def test_every_quote_is_a_sentence_of_its_review(mined: Mined) -> None:
    table = mined.frame().drop_nulls("sentence")
    texts = reviews().with_row_index("row", offset=1).with_columns(pl.col("row").cast(pl.String))
    joined = table.join(texts, left_on="source", right_on="row").with_columns(pl.col("text_right").str.to_lowercase())
    assert joined.height == table.height
    assert (
        joined.select(pl.col("text_right").str.contains(pl.col("sentence").str.to_lowercase(), literal=True))
        .to_series()
        .all()
    )


@pytest.mark.parametrize(
    "sentence",
    [
        "Write to ann@example.org about the great pool",
        "We thanked Gwendolyn for the friendly service",
        "Call +44 20 7946 0958 for the great pool",
        "The fucking pool was great",
        "See www.example.com for the great pool",
        "Gwendolyn was great and the pool was clean",
        "The Manager Gonzalez was great at the pool",
        "Great pool said Dr. Gonzalez to us all",
        "The pool is great, see bit.ly/abc for more",
    ],
)
def test_quotes_are_without_private_and_vulgar_words(sentence: str) -> None:
    text = np.frombuffer(sentence.encode(), np.uint8)
    quotes = read_quotes(text, np.array([0]), np.array([len(text)], np.int32), StatementEnglish(), vulgar=False)
    assert quotes.to_list() == [None]


def test_quotes_are_without_names_that_others_write_with_a_capital() -> None:
    text = np.frombuffer(b"we thanked gwendolyn for the service", np.uint8)
    places = (np.array([0]), np.array([len(text)], np.int32))
    for names, shown in ((frozenset(), True), (frozenset({"gwendolyn"}), False)):
        assert (read_quotes(text, *places, StatementEnglish(), False, names)[0] is not None) == shown


def test_a_folder_reads_back_as_it_was_written(mined: Mined, tmp_path: Path) -> None:
    again = Mined.read(mined.write(tmp_path / "mined"))
    assert again.frame().equals(mined.frame())
    assert again.explanations.equals(mined.explanations)
    assert again.rules == mined.rules
    assert again.coverage == mined.coverage


def test_triplets_know_aspect_polarity_and_source(mined: Mined) -> None:
    triplets = mined.triplets
    assert isinstance(triplets, Triplets)
    assert triplets.aspects is not None
    assert triplets.polarity is not None
    assert set(triplets.polarity.tolist()) == {-1, 1}


def test_new_reviews_keep_the_ids_of_a_pool_and_what_was_decided_by_hand(mined: Mined, tmp_path: Path) -> None:
    file = write_review(mined, tmp_path / "pool.csv")
    table = pl.read_csv(file, infer_schema=False)
    decision = pl.when(pl.col("id") == "wall|thin|-").then(pl.lit("reject")).otherwise("decision")
    table.with_columns(decision=decision).write_csv(file)
    reviewed = apply_review(mined, file)
    assert "wall|thin|-" not in set(reviewed.explanations["id"])
    later = mine(reviews(seed=1), pool=reviewed)
    assert "wall|thin|-" not in set(later.explanations["id"])
    assert set(reviewed.explanations["id"]) <= set(later.explanations["id"])
    assert later.frame().height > reviewed.frame().height


def test_a_single_new_review_counts_for_what_a_pool_knows(mined: Mined) -> None:
    one = pl.DataFrame(
        {"user": ["new"], "item": ["i1"], "text": ["The bed was comfortable and the staff was friendly."]}
    )
    later = mine(one, pool=mined)
    assert later.frame().height == mined.frame().height + 2


def test_the_order_of_reviews_does_not_decide_on_a_polarity() -> None:
    texts = ["The portion was small.", "The bill was small.", "The portion was large.", "The bill was large."]
    rng = np.random.default_rng(0)
    rows = [(f"u{k}", f"i{k % 5}", texts[rng.integers(4)], float(rng.integers(1, 6))) for k in range(300)]
    table = pl.DataFrame(rows, ["user", "item", "text", "rating"], orient="row")
    pools = [
        mine(table.sample(fraction=1.0, shuffle=True, seed=seed)).explanations["id"].to_list() for seed in range(4)
    ]
    assert all(pool == pools[0] for pool in pools)


def test_one_endless_word_costs_nothing() -> None:
    table = pl.concat(
        [reviews(), pl.DataFrame({"user": ["x"], "item": ["i1"], "text": ["ha" * 20_000]})], how="diagonal"
    )
    assert mine(table).explanations.height


def test_names_of_items_are_no_aspects() -> None:
    rows = [(f"u{k}", f"i{k % 4}", "The lobster shack was lovely. The soup was hot and tasty.") for k in range(40)]
    table = pl.DataFrame(rows, ["user", "item", "text"], orient="row")
    named = mine(table, titles={f"i{k}": "The Lobster Shack" for k in range(4)})
    assert not any("shack" in aspect for aspect in named.explanations["aspect"])
    assert any("soup" in aspect for aspect in named.explanations["aspect"])


def test_a_pool_remembers_its_titles(tmp_path: Path) -> None:
    rows = [(f"u{k}", f"i{k % 4}", f"The lobster shack was lovely. The soup was hot and tasty. {k}") for k in range(80)]
    table = pl.DataFrame(rows, ["user", "item", "text"], orient="row")
    first = mine(table.head(40), titles={f"i{k}": "The Lobster Shack" for k in range(4)})
    later = mine(table.tail(40), pool=first.write(tmp_path / "pool"))
    assert later.titles == first.titles
    assert not any("shack" in aspect for aspect in later.explanations["aspect"])


def test_what_an_item_is_called_is_learned_without_titles() -> None:
    texts = ("I love the Daggers of this game. The Daggers were great and the music was great.", "The music was great.")
    weapons = "The daggers were great, the sound was clear and the music was great."
    rows = [(f"u{k}", f"i{k % 3}", weapons if k % 3 else texts[0] + texts[1] * (k % 2)) for k in range(90)]
    found = mine(pl.DataFrame(rows, ["user", "item", "text"], orient="row"), min_count=3).frame()
    daggers = found.filter(pl.col("explanation") == "dagger|great|+")
    assert set(daggers["item"]) == {"i1", "i2"}


def test_words_that_name_a_sort_are_no_opinions() -> None:
    texts = (
        "The cake was dry.",
        "The cookies were dry and sweet.",
        "I like dry ingredients in a large bowl.",
        "Dry cake!",
    )
    rows = [
        (f"u{k}", f"i{k % 5}", f"{texts[k % 4]} The sauce was rich. The {'bowl' if k % 3 else 'ingredients'} broke.")
        for k in range(120)
    ]
    ids = set(mine(pl.DataFrame(rows, ["user", "item", "text"], orient="row")).explanations["id"])
    assert {"cake|dry|-", "cookie|dry|-"} <= ids
    assert "ingredient|dry|-" not in ids


def test_two_senses_are_one_where_people_say_both_about_an_aspect() -> None:
    texts = (
        "The boss was hard.",
        "The boss was difficult.",
        "The bed was hard.",
        "No light.",
        "A lack of light. Good light.",
    )
    rows = [(f"u{k}", f"i{k % 3}", f"{texts[k % 5]} The light was bright. {k}") for k in range(150)]
    ids = set(mine(pl.DataFrame(rows, ["user", "item", "text"], orient="row")).explanations["id"])
    assert {"boss|difficult|-", "bed|hard|-"} <= ids
    assert "boss|hard|-" not in ids
    assert not any("light|scarce" in each for each in ids)


def test_mining_the_same_reviews_into_their_own_pool_changes_nothing(mined: Mined, tmp_path: Path) -> None:
    again = mine(reviews(), pool=mined.write(tmp_path / "pool"))
    assert again.frame().equals(mined.frame())
    assert again.explanations.equals(mined.explanations)
    assert again.rejected["already in the pool"] == reviews().height


def test_times_that_cannot_be_read_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    dated = reviews(60).with_columns(
        time=pl.when(pl.int_range(pl.len()) < 3).then(pl.lit("18/08/2023")).otherwise(pl.lit("2023-08-18"))
    )
    mine(dated)
    assert "3 times could not be read" in caplog.text
    assert "18/08/2023" in caplog.text


def test_a_quote_has_the_date_of_its_own_review() -> None:
    rows = [
        ("u", "i1", "The bed was comfortable and wide.", 1_000),
        ("u", "i1", "The staff was friendly to us.", 2_000),
    ]
    rows += [(f"v{k}", f"i{k % 3}", f"The bed was comfortable, the staff was friendly. {k}", 3_000) for k in range(30)]
    table = mine(pl.DataFrame(rows, ["user", "item", "text", "time"], orient="row")).frame()
    of_user = dict(table.filter(pl.col("user") == "u").select("explanation", "sentence").iter_rows())
    assert of_user == {"bed|comfortable|+": None, "staff|friendly|+": "The staff was friendly to us"}


def test_nothing_found_is_an_error_that_says_what_to_do() -> None:
    table = pl.DataFrame({"user": ["a", "b"], "item": ["x", "y"], "text": ["We arrived on Monday."] * 2})
    with pytest.raises(DataError, match="no statement was found"):
        mine(table)


def test_rules_are_checked_and_go_through_json() -> None:
    rules = MiningRules(min_count=7, names=None)
    assert MiningRules().changed(json.loads(json.dumps(rules.as_dict()))) == rules
    for wrong in ({"min_count": 0}, {"names": 2}, {"vulgar": 1}, {"language": None}, {"similarity": 0.9}):
        with pytest.raises(ParameterError, match=next(iter(wrong))):
            mine(reviews(10), **wrong)
    with pytest.raises(ParameterError, match="threads"):
        mine(reviews(10), threads=0)


def test_a_word_and_a_noun_that_are_written_with_capitals_are_a_name_but_acronyms_are_none() -> None:
    written = {("park", "central"): (3, 2), ("park", "lovely"): (1, 9), ("tv", "large"): (9, 1), ("tv", "nice"): (8, 1)}
    rows = [
        (noun, word, capital, R_ATTRIBUTE, False, False)
        for (noun, word), counts in written.items()
        for capital, count in zip((1, 0), counts, strict=True)
        for _ in range(count)
    ]
    columns = [f"p{LEVELS - 1}", "spoken", "capital", "rule", "verbal", "whole"]
    left = place_names(pl.DataFrame(rows, columns, orient="row"))
    assert set(left.select(columns[:2]).iter_rows()) == set(written) - {("park", "central")}


@pytest.mark.parametrize(
    ("sentence", "opinion", "shown"),
    [
        ("The views are fabulous and the staff were kind", "fabulous", True),
        ("Nice view, but the worst experience we have had", "nice", False),
        ("We were happy with the view until we saw the bill", "happy", False),
        ("The said tonic was warm, which a well run bar would avoid; disappointing", "well", False),
        ("The view wasn’t as nice as the pictures of it", "nice", False),
        ("Would you call this a nice view from a room?", "nice", False),
        ("A creepy atmosphere that stays with you for days", "creepy", True),
        ("A creepy atmosphere, though it crashes all the time", "creepy", False),
    ],
)
def test_a_quote_of_praise_does_not_complain(sentence: str, opinion: str, shown: bool) -> None:
    text = np.frombuffer(sentence.encode(), np.uint8)
    places = np.array([0]), np.array([len(text)], np.int32)
    quotes = read_quotes(text, *places, StatementEnglish(), False, praise=pl.Series([opinion]))
    assert (quotes[0] is not None) == shown
    behind_a_complaint = read_quotes(
        text, *places, StatementEnglish(), False, praise=pl.Series([None], dtype=pl.String)
    )
    assert behind_a_complaint[0] is not None


FRAGMENTS = ("Clean rooms.", "Fair prices.", "Friendly staff, clean rooms.", "Small portions.", "Sticky tables.")


def fragments(kinds: tuple[str, ...], each: int = 5) -> pl.DataFrame:
    """Short reviews of four cafes, every text by some users."""
    texts = [f"{text} We came on day {number}." for text in kinds for number in range(each)]
    users, items = ([f"{name}{number % size}" for number in range(len(texts))] for name, size in (("u", 23), ("i", 4)))
    return pl.DataFrame({"user": users, "item": items, "text": texts})


def test_fragments_without_a_verb_count_where_people_write_so() -> None:
    found = set(mine(fragments(FRAGMENTS)).explanations["id"])
    assert {"room|clean|+", "price|affordable|+", "staff|friendly|+", "portion|small|-", "table|sticky|-"} <= found


def test_fragments_do_not_make_idioms_aspects() -> None:
    inside = ("They told us on short notice.", "We were there for a romantic getaway with friends.") * 3
    found = set(mine(fragments((*FRAGMENTS, *inside, "Romantic getaway."))).explanations["aspect"])
    assert not found & {"notice", "getaway"}
    assert "table" in found


def test_a_noun_that_is_only_praised_in_fragments_is_no_aspect() -> None:
    found = set(mine(fragments((*FRAGMENTS, "Nice cafe.", "Great cafe."), 9)).explanations["aspect"])
    assert "cafe" not in found


@pytest.mark.parametrize("text", ["The prices are fair.", "Low prices.", "Cheap prices.", "Honest prices."])
def test_fair_low_and_cheap_prices_are_affordable_whatever_the_rating(text: str) -> None:
    table = fragments((text, "The staff was rude."), 6).with_columns(rating=pl.Series([1.0] * 6 + [5.0] * 6))
    assert mine(table).explanations.filter(aspect="price")["id"].to_list() == ["price|affordable|+"]


def test_a_price_that_is_not_fair_is_not_affordable() -> None:
    found = mine(fragments(("The prices are not fair.", "The staff was rude."), 6)).explanations["id"]
    assert "price|affordable|+" not in set(found)


@pytest.mark.parametrize("text", ["The prices are too low.", "The price is too cheap."])
def test_a_price_that_is_too_low_is_no_praise(text: str) -> None:
    found = mine(fragments((text, "The staff was rude."), 6)).explanations["id"]
    assert "price|affordable|+" not in set(found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The staff couldnt have been more helpful.", "staff|helpful|+"),
        ("The staff couldn't have been more helpful.", "staff|helpful|+"),
        ("The tables are too close together.", "table|cramped|-"),
    ],
)
def test_negations_without_apostrophe_and_things_close_together(text: str, expected: str) -> None:
    found = set(mine(fragments((text, "The soup was cold."), 6)).explanations["id"])
    assert expected in found
    assert not {one for one in found if one.startswith(("staff", "table"))} - {expected}


TELEGRAM = (
    "Great coffee, friendly staff, nice view, clean rooms, fair prices, fast wifi, comfy seats, fresh cake, quiet "
    "terrace, tasty sandwiches, good music, helpful owner."
)
FOREIGN = (
    "Sehr schönes Café, freundliches Personal, leckerer Kuchen, guter Kaffee, faire Preise, schneller Service und ein "
    "ruhiger Platz mit toller Aussicht auf den Fluss.",
    "Très bon café, personnel sympathique, gâteaux délicieux, prix corrects, service rapide et une belle terrasse avec "
    "vue sur la rivière, nous reviendrons sûrement.",
    "Muy buen café, personal amable, pasteles deliciosos, precios justos, servicio rápido y una terraza bonita con "
    "vistas al río, volveremos seguro el próximo verano.",
    "Ottimo caffè, personale gentile, torte deliziose, prezzi onesti, servizio veloce e una bella terrazza con vista "
    "sul fiume, torneremo sicuramente la prossima estate.",
    "Heerlijke koffie, vriendelijk personeel, lekkere taart, eerlijke prijzen, snelle bediening en een rustig terras "
    "met mooi uitzicht op het water, we komen zeker terug.",
    "Ótimo café, funcionários simpáticos, bolos deliciosos, preços justos, serviço rápido e uma bela esplanada com "
    "vista para o rio, vamos voltar com certeza no próximo verão.",
)


def test_a_telegram_in_english_is_read_and_other_languages_are_not() -> None:
    texts = [*(TELEGRAM + " " + "Nice" * n for n in range(4)), *FOREIGN]
    table = pl.DataFrame({"user": [f"u{n}" for n in range(10)], "item": ["i1", "i2"] * 5, "text": texts})
    result = mine(table)
    assert result.rejected == {"not English": 6}
    assert {"staff|friendly|+", "wifi|fast|+", "room|clean|+"} <= set(result.explanations["id"])


def test_marks_do_not_make_a_language() -> None:
    text = "Friendly staff!!! Clean rooms!!! Fair prices!!! The cake: fresh, fresh, fresh!!! Nice view!!!"
    assert mine(fragments((text,) * 3)).rejected == {}


def test_pronouns_mean_something_else_where_nobody_says_so_with_the_name() -> None:
    praise = ("The cake was fresh. It was delicious.", "I had the soup. It was delicious.", "It was delicious.") * 4
    named = ("This restaurant is quiet.", "It was quiet.", "This restaurant was beautiful.") * 2
    found = mine(fragments((*praise, *named, "This restaurant was delicious."))).explanations
    counts = dict(found.select("id", "count").iter_rows())
    assert counts["it|quiet|+"] > 10
    assert counts.get("it|tasty|+", 0) <= 5  # not the sixty that speak about a dish


def test_several_hotels_and_a_missing_one_are_not_the_item() -> None:
    texts = ("This hotel is quiet.", "This hotel was clean.", "The hotel was quiet.") * 4
    texts += ("There are cheap hotels nearby.",)
    texts += ("There are plenty of hotels around.", "There was no hotel there.", "This hotel is beautiful.") * 2
    found = set(mine(fragments(texts)).explanations["id"])
    assert {"it|quiet|+", "it|clean|+", "it|beautiful|+"} <= found
    assert not {each for each in found if each.startswith(("it|cheap", "it|generous", "it|missing"))}


def test_without_a_learned_name_a_place_is_the_item() -> None:
    found = set(mine(fragments((*FRAGMENTS, "Quiet place.", "Nice place."))).explanations["id"])
    assert "it|quiet|+" in found
    assert not {each for each in found if each.startswith("place|")}


def test_nobody_praises_a_noise_and_rooms_are_not_high() -> None:
    texts = ("The street noise was no problem.", "Great noise.", "The noise was excellent.", "The noise was terrible.")
    rooms = ("The room was clean.", "The rooms are clean.", "The room was quiet.", "The room was bright.") * 6
    found = set(mine(fragments((*texts * 3, *rooms, "The room was high.", "The prices are high."))).explanations["id"])
    assert {"noise|bad|-", "room|clean|+", "price|long|-"} <= found
    assert not {"noise|great|+", "room|long|-", "room|long|+"} & found


def test_a_condition_is_no_opinion_about_the_length_of_the_item() -> None:
    texts = ("This hotel is quiet.", "As long as you sleep well.", "The walls are thin as long as nobody fixes them.")
    assert not {each for each in mine(fragments(texts)).explanations["id"] if "|long|" in each}
