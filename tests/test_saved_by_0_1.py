"""What version 0.1 saved loads, and answers as it did then: every model, a mined folder, a store.

`saved_0_1` holds it as text, with the answers of version 0.1 (scripts/saved-by-0.1 made it). Arrays, tables and
checksums are written here, so that a change of ours cannot change both sides.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import whyrank as wr
from whyrank.mining import Mined, MiningRules
from whyrank.models import MODELS
from whyrank.online.erasure import export
from whyrank.online.store import Store
from whyrank.service import study

SAVED = Path(__file__).parent / "saved_0_1"
NAMES = sorted(file.stem for file in SAVED.glob("*.json") if file.stem not in ("catalog", "mined"))


def document(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((SAVED / f"{name}.json").read_text(encoding="utf-8"))
    return found


def write_model(name: str, folder: Path) -> Path:
    """A model's folder as version 0.1 wrote it."""
    shared, own = document("catalog"), document(name)
    for part in ("arrays", "tables"):
        (folder / part).mkdir(parents=True)
    for array, (kind, shape, values) in (shared["arrays"] | own["arrays"]).items():
        np.save(folder / "arrays" / f"{array}.npy", np.array(values, kind).reshape(shape))
    for table, columns in shared["tables"].items():
        pl.DataFrame(columns).write_ipc(folder / "tables" / f"{table}.arrow", compression="uncompressed")
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    sums = {file.relative_to(folder).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
    (folder / "manifest.json").write_text(json.dumps(own["manifest"] | {"files": sums}))
    return folder


def test_every_model_of_version_0_1_is_here() -> None:
    assert len(NAMES) == 16
    assert set(NAMES) <= set(MODELS)


@pytest.mark.parametrize("name", NAMES)
def test_a_model_answers_as_it_did(name: str, tmp_path: Path) -> None:
    model, answers = wr.load(write_model(name, tmp_path / "model")), document(name)["answers"]
    for said in answers["explain"]:
        found = model.explain(said["user"], said["item"], n=4, **vars(wr.Options.plain()))
        assert [reason.explanation for reason in found] == said["reasons"]
        np.testing.assert_allclose([reason.score for reason in found], said["scores"], atol=3e-6)
    for user, items in answers.get("recommend", {}).items():
        assert [each.item for each in model.recommend(user, n=3)] == items


def test_a_mined_folder_is_read_and_carried_on(tmp_path: Path) -> None:
    saved, folder = document("mined"), tmp_path / "mined"
    folder.mkdir()
    sums = {}
    for name, table in saved["tables"].items():
        kinds = {column: _kind(kind) for column, kind in table["types"].items()}
        pl.DataFrame(table["columns"], schema=kinds).write_parquet(folder / name)
        sums[name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    (folder / "mining.json").write_text(json.dumps(saved["account"] | {"sha256": sums}))
    triplets, mined = wr.read(folder), Mined.read(folder)
    assert [len(triplets), triplets.records, len(triplets.explanations)] == saved["answers"]["sizes"]
    assert (mined.unit, mined.reviews, mined.explanations.height) == ("clauses", 24, 4)
    assert isinstance(mined.rules, MiningRules)
    assert (mined.rules.min_count, mined.rules.review_titles) == (3, True)
    more = pl.DataFrame({"user": ["new"], "item": ["i0"], "text": ["The quiet rooms are great."]})
    carried = wr.mine(more, pool=folder)
    assert set(carried.frame()["explanation"]) <= set(mined.explanations["id"])
    assert carried.frame().height


def _kind(text: str) -> pl.DataType:
    kind: pl.DataType = getattr(pl, text)()
    return kind


def test_a_store_is_brought_up_to_date(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript((SAVED / "store.sql").read_text(encoding="utf-8"))
    store = Store(f"sqlite:///{file}").create()
    found = [
        (e["event"], e["item"], e["explanation"], e["position"], e["time"]) for e in export(store, "ann")["events"]
    ]
    assert found == [("clicked", "inn", "quiet", 2, 1767323045), ("shown", "inn", "quiet", 1, 1767323045)]
    shown = study.shown(store, "s1")
    assert (shown["title"], shown["cases"], [each["answered"] for each in shown["participants"]]) == (
        "Which reasons?",
        2,
        [2],
    )
    store.close()
