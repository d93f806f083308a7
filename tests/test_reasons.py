"""What makes reasons fit to show: evidence, parts, polarity, diversity, exclusions, boosts, bulk."""

from __future__ import annotations

import contextlib
from datetime import timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whyrank.data import CSR, Split, Triplets
from whyrank.data.tables import write_table
from whyrank.errors import DataError, ParameterError, WhyrankError
from whyrank.evaluation import beyond
from whyrank.explain import bulk
from whyrank.explain._neighbours import jaccard, neighbours
from whyrank.explain.bulk import BulkColumns, explain_file
from whyrank.explain.evidence import count_reasons
from whyrank.explain.options import Options
from whyrank.explain.rank import rank
from whyrank.explain.words import word_sets
from whyrank.models import BPER, COUNTS, POP, RAND, SHARE, Profile

PLAIN = vars(Options.plain())  # the whole pool, as evaluation ranks it


@pytest.fixture(scope="module")
def model(split: Split) -> BPER:
    return BPER(epochs=60).fit(split)


def test_evidence_counts_records(model: BPER, split: Split) -> None:
    train = split.training.frame(record=True)
    user, item = train["user"][0], train["item"][0]
    for reason in model.explain(user, item, n=30, **PLAIN):
        said = train.filter(pl.col("explanation") == reason.explanation)
        assert reason.evidence.supporting == said.filter(pl.col("item") == item)["user"].n_unique()
        assert reason.evidence.user_says == said.filter(pl.col("user") == user)["item"].n_unique()


def test_similar_items_are_those_with_the_largest_jaccard_index(model: BPER, split: Split) -> None:
    from whyrank.explain.evidence import similar_items

    said = model.catalog_.item_explanations
    found = similar_items(model.catalog_, np.array([0], np.int32))[0]
    values = np.array([jaccard(said.row(0), said.row(other)) for other in range(said.rows)])
    values[0] = -1
    best = np.sort(values)[::-1][: len(found)]
    assert np.allclose([values[other] for other in found], best)
    pair = (np.array([-1], np.int32), np.array([0], np.int32))
    counted = []
    for times in (1, 100):  # looked up one by one, and added up at once
        pairs = (np.repeat(pair[0], times), np.repeat(pair[1], times))
        lists = (np.full((times, 1), 5, np.int32), np.zeros((times, 1), np.float32))
        counted.append(count_reasons(model.catalog_, pairs, lists, similar=True).counts)
    expected = sum(int(said.counts[said.indptr[o] : said.indptr[o + 1]][said.row(o) == 5].sum()) for o in found)
    for counts in counted:
        assert set(counts["similar_items"].tolist()) == {expected}
        assert not counts["user_says"].any()


@given(st.lists(st.sets(st.integers(0, 9), max_size=6), min_size=2, max_size=8), st.integers(1, 9))
def test_neighbours_agree_with_all_pairs(sets: list[set[int]], k: int) -> None:
    rows = np.repeat(np.arange(len(sets)), [len(each) for each in sets])
    columns = np.array([number for each in sets for number in sorted(each)], np.int64)
    own, inverse = CSR.from_pairs(rows, columns, len(sets), 10), CSR.from_pairs(columns, rows, 10, len(sets))
    found, values = neighbours(*own[:2], *inverse[:2], np.arange(len(sets), dtype=np.int32), k)
    for row, mine in enumerate(sets):
        alike = [
            (-len(mine & theirs) / len(mine | theirs), other)
            for other, theirs in enumerate(sets)
            if other != row and mine & theirs
        ]
        expected = [other for _, other in sorted((np.float32(v), o) for v, o in alike)][:k]
        assert [number for number in found[row].tolist() if number >= 0] == expected
        assert (np.diff(values[row]) <= 0).all()


