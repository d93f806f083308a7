"""Mining by clauses: reviews in, explanations and triplets out."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import whyrank.data as data
from whyrank.data.columns import parse_times
from whyrank.errors import DataError, ParameterError
from whyrank.mining import Mined, MiningRules, apply_review, paraphrases, write_review
from whyrank.mining import _sentences as kernel
from whyrank.mining import mine as mine_any
from whyrank.mining.clean import clean_texts
from whyrank.mining.nouns import StatementEnglish
from whyrank.mining.pool import explanation_id, specificity
from whyrank.mining.sentences import Cutter, as_bytes
from whyrank.mining.tags import head_noun, is_negated, singular, tag_texts

mine = partial(mine_any, unit="clauses")
SAYINGS = (
    "The room was clean",
    "Great location!",
    "Friendly staff",
    "the breakfast was delicious",
    "There was a small but very well equipped kitchen in the room with everything",
    "terrible service",
)


def reviews(count: int = 120, seed: int = 0) -> pl.DataFrame:
    """Reviews in which each saying occurs often, in various spellings, amid sentences that nobody repeats."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        said = [SAYINGS[k] for k in rng.choice(len(SAYINGS), 3, replace=False)]
        spelled = [[text, text.lower(), f"And {text}", text + "!!"][rng.integers(4)] for text in said]
        text = ". ".join([*spelled, f"We came for event {number}", f"nice unusual thing {number}"])
        rows.append(
            (f"u{rng.integers(20)}", f"i{rng.integers(10)}", "Good value", text, float(rng.integers(1, 6)), number)
        )
    return pl.DataFrame(rows, ["user", "item", "title", "text", "rating", "time"], orient="row")


@pytest.fixture(scope="module")
def mined() -> Mined:
    return mine(reviews())


def texts(result: Mined) -> set[str]:
    return set(result.explanations["text"].str.to_lowercase())


def test_sayings_become_explanations_and_nothing_else_does(mined: Mined) -> None:
    assert texts(mined) == {text.lower().rstrip("!") for text in SAYINGS} | {"good value"}


def test_every_triplet_is_backed_by_its_sentence(mined: Mined) -> None:
    joined = mined.frame().drop("text").join(reviews(), on=["user", "item"], how="left")
    said = (joined["title"] + "\n" + joined["text"]).to_list()
    found = [sentence in text for sentence, text in zip(joined["sentence"], said, strict=True)]
    by_triplet = (
        joined.with_columns(found=pl.Series(found)).group_by("user", "item", "explanation").agg(pl.col("found").any())
    )
    assert by_triplet["found"].all()


def test_counts_are_of_records_and_the_table_agrees_with_the_triplets(mined: Mined) -> None:
    triplets = mined.triplets
    counts = dict(zip(triplets.explanations.ids, triplets.popularity, strict=True))
    assert dict(mined.explanations.select("id", "count").iter_rows()) == counts
    assert mined.explanations["count"].is_sorted(descending=True)


