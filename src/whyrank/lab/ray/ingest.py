"""A folder of Parquet files as a data set in parts, without any machine having all of its rows.

Ids are collected file by file and numbered by one machine, as if all were read here. Then rows, as numbers, go to the
part of their user, become records there, and go on to that of their item.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.data.columns import number_column, seconds
from whyrank.data.files import parquet_files, read_rows
from whyrank.data.problems import Problems
from whyrank.data.ratings import ANY, Range, count_outside, count_scales, scale_of, warn_outside, within
from whyrank.data.tables import Columns
from whyrank.data.triplets import group_records, id_columns
from whyrank.data.vocabulary import Vocabulary
from whyrank.errors import DataError
from whyrank.lab.ray.dataset import FOLDER, VOCABULARIES, Dataset, bounds, part_name
from whyrank.lab.ray.session import Cluster, Reference
from whyrank.lab.ray.store import Arrays, StateStore

KINDS = ("user", "item", "explanation")
OF_RECORDS = {"rating": np.float32, "time": np.int64}  # what a record may have beside its user and item


def ingest(cluster: Cluster, folder: Path, store: StateStore, parts: int, columns: Columns | None = None) -> Dataset:
    """Read, number and cut; a data set that is already there from the same files is taken as it is."""
    files = [file.resolve() for file in parquet_files(folder)]
    if not files:
        raise DataError("no .parquet files", path=folder, expected="a folder of Parquet files")
    mark = _mark(files, columns, parts)
    there = Dataset.load(store)
    if there is not None and store.read_document(f"{FOLDER}/source") == mark:
        return there
    Dataset.begin(store)
    (users, items, explanations), numbered = _number(cluster, files, columns, store, parts)
    data = Dataset(store, "", users, items, explanations, 0, 0, parts, {})
    data = _cut(cluster, data, numbered).save()
    store.write_document(f"{FOLDER}/source", mark)
    return data


def _mark(files: list[Path], columns: Columns | None, parts: int) -> dict[str, object]:
    seen = [[str(file), file.stat().st_size, file.stat().st_mtime_ns] for file in files]
    return {"files": seen, "columns": dict(columns or {}), "parts": parts}


# -- numbers for ids ---------------------------------------------------------------------------------------------------


def _number(
    cluster: Cluster, files: list[Path], columns: Columns | None, store: StateStore, parts: int
) -> tuple[list[int], list[list[Reference]]]:
    """The sizes of the vocabularies; and for every file its rows as numbers, by part of their user."""
    counts = np.sum(
        cluster.gather([cluster.submit(file_ids, file, columns, store, place) for place, file in enumerate(files)]),
        axis=0,
    )
    scale = scale_of(counts)
    warn_outside(count_outside(counts, scale), scale, None)
    sizes = cluster.gather([cluster.submit(merge_ids, store, name, len(files)) for name in VOCABULARIES])
    limits, ingest = bounds(sizes[0], parts), secrets.token_hex(8)
    numbered = [cluster.submit_many(parts, number_rows, file, columns, scale, limits, store, ingest) for file in files]
    return sizes, numbered


def _rows(file: Path, columns: Columns | None) -> pl.DataFrame:
    frame = read_rows(file, columns, Problems("raise"))
    if "record" in frame.columns:
        raise DataError("a cluster makes records of (user, item) pairs", path=file, expected="columns without record")
    return frame


def file_ids(file: Path, columns: Columns | None, store: StateStore, place: int) -> NDArray[np.int64]:
    """Write a file's ids, explanations with the first text that it has for them; on which scales its ratings are."""
    frame = _rows(file, columns)
    for name, series in zip(VOCABULARIES, id_columns(frame), strict=True):
        table = pl.DataFrame({"id": Vocabulary.of(series, series.name).ids})
        if name == "explanations" and "text" in frame.columns:
            texts = frame.select(id=pl.col("explanation").cast(pl.String), text=pl.col("text").cast(pl.String))
            table = table.join(_first_texts(texts), on="id", how="left", maintain_order="left")
        store.write_table(f"{FOLDER}/{name}-of-{place:05d}", table)
    return count_scales(number_column(frame, "rating") if "rating" in frame.columns else np.empty(0))


