"""Mining statements: reviews in, statements about aspects with polarity, people, quotes and evidence out."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from whyrank.errors import DataError, ParameterError
from whyrank.mining import Mined, MiningRules, apply_review, mine, write_review
from whyrank.mining.matcher import matcher_of
from whyrank.mining.said import MATCHER
from whyrank.mining.statements import limits_for

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


def ids(found: Mined) -> set[str]:
    """Return the ids of statements but those in somebody's own words."""
    return {each for each in found.explanations["id"] if each.count("|") == 2}


def people(found: Mined, statement: str) -> set[tuple[str, str]]:
    """Return who says a statement about which item."""
    rows = found.frame().filter(pl.col("explanation") == statement)
    return set(rows.select("user", "item").iter_rows())


def short(texts: Iterable[str], each: int = 5, **columns: object) -> pl.DataFrame:
    """Return short reviews of four cafes, every text by some users."""
    every = [f"{text} We came on day {number}." for text in texts for number in range(each)]
    users, items = ([f"{name}{number % size}" for number in range(len(every))] for name, size in (("u", 23), ("i", 4)))
    return pl.DataFrame({"user": users, "item": items, "text": every})


def test_everybody_who_says_it_counts_in_whatever_words(mined: Mined) -> None:
    said = reviews().filter(pl.col("text").str.contains_any(["really comfortable", "Comfy beds", "a comfortable bed"]))
    assert people(mined, "bed|comfortable|+") >= set(said.select("user", "item").iter_rows())
    assert mined.explanations.filter(id="bed|comfortable|+")["text"].to_list() == ["comfortable bed"]


def test_what_is_denied_is_said_by_none(mined: Mined) -> None:
    only = reviews().group_by("user", "item").agg(pl.col("text").str.join(" "))
    blaming = only.filter(~pl.col("text").str.contains_any(list(PRAISE)) & (pl.col("text").str.contains("not comf")))
    assert blaming.height
    assert not people(mined, "bed|comfortable|+") & set(blaming.select("user", "item").iter_rows())
    assert {"bed|uncomfortable|-", "staff|friendly|+", "wall|thin|-"} <= ids(mined)


def test_what_is_wished_for_or_said_about_others_is_no_statement(mined: Mined) -> None:
    assert not {each for each in ids(mined) if each.startswith("air conditioning|")}
    assert "it|noisy|-" not in ids(mined)


def test_no_pool_holds_a_statement_and_its_opposite_under_one_sense(mined: Mined) -> None:
    senses = mined.explanations.filter(pl.col("id").is_in(list(ids(mined)))).select("aspect", "sense")
    assert senses.is_unique().all()


def test_copies_count_once(mined: Mined) -> None:
    twice = mine([reviews(), reviews()])
    noted = ("user", "item", "explanation", "sentence", "said", "rating")
    assert twice.frame().select(noted).equals(mined.frame().select(noted))
    copied = reviews().with_columns(pl.col("time") + 10**6, user=pl.lit("copyist"))
    found = mine([reviews(), copied])
    for statement in ("bed|comfortable|+", "staff|friendly|+", "wall|thin|-"):
        assert people(found, statement) == people(mined, statement)


@pytest.mark.parametrize("threads", [1, 3])
def test_the_order_of_reviews_and_threads_make_no_difference(mined: Mined, threads: int) -> None:
    shuffled = mine(reviews().sample(fraction=1.0, shuffle=True, seed=threads), threads=threads)
    assert shuffled.explanations.equals(mined.explanations)
    assert shuffled.frame().drop("source").equals(mined.frame().drop("source"))


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


PRIVATE = ("ann@example.org", "Gwendolyn", "7946", "example.com", "Gonzalez")


def test_names_and_what_is_private_never_stand_in_statements_or_quotes() -> None:
    texts = (
        "The pool was great, write to ann@example.org about it.",
        "Gwendolyn was great and the pool was clean.",
        "The clean pool was great, call +44 20 7946 0958.",
        "We thanked Gwendolyn for the great pool at www.example.com again.",
        "The manager Mr Gonzalez was great and kept the pool clean.",
    )
    found = mine(short(texts, 8))
    assert {"pool|great|+", "pool|clean|+"} <= ids(found)
    shown = [*found.explanations["text"], *found.frame()["sentence"].drop_nulls()]
    for secret in PRIVATE:
        assert not [each for each in shown if secret.lower() in each.lower()], secret


