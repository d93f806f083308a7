"""A fitted model for other systems: an approximate vector index with its measured recall, or plain tables."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from whyrank.atomic import Marker, json_object, new_file, new_folder
from whyrank.errors import MissingExtra, ParameterError
from whyrank.explain.rank import Ranker
from whyrank.index.form import Floats

FORMS = ("parquet", "faiss", "usearch", "hnswlib")
OWN = rf"export\.json|(explanations|users|items)\.parquet|index\.({'|'.join(FORMS)})"
SAMPLE = 1000  # pairs whose exact lists are compared with the index's


def is_export(folder: Path) -> bool:
    """Whether a folder is one that `export` wrote."""
    report = json_object(folder / MARKER.file)
    return report.get("form") in FORMS and isinstance(report.get("explanations"), int)


MARKER = Marker("export.json", OWN, is_export)


@dataclass(frozen=True)
class Exported:
    """What was written; `recall`: what share of the exact top n the index finds, over a seeded sample of pairs."""

    output: str
    form: str
    explanations: int
    width: int
    recall: float | None
    n: int
    bonus: bool  # whether the model adds to these dot products for some explanations; an index cannot know that

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def export(model: Ranker, output: str | Path, form: str = "parquet", *, n: int = 10, seed: int = 0) -> Exported:
    """Write a folder: keys of all explanations, and queries of users and items, as Parquet or with a vector index.

    A score is the dot product of a query and a key. Position p of an index is row p of `explanations.parquet`. Indexes
    are built for distances, so keys get one more column that makes them all equally long; the nearest key is then the
    one with the largest dot product. Ask an index with queries that end in one more zero.
    """
    if form not in FORMS:
        raise ParameterError(f"form is {form!r}; use one of {', '.join(FORMS)}")
    catalog, keys = model.catalog_, np.ascontiguousarray(model.keys(), np.float32)
    if not keys.shape[1]:
        raise ParameterError("this model has no vectors to export: it scores by counts alone")
    recall = None
    with new_folder(output, MARKER) as aside:
        table = {"id": catalog.explanations.ids, "text": catalog.text_of(np.arange(len(keys)))}
        pl.DataFrame({**table, "key": keys}).write_parquet(aside / "explanations.parquet")
        everyone = np.arange(len(catalog.users), dtype=np.int32), np.arange(len(catalog.items), dtype=np.int32)
        for name, numbers, vocabulary in zip(("users", "items"), everyone, (catalog.users, catalog.items), strict=True):
            other = np.full(len(numbers), -1, np.int32)
            part = model.queries(numbers, other) if name == "users" else model.queries(other, numbers)
            pl.DataFrame({"id": vocabulary.ids, "query": part}).write_parquet(aside / f"{name}.parquet")
        if form != "parquet":
            queries = _sampled(model, seed)
            exact = model.search().top(queries, n)[0]
            found = _index(form, keys, queries, min(n, len(keys)), aside / f"index.{form}")
            recall = float(np.mean([len(set(a) & set(b)) / len(set(a)) for a, b in zip(exact, found, strict=True)]))
        bonus = model.bonus(everyone[0][:1], everyone[1][:1], n) is not None
        report = Exported(str(output), form, len(keys), keys.shape[1], recall, n, bonus)
        (aside / MARKER.file).write_text(json.dumps(report.as_dict(), indent=2) + "\n", encoding="utf-8")
    return report


def _sampled(model: Ranker, seed: int) -> Floats:
    rng = np.random.default_rng(seed)
    users = rng.integers(0, len(model.catalog_.users), SAMPLE).astype(np.int32)
    items = rng.integers(0, len(model.catalog_.items), SAMPLE).astype(np.int32)
    return np.ascontiguousarray(model.queries(users, items), np.float32)


def _index(form: str, keys: Floats, queries: Floats, n: int, path: Path) -> Any:
    """Build an index, write it, and search it."""
    squares = (keys.astype(np.float64) ** 2).sum(1)
    filled = np.sqrt(np.maximum(squares.max() - squares, 0)).astype(np.float32)
    keys = np.ascontiguousarray(np.hstack([keys, filled[:, None]]))
    queries = np.ascontiguousarray(np.hstack([queries, np.zeros((len(queries), 1), np.float32)]))
    try:
        build = {"faiss": _faiss, "usearch": _usearch, "hnswlib": _hnswlib}[form]
        return build(keys, queries, n, path)
    except ImportError as error:
        raise MissingExtra("index", f"an index for {form}") from error


def _faiss(keys: Floats, queries: Floats, n: int, path: Path) -> Any:
    import faiss

    index = faiss.IndexHNSWFlat(keys.shape[1], 32)
    index.hnsw.efConstruction, index.hnsw.efSearch = 200, 200
    index.add(keys)
    with new_file(path) as aside:
        faiss.write_index(index, str(aside))
    return index.search(queries, n)[1]


def _usearch(keys: Floats, queries: Floats, n: int, path: Path) -> Any:
    from usearch.index import Index

    index = Index(
        ndim=keys.shape[1], metric="l2sq", dtype="f32", connectivity=32, expansion_add=200, expansion_search=200
    )
    index.add(np.arange(len(keys)), keys)
    with new_file(path) as aside:
        index.save(str(aside))
    return index.search(queries, n).keys.reshape(len(queries), -1)


def _hnswlib(keys: Floats, queries: Floats, n: int, path: Path) -> Any:
    import hnswlib

    index = hnswlib.Index(space="l2", dim=keys.shape[1])
    index.init_index(max_elements=len(keys), M=32, ef_construction=200, random_seed=0)
    index.add_items(keys, np.arange(len(keys)), num_threads=1)
    index.set_ef(max(200, n))
    with new_file(path) as aside:
        index.save_index(str(aside))
    return index.knn_query(queries, k=n)[0].astype(np.int64)
