"""What was measured of a model, as the page shows it: an optional `metrics.json` in or beside the model's folder."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, field

from whyrank.artifacts import REPORT, read_report
from whyrank.errors import ArtifactError
from whyrank.service.messages import Message

Row = dict[str, float | None]
log = logging.getLogger("uvicorn.error")


class Evaluated(Message, kw_only=True):
    """Metrics of the top `k`, as fractions."""

    k: int | None = None
    pairs: int | None = None
    explanation: Row = field(default_factory=dict)
    recommendation: Row | None = None


class Baseline(Message, kw_only=True):
    """The same metrics of showing everybody the most popular explanations, on the same pairs."""

    explanation: Row = field(default_factory=dict)
    p_value: Annotated[Row, Meta(description="of the difference, paired over all pairs")] = msgspec.field(
        default_factory=dict
    )


class Missed(Message, kw_only=True):
    """A pair whose list holds nothing of what the user says about the item."""

    user: str
    item: str
    title: Annotated[str | None, Meta(description="of the item, where the service knows titles")] = None
    said: list[str]


class ModelReport(Message, kw_only=True):
    """Metrics and curves; every list may be empty."""

    evaluation: Evaluated | None = None
    baseline: Baseline | None = None
    missed: Annotated[
        list[Missed], Meta(description="pairs without a right reason, those with the most to find first")
    ] = field(default_factory=list)
    training: Annotated[list[Row], Meta(description="one row per epoch: epoch, loss, metrics")] = msgspec.field(
        default_factory=list
    )
    mu_curve: Annotated[list[Row], Meta(description="one row per mu: mu, metrics")] = msgspec.field(
        default_factory=list
    )
    alpha_curve: Annotated[list[Row], Meta(description="one row per alpha: alpha, metrics of both tasks")] = field(
        default_factory=list
    )
    strata: Annotated[list[dict[str, float | str | None]], Meta(description="one row per popularity stratum")] = field(
        default_factory=list
    )


def report_files(folder: Path) -> tuple[Path, Path]:
    return folder / REPORT, folder.parent / f"{folder.name}.{REPORT}"


def shown_report(folder: Path) -> ModelReport | None:
    """The report of a model folder; one that cannot be understood is left out and named in the log."""
    for file in filter(Path.is_file, report_files(folder)):
        try:
            document = read_report(file)
            if "explanation" in document:  # the output of `whyrank evaluate --json`
                document = {"evaluation": document}
            return msgspec.convert(document, ModelReport)
        except (ArtifactError, ValueError) as error:
            log.warning("%s: is not shown: %s", file, str(error).splitlines()[0])
    return None
