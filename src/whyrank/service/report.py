"""What was measured of a model, as the page shows it: an optional `metrics.json` in or beside the model's folder."""

from __future__ import annotations

import json
import logging
import math
from pathlib import Path

from pydantic import BaseModel, Field

SIZE = 4 << 20  # a report is a few curves; anything larger is not one
Row = dict[str, float | None]
log = logging.getLogger("uvicorn.error")


class Evaluated(BaseModel):
    """Metrics of the top `k`, as fractions."""

    k: int | None = None
    pairs: int | None = None
    explanation: Row = {}
    recommendation: Row | None = None


class Report(BaseModel):
    """Metrics and curves; every list may be empty."""

    evaluation: Evaluated | None = None
    training: list[Row] = Field([], description="one row per epoch: epoch, loss, metrics")
    mu_curve: list[Row] = Field([], description="one row per mu: mu, metrics")
    alpha_curve: list[Row] = Field([], description="one row per alpha: alpha, metrics of both tasks")
    strata: list[dict[str, float | str | None]] = Field([], description="one row per popularity stratum")


def report_files(folder: Path) -> tuple[Path, Path]:
    return folder / "metrics.json", folder.parent / f"{folder.name}.metrics.json"


def read_report(folder: Path) -> Report | None:
    """The report of a model folder; one that cannot be understood is left out and named in the log."""
    for file in report_files(folder):
        try:
            if not file.is_file():
                continue
            if file.stat().st_size > SIZE:
                raise ValueError(f"is larger than {SIZE:,} bytes")
            document = _finite(json.loads(file.read_text(encoding="utf-8")))
            if isinstance(document, dict) and "explanation" in document:  # the output of `whyrank evaluate --json`
                document = {"evaluation": document}
            return Report.model_validate(document)
        except (OSError, ValueError, RecursionError) as error:
            log.warning("%s: is not a report: %s", file, str(error).splitlines()[0])
    return None


def _finite(value: object) -> object:
    """NaN and infinities as None, which JSON can say."""
    if isinstance(value, dict):
        return {str(key): _finite(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