def merge_ids(store: StateStore, name: str, files: int) -> int:
    """Write a vocabulary: the ids of all files; how many there are."""
    known = pl.concat([store.read_table(f"{FOLDER}/{name}-of-{place:05d}") for place in range(files)], how="diagonal")
    table = known.select(pl.col("id").unique().sort())
    if "text" in known.columns:
        joined = table.join(_first_texts(known), on="id", how="left", maintain_order="left")
        table = joined.with_columns(text=pl.coalesce("text", "id"))
    store.write_table(f"{FOLDER}/{name}", table)
    return len(table)


def _first_texts(texts: pl.DataFrame) -> pl.DataFrame:
    return texts.drop_nulls().unique("id", keep="first", maintain_order=True)


@lru_cache(len(VOCABULARIES))
def vocabulary_of(store: StateStore, name: str, ingest: str) -> Vocabulary:
    """A worker that numbers several files reads the ids once; those of another ingest are others."""
    return Vocabulary(store.read_table(f"{FOLDER}/{name}")["id"])


def number_rows(
    file: Path, columns: Columns | None, scale: Range | None, limits: list[int], store: StateStore, ingest: str
) -> list[pl.DataFrame]:
    """A file's rows with numbers for ids, by the part of their user."""
    frame = _rows(file, columns)
    rows = {
        kind: pl.Series(vocabulary_of(store, name, ingest).numbers(frame[kind].cast(pl.String)), dtype=pl.Int32)
        for kind, name in zip(KINDS, VOCABULARIES, strict=True)
    }
    if "rating" in frame.columns:
        rows["rating"] = pl.Series(within(number_column(frame, "rating"), scale))
    if "time" in frame.columns:
        rows["time"] = pl.Series(seconds(frame["time"]))
    return _by_part(pl.DataFrame(rows), "user", limits)


def _by_part(rows: pl.DataFrame, side: str, limits: list[int]) -> list[pl.DataFrame]:
    part = np.searchsorted(limits, rows[side].to_numpy(), "right") - 1
    return [rows.filter(pl.Series(part == number)) for number in range(len(limits) - 1)]


# -- records and parts -------------------------------------------------------------------------------------------------


def _cut(cluster: Cluster, data: Dataset, numbered: list[list[Reference]]) -> Dataset:
    """Parts by user, parts by item, and what belongs to explanations and to the whole."""
    parts = range(data.parts)
    sizes = cluster.gather(
        [cluster.submit(make_records, data, part, *(pieces[part] for pieces in numbered)) for part in parts]
    )
    starts = np.cumsum([0, *(records for records, _ in sizes)]).tolist()
    data = replace(data, records=starts[-1], triplets=sum(triplets for _, triplets in sizes))
    pieces = [cluster.submit_many(data.parts, by_user, data, part, starts[part]) for part in parts]
    items = [cluster.submit(by_item, data, part, *(piece[part] for piece in pieces)) for part in parts]
    ratings: Reference = None
    for part in parts:
        ratings = cluster.submit(add_ratings, data, part, ratings)
    cluster.gather(items)
    counted = [cluster.submit(count_explanations, data, part) for part in parts]
    total, count = cluster.gather([ratings])[0]
    popularity, users, of_items = np.sum(cluster.gather(counted), axis=0)
    means = np.full(data.explanation_count, np.nan, np.float32)
    np.divide(total, count, out=means, where=count > 0, casting="unsafe")
    found = {"popularity": popularity, "mean_rating": means, "user_holders": users, "item_holders": of_items}
    data.store.write(f"{FOLDER}/of-explanations", found)
    vocabularies = cluster.gather([cluster.submit(vocabulary_digest, data, name) for name in VOCABULARIES])
    data = replace(data, vocabulary_digests=dict(zip(VOCABULARIES, vocabularies, strict=True)))
    return replace(data, digest=cluster.gather([cluster.submit(digest, data)])[0])


def _records(data: Dataset, part: int) -> Arrays:
    return data.store.read(f"{FOLDER}/records-{part:05d}")