def test_neither_order_nor_threads_nor_chunks_matter(mined: Mined, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whyrank.mining.reviews.CHUNK", 7)
    monkeypatch.setattr("whyrank.mining.sentences.BLOCK", 50)
    shuffled = mine(reviews().sample(fraction=1.0, shuffle=True, seed=3), threads=3)
    assert shuffled.explanations.equals(mined.explanations)
    assert shuffled.frame().equals(mined.frame())
    assert shuffled.triplets.digest() == mined.triplets.digest()


def test_the_report_accounts_for_every_sentence(mined: Mined) -> None:
    rows = {row["rule"]: row for row in mined.rule_report()}
    assert rows["first_person"]["sentences"] == 120
    assert rows["rare"]["sentences"] == 120
    assert rows["rare"]["examples"]
    on_sentences = sum(
        row["sentences"] for rule, row in rows.items() if not rule.startswith("min_") or rule == "min_words"
    )
    kept = mined.report.sentences - on_sentences
    assert kept == 120 * 4  # three sayings and a title


def test_what_one_person_repeats_is_one_record() -> None:
    table = pl.DataFrame({"user": ["a"] * 9, "item": ["x"] * 9, "text": ["Great location"] * 9})
    assert mine(table, min_users=1).explanations.height == 0
    assert mine(table, min_users=1, min_count=1).explanations["count"].to_list() == [1]


def test_reviews_that_come_twice_count_once(mined: Mined) -> None:
    twice = mine([reviews(), reviews()])
    assert twice.frame().equals(mined.frame())
    assert twice.wordings.equals(mined.wordings)
    assert "rare" in {row["rule"] for row in twice.rule_report()}


def test_min_users_min_items_and_specificity_drop_explanations() -> None:
    table = pl.DataFrame(
        {
            "user": [f"u{k}" for k in range(40)] + ["u1"] * 6,
            "item": [f"i{k % 20}" for k in range(40)] + [f"i{k}" for k in range(6)],
            "text": ["Nice hotel" + (". Lovely pool" if k % 20 == 0 else "") for k in range(40)] + ["Odd rate"] * 6,
        }
    )
    assert texts(mine(table, min_count=2, min_users=1)) == {"nice hotel", "lovely pool", "odd rate"}
    assert texts(mine(table, min_count=2)) == {"nice hotel", "lovely pool"}
    assert texts(mine(table, min_count=2, min_items=2)) == {"nice hotel"}
    assert texts(mine(table, min_count=2, min_specificity=0.5)) == {"lovely pool"}


def test_near_duplicates_join_the_most_frequent_wording() -> None:
    long = "The friendly staff at the front desk went out of their way to make everyone feel very welcome"
    said = [long] * 4 + [long + " indeed"] * 2 + [long + " always"]
    table = pl.DataFrame({"user": [f"u{k}" for k in range(7)], "item": ["x"] * 7, "text": said})
    result = mine(table, min_count=7)
    assert result.explanations.select("text", "count", "wordings").rows() == [(long, 7, 3)]
    assert mine(table, min_count=7, similarity=1.0).explanations.height == 0
    assert set(result.frame()["sentence"]) == set(said)


def test_names_fragments_and_sentences_without_noun_or_adjective_are_dropped() -> None:
    said = "Central Park. which was a nice room. very clean. The staff. Great food and. on the other hand. Quiet room"
    table = pl.DataFrame({"user": list("abcde"), "item": ["x"] * 5, "text": [said] * 5})
    assert texts(mine(table)) == {"quiet room"}
    assert texts(mine(table, rules=MiningRules.extra())) > {"central park", "quiet room", "on the other hand"}


def test_odd_reviews_break_nothing() -> None:
    odd = [
        "",
        "  ",
        "😀😀",
        "word " * 20_000,
        "x" * 100_000,
        "&nbsp;&lt;br&gt;",
        "日本語のレビュー。とても良い",
        "...!!!",
        "\0\0",
        None,
    ]
    odd += [
        "Great pool 😀 nice staff",
        "Great pool<br/>Nice staff",
        "Great pool&mdash;nice staff",
        "Great pool… nice staff",
    ]
    table = pl.DataFrame({"user": [f"u{k}" for k in range(len(odd))], "item": ["x"] * len(odd), "text": odd})
    result = mine(table, min_count=4)
    assert texts(result) == {"great pool", "nice staff"}
    assert result.rejected == {"no text": 3, "not English": 1}


def test_texts_are_cleaned_as_people_meant_them() -> None:
    dirty = [
        "The hotelâ€™s â€œpoolâ€\ufffd",
        "didn\ufffdt",
        "“Great” café – nice",
        "Fish &amp; chips",
        "<b>Nice</b> room<br>Big bed",
        "a•b",
    ]
    clean = ['The hotel\'s "pool"', "didn't", '"Great" café - nice', "Fish & chips", " Nice  room\nBig bed", "a\nb"]
    assert clean_texts(pl.Series(dirty)).to_list() == clean


AMAZON = {
    "user": "reviewerID",
    "item": "asin",
    "text": "reviewText",
    "title": "summary",
    "rating": "overall",
    "time": "unixReviewTime",
}
YELP = {"user": "user_id", "item": "business_id", "text": "text", "rating": "stars", "time": "date"}


def write_csv(table: pl.DataFrame, path: Path) -> None:
    table.write_csv(path)


def write_jsonl(table: pl.DataFrame, path: Path) -> None:
    table.write_ndjson(path)


def write_gz(table: pl.DataFrame, path: Path) -> None:
    table.write_ndjson(path, compression="gzip", check_extension=False)


def write_zst(table: pl.DataFrame, path: Path) -> None:
    table.write_ndjson(path, compression="zstd", check_extension=False)


def write_parquet(table: pl.DataFrame, path: Path) -> None:
    table.write_parquet(path)


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("r.csv", write_csv),
        ("r.jsonl", write_jsonl),
        ("r.jsonl.gz", write_gz),
        ("r.json.zst", write_zst),
        ("r.parquet", write_parquet),
    ],
)
def test_files_of_every_kind_give_the_same(
    name: str, write: Callable[[pl.DataFrame, Path], None], mined: Mined, tmp_path: Path
) -> None:
    write(reviews().rename(AMAZON), tmp_path / name)
    assert mine(tmp_path / name).frame().equals(mined.frame())