def test_polarity_keeps_one_side_only(model: BPER, split: Split) -> None:
    catalog = model.catalog_
    sentiment = dict(zip(catalog.explanations.ids, catalog.sentiment, strict=True))
    user, item = split.data.users.ids[0], split.data.items.ids[0]
    for options in ({}, {"grounded": False}):
        positive, negative = (model.explain(user, item, polarity=each, **options) for each in ("positive", "negative"))
        assert positive
        assert all(sentiment[each.explanation] >= 0 for each in positive)  # what is neutral stays
        assert all(sentiment[each.explanation] < 0 for each in negative)
        assert positive == model.explain(user, item, **options)


def test_exclusions_bans_and_predicates_apply_before_ranking(model: BPER, split: Split) -> None:
    user, item = split.data.users.ids[0], split.data.items.ids[0]
    plain = model.explain(user, item, n=10, grounded=False)
    first = plain[0]
    without = model.explain(user, item, n=9, grounded=False, exclude=[first.explanation])
    assert [each.explanation for each in without] == [each.explanation for each in plain[1:]]
    word = first.text.split()[-1].strip(".").lower()
    assert all(word not in each.text.lower().split() for each in model.explain(user, item, n=5, banned=[word]))
    long = model.explain(user, item, n=5, grounded=False, keep=lambda table: table["text"].str.len_chars() > 20)
    assert all(len(each.text) > 20 for each in long)
    assert len(long) == 5


def test_boosts_and_specificity_move_reasons(model: BPER, split: Split) -> None:
    user, item = split.data.users.ids[0], split.data.items.ids[0]
    last = model.explain(user, item, n=len(split.data.explanations), **PLAIN)[-1]
    boosted = model.explain(user, item, n=1, **PLAIN | {"boosts": {last.explanation: 1e3}})
    assert boosted[0].explanation == last.explanation
    popular = beyond.novelty(
        rank(model, split.test.record_user, split.test.record_item, 5).numbers, model.catalog_.popularity
    )
    specific = rank(model, split.test.record_user, split.test.record_item, 5, Options.plain(specificity=1.0)).numbers
    assert beyond.novelty(specific, model.catalog_.popularity) > popular


def test_diverse_lists_hold_no_near_duplicates_and_no_contradictions(model: BPER, split: Split) -> None:
    catalog, words = model.catalog_, word_sets(model.catalog_)
    users, items = split.test.record_user[:100], split.test.record_item[:100]
    plain = rank(model, users, items, 5)
    diverse = rank(model, users, items, 5, Options.plain(diversity=0.3))
    assert beyond.redundancy(diverse.numbers, words) < beyond.redundancy(plain.numbers, words)
    for row in diverse.numbers:
        numbers = row[row >= 0]
        for place, one in enumerate(numbers):
            for other in numbers[:place]:
                shared = len(words[one] & words[other])
                assert shared / len(words[one] | words[other]) < 0.6
                a, b = catalog.sentiment[one], catalog.sentiment[other]
                assert not (shared and a * b < 0 and abs(a - b) >= 0.5)


def test_full_diversity_weight_still_starts_with_a_reason(model: BPER, split: Split) -> None:
    lists = rank(model, split.test.record_user[:5], split.test.record_item[:5], 3, Options.plain(diversity=1.0))
    assert (lists.numbers[:, 0] >= 0).all()


@pytest.mark.parametrize(
    "options",
    [
        {"polarity": "odd"},
        {"diversity": 2.0},
        {"specificity": float("nan")},
        {"per_aspect": 1.5},
        {"per_aspect": -1},
        {"backing": -1.0},
        {"backing": True},
        {"grounded": 1},
        {"mu": 1.5},
        {"exclude": [1]},
        {"boosts": {"e": "much"}},
    ],
)
def test_bad_options_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ParameterError):
        Options(**options)


