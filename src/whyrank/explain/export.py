"""A fitted model's vectors for other systems, as Parquet files."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import polars as pl

from whyrank.atomic import Marker, json_object, new_folder
from whyrank.errors import ParameterError
from whyrank.explain.rank import Ranker

OWN = r"export\.json|(explanations|users|items)\.parquet"


def is_export(folder: Path) -> bool:
    """Whether a folder is one that `export` wrote."""
    report = json_object(folder / MARKER.file)
    return isinstance(report.get("explanations"), int) and isinstance(report.get("width"), int)


MARKER = Marker("export.json", OWN, is_export)


@dataclass(frozen=True)
class Exported:
    """What was written."""

    output: str
    explanations: int
    width: int
    bonus: bool  # whether the model adds to these dot products for some explanations; an index cannot know that

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def export(model: Ranker, output: str | Path) -> Exported:
    """Write a folder of Parquet files: keys of all explanations, queries of users and items.

    A score is the dot product of a query and a key.
    """
    catalog, keys = model.catalog_, np.ascontiguousarray(model.keys(), np.float32)
    if not keys.shape[1]:
        raise ParameterError("this model has no vectors to export: it scores by counts alone")
    with new_folder(output, MARKER) as aside:
        table = {"id": catalog.explanations.ids, "text": catalog.text_of(np.arange(len(keys)))}
        pl.DataFrame({**table, "key": keys}).write_parquet(aside / "explanations.parquet")
        everyone = np.arange(len(catalog.users), dtype=np.int32), np.arange(len(catalog.items), dtype=np.int32)
        for name, numbers, vocabulary in zip(("users", "items"), everyone, (catalog.users, catalog.items), strict=True):
            other = np.full(len(numbers), -1, np.int32)
            part = model.queries(numbers, other) if name == "users" else model.queries(other, numbers)
            pl.DataFrame({"id": vocabulary.ids, "query": part}).write_parquet(aside / f"{name}.parquet")
        bonus = model.bonus(everyone[0][:1], everyone[1][:1], 1) is not None
        report = Exported(str(output), len(keys), keys.shape[1], bonus)
        (aside / MARKER.file).write_text(json.dumps(report.as_dict(), indent=2) + "\n", encoding="utf-8")
    return report