def test_yelp_is_recognized_and_columns_can_be_mapped(mined: Mined, tmp_path: Path) -> None:
    yelp = reviews().drop("title").rename({ours: theirs for ours, theirs in YELP.items() if ours != "text"})
    yelp = yelp.with_columns(date=pl.lit("2016-03-09 22:12:11"))
    yelp.write_ndjson(tmp_path / "yelp.jsonl")
    result = mine(str(tmp_path / "yelp.jsonl"))
    assert texts(result) == texts(mined) - {"good value"}
    assert result.frame()["time"].unique().to_list() == [1457561531]
    mapped = mine(reviews().rename({"user": "who", "text": "words"}), columns={"user": "who", "text": "words"})
    assert mapped.frame().equals(mined.frame())


def test_several_sources_are_one(mined: Mined, tmp_path: Path) -> None:
    reviews().head(50).write_ndjson(tmp_path / "a.jsonl")
    assert mine([tmp_path / "a.jsonl", reviews().tail(70)]).frame().equals(mined.frame())


def test_times_are_seconds_whatever_they_were() -> None:
    for times in (["1457561531"], [1457561531], [1457561531000], ["2016-03-09 22:12:11"], ["2016-03-09T22:12:11Z"]):
        assert parse_times(pl.Series("t", times)).to_list() == [1457561531]
    assert (
        parse_times(pl.Series("t", ["2016-03-09", "03 9, 2016", "nonsense", None])).to_list()
        == [1457481600] * 2 + [None] * 2
    )


def test_bad_rows_are_named_or_counted(tmp_path: Path) -> None:
    good = [json.dumps(row) for row in reviews().to_dicts()]
    path = tmp_path / "bad.jsonl"
    path.write_text(
        "\n".join([*good[:3], "{broken", '{"user": "", "item": "x", "text": "t"}', "[1]", "", *good[3:]]), "utf-8"
    )
    with pytest.raises(DataError, match=r"bad.jsonl, row 4: broken JSON"):
        mine(path)
    result = mine(path, on_error="skip")
    assert result.rejected == {"broken JSON": 1, "not a JSON object": 1, "no user": 1}
    assert result.reviews == 123
    assert result.frame().equals(mine(reviews()).frame())


