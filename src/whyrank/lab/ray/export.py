"""A trained model's folder, written part by part: never a whole table in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from whyrank import artifacts
from whyrank.artifacts import Chunks
from whyrank.data.csr import CSR
from whyrank.data.people import latest_times, places
from whyrank.lab.ray.dataset import FOLDER, VOCABULARIES, Dataset, Side
from whyrank.lab.ray.session import Cluster
from whyrank.lab.ray.shard_worker import ClusterState
from whyrank.lab.ray.store import StateStore
from whyrank.models import Model
from whyrank.models.factors import FactorModel

Array = NDArray[np.generic] | Chunks

RELATIONS: dict[str, tuple[Side, str]] = {
    "user_explanations": ("user", "explanation"),
    "item_explanations": ("item", "explanation"),
    "user_items": ("user", "item"),
}


def write_model(
    cluster: Cluster,
    model: Model,
    data: Dataset,
    learned: Mapping[str, Array],
    path: Path,
    store: StateStore,
    report: Mapping[str, object] | None,
) -> Path:
    """The folder that `Model.save` would write of the same fit: the same bytes of every array, and the same tables.

    It takes its place only if the run still has its claim of `store` when everything was read.
    """
    found = data.of_explanations()
    arrays: dict[str, Array] = {
        "catalog.popularity": found["popularity"],
        "catalog.mean_rating": found["mean_rating"],
    }
    arrays |= {f"catalog.{name}": array for name, array in found.items() if name == "rating_range"}
    for name in RELATIONS:
        arrays |= {f"catalog.{name}.{part}": chunks for part, chunks in _relation(cluster, data, name).items()}
    timed = all(cluster.gather([cluster.submit(has_times, data, number) for number in range(data.parts)]))
    arrays |= _people(cluster, data, timed)
    arrays |= {f"model.{name}": array for name, array in learned.items()}
    facts = model.facts(data.digest, data.vocabulary_digests)
    tables = {name: data.store.scan_table(f"{FOLDER}/{name}") for name in (*VOCABULARIES, *(data.tables or ()))}
    texts = {artifacts.REPORT: artifacts.report_text(report)} if report else {}
    return artifacts.save(path, "model", facts, arrays, tables, texts, store.require_claim)


def factors_of(model: FactorModel, data: Dataset, state: ClusterState) -> dict[str, Array]:
    """What a model of the engine has learned, under its names."""
    arrays: dict[str, Array] = {}
    for table, (factors, bias) in model.layout.items():
        rows = data.count(table)
        arrays[factors] = _floats((rows, model.factors), state, table, slice(0, model.factors))
        if bias is not None:
            arrays[bias] = _floats((rows,), state, table, model.factors)
    return arrays


def _floats(shape: tuple[int, ...], state: ClusterState, table: str, columns: slice | int) -> Chunks:
    pieces = (state.part(table, number, shape[0])[:, columns] for number in range(state.machines))
    return Chunks(shape, np.dtype(np.float32), pieces)


def _people(cluster: Cluster, data: Dataset, timed: bool) -> dict[str, Array]:
    """What is counted by people, as `People.arrays` has it."""
    arrays: dict[str, Array] = {}
    if data.tables is not None:
        arrays |= {f"catalog.people.{name}": array for name, array in data.store.read(f"{FOLDER}/people").items()}
    parts = range(data.parts)
    if timed:
        sizes = [cluster.submit(relation_size, data, "item_explanations", number) for number in parts]
        pieces = (latest_part(data, number) for number in parts)
        arrays["catalog.people.latest"] = Chunks((sum(cluster.gather(sizes)),), np.dtype(np.int64), pieces)
    return arrays


def has_times(data: Dataset, number: int) -> bool:
    return "time" in data.part("item", number)


def latest_part(data: Dataset, number: int) -> NDArray[np.int64]:
    """When each explanation was last said about the items of a part."""
    part = data.part("item", number)
    said = data.relation("item", "explanation", number, part)
    rows = part["item"] - np.int32(data.bounds("item")[number])
    return latest_times(
        places(said, rows, part["explanation"], data.explanation_count), part.get("time"), len(said.indices)
    )


def _relation(cluster: Cluster, data: Dataset, name: str) -> dict[str, Chunks]:
    """A relation's arrays; parts are read once for each, and their sizes before."""
    sizes = cluster.gather([cluster.submit(relation_size, data, name, number) for number in range(data.parts)])
    total, starts = sum(sizes), np.cumsum([0, *sizes]).tolist()
    parts = range(data.parts)

    def indptr() -> Iterator[NDArray[np.int64]]:
        yield np.zeros(1, np.int64)
        for number in parts:
            yield data.relation(*RELATIONS[name], number).indptr[1:] + starts[number]

    def column(take: Callable[[CSR], NDArray[np.int32]]) -> Chunks:
        pieces = (take(data.relation(*RELATIONS[name], number)) for number in parts)
        return Chunks((total,), np.dtype(np.int32), pieces)

    rows = data.count(RELATIONS[name][0])
    return {
        "indptr": Chunks((rows + 1,), np.dtype(np.int64), indptr()),
        "indices": column(lambda csr: csr.indices),
        "counts": column(lambda csr: csr.counts),
    }


def relation_size(data: Dataset, name: str, number: int) -> int:
    return len(data.relation(*RELATIONS[name], number).indices)
