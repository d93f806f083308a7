"""Triplets in parts: every user's and every item's together in one file, so that no machine needs them all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import pairwise
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.data.catalog import Catalog
from whyrank.data.csr import CSR
from whyrank.data.triplets import Triplets
from whyrank.data.vocabulary import Vocabulary
from whyrank.lab.ray.store import Arrays, StateStore
from whyrank.training.shards import group_size

Side = Literal["user", "item"]
FOLDER = "data"
VOCABULARIES = ("users", "items", "explanations")


@dataclass(frozen=True)
class Dataset:
    """Sizes of a data set whose parts are in a store.

    A part has the triplets of neighbouring users (or items), user by user, each user's in the order they have among
    all: columns user, item, explanation and record, and time where it is known. What belongs to explanations
    (popularity, mean rating, by how many users and of how many items each is said) is small enough to be in one file.
    """

    store: StateStore
    digest: str
    user_count: int
    item_count: int
    explanation_count: int
    records: int
    triplets: int
    parts: int
    vocabulary_digests: dict[str, str]
    tables: list[str] | None = None  # what else a model has of the data; None: neither aspects nor quotes are known

    # Sizes, under the names that models ask for.

    @property
    def users(self) -> range:
        return range(self.user_count)

    @property
    def items(self) -> range:
        return range(self.item_count)

    @property
    def explanations(self) -> range:
        return range(self.explanation_count)

    @property
    def user_holders(self) -> NDArray[np.int64]:
        return self.of_explanations()["user_holders"]

    @property
    def item_holders(self) -> NDArray[np.int64]:
        return self.of_explanations()["item_holders"]

    # -- files ---------------------------------------------------------------------------------------------------------

    def count(self, kind: str) -> int:
        """How many users, items or explanations there are; also of a table that is named after them."""
        return {"user": self.user_count, "item": self.item_count}.get(kind, self.explanation_count)

    def bounds(self, side: Side) -> list[int]:
        """The first user (or item) of each part, and the end."""
        return bounds(self.count(side), self.parts)

    def part(self, side: Side, number: int) -> Arrays:
        return self.store.read(part_name(side, number))

    def relation(self, side: Side, columns: str, number: int, part: Arrays | None = None) -> CSR:
        """Row -> columns of a part, which may have been read before; counts are of records."""
        part, (first, end) = part or self.part(side, number), self.bounds(side)[number : number + 2]
        row, column = part[side] - first, part[columns]
        if columns == "item":  # a record says it once, however many explanations it has
            once = changes(part["record"])
            row, column = row[once], column[once]
        return CSR.from_pairs(row, column, end - first, self.count(columns))

    def of_explanations(self) -> Arrays:
        return self.store.read(f"{FOLDER}/of-explanations")

    def ids(self, vocabulary: str) -> pl.DataFrame:
        """Column id, for explanations maybe text."""
        return self.store.read_table(f"{FOLDER}/{vocabulary}")

    def read(self) -> Triplets:
        """The triplets again, on a machine that has memory for them: without ratings, sentences and aspects."""
        parts = [self.part("user", number) for number in range(self.parts)]
        entries = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        order = np.argsort(entries["record"], kind="stable")
        entries = {name: array[order] for name, array in entries.items()}
        starts = np.flatnonzero(changes(entries["record"]))
        tables = {name: self.ids(name) for name in VOCABULARIES}
        pool = tables["explanations"]
        said = CSR(np.append(starts, len(order)), entries["explanation"], np.ones(len(order), np.int32))
        return Triplets(
            users=Vocabulary(tables["users"]["id"], "user"),
            items=Vocabulary(tables["items"]["id"], "item"),
            explanations=Vocabulary(pool["id"], "explanation"),
            record_user=entries["user"][starts],
            record_item=entries["item"][starts],
            record_explanations=said,
            texts=pool["text"] if "text" in pool.columns else None,
            time=entries["time"][starts] if "time" in entries else None,
        )

    def save(self) -> Dataset:
        """Write down what is there; the last step of making a data set."""
        document = asdict(self)
        del document["store"]
        self.store.write_document(f"{FOLDER}/dataset", document)
        return self

    @classmethod
    def load(cls, store: StateStore) -> Dataset | None:
        """What is in a store; None: nothing, or what another version wrote."""
        document = store.read_document(f"{FOLDER}/dataset")
        named = {each.name for each in fields(cls)} - {"store"}
        return cls(store=store, **document) if document is not None and set(document) == named else None

    @staticmethod
    def begin(store: StateStore) -> None:
        """From here on until `save` there is no data set: parts of two would be taken for one.

        Runs that learn from what was there lose their claim, unless it is theirs to replace.
        """
        store.claimed().remove(f"{FOLDER}/dataset.json")

    @classmethod
    def of(cls, triplets: Triplets, store: StateStore, parts: int) -> Dataset:
        """Cut triplets of this process's memory into parts."""
        found = cls(
            store=store,
            digest=triplets.digest(),
            user_count=len(triplets.users),
            item_count=len(triplets.items),
            explanation_count=len(triplets.explanations),
            records=triplets.records,
            triplets=len(triplets),
            parts=parts,
            vocabulary_digests={name: getattr(triplets, name).digest() for name in VOCABULARIES},
        )
        cls.begin(store)
        catalog = Catalog.of(triplets)
        named = {name: array for name, array in catalog.arrays().items() if name == "rating_range"}
        tables = catalog.tables()
        for name in VOCABULARIES:
            store.write_table(f"{FOLDER}/{name}", tables.pop(name))
        people = catalog.people.arrays(catalog.item_explanations)
        people.pop("latest", None)  # parts have times
        for name, table in tables.items():
            store.write_table(f"{FOLDER}/{name}", table)
        store.write(f"{FOLDER}/people", people)
        found = replace(found, tables=list(tables))
        store.write(
            f"{FOLDER}/of-explanations",
            {
                "popularity": catalog.popularity,
                "mean_rating": catalog.mean_rating,
                "user_holders": triplets.user_holders,
                "item_holders": triplets.item_holders,
                **named,
            },
        )
        columns: Arrays = {"user": triplets.user, "item": triplets.item, "explanation": triplets.explanation}
        columns["record"] = triplets.record_explanations.rows_of_entries().astype(np.int64)
        if triplets.time is not None:
            columns["time"] = np.repeat(triplets.time, triplets.record_explanations.sizes())
        for side in ("user", "item"):
            order = np.argsort(columns[side], kind="stable")
            ends = np.searchsorted(columns[side][order], found.bounds(side))
            for number, (start, end) in enumerate(pairwise(ends.tolist())):
                chosen = order[start:end]
                store.write(part_name(side, number), {name: array[chosen] for name, array in columns.items()})
        return found.save()