def test_counts_agree_with_their_formula(split: Split) -> None:
    model = COUNTS(user_smoothing=3.0, item_smoothing=10.0, power=0.5).fit(split)
    train = split.training
    user, item = int(split.test.record_user[0]), int(split.test.record_item[0])
    share = train.popularity / train.popularity.sum()
    expected = np.log(train.popularity)
    for relation, row, smoothing in ((train.user_explanations, user, 3.0), (train.item_explanations, item, 10.0)):
        counts = np.zeros(len(share))
        counts[relation.row(row)] = relation.counts[relation.indptr[row] : relation.indptr[row + 1]]
        expected = expected + np.log1p(counts / (smoothing * share**0.5))
    ranked = rank(model, np.array([user], np.int32), np.array([item], np.int32), 10)
    assert np.allclose(ranked.scores[0], np.sort(expected)[::-1][:10], atol=1e-4)


def test_bulk_goes_on_where_it_stopped(
    model: BPER, split: Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "ROWS", 40)
    pairs = split.test.frame().select("user", "item").unique(maintain_order=True).head(150)
    pairs.write_parquet(tmp_path / "pairs.parquet")
    whole = explain_file(model, tmp_path / "pairs.parquet", tmp_path / "whole.parquet", 3)
    assert whole.pairs == 150
    seen: list[int] = []

    def stop_early(done: int, total: int) -> None:
        seen.append(done)
        if len(seen) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        explain_file(model, tmp_path / "pairs.parquet", tmp_path / "again.parquet", 3, progress=stop_early)
    assert not (tmp_path / "again.parquet").exists()
    again = explain_file(model, tmp_path / "pairs.parquet", tmp_path / "again.parquet", 3)
    assert again.resumed_at == 80
    assert pl.read_parquet(tmp_path / "again.parquet").equals(pl.read_parquet(tmp_path / "whole.parquet"))
    direct = model.explain_many(pairs, n=3)
    assert pl.read_parquet(tmp_path / "whole.parquet")["explanation"].to_list() == direct["explanation"].to_list()


def test_bulk_refuses_what_it_cannot_read_or_write(model: BPER, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="unknown kind of file"):
        explain_file(model, tmp_path / "p.csv", tmp_path / "out.xls")
    with pytest.raises(ParameterError, match="uncompressed"):
        explain_file(model, tmp_path / "p.csv", tmp_path / "out.csv.gz")
    with pytest.raises(ParameterError, match="quotes are lists"):
        explain_file(model, tmp_path / "p.csv", tmp_path / "out.csv", shown=BulkColumns(quotes=True))
    with pytest.raises(DataError, match="no such file"):
        explain_file(model, tmp_path / "p.csv", tmp_path / "out.parquet")
    pl.DataFrame({"user": ["a"]}).write_csv(tmp_path / "p.csv")
    with pytest.raises(DataError, match="missing column"):
        explain_file(model, tmp_path / "p.csv", tmp_path / "out.parquet")


def test_a_popular_model_explains_with_popularity(split: Split) -> None:
    model = POP().fit(split)
    best = model.explain(split.data.users.ids[0], split.data.items.ids[0], n=1, **PLAIN)[0]
    number = split.data.explanations.number(best.explanation)
    assert split.training.popularity[number] == split.training.popularity.max()
    assert set(best.parts) == {"popularity"}


def test_triplets_know_their_words(tiny: Triplets) -> None:
    from whyrank.data.catalog import Catalog

    assert word_sets(Catalog.of(tiny))[1] == frozenset({"quiet", "room"})


def test_counts_are_parts_of_the_user_and_of_the_item(tiny: Triplets) -> None:
    """Bob said quiet and warm once each; of the inn it was said quiet twice and clean once."""
    shares = {each.explanation: each.parts for each in SHARE(mu=0.25).fit(tiny).explain("bob", "inn", n=3, **PLAIN)}
    assert shares["quiet"] == pytest.approx({"user": 0.25 / 2, "item": 0.75 * 2 / 3})
    assert shares["clean"] == pytest.approx({"user": 0.0, "item": 0.75 / 3})
    assert shares["warm"] == pytest.approx({"user": 0.25 / 2, "item": 0.0})
    model = COUNTS(user_smoothing=2, item_smoothing=4, power=1).fit(tiny)
    best = model.explain("bob", "inn", n=1)[0]
    share = 2 / 5
    expected = {"popularity": np.log(2), "user": np.log(1 + 1 / (2 * share)), "item": np.log(1 + 2 / (4 * share))}
    assert best.parts == pytest.approx(expected, rel=1e-5)


