"""A mined pool: its folder, its review by hand, and what is known of its explanations."""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import whyrank.data as data
from whyrank.errors import DataError
from whyrank.mining import Mined, apply_review, mine, write_review
from whyrank.mining.pool import specificity

SAID = ("The bed was soft.", "The staff was friendly.", "The pool was warm.", "The pool was dirty.")
BED, STAFF, WARM, DIRTY = "bed|soft|+", "staff|friendly|+", "pool|warm|+", "pool|dirty|-"


@pytest.fixture(scope="module")
def mined() -> Mined:
    rows = [(f"u{k}", f"i{k % 5}", f"{SAID[k % 4]} {SAID[(k + 1) % 4]} Day {k}.") for k in range(80)]
    return mine(pl.DataFrame(rows, ["user", "item", "text"], orient="row"))


def test_a_folder_opens_as_data_and_must_be_as_it_was_written(mined: Mined, tmp_path: Path) -> None:
    folder = mined.write(tmp_path / "mined")
    assert Mined.read(folder).rule_report() == mined.rule_report()
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


def edit(path: Path, decisions: dict[str, dict[str, str]]) -> None:
    """Fill in the review table: changed columns by id."""
    table = pl.read_csv(path, infer_schema=False)
    pl.DataFrame([row | decisions.get(row["id"], {}) for row in table.to_dicts()]).write_csv(path)


def test_a_pool_is_reviewed_by_hand_and_remembers_it(mined: Mined, tmp_path: Path) -> None:
    path = write_review(mined, tmp_path / "review.csv")
    assert apply_review(mined, path).frame().equals(mined.frame())
    merge = {"decision": "merge", "into": STAFF}
    edit(path, {DIRTY: {"decision": "reject"}, WARM: merge, BED: {"text": "The beds are soft"}})
    after = apply_review(mined, path)
    assert {BED, STAFF} <= set(after.explanations["id"])
    assert not {WARM, DIRTY} & set(after.explanations["id"])
    assert after.explanations.filter(id=BED)["text"].to_list() == ["The beds are soft"]
    assert after.explanations.filter(id=STAFF)["count"].to_list() == [60]
    assert after.rule_report()[-1]["rule"] == "review"
    again = pl.DataFrame({"user": ["new"] * 4, "item": [f"i{k}" for k in range(4)], "text": list(SAID)})
    later = mine(again, pool=after.write(tmp_path / "pool"))
    assert not {WARM, DIRTY} & {*later.explanations["id"], *later.frame()["explanation"]}


def test_no_text_of_a_review_table_is_a_formula_and_all_come_back(mined: Mined, tmp_path: Path) -> None:
    text = pl.Series([f"{'=+-@'[place % 4]}1+cmd|'{place}'" for place in range(mined.explanations.height)])
    odd = replace(mined, pool=mined.pool._replace(explanations=mined.explanations.with_columns(text=text)))
    path = write_review(odd, tmp_path / "review.csv")
    written = pl.read_csv(path, infer_schema=False)["text"]
    assert written.str.starts_with("'").all()
    assert apply_review(odd, path).explanations["text"].equals(text, check_names=False)


@pytest.mark.parametrize(
    ("decisions", "message"),
    [
        ({BED: {"decision": "maybe"}}, "unknown decision 'maybe'"),
        ({BED: {"decision": "merge", "into": "nowhere"}}, "cannot merge into 'nowhere'"),
        ({BED: {"id": "f00"}}, "unknown explanation 'f00'"),
        ({BED: {"decision": "merge", "into": STAFF}, STAFF: {"decision": "reject"}}, "is rejected, but"),
        (
            {BED: {"decision": "merge", "into": STAFF}, STAFF: {"decision": "merge", "into": BED}},
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


def test_specificity_is_the_excess_of_meetings_on_an_item() -> None:
    rows = [("anything", f"i{k}") for k in range(8)] + [("special", "i0")] * 4
    table = pl.DataFrame(rows, ["explanation", "item"], orient="row")
    bits = dict(specificity(table).iter_rows())
    chance = (5 / 12) ** 2 + 7 * (1 / 12) ** 2
    assert bits["special"] == pytest.approx(np.log2((6 + 1) / (6 * chance + 1)), abs=1e-6)
    assert bits["anything"] == pytest.approx(np.log2(1 / (28 * chance + 1)), abs=1e-6)
