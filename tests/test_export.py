from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from whyrank.data import Split
from whyrank.errors import ParameterError
from whyrank.explain.export import export
from whyrank.explain.options import Options
from whyrank.models import BPER, RUCF


@pytest.fixture(scope="module")
def model(split: Split) -> BPER:
    return BPER(epochs=30).fit(split)


def test_exported_vectors_give_the_models_scores(model: BPER, split: Split, tmp_path: Path) -> None:
    export(model, tmp_path / "out")
    keys = np.stack(pl.read_parquet(tmp_path / "out" / "explanations.parquet")["key"].to_numpy())
    users, items = (pl.read_parquet(tmp_path / "out" / f"{name}.parquet") for name in ("users", "items"))
    constants = np.r_[np.zeros(40), model.mu, 1 - model.mu]
    query = users["query"][3].to_numpy() + items["query"][4].to_numpy() - constants
    reasons = model.explain(users["id"][3], items["id"][4], n=5, **vars(Options.plain()))
    assert np.allclose(np.sort(keys @ query)[::-1][:5], [reason.score for reason in reasons], atol=1e-5)


@pytest.mark.parametrize("form", ["faiss", "usearch", "hnswlib"])
def test_an_index_is_written_with_its_measured_recall(model: BPER, tmp_path: Path, form: str) -> None:
    report = export(model, tmp_path / "out", form)
    assert (tmp_path / "out" / f"index.{form}").stat().st_size > 0
    assert json.loads((tmp_path / "out" / "export.json").read_text())["recall"] == report.recall
    assert report.recall is not None
    assert report.recall > 0.95


def test_what_cannot_be_exported_is_refused(model: BPER, split: Split, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="form is"):
        export(model, tmp_path / "out", "annoy")
    with pytest.raises(ParameterError, match="no vectors"):
        export(RUCF().fit(split), tmp_path / "out")
    assert not (tmp_path / "out").exists()
