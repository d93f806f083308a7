"""Reasons for folders of pairs: a task for every file, the model's files mapped once a machine."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path

from whyrank.atomic import new_file
from whyrank.data.tables import FORMS
from whyrank.errors import DataError, ParameterError
from whyrank.explain.bulk import BulkColumns, BulkReport, explain_file, fingerprint
from whyrank.explain.options import Options
from whyrank.lab.ray.session import Cluster
from whyrank.models import Model, load

DONE = ".done"  # a folder of the output: what came of each file, and from what


def explain_files(
    cluster: Cluster,
    model: Path,
    pairs: Path,
    output: Path,
    n: int = 10,
    options: Options | None = None,
    shown: BulkColumns | None = None,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> list[BulkReport]:
    """Rank reasons for every pair of every file of a folder; for a.csv there will be a.csv.parquet in `output`.

    A file is there when it is whole. The same call again does what is missing, and what comes from another model, other
    options or other pairs.
    """
    files = _files(pairs)
    if output.suffix:
        raise ParameterError(f"{output}: reasons of several files go to a folder; use a name without a suffix")
    targets = [output.resolve() / f"{file.name.removesuffix('.parquet')}.parquet" for file in files]
    if len(set(targets)) < len(targets):
        raise DataError("two files of pairs would become one file of reasons", path=pairs, expected="other names")
    tasks = [
        cluster.submit(explain_one, model.resolve(), file, target, n, options or Options(), shown or BulkColumns())
        for file, target in zip(files, targets, strict=True)
    ]
    return cluster.gather_telling(tasks, progress)


def _files(pairs: Path) -> list[Path]:
    if pairs.is_file():
        return [pairs.resolve()]
    files = [file.resolve() for file in sorted(pairs.glob("*")) if set(file.suffixes) & set(FORMS)]
    if not files:
        raise DataError("no files of pairs", path=pairs, expected="a folder of .parquet, .csv, .tsv or .jsonl files")
    return files


def explain_one(
    model: Path,
    pairs: Path,
    output: Path,
    n: int,
    options: Options,
    shown: BulkColumns,
) -> BulkReport:
    """Explain the pairs of one file, unless it is done."""
    loaded = loaded_model(model, (model / "manifest.json").stat().st_mtime_ns)
    mark = fingerprint(loaded, pairs, n, options, shown)
    note = output.parent / DONE / f"{output.name}.json"
    if output.is_file() and note.is_file():
        before = json.loads(note.read_text(encoding="utf-8"))
        if before["mark"] == mark:
            report = BulkReport(**before["report"])
            return BulkReport(**(vars(report) | {"resumed_at": report.pairs, "seconds": 0.0}))
    report = explain_file(loaded, pairs, output, n, options, shown, threads=1)
    with new_file(note) as aside:
        aside.write_text(json.dumps({"mark": mark, "report": asdict(report)}), encoding="utf-8")
    return report


@lru_cache(1)
def loaded_model(path: Path, changed: int) -> Model:
    """Load a worker's model; its arrays are mapped files, which all workers of a machine share."""
    return load(path)
