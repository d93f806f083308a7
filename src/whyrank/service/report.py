"""What was measured of a model, as the page shows it: an optional `metrics.json` in or beside the model's folder."""

from __future__ import annotations

import logging
from pathlib import Path

from pydantic import BaseModel, Field

from whyrank.artifacts import REPORT, read_report
from whyrank.errors import ArtifactError

Row = dict[str, float | None]
log = logging.getLogger("uvicorn.error")


class Evaluated(BaseModel):
    """Metrics of the top `k`, as fractions."""

    k: int | None = None
    pairs: int | None = None
    explanation: Row = {}
    recommendation: Row | None = None


class Baseline(BaseModel):
    """The same metrics of showing everybody the most popular explanations, on the same pairs."""

    explanation: Row = {}
    p_value: Row = Field({}, description="of the difference, paired over all pairs")


class Missed(BaseModel):
    """A pair whose list holds nothing of what the user says about the item."""

    user: str
    item: str
    title: str | None = Field(None, description="of the item, where the service knows titles")
    said: list[str]


class ModelReport(BaseModel):
    """Metrics and curves; every list may be empty."""

    evaluation: Evaluated | None = None
    baseline: Baseline | None = None
    missed: list[Missed] = Field([], description="pairs without a right reason, those with the most to find first")
    training: list[Row] = Field([], description="one row per epoch: epoch, loss, metrics")
    mu_curve: list[Row] = Field([], description="one row per mu: mu, metrics")
    alpha_curve: list[Row] = Field([], description="one row per alpha: alpha, metrics of both tasks")
    strata: list[dict[str, float | str | None]] = Field([], description="one row per popularity stratum")


def report_files(folder: Path) -> tuple[Path, Path]:
    return folder / REPORT, folder.parent / f"{folder.name}.{REPORT}"


def shown_report(folder: Path) -> ModelReport | None:
    """The report of a model folder; one that cannot be understood is left out and named in the log."""
    for file in filter(Path.is_file, report_files(folder)):
        try:
            document = read_report(file)
            if "explanation" in document:  # the output of `whyrank evaluate --json`
                document = {"evaluation": document}
            return ModelReport.model_validate(document)
        except (ArtifactError, ValueError) as error:
            log.warning("%s: is not shown: %s", file, str(error).splitlines()[0])
    return None