def make_records(data: Dataset, part: int, *pieces: pl.DataFrame) -> tuple[int, int]:
    """Write the records of a part's users; how many records and triplets they are."""
    rows = pl.concat(pieces, how="diagonal_relaxed")
    if not len(rows):
        nothing = np.empty(0, np.int32)
        empty: Arrays = {"user": nothing, "item": nothing, "indptr": np.zeros(1, np.int64), "indices": nothing}
        empty |= {name: np.empty(0, kind) for name, kind in OF_RECORDS.items() if name in rows.columns}
        data.store.write(f"{FOLDER}/records-{part:05d}", empty)
        return 0, 0
    user, item, explanation = (rows[kind].to_numpy() for kind in KINDS)
    records, _ = group_records(user, item, explanation, data.item_count, data.explanation_count, rows, rating_range=ANY)
    arrays: Arrays = {"user": records.user, "item": records.item}
    arrays |= {"indptr": records.explanations.indptr, "indices": records.explanations.indices}
    arrays |= {} if records.rating is None else {"rating": records.rating}
    arrays |= {} if records.time is None else {"time": records.time}
    data.store.write(f"{FOLDER}/records-{part:05d}", arrays)
    return len(records.user), len(records.explanations.indices)


def by_user(data: Dataset, part: int, first: int) -> list[Arrays]:
    """Write a part by user; its triplets by the part of their item."""
    records = _records(data, part)
    sizes = np.diff(records["indptr"])
    numbers = np.arange(first, first + len(sizes), dtype=np.int64)
    entries = {name: np.repeat(records[name], sizes) for name in ("user", "item")}
    entries |= {"explanation": records["indices"], "record": np.repeat(numbers, sizes)}
    entries |= {"time": np.repeat(records["time"], sizes)} if "time" in records else {}
    data.store.write(part_name("user", part), entries)
    pieces = _by_part(pl.DataFrame(entries), "item", data.bounds("item"))
    return [{column.name: column.to_numpy() for column in piece} for piece in pieces]


def by_item(data: Dataset, part: int, *pieces: Arrays) -> None:
    """Write a part by item."""
    names = dict.fromkeys(name for piece in pieces for name in piece)  # a part without records has no times
    entries = {name: np.concatenate([piece[name] for piece in pieces if name in piece]) for name in names}
    order = np.argsort(entries["item"], kind="stable")
    data.store.write(part_name("item", part), {name: array[order] for name, array in entries.items()})


def add_ratings(data: Dataset, part: int, before: tuple[Any, Any] | None) -> tuple[Any, Any]:
    """Sums and counts of the ratings of each explanation, in the order of the triplets."""
    total, count = before or (np.zeros(data.explanation_count), np.zeros(data.explanation_count, np.int64))
    total, count = total.copy(), count.copy()
    records = _records(data, part)
    if "rating" in records:
        rating = np.repeat(records["rating"], np.diff(records["indptr"]))
        known = ~np.isnan(rating)
        np.add.at(total, records["indices"][known], rating[known])
        np.add.at(count, records["indices"][known], 1)
    return total, count


def count_explanations(data: Dataset, part: int) -> NDArray[np.int64]:
    """How many triplets of a part, of its users and of its items have each explanation."""
    said = [data.relation(side, "explanation", part).indices for side in ("user", "item")]
    return np.array(
        [np.bincount(each, minlength=data.count("explanation")) for each in (_records(data, part)["indices"], *said)]
    )


def vocabulary_digest(data: Dataset, vocabulary: str, column: str = "id") -> str:
    return Vocabulary(data.ids(vocabulary)[column]).digest()


def digest(data: Dataset) -> str:
    """As `Triplets.digest`, part after part."""
    hasher = hashlib.sha256()
    for name in VOCABULARIES:
        hasher.update(data.vocabulary_digests[name].encode())
    parts = range(data.parts)
    some = _records(data, next(part for part in parts if len(_records(data, part)["user"])))

    def feed(take: Callable[[Arrays], NDArray[Any]]) -> None:
        for part in parts:
            hasher.update(np.ascontiguousarray(take(_records(data, part))).tobytes())

    feed(lambda records: records["user"])
    feed(lambda records: records["item"])
    start = 0
    hasher.update(np.zeros(1, np.int64).tobytes())
    for part in parts:
        indptr = _records(data, part)["indptr"]
        hasher.update((indptr[1:] + start).tobytes())
        start += int(indptr[-1])
    feed(lambda records: records["indices"])
    for name in ("rating", "time"):
        if name in some:
            feed(lambda records, name=name: records.get(name, np.empty(0)))  # type: ignore[misc]
        else:
            hasher.update(b"-")
    has_text = "text" in data.ids("explanations").columns
    hasher.update(vocabulary_digest(data, "explanations", "text").encode() if has_text else b"-")
    return hasher.hexdigest()
