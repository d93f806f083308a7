"""How much a reason is worth for an item: read, counted, saved, and used in lists that are shown."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import whyrank as wr
from whyrank.data import Triplets
from whyrank.data.people import places
from whyrank.errors import ArtifactError, DataError
from whyrank.explain.options import Options
from whyrank.explain.rank import candidates, rank
from whyrank.models import Model, load
from whyrank.online.forget import _recounted

POOL, EVERYBODY = 12, 40


def frame(worth: object = None) -> pl.DataFrame:
    """Everybody says four of twelve things about each of three items; what they say differs a little."""
    rng = np.random.default_rng(4)
    rows = [
        (f"u{user:02}", f"i{item}", f"e{explanation:02}")
        for user in range(EVERYBODY)
        for item in range(3)
        for explanation in rng.permutation(POOL)[:4]
    ]
    table = pl.DataFrame(rows, schema=["user", "item", "explanation"], orient="row")
    return table if worth is None else table.with_columns(worth=worth)


def worth_of(table: pl.DataFrame, weight: float = 0.0) -> Model:
    """Return a model of popularity whose reasons have these worths."""
    model = wr.POP().fit(Triplets.from_frame(table))
    model.catalog_ = replace(model.catalog_, worth_weight=weight)
    return model


BY_NUMBER = pl.col("explanation").str.slice(1).cast(pl.Float64)


@pytest.mark.parametrize("options", [{}, {"diversity": 0.5}, {"explore": 1.0}, {"per_aspect": 0, "consistent": False}])
def test_what_is_worth_nothing_for_an_item_is_not_shown_of_it(options: dict[str, float]) -> None:
    nothing = (pl.col("item") == "i0") & (pl.col("explanation") < "e08")
    model = worth_of(frame(pl.when(nothing).then(0.0).otherwise(1.0)))
    shown = {item: {each.explanation for each in model.explain("u00", item, POOL, **options)} for item in ("i0", "i1")}
    assert shown == {"i0": {f"e{e:02}" for e in range(8, POOL)}, "i1": {f"e{e:02}" for e in range(POOL)}}
    everything = model.explain("u00", "i0", POOL, grounded=False)
    assert len(everything) == POOL  # the whole pool is ranked by score alone
    known = model.catalog_.items.numbers(["i0"])
    among = candidates(model, np.zeros(1, np.int32), known, 3, Options())[0]
    assert set(among[among >= 0].tolist()) == set(range(8, POOL))


@pytest.mark.parametrize("options", [{}, {"diversity": 0.01}, {"boosts": {"e03": 2.5}}])
def test_scores_are_blended_with_the_log_of_worth(options: dict[str, object]) -> None:
    plain, blended = worth_of(frame(BY_NUMBER + 1)), worth_of(frame(BY_NUMBER + 1), 0.75)
    for item in ("i0", "i1", "i2"):
        before = {each.explanation: each.score for each in plain.explain("u00", item, POOL, **options)}
        found = blended.explain("u00", item, POOL, **options)
        expected = {each: score + 0.75 * np.log(int(each[1:]) + 1) for each, score in before.items()}
        assert {each.explanation: each.score for each in found} == pytest.approx(expected, rel=1e-5)
        if not options.get("diversity"):
            assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
        for each in found:
            assert sum(each.parts.values()) == pytest.approx(each.score, abs=1e-4)


def test_worth_that_is_unknown_neither_adds_nor_takes() -> None:
    some = pl.when(pl.col("explanation") == "e03").then(5.0)
    model = worth_of(frame(some), 2.0)
    plain = {each.explanation: each.score for each in worth_of(frame()).explain("u00", "i0", POOL)}
    for each in model.explain("u00", "i0", POOL):
        more = 2 * np.log(5) if each.explanation == "e03" else 0
        assert each.score == pytest.approx(plain[each.explanation] + more, rel=1e-5)


def test_pairs_that_are_ranked_together_count_worth() -> None:
    rng = np.random.default_rng(0)
    table = frame().with_columns(worth=(pl.col("item") + pl.col("explanation")).replace_strict(
        {f"i{i}e{e:02}": float(rng.choice([0.0, 0.2, 1.0, 30.0])) for i in range(3) for e in range(POOL)}
    ))  # fmt: skip
    model = wr.BPERJ(factors=4, epochs=1).fit(Triplets.from_frame(table.filter(pl.col("user") != "u00")))
    model.catalog_ = replace(model.catalog_, worth_weight=1.5)
    found = model.recommend_pairs("new", 20, per_aspect=0, consistent=False)
    items = {each.item: each.item_score for each in found}
    single = [
        (items[item] + each.score, item, each.explanation)
        for item in items
        for each in model.explain("new", item, POOL, per_aspect=0, consistent=False)
    ]
    best = sorted(single, key=lambda each: -each[0])[:20]
    assert len(items) == 3
    assert [each.score for each in found] == pytest.approx([each[0] for each in best], rel=1e-5)
    assert {(each.item, each.reason.explanation) for each in found} == {each[1:] for each in best}


def test_worth_is_of_data_and_outlives_it(tmp_path: Path) -> None:
    table = frame(BY_NUMBER).with_columns(worth=pl.when(pl.col("user") < "u20").then("worth"))
    data = Triplets.from_frame(table)
    again = wr.read(data.write(tmp_path / "data.parquet"))
    assert again.digest() == data.digest() != Triplets.from_frame(frame()).digest()
    model = wr.POP().fit(again)
    model.catalog_ = replace(model.catalog_, worth_weight=0.5)
    catalog = load(model.save(tmp_path / "model")).catalog_
    said = catalog.item_explanations
    assert catalog.worth_weight == 0.5
    assert catalog.people.worth.tolist() == said.indices.tolist()  # e07 is worth 7, whoever is asked for it
    parts = data.take(np.arange(60)).joined(data.take(np.arange(60, data.records)))
    assert np.array_equal(parts.worth, data.worth, equal_nan=True)
    assert data.without(data.item == 0).worth is not None
    half = data.take(np.arange(30))
    assert np.array_equal(half.renumbered(data).worth, data.worth[: len(half)], equal_nan=True)


def test_further_triplets_bring_their_worth() -> None:
    model = wr.POP().fit(Triplets.from_frame(frame(pl.lit(1.0))))
    new = {"user": ["new"] * 2, "item": ["i0", "new"], "explanation": ["e03", "e03"], "worth": [4.0, None]}
    catalog = model.fold_in(pl.DataFrame(new)).catalog_
    of = {
        item: catalog.people.worth[places(catalog.item_explanations, *pair, POOL)][0]
        for item in ("i0", "i1", "new")
        for pair in [(catalog.items.numbers([item]), np.array([3], np.int32))]
    }
    assert of["i0"] == 4
    assert of["i1"] == 1
    assert np.isnan(of["new"])


def test_an_erased_user_takes_neither_worth_nor_opposites_along() -> None:
    columns = {
        "aspect": pl.lit("bed"),
        "polarity": pl.lit(1),
        "sense": pl.col("explanation"),
        "opposite": pl.lit("e00"),
    }
    data = Triplets.from_frame(frame(BY_NUMBER).with_columns(**columns))
    model = wr.POP().fit(data)
    before = replace(model.catalog_, worth_weight=0.5)
    others = data.take(np.flatnonzero(data.record_user != 3))
    elsewhere = Triplets.from_frame(data.frame())  # as it is read again: other objects, the same ids
    after = _recounted(before, 3, elsewhere)
    assert after is not None
    assert after.worth_weight == 0.5
    assert after.people.worth.tolist() == after.item_explanations.indices.tolist()
    expected = wr.POP().fit(others).catalog_
    assert expected.people.opposing.counts.any()
    assert after.people.opposing.counts.tolist() == expected.people.opposing.counts.tolist()


@pytest.mark.parametrize("bad", [-1.0, float("inf")])
def test_worth_below_nothing_is_refused(bad: float, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"row 3.*worth"):
        Triplets.from_frame(frame(pl.when(pl.int_range(pl.len()) == 2).then(bad).otherwise(1.0)))
    folder = worth_of(frame(pl.lit(1.0))).save(tmp_path / "model")
    path = folder / "arrays" / "catalog.people.worth.npy"
    np.save(path, np.full_like(np.load(path), bad))
    with pytest.raises(ArtifactError):
        load(folder)


def test_profile_chooses_by_held_out_records_how_much_worth_counts() -> None:
    """Everything is said about every item; which of it is said often later is what worth tells."""
    rng, rows = np.random.default_rng(1), []
    loved = {item: set(rng.permutation(60)[:5].tolist()) for item in range(12)}
    for user in range(300):
        item = int(rng.integers(12))
        some = rng.permutation(60)[:3].tolist() + rng.permutation(sorted(loved[item]))[:1].tolist()
        rows += [(f"u{user}", f"i{item}", f"e{e:02}", 8.0 if e in loved[item] else 0.5) for e in set(some)]
    table = pl.DataFrame(rows, schema=["user", "item", "explanation", "worth"], orient="row")
    useless = table.with_columns(pl.col("worth").shuffle(seed=2))
    chosen = [
        wr.Profile(factors=4, epochs=1).fit(Triplets.from_frame(each)) for each in (table, table.drop("worth"), useless)
    ]
    weights = [model.catalog_.worth_weight for model in chosen]
    assert weights[0] > 0
    assert weights[1] == 0
    assert "worth" in chosen[0].chosen()
    assert "worth" not in chosen[1].chosen()
    assert weights[2] <= weights[0]
    data, users = Triplets.from_frame(table), np.arange(50, dtype=np.int32)
    lists = rank(chosen[0], users, users % 12, 3, Options(support=1))
    assert (lists.numbers[:, 0] >= 0).all()
    assert data.worth is not None
