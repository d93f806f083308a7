"""What `models.counts.held_out` does, on a data set in parts: a tenth of the records is held out, the rest is learned.

The paper's split needs a random order of all records, which one machine draws (8 bytes a record, and as much again
while it is turned around); whom a record is needed by is found part by part.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from whyrank.cluster.dataset import Dataset, Side, changes, part_name, relation
from whyrank.cluster.session import Cluster
from whyrank.cluster.store import Arrays, Store
from whyrank.data.csr import CSR
from whyrank.models.profile import ASKED, CHECKED

Longs = NDArray[np.int64]
FOLDER = "learn"
TEST = 0.1
NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Lesson:
    """The data to learn from, as parts of their own with records numbered anew, and the data it was taken from."""

    whole: Dataset
    learn: Dataset

    def counts(self) -> Arrays:
        """Of the learned records: `popularity` of explanations, `records` and `users` of items."""
        return self.learn.store.read("counts")

    def check(self, stage: str) -> Arrays:
        """What validation looks at."""
        return self.learn.store.read(f"check-{stage}")


def hold_out(cluster: Cluster, data: Dataset) -> Lesson:
    """Write the learned parts and what a sample of the held-out records needs; what is there already is taken."""
    store = Store(f"{data.store.url}/{FOLDER}")
    known = store.read_document("lesson")
    if known is None or known["digest"] != data.digest:
        places = cluster.submit(draw_places, data.records)
        first = [cluster.submit(earliest, data, part, places) for part in range(data.parts)]
        held = cluster.submit(choose, data, places, *first)
        users = [cluster.submit(learn_part, data, store, "user", part, held) for part in range(data.parts)]
        items = [cluster.submit(learn_part, data, store, "item", part, held) for part in range(data.parts)]
        sizes = cluster.gather([cluster.submit(write_counts, store, *users, *items)])[0]
        learn = _learned(data, store, *sizes)
        cluster.gather([cluster.submit(check, data, learn, held) for check in (check_reasons, check_items)])
        known = {"digest": data.digest, "records": sizes[0], "triplets": sizes[1]}
        store.write_document("lesson", known)
    return Lesson(data, _learned(data, store, known["records"], known["triplets"]))


def _learned(data: Dataset, store: Store, records: int, triplets: int) -> Dataset:
    return Dataset(**(vars(data) | {"store": store, "records": records, "triplets": triplets}))


# -- what machines do --------------------------------------------------------------------------------------------------


def draw_places(records: int) -> Longs:
    """The place of every record in the random order of `split(seed=0)`."""
    places = np.empty(records, np.int64)
    places[np.random.default_rng([0, 1]).permutation(records)] = np.arange(records)
    return places


def earliest(data: Dataset, part: int, places: Longs) -> Arrays:
    """The first place of every user of a part, and of the items and explanations there."""
    entries = data.part("user", part)
    place = places[entries["record"]]
    found: Arrays = {}
    for kind in ("user", "item", "explanation"):
        order = np.lexsort((place, entries[kind]))
        order = order[changes(entries[kind][order])]
        found |= {kind: entries[kind][order], f"{kind}_place": place[order]}
    return found


def choose(data: Dataset, places: Longs, *first: Arrays) -> Longs:
    """The numbers of the records that are held out, ascending."""
    needed = np.zeros(data.records, np.bool_)  # by place
    for kind, count in (("item", data.item_count), ("explanation", data.explanation_count)):
        least = np.full(count, NEVER)
        for part in first:
            least[part[kind]] = np.minimum(least[part[kind]], part[f"{kind}_place"])
        needed[least[least < NEVER]] = True
    for part in first:
        needed[part["user_place"]] = True
    cover = int(needed.sum())
    training = max(data.records - round(TEST * data.records), cover)
    held = np.zeros(data.records, np.bool_)
    held[np.flatnonzero(~needed)[training - cover :]] = True
    return np.flatnonzero(held[places])


def learn_part(data: Dataset, store: Store, side: Side, part: int, held: Longs) -> Arrays:
    """Write the learned triplets of a part; what is to be counted there."""
    entries = data.part(side, part)
    before = np.searchsorted(held, entries["record"])
    kept = ~_are_in(held, before, entries["record"])
    entries = {name: array[kept] for name, array in entries.items()}
    entries["record"] = entries["record"] - before[kept]
    store.write(part_name(side, part), entries)
    if side == "user":
        popularity = np.bincount(entries["explanation"], minlength=data.explanation_count)
        return {"popularity": popularity, "sizes": np.array([changes(entries["record"]).sum(), kept.sum()])}
    first, end = list(pairwise(data.bounds(side)))[part]
    row, once = entries["item"] - first, changes(entries["record"])
    pairs = CSR.from_pairs(row, entries["user"], end - first, data.user_count)
    return {"records": np.bincount(row[once], minlength=end - first), "users": pairs.sizes()}


def write_counts(store: Store, *parts: Arrays) -> list[int]:
    """Put together what was counted; how many records and triplets there are."""
    users, items = parts[: len(parts) // 2], parts[len(parts) // 2 :]
    counts: Arrays = {name: np.concatenate([part[name] for part in items]) for name in ("records", "users")}
    store.write("counts", counts | {"popularity": np.sum([part["popularity"] for part in users], axis=0)})
    return np.sum([part["sizes"] for part in users], axis=0).tolist()


def check_reasons(data: Dataset, learn: Dataset, held: Longs) -> None:
    """Write a sample of held-out records (as `sampled`), and what their users and items say in the learned ones."""
    records = held if len(held) else np.arange(data.records)
    records = records[np.sort(np.random.default_rng(0).permutation(len(records))[:CHECKED])]
    found = [_of_records(data.part("user", part), records) for part in range(data.parts)]
    entries = {name: np.concatenate([each[name] for each in found]) for name in found[0]}
    order = np.argsort(entries["record"], kind="stable")
    entries = {name: array[order] for name, array in entries.items()}
    starts = np.flatnonzero(changes(entries["record"]))
    arrays: Arrays = {"indptr": np.append(starts, len(order)), "indices": entries["explanation"]}
    for side in ("user", "item"):
        rows, place = np.unique(entries[side][starts], return_inverse=True)
        arrays[side] = place.astype(np.int32)
        arrays |= _named(side, _rows(learn, side, "explanation", rows))
    learn.store.write("check-reasons", arrays)


def check_items(data: Dataset, learn: Dataset, held: Longs) -> None:
    """Write a sample of users with held-out items (as `Asked.of`), those items, and the learned ones."""
    records = held if len(held) else np.arange(data.records)
    parts = [_of_records(data.part("user", part), records) for part in range(data.parts)]
    users = np.concatenate([np.unique(part["user"]) for part in parts])
    users = np.sort(np.random.default_rng(0).permutation(users)[:ASKED])
    user, item = (np.concatenate([part[name] for part in parts]) for name in ("user", "item"))
    asked = np.isin(user, users)
    relevant = CSR.from_pairs(np.searchsorted(users, user[asked]), item[asked], len(users), data.item_count)
    arrays: Arrays = {"indptr": relevant.indptr, "indices": relevant.indices}
    learn.store.write("check-items", arrays | _named("user", _rows(learn, "user", "item", users)))


def _are_in(numbers: Longs, at: Longs, asked: Longs) -> NDArray[np.bool_]:
    """Which of the asked numbers are among sorted ones, given where they would stand."""
    found = np.zeros(len(asked), np.bool_)
    inside = at < len(numbers)
    found[inside] = numbers[at[inside]] == asked[inside]
    return found


def _of_records(entries: Arrays, records: Longs) -> Arrays:
    kept = _are_in(records, np.searchsorted(records, entries["record"]), entries["record"])
    return {name: array[kept] for name, array in entries.items()}


def _rows(learn: Dataset, side: Side, columns: str, rows: NDArray[np.int32]) -> CSR:
    """Some rows of a relation, ascending, from the parts that have them."""
    width = learn.item_count if columns == "item" else learn.explanation_count
    pieces = []
    for part, (first, end) in enumerate(pairwise(learn.bounds(side))):
        mine = rows[(rows >= first) & (rows < end)]
        if len(mine):
            pieces.append(relation(learn.part(side, part), side, columns, first, end - first, width).take(mine - first))
    sizes = np.concatenate([piece.sizes() for piece in pieces])
    indices, counts = (np.concatenate([piece[column] for piece in pieces]) for column in (1, 2))
    return CSR(np.concatenate([[0], np.cumsum(sizes)]), indices, counts)


def _named(side: str, rows: CSR) -> Arrays:
    return {f"{side}.{name}": array for name, array in rows._asdict().items()}
