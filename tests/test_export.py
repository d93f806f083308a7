from __future__ import annotations

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


def test_a_model_without_vectors_is_refused(split: Split, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="no vectors"):
        export(RUCF().fit(split), tmp_path / "out")
    assert not (tmp_path / "out").exists()
