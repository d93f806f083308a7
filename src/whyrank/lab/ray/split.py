"""A folder of Parquet files split by the hash of every record's ids, file by file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.atomic import new_file
from whyrank.data.files import parquet_files, read_rows
from whyrank.data.problems import Problems
from whyrank.data.split import SplitInfo, hashed_parts, id_hashes
from whyrank.data.tables import Columns
from whyrank.data.triplets import id_columns
from whyrank.data.vocabulary import Vocabulary
from whyrank.errors import DataError
from whyrank.lab.ray.session import Cluster

PARTS = ("train", "validation", "test")


def split_files(
    cluster: Cluster, folder: Path, output: Path, info: SplitInfo, columns: Columns | None = None
) -> dict[str, int]:
    """Folders train, validation and test in `output`, each with a file for every file; the rows in each."""
    files = parquet_files(folder)
    if not files:
        raise DataError("no .parquet files", path=folder, expected="a folder of Parquet files")
    tasks = [cluster.submit(split_file, file.resolve(), output.resolve(), info, columns) for file in files]
    counts = np.sum(cluster.gather(tasks), axis=0).tolist()
    return dict(zip(PARTS, counts, strict=True))


def split_file(file: Path, output: Path, info: SplitInfo, columns: Columns | None) -> list[int]:
    """Write one file's rows to the parts of their records."""
    rows = read_rows(file, columns, Problems("raise"))
    user, item, _ = id_columns(rows)
    part = hashed_parts(_hashes(user), _hashes(item), info)
    for number, name in enumerate(PARTS):
        with new_file(output / name / file.name) as aside:
            rows.filter(pl.Series(part == number)).write_parquet(aside)
    return np.bincount(part, minlength=len(PARTS)).tolist()


def _hashes(ids: pl.Series) -> NDArray[np.uint64]:
    vocabulary = Vocabulary.of(ids)
    return id_hashes(vocabulary.ids)[vocabulary.numbers(ids)]