def test_vulgar_words_are_left_out_unless_wanted() -> None:
    table = short(("The fucking pool was great.", "The pool was great."), 10)
    for wanted in (False, True):
        found = mine(table, vulgar=wanted)
        quotes = " ".join(found.frame()["sentence"].drop_nulls())
        assert "fuck" not in quotes or wanted
        assert "fuck" not in " ".join(found.explanations["text"]) or wanted


def test_a_pool_takes_in_new_reviews_as_mining_at_once_does(tmp_path: Path) -> None:
    table = reviews(480, seed=7)
    whole = mine(table)
    first = mine(table.head(160)).write(tmp_path / "0")
    for k in (1, 2):
        first = mine(table.slice(160 * k, 160), pool=first).write(tmp_path / str(k))
    parts = Mined.read(first)
    known = ids(Mined.read(tmp_path / "0")) & ids(whole)
    there, here = (
        set(each.frame().filter(pl.col("explanation").is_in(list(known))).select("user", "item", "explanation").rows())
        for each in (whole, parts)
    )
    assert len(there & here) >= 0.98 * len(there)
    signs = {each.rpartition("|")[0]: each for each in ids(parts)}
    assert all(signs[each.rpartition("|")[0]] == each for each in ids(parts))
    assert parts.learned == Mined.read(tmp_path / "0").learned


def test_a_single_new_review_counts_for_what_a_pool_knows(mined: Mined) -> None:
    one = pl.DataFrame(
        {"user": ["new"], "item": ["i1"], "text": ["The bed was really comfortable. The staff was friendly."]}
    )
    later = mine(one, pool=mined)
    assert people(later, "bed|comfortable|+") == people(mined, "bed|comfortable|+") | {("new", "i1")}


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


def test_nothing_found_is_an_error_that_says_what_to_do() -> None:
    table = pl.DataFrame({"user": ["a", "b"], "item": ["x", "y"], "text": ["We."] * 2})
    with pytest.raises(DataError, match="no statement was found"):
        mine(table)


def test_rules_are_checked_and_go_through_json() -> None:
    rules = MiningRules(min_count=7, words=("folder",))
    assert MiningRules().changed(json.loads(json.dumps(rules.as_dict()))) == rules
    for wrong in ({"min_count": 0}, {"min_users": 0}, {"vulgar": 1}, {"language": None}, {"similarity": 0.9}):
        with pytest.raises(ParameterError, match=next(iter(wrong))):
            mine(reviews(10), **wrong)
    with pytest.raises(ParameterError, match="threads"):
        mine(reviews(10), threads=0)


@pytest.mark.parametrize(
    "told", ["", "[]", "{}", '{"matcher": {}}', '{"matcher": 1, "shown": 2, "right": 3, "said": 0, "learned_from": ""}']
)
def test_a_matcher_is_a_readable_file_or_a_typed_error(told: str, tmp_path: Path) -> None:
    assert np.isfinite(matcher_of(MATCHER).weights).all()
    file = tmp_path / "matcher.json"
    file.write_text(told, encoding="utf-8")
    with pytest.raises(DataError, match="no matcher"):
        mine(reviews(20), matcher=str(file))
    with pytest.raises(DataError, match="no matcher"):
        matcher_of(tmp_path / "nowhere.json")


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
    result = mine(table, min_count=1, min_users=1)
    assert result.rejected["not English"] == len(FOREIGN)
    assert {"staff|friendly|+", "wifi|fast|+", "room|clean|+"} <= ids(result)


def test_marks_do_not_make_a_language() -> None:
    text = "Friendly staff!!! Clean rooms!!! Fair prices!!! The cake: fresh, fresh, fresh!!! Nice view!!!"
    assert mine(short((text,) * 3)).rejected == {}


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