def bounds(rows: int, parts: int) -> list[int]:
    """Where parts of a table in its own order start, and the end; neighbours that are shuffled together stay so."""
    size = group_size(rows)
    count = (rows + size - 1) // size
    return [min(count * part // parts * size, rows) for part in range(parts + 1)]


def part_name(side: Side, number: int) -> str:
    return f"{FOLDER}/by-{side}-{number:05d}"


def changes(numbers: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Which entries are the first of their record or row, where its entries lie side by side."""
    first = np.ones(len(numbers), np.bool_)
    first[1:] = numbers[1:] != numbers[:-1]
    return first


def rows_of(data: Dataset, side: Side, columns: str, number: int, rows: NDArray[np.int32]) -> CSR:
    """Those of some rows, ascending, of a relation that a part has."""
    first, end = data.bounds(side)[number : number + 2]
    return data.relation(side, columns, number).take(rows[(rows >= first) & (rows < end)] - first)


def stacked(pieces: Sequence[CSR]) -> CSR:
    """Rows below rows."""
    columns = zip(*((piece.sizes(), piece.indices, piece.counts) for piece in pieces), strict=True)
    sizes, indices, counts = (np.concatenate(column) for column in columns)
    return CSR(np.concatenate([[0], np.cumsum(sizes)]), indices, counts)