def test_a_ragged_csv_is_named_by_its_row_or_skipped_over(tmp_path: Path) -> None:
    path = tmp_path / "ragged.csv"
    path.write_text(
        'user,item,text\na,x,"Great\npool"\nb,x,Great pool,more,more\nc,x,Great pool\nd,x,Great pool\n', "utf-8"
    )
    with pytest.raises(DataError, match=r"ragged.csv, row 4: wrong number of columns: 5"):
        mine(path, min_count=1)
    skipped = mine(path, min_count=1, on_error="skip")
    assert skipped.explanations["count"].to_list() == [2]
    assert (skipped.reviews, skipped.rejected) == (4, {"wrong number of columns": 1})


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (pl.DataFrame({"user": ["a"], "item": ["x"]}), "no field for the text"),
        (pl.DataFrame({"user": ["a"], "item": ["x"], "text": [""]}), "no reviews"),
        ("nowhere.jsonl", "no such file"),
    ],
)
def test_unusable_sources_say_why(source: pl.DataFrame | str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        mine(source)


def test_reviews_without_explanations_give_an_empty_result_that_says_so() -> None:
    result = mine(pl.DataFrame({"user": ["a"], "item": ["x"], "text": ["nothing much"]}))
    assert result.explanations.height == 0
    with pytest.raises(DataError, match="no explanation was found"):
        _ = result.triplets


def test_rules_are_checked_and_travel_as_json() -> None:
    rules = MiningRules(min_count=7, first_person=("i", "we"))
    assert MiningRules().changed(json.loads(json.dumps(rules.as_dict()))) == rules
    for wrong in (
        {"min_count": 0},
        {"similarity": 2},
        {"tagger": "x"},
        {"openers": ("And",)},
        {"boundaries": ".a"},
        {"nope": 1},
    ):
        with pytest.raises(ParameterError, match=next(iter(wrong))):
            MiningRules().changed(wrong)
    with pytest.raises(ParameterError, match="threads"):
        mine(reviews(), threads=0)


def test_a_folder_holds_everything_and_opens_as_data(mined: Mined, tmp_path: Path) -> None:
    folder = mined.write(tmp_path / "data")
    again = Mined.read(folder)
    assert again.frame().equals(mined.frame())
    assert again.explanations.equals(mined.explanations)
    assert again.rule_report() == mined.rule_report()
    assert again.rules == mined.rules
    assert data.read(folder).digest() == mined.triplets.digest()
    (folder / "explanations.parquet").write_bytes(b"edited")
    with pytest.raises(DataError, match="changed since"):
        Mined.read(folder)
    with pytest.raises(DataError, match="not a mining folder"):
        Mined.read(tmp_path)


@pytest.mark.parametrize(
    ("name", "column"), [("explanations", "text"), ("explanations", "id"), ("wordings", "normalized")]
)
def test_a_folder_that_lacks_a_column_is_refused(mined: Mined, tmp_path: Path, name: str, column: str) -> None:
    folder = mined.write(tmp_path / "mined")
    file = folder / f"{name}.parquet"
    pl.read_parquet(file).rename({column: "other"}).write_parquet(file)
    account = json.loads((folder / "mining.json").read_text(encoding="utf-8"))
    account["sha256"][file.name] = sha256(file.read_bytes()).hexdigest()
    (folder / "mining.json").write_text(json.dumps(account), encoding="utf-8")
    with pytest.raises(DataError, match=f"lack a column '{column}'"):
        Mined.read(folder)


def test_mining_the_same_reviews_into_a_pool_changes_nothing(mined: Mined) -> None:
    again = mine(reviews(), pool=mined)
    assert again.frame().equals(mined.frame())
    assert again.explanations.equals(mined.explanations)
    assert again.wordings.sort("normalized").equals(mined.wordings.sort("normalized"))


def test_new_reviews_keep_the_ids_and_texts_of_a_pool(tmp_path: Path) -> None:
    first = mine(reviews(60))
    folder = first.write(tmp_path / "pool")
    new = pl.DataFrame(
        {"user": [f"n{k}" for k in range(40)], "item": ["new"] * 40, "text": ["FRIENDLY STAFF. superb wine list"] * 40}
    )
    both = mine(new, pool=folder)
    assert texts(both) == texts(first) | {"superb wine list"}
    old = dict(first.explanations.select("id", "text").iter_rows())
    assert {key: text for key, text in both.explanations.select("id", "text").iter_rows() if key in old} == old
    assert both.pool.triplets.height == first.pool.triplets.height + 80
    assert both.rules == first.rules


def test_a_near_duplicate_of_a_pool_joins_it_however_frequent() -> None:
    long = "The friendly staff at the front desk went out of their way to make everyone feel very welcome"
    users = [f"u{k}" for k in range(30)]
    first = mine(pl.DataFrame({"user": users[:5], "item": ["x"] * 5, "text": [long] * 5}))
    new = pl.DataFrame({"user": users[5:], "item": ["x"] * 25, "text": [long + " indeed"] * 25})
    both = mine(new, pool=first)
    assert both.explanations.select("id", "text", "count").rows() == [(first.explanations["id"][0], long, 30)]


def test_wordings_of_a_pool_keep_their_explanations_under_looser_rules() -> None:
    long = "The friendly staff at the front desk went out of their way to make everyone feel very welcome"
    said = [long] * 6 + [long + " indeed"] * 5
    table = pl.DataFrame({"user": [f"u{k}" for k in range(11)], "item": ["x"] * 11, "text": said})
    first = mine(table, similarity=1.0)
    assert mine(table, pool=first, similarity=0.9).explanations.equals(first.explanations)
    assert mine(table, similarity=0.9).explanations["count"].to_list() == [11]


def edit(path: Path, decisions: dict[str, dict[str, str]]) -> None:
    """Fill in the review table: decisions by lower-case text."""
    table = pl.read_csv(path, infer_schema=False)
    ids = {row["text"].lower(): row["id"] for row in table.to_dicts()}
    rows = []
    for row in table.to_dicts():
        change = decisions.get(row["text"].lower(), {})
        rows.append(row | change | ({"into": ids.get(change["into"], change["into"])} if "into" in change else {}))
    pl.DataFrame(rows).write_csv(path)


def test_no_text_of_a_review_table_is_a_formula_and_all_come_back(mined: Mined, tmp_path: Path) -> None:
    text = pl.Series([f"{'=+-@'[place % 4]}1+cmd|'{place}'" for place in range(mined.explanations.height)])
    odd = replace(mined, pool=mined.pool._replace(explanations=mined.explanations.with_columns(text=text)))
    path = write_review(odd, tmp_path / "review.csv")
    written = pl.read_csv(path, infer_schema=False)["text"]
    assert written.str.starts_with("'").all()
    assert apply_review(odd, path).explanations["text"].equals(text, check_names=False)


def test_a_pool_is_reviewed_by_hand_and_remembers_it(mined: Mined, tmp_path: Path) -> None:
    path = write_review(mined, tmp_path / "review.csv")
    assert apply_review(mined, path).frame().equals(mined.frame())
    edit(
        path,
        {
            "terrible service": {"decision": "reject"},
            "good value": {"decision": "merge", "into": "great location"},
            "friendly staff": {"text": "The staff is friendly"},
        },
    )
    after = apply_review(mined, path)
    assert texts(after) == texts(mined) - {"terrible service", "good value", "friendly staff"} | {
        "the staff is friendly"
    }
    place = after.explanations.filter(pl.col("text").str.to_lowercase() == "great location")
    assert place.select("count", "wordings").rows() == [(mined.pool.triplets.select("user", "item").n_unique(), 2)]
    assert after.rule_report()[-1]["rule"] == "review"
    later = mine(reviews(200, seed=5), pool=Mined.read(after.write(tmp_path / "pool")))
    assert texts(later) == texts(after)


@pytest.mark.parametrize(
    ("decisions", "message"),
    [
        ({"good value": {"decision": "maybe"}}, "unknown decision 'maybe'"),
        ({"good value": {"decision": "merge", "into": "nowhere"}}, "cannot merge into 'nowhere'"),
        ({"good value": {"id": "f00"}}, "unknown explanation 'f00'"),
        (
            {"good value": {"decision": "merge", "into": "great location"}, "great location": {"decision": "reject"}},
            "is rejected, but",
        ),
        (
            {
                "good value": {"decision": "merge", "into": "great location"},
                "great location": {"decision": "merge", "into": "good value"},
            },
            "merged into itself",
        ),
    ],
)
def test_a_mistake_in_the_review_table_is_named(
    mined: Mined, tmp_path: Path, decisions: dict[str, dict[str, str]], message: str
) -> None:
    path = write_review(mined, tmp_path / "review.csv")
    edit(path, decisions)
    with pytest.raises(DataError, match=message):
        apply_review(mined, path)


def test_paraphrases_merge_into_the_more_frequent_unless_opposite(monkeypatch: pytest.MonkeyPatch) -> None:
    said = ["Great location"] * 6 + ["Good location"] * 5 + ["Not a good location"] * 5
    table = pl.DataFrame({"user": [f"u{k}" for k in range(16)], "item": ["x"] * 16, "text": said})
    monkeypatch.setattr(paraphrases, "encode", lambda texts, tell: np.ones((len(texts), 4), np.float32) / 2)
    result = mine(table, merge_paraphrases=0.9)
    assert dict(result.explanations.select("text", "count").iter_rows()) == {
        "Great location": 11,
        "Not a good location": 5,
    }


def test_near_vectors_are_those_of_brute_force(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paraphrases, "ROWS", 7)
    vectors = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    pairs = paraphrases.near_vectors(vectors, 0.8)
    expected = {(a, b) for a in range(40) for b in range(a + 1, 40) if vectors[a] @ vectors[b] >= 0.8}
    assert set(zip(pairs.left.tolist(), pairs.right.tolist(), strict=True)) == expected


def test_specificity_is_the_excess_of_meetings_on_an_item() -> None:
    rows = [("anything", f"i{k}") for k in range(8)] + [("special", "i0")] * 4
    table = pl.DataFrame(rows, ["explanation", "item"], orient="row")
    bits = dict(specificity(table).iter_rows())
    chance = (5 / 12) ** 2 + 7 * (1 / 12) ** 2
    assert bits["special"] == pytest.approx(np.log2((6 + 1) / (6 * chance + 1)), abs=1e-6)
    assert bits["anything"] == pytest.approx(np.log2(1 / (28 * chance + 1)), abs=1e-6)


def test_ids_depend_on_the_normalized_text_only() -> None:
    assert explanation_id("great location") == explanation_id("great location") != explanation_id("great locations")
    assert len(explanation_id("great location")) == 16


def test_parts_of_speech_and_head_nouns() -> None:
    tags = tag_texts(
        pl.Series(["front desk staff was friendly", "very clean", "it wasn't busy", "same room"]), MiningRules()
    )
    assert tags["nouns"].to_list() == [True, False, False, True]
    assert tags["adjectives"].to_list() == [True, True, True, False]
    assert tags["aspect"].to_list() == ["staff", None, None, "room"]
    assert head_noun([("nice", "JJ"), ("pool", "NN"), ("areas", "NNS"), ("with", "IN"), ("view", "NN")]) == "area"
    assert [singular(noun) for noun in ("facilities", "rooms", "glasses", "staff", "beaches")] == [
        "facility",
        "room",
        "glass",
        "staff",
        "beach",
    ]
    for noun in ("movie", "cookie", "brownie", "calorie", "brasserie", "series"):
        plural = noun if noun == "series" else f"{noun}s"
        assert (singular(plural), StatementEnglish().lemma(plural)) == (noun, noun)
    assert is_negated("the staff isn't nice")
    assert not is_negated("a notable hotel")


def test_progress_is_told_stage_by_stage() -> None:
    stages: list[str] = []
    mine(reviews(20), progress=lambda stage, done, total: stages.append(stage))
    assert list(dict.fromkeys(stages)) == [
        "cutting reviews",
        "counting sentences",
        "finding near-duplicates",
        "tagging sentences",
        "describing explanations",
    ]


def test_a_cut_gzip_and_an_open_quote_cost_their_own_rows_alone(tmp_path: Path) -> None:
    rows = "".join(f"u{n},i{n},Great pool number {n}\n" for n in range(3000))
    opened = tmp_path / "open.csv"
    opened.write_text(f'user,item,text\na,x,"Great pool\n{rows}', "utf-8")
    with pytest.raises(DataError, match=r"open.csv, row 2: broken row"):
        mine(opened)
    skipped = mine(opened, on_error="skip", min_count=1, min_users=1)
    assert (skipped.reviews, skipped.rejected) == (3001, {"broken row": 1})
    lines = "".join(json.dumps({"user": f"u{n}", "item": "x", "text": f"Great pool {n}"}) + "\n" for n in range(3000))
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(gzip.compress(lines.encode())[:-3000])
    with pytest.raises(DataError, match="cut short or damaged"):
        mine(cut)
    kept = mine(cut, on_error="skip", min_count=1, min_users=1)
    assert 1000 < kept.reviews < 3000
    assert kept.rejected == {"cut short or damaged": 1}


def test_odd_columns_and_ratings_of_reviews_are_typed_errors_or_unknown(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(DataError, match=r"column 'text': a column of type List"):
        mine(reviews().with_columns(text=pl.lit([["a"]]).first()))
    odd = reviews().with_columns(rating=pl.Series([float("inf"), 7.0, *[4.0] * 118]))
    assert mine(odd, rating_range=(1, 5)).frame()["rating"].drop_nulls().unique().to_list() == [4.0]
    assert "2 ratings outside of the scale 1 to 5" in caplog.text
    zoned = mine(reviews().with_columns(time=pl.lit("2016-03-09T23:12:11+01:00")))
    assert zoned.frame()["time"].unique().to_list() == [1457561531]


def test_a_bomb_of_reviews_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = tmp_path / "bomb.jsonl.gz"
    bomb.write_bytes(gzip.compress(b'{"user":"a","item":"b","text":"' + b"a " * (1 << 20) + b'"}\n'))
    monkeypatch.setattr("whyrank.data.compressed.SMALL", 1 << 20)
    with pytest.raises(DataError, match="grows to more than 1 MB"):
        mine(bomb)


def test_every_sentence_of_a_review_finds_room_and_is_kept_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One letter and a comma are the shortest sentence; room for fewer would be written beyond."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    cutter = Cutter.of(MiningRules(min_words=1, first_person=(), openers=(), articles=(), english=0.0))
    found = cutter.cut(pl.DataFrame({"title": ["", ""], "text": [",".join(letters * 2), ",".join(letters)]}))
    assert np.bincount(found.reviews).tolist() == [len(letters)] * 2
    assert len(np.unique(found.keys)) == len(letters)
    assert found.counts[kernel.REPEATED] == len(letters)
    monkeypatch.setattr(kernel, "split_sentences", kernel.split_sentences.py_func)  # which looks at bounds
    assert len(cutter.cut(pl.DataFrame({"title": [""], "text": [",".join(letters)]})).keys) == len(letters)


def test_vader_never_sees_a_long_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its time grows with the square of the number of words."""
    from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

    seen = []
    monkeypatch.setattr(
        SentimentIntensityAnalyzer,
        "polarity_scores",
        lambda self, text: {"compound": float(not seen.append(len(text)))},
    )
    endless = " ".join(["the room was great and the pool is nice"] * 3000)
    result = mine(pl.DataFrame({"user": list("abcde"), "item": list("xyxyx"), "text": [endless] * 5}))
    assert result.explanations["text"].to_list() == [endless]
    assert max(seen) <= 1000


def test_shingles_of_single_ampersands_find_room() -> None:
    cutter = Cutter.of(MiningRules())
    text, starts, lengths = as_bytes(pl.Series(["x&&b&&c&&d&&e&&f&&g"]))
    arguments = text, starts, lengths, cutter.classes, cutter.articles, 2
    indptr, shingles = kernel.sentence_shingles.py_func(*arguments)  # which looks at bounds
    assert [each.tolist() for each in kernel.sentence_shingles(*arguments)] == [indptr.tolist(), shingles.tolist()]
    assert np.diff(indptr).tolist() == [13]


def test_a_mark_before_utf_8_is_no_part_of_the_first_review(mined: Mined, tmp_path: Path) -> None:
    lines = "".join(json.dumps(row) + "\n" for row in reviews().to_dicts())
    (tmp_path / "marked.jsonl").write_text(f"\ufeff{lines}", "utf-8")
    assert mine(tmp_path / "marked.jsonl").frame().equals(mined.frame())
