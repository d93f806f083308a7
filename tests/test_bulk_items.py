"""Items for many users: exclusion inside the search, and `recommend --users` from file to file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whyrank.cli import main
from whyrank.data import Split
from whyrank.data.csr import CSR
from whyrank.errors import ParameterError
from whyrank.explain import bulk
from whyrank.explain.bulk import BulkColumns, recommend_file
from whyrank.explain.options import Options
from whyrank.index.search import Search
from whyrank.models import BPER, BPERJ


@pytest.fixture(scope="module")
def model(split: Split) -> BPERJ:
    return BPERJ(epochs=10, seed=2).fit(split)


@given(seed=st.integers(0, 10**6), pool=st.sampled_from([1, 40, 700]), n=st.sampled_from([1, 10, 40]))
def test_excluded_explanations_never_come_and_the_rest_is_exact(seed: int, pool: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    keys, queries = (rng.normal(size=(rows, 6)).round(1).astype(np.float32) for rows in (pool, 30))
    queries[:, -1] = 1
    search = Search(keys, np.arange(pool), constant=1)
    scores = search.scores(queries, np.tile(np.arange(pool, dtype=np.int32), (30, 1)))
    # Best first, so that most of what is excluded would have been found.
    excluded = [np.argsort(-row, kind="stable")[: int(rng.choice([0, 1, 5, 25, pool]))] for row in scores]
    rows = np.repeat(np.arange(30), [len(each) for each in excluded])
    found, values = search.top(queries, n, excluded=CSR.from_pairs(rows, np.concatenate(excluded), 30, pool), threads=2)
    for row, out in enumerate(excluded):
        scores[row, out] = -np.inf
        best = [e for e in np.lexsort((np.arange(pool), -scores[row])) if scores[row, e] > -np.inf][:n]
        assert found[row][found[row] >= 0].tolist() == best
        assert values[row, : len(best)].tolist() == scores[row, best].tolist()


def test_excluded_goes_with_nothing_else() -> None:
    search = Search(np.eye(3, dtype=np.float32), [0, 1, 2])
    nothing = CSR.from_pairs(np.empty(0, np.int64), np.empty(0, np.int64), 1, 3)
    with pytest.raises(ParameterError, match="without a bonus"):
        search.top(np.ones((1, 3), np.float32), 1, excluded=nothing, bonus=nothing)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="excluded"):
        search.top(np.ones((2, 3), np.float32), 1, excluded=nothing)


def test_items_of_many_are_those_of_each(model: BPERJ, tmp_path: Path) -> None:
    users = [*model.catalog_.users.ids.to_list()[:7], "nobody"]
    pl.DataFrame({"user": users}).write_csv(tmp_path / "users.csv")
    report = recommend_file(model, tmp_path / "users.csv", tmp_path / "items.parquet", 4, 2)
    table = pl.read_parquet(tmp_path / "items.parquet")
    assert (report.users, report.unknown_users, report.items) == (8, 1, 32)
    for user in users:
        mine = table.filter(pl.col("user") == user)
        expected = model.recommend(user, 4, 2)
        firsts = mine.filter(pl.col("rank").is_null() | (pl.col("rank") == 1))
        assert firsts["item"].to_list() == [each.item for each in expected]
        assert firsts["item_rank"].to_list() == [1, 2, 3, 4]
        assert firsts["item_score"].to_list() == pytest.approx([each.score for each in expected])
        reasons = [(each.item, why.explanation, why.sentence) for each in expected for why in each.reasons]
        assert mine.drop_nulls("rank").select("item", "explanation", "sentence").rows() == reasons
        assert set(mine["fallback"]) == {"unknown_user" if user == "nobody" else None}
    assert report.reasons == table["rank"].count()
    assert report.statuses.get("no_reason", 0) == (table["status"] == "no_reason").sum()


@pytest.mark.parametrize("reasons", [0, 2])
def test_items_that_are_not_personal_are_those_of_somebody_unknown(model: BPERJ, tmp_path: Path, reasons: int) -> None:
    users, options = model.catalog_.users.ids.to_list()[:5], Options(personal=False)
    pl.DataFrame({"user": users}).write_csv(tmp_path / "users.csv")
    report = recommend_file(model, tmp_path / "users.csv", tmp_path / "items.parquet", 4, reasons, options)
    table = pl.read_parquet(tmp_path / "items.parquet")
    assert report.unknown_users == 0
    assert set(table["fallback"]) == {"not_personal"}
    expected = [each.item for each in model.recommend("nobody", 4, reasons)]
    for user in users:
        mine = table.filter(pl.col("user") == user)
        assert mine["item"].unique(maintain_order=True).to_list() == expected


def test_all_users_resume_and_forms_agree(model: BPERJ, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "ROWS", 120)
    recommend_file(model, "all", tmp_path / "whole.parquet", 3, 1)
    calls: list[int] = []

    def stop(done: int, total: int) -> None:
        calls.append(done)
        if len(calls) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        recommend_file(model, "all", tmp_path / "again.parquet", 3, 1, progress=stop)
    report = recommend_file(model, "all", tmp_path / "again.parquet", 3, 1)
    assert (report.resumed_at, report.users) == (80, len(model.catalog_.users))
    whole = pl.read_parquet(tmp_path / "whole.parquet")
    assert whole.equals(pl.read_parquet(tmp_path / "again.parquet"))
    recommend_file(model, "all", tmp_path / "t.csv", 3, 1)
    recommend_file(model, "all", tmp_path / "t.jsonl", 3, 1)
    assert pl.read_csv(tmp_path / "t.csv", schema=whole.schema).equals(whole)
    lines = (tmp_path / "t.jsonl").read_text(encoding="utf-8").splitlines()
    assert pl.DataFrame([json.loads(line) for line in lines], schema=whole.schema).equals(whole)
    assert not list(tmp_path.glob(".*"))


def test_somebody_who_knows_every_item_has_a_row_that_says_so(split: Split, tmp_path: Path) -> None:
    table = split.data.frame()
    greedy = pl.DataFrame({"item": table["item"].unique()}).with_columns(
        user=pl.lit("greedy"), explanation=pl.lit(table["explanation"][0])
    )
    everything = pl.concat([table.select("user", "item", "explanation"), greedy.select("user", "item", "explanation")])
    model = BPERJ(epochs=1).fit(split.data.from_frame(everything))
    pl.DataFrame({"user": ["greedy", table["user"][0]]}).write_ndjson(tmp_path / "users.jsonl")
    for reasons in (0, 2):
        report = recommend_file(model, tmp_path / "users.jsonl", tmp_path / "items.parquet", 2, reasons)
        found = pl.read_parquet(tmp_path / "items.parquet")
        assert found.row(0, named=True).items() >= {"user": "greedy", "status": "no_item", "item": None}.items()
        assert (report.statuses["no_item"], report.items) == (1, 2)
        assert ("explanation" in found.columns) == (reasons > 0)


def test_titles_and_sentences_are_written_if_asked_for(model: BPERJ, tmp_path: Path) -> None:
    titles = pl.DataFrame({"item": model.catalog_.items.ids[:20], "title": [f"Hotel {k}" for k in range(20)]})
    recommend_file(model, "all", tmp_path / "items.parquet", 2, 1, shown=BulkColumns(sentences=False, titles=titles))
    found = pl.read_parquet(tmp_path / "items.parquet")
    assert "sentence" not in found.columns
    assert found.columns[:4] == ["user", "item_rank", "item", "title"]
    expected = found.select("item").join(titles, on="item", how="left", maintain_order="left")
    assert found["title"].equals(expected["title"])


def test_a_model_without_items_says_so_and_leaves_nothing(split: Split, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="does not rank items"):
        recommend_file(BPER(epochs=1).fit(split), "all", tmp_path / "items.parquet")
    assert not list(tmp_path.iterdir())


def test_the_command_writes_items_with_titles(model: BPERJ, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model.save(tmp_path / "model")
    ids = model.catalog_.items.ids
    pl.DataFrame({"item": ids, "title": "Inn " + ids}).write_csv(tmp_path / "titles.csv")
    output = tmp_path / "items.csv"
    asked = ["recommend", str(tmp_path / "model"), "--users", "all", "-o", str(output), "-n", "2", "--reasons", "1"]
    with pytest.raises(SystemExit) as leaving:
        main([*asked, "--no-sentences", "--titles", str(tmp_path / "titles.csv"), "--json"])
    assert not leaving.value.code
    report = json.loads(capsys.readouterr().out)
    assert report["users"] == len(model.catalog_.users)
    written = pl.read_csv(output)
    assert ("Inn " + written["item"]).equals(written["title"], check_names=False)
    for wrong in (["--joint"], ["--user", "x"], ["--scores"]):
        with pytest.raises(SystemExit) as leaving:
            main([*asked, *wrong])
        assert leaving.value.code == 2