def test_the_parts_of_the_flagship_are_those_of_user_item_and_popularity(data: Triplets) -> None:
    model, zero = Profile(epochs=1).fit(data), np.zeros(1, np.int32)
    nobody = np.full(1, -1, np.int32)
    for reason in model.explain(data.users.ids[0], data.items.ids[0], n=8):
        number = data.explanations.numbers([reason.explanation])
        scored = model.queries(zero, nobody) @ model.keys()[number[0]]
        alone = model.bonus(zero, nobody, 1)
        scored += alone.values[alone.explanations == number[0]].sum()
        assert set(reason.parts) == {"user", "item", "popularity"}
        assert reason.parts["user"] + reason.parts["popularity"] == pytest.approx(float(scored[0]), abs=1e-4)


def test_banned_words_never_fail_open(model: BPER, split: Split) -> None:
    names = ["Great C++ support", "C is old", "good location", "allocation of rooms"]
    rows = [{"user": f"u{n}", "item": "i", "explanation": name} for n, name in enumerate(names)]
    few = POP().fit(Triplets.from_frame(pl.DataFrame(rows)))

    def shown(*banned: str) -> set[str]:
        return {reason.text for reason in few.explain("u0", "i", banned=banned, support=1)}

    assert shown("c++") == set(names[1:])
    assert shown("Location", "OLD") == {names[0], names[3]}
    for wrong in ("location", [""], ["good", " "]):
        with pytest.raises(ParameterError, match="banned"):
            few.explain("u0", "i", banned=wrong)


def test_what_is_no_option_and_no_number_is_named(model: BPER, split: Split) -> None:
    pair = split.data.users.ids[0], split.data.items.ids[0]
    with pytest.raises(ParameterError, match="no option 'groundd'; there are grounded"):
        model.explain(*pair, groundd=True)
    for n in (2.5, "3", 0):
        with pytest.raises(ParameterError, match="whole number"):
            model.explain(*pair, n=n)


def test_nothing_is_said_of_an_unknown_item(split: Split) -> None:
    model = POP().fit(split)
    nobody, unknown = np.zeros(2, np.int32), np.array([0, -1], np.int32)
    numbers = rank(model, nobody, unknown, 5, Options.plain(grounded=True)).numbers
    assert (numbers[0] >= 0).any()
    assert (numbers[1] == -1).all()


def test_bulk_goes_on_only_with_the_same_model(split: Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "ROWS", 10)
    split.test.frame().select("user", "item").head(40).write_parquet(tmp_path / "pairs.parquet")

    def stop(done: int, total: int) -> None:
        if done >= 20:
            raise KeyboardInterrupt

    model = BPER(epochs=3, mu=0.9).fit(split)
    with pytest.raises(KeyboardInterrupt):
        explain_file(model, tmp_path / "pairs.parquet", tmp_path / "reasons.parquet", 3, progress=stop)
    model.mu = 0.1
    assert explain_file(model, tmp_path / "pairs.parquet", tmp_path / "reasons.parquet", 3).resumed_at == 0
    explain_file(model, tmp_path / "pairs.parquet", tmp_path / "fresh.parquet", 3)
    assert pl.read_parquet(tmp_path / "reasons.parquet").equals(pl.read_parquet(tmp_path / "fresh.parquet"))


def test_lists_that_are_short_are_as_personal_as_they_differ() -> None:
    short = np.array([[1, 2, -1, -1], [1, 2, -1, -1]], np.int32)
    assert beyond.personalization(short, np.array([0, 1])) == 0.0
    assert np.isnan(beyond.personalization(np.full((2, 4), -1, np.int32), np.array([0, 1])))


@pytest.mark.parametrize("options", [{"grounded": True}, {"polarity": "positive"}, {"banned": ["the"]}])
def test_random_reasons_stay_random_among_those_that_are_allowed(
    split: Split, options: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whyrank.explain.rank.WHOLE", 3 * len(split.data.explanations))
    model, pool = RAND(seed=5).fit(split), len(split.data.explanations)
    pairs = split.test.frame().select("user", "item").unique(maintain_order=True).head(10)
    allowed = POP().fit(split).explain_many(pairs, pool, **options)
    everything = model.explain_many(pairs, pool)
    expected = everything.join(allowed, on=["user", "item", "explanation"], how="semi", maintain_order="left")
    found = model.explain_many(pairs, 4, **options)
    for pair, rows in expected.group_by("user", "item", maintain_order=True):
        mine = found.filter((pl.col("user") == pair[0]) & (pl.col("item") == pair[1]))
        assert mine["explanation"].to_list() == rows["explanation"].to_list()[:4]


@pytest.mark.parametrize("name", ["pairs.csv", "pairs.tsv", "pairs.jsonl", "pairs.csv.gz", "pairs.parquet"])
def test_damaged_pairs_are_typed_errors_and_leave_nothing_behind(model: BPER, tmp_path: Path, name: str) -> None:
    """Every tenth byte of a file of pairs, and every end of it."""
    pairs = pl.DataFrame({"user": ["u000001", "u000002"] * 20, "item": ["i00001", "i00002"] * 20})
    write_table(pairs, tmp_path / name)
    sound = (tmp_path / name).read_bytes()
    for at in range(0, len(sound), max(1, len(sound) // 40)):
        for damaged in (sound[:at] + bytes([sound[at] ^ 255]) + sound[at + 1 :], sound[:at]):
            (tmp_path / name).write_bytes(damaged)
            with contextlib.suppress(WhyrankError):
                explain_file(model, tmp_path / name, tmp_path / "out.parquet", 1)
            (tmp_path / "out.parquet").unlink(missing_ok=True)
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("odd", [[["a"]], [timedelta(1)], [b"\xff"], [{"a": 1}]], ids=str)
def test_pairs_in_columns_of_odd_types_are_typed_errors(model: BPER, tmp_path: Path, odd: list[object]) -> None:
    pl.DataFrame({"user": odd, "item": ["i00001"]}).write_parquet(tmp_path / "pairs.parquet")
    with pytest.raises(DataError, match=r"pairs\.parquet"):
        explain_file(model, tmp_path / "pairs.parquet", tmp_path / "out.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["pairs.parquet"]


@pytest.mark.parametrize("name", ["pairs.parquet", "pairs.csv", "pairs.jsonl"])
def test_own_columns_of_pairs_survive_beside_their_reasons(
    model: BPER, split: Split, tmp_path: Path, name: str
) -> None:
    known = split.train.frame().select("user", "item").unique(maintain_order=True).head(4)
    own = known.with_columns(place=pl.Series([7, 8, 9, 10]), score=pl.Series(["=1", "b", "c", "d"]))
    pairs = pl.concat([own, own[:1].with_columns(item=pl.lit("nowhere"))])
    write_table(pairs, tmp_path / name)
    explain_file(model, tmp_path / name, tmp_path / "out.parquet", 2)
    made = pl.read_parquet(tmp_path / "out.parquet")
    found = made.select("user", "item", pl.col("place").cast(pl.Int64), score="score_of_pair").unique(
        maintain_order=True
    )
    assert found.equals(pairs)
    assert made["score"].dtype == pl.Float32


def test_a_list_in_the_pairs_is_refused_where_the_output_is_text(model: BPER, tmp_path: Path) -> None:
    pl.DataFrame({"user": ["a"], "item": ["b"], "tags": [["x"]]}).write_parquet(tmp_path / "pairs.parquet")
    with pytest.raises(ParameterError, match="'tags' of pairs holds lists"):
        explain_file(model, tmp_path / "pairs.parquet", tmp_path / "out.csv", 2)
