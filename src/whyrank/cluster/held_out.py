"""What `models.counts.held_out` does, on a data set in parts: a tenth of the records is held out, the rest is learned.

The paper's split needs a random order of all records, which one machine draws and turns around (24 bytes a record);
whom a record is needed by is found part by part.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from whyrank.cluster.dataset import Dataset, Side, changes, part_name, relation, rows_of, stacked
from whyrank.cluster.session import Cluster, Reference
from whyrank.cluster.store import Arrays, Store
from whyrank.data.csr import CSR
from whyrank.models.profile import CHECKED, VALIDATION_USERS

Longs = NDArray[np.int64]
FOLDER = "learn"
TEST = 0.1
NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Holdout:
    """The data to learn from, as parts of their own with records numbered anew, and the data it was taken from."""

    whole: Dataset
    learn: Dataset

    def counts(self) -> Arrays:
        """Of the learned records: `popularity` of explanations, `records` and `users` of items."""
        return self.learn.store.read("counts")

    def check(self, stage: str) -> Arrays:
        """What validation looks at."""
        return self.learn.store.read(f"check-{stage}")


def hold_out(cluster: Cluster, data: Dataset, validation: Dataset | None = None) -> Holdout:
    """Write the learned parts and what a sample of the held-out records needs; what is there already is taken.

    With `validation`, under the same numbers, its records are the held-out ones and all of `data` is learned.
    """
    store = Store(f"{data.store.url}/{FOLDER}")
    known = store.read_document("holdout")
    digests = [data.digest, validation.digest if validation else ""]
    if known is None or known["digests"] != digests:
        held = cluster.put(np.empty(0, np.int64)) if validation else _chosen(cluster, data)
        users = [cluster.submit(learn_part, data, store, "user", part, held) for part in range(data.parts)]
        items = [cluster.submit(learn_part, data, store, "item", part, held) for part in range(data.parts)]
        records, triplets = cluster.gather([cluster.submit(write_counts, store, *users, *items)])[0]
        cluster.gather(_checks(cluster, validation or data, _learned(data, store, records, triplets), held))
        known = {"digests": digests, "records": records, "triplets": triplets}
        store.write_document("holdout", known)
    return Holdout(data, _learned(data, store, known["records"], known["triplets"]))


def _chosen(cluster: Cluster, data: Dataset) -> Reference:
    """The numbers of the records that are held out."""
    places = cluster.submit(draw_places, data.records)
    first = [cluster.submit(earliest, data, part, places) for part in range(data.parts)]
    return cluster.submit(choose, data, places, *first)


def _checks(cluster: Cluster, data: Dataset, learn: Dataset, held: Reference) -> list[Reference]:
    """Write what validation looks at: the held-out records of `data`, all of them where none is held out."""
    parts = range(data.parts)
    sample = cluster.submit(sample_records, data, held)
    records = cluster.submit(in_order, *(cluster.submit(of_records, data, part, sample) for part in parts))
    said = [cluster.submit(said_by, learn, side, part, records) for side in ("user", "item") for part in parts]
    users = cluster.submit(sample_users, *(cluster.submit(users_of, data, part, held) for part in parts))
    relevant = [cluster.submit(items_of, data, part, held, users) for part in parts]
    known = [cluster.submit(rows_of, learn, "user", "item", part, users) for part in parts]
    return [
        cluster.submit(write_reasons, learn.store, records, *said),
        cluster.submit(write_items, learn.store, *relevant, *known),
    ]


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
    learned = ~_are_in(held, before, entries["record"])
    entries = {name: array[learned] for name, array in entries.items()}
    entries["record"] = entries["record"] - before[learned]
    store.write(part_name(side, part), entries)
    if side == "user":
        popularity = np.bincount(entries["explanation"], minlength=data.explanation_count)
        return {"popularity": popularity, "sizes": np.array([changes(entries["record"]).sum(), learned.sum()])}
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


def sample_records(data: Dataset, held: Longs) -> Longs:
    """Those by which reasons are checked, as `sampled` takes them."""
    records = held if len(held) else np.arange(data.records)
    return records[np.sort(np.random.default_rng(0).permutation(len(records))[:CHECKED])]


def of_records(data: Dataset, part: int, records: Longs) -> Arrays:
    """The triplets of some records that a part by user has; of all records if there are none."""
    entries = data.part("user", part)
    inside = _are_in(records, np.searchsorted(records, entries["record"]), entries["record"])
    return {name: array[inside] for name, array in entries.items()} if len(records) else entries


def in_order(*parts: Arrays) -> Arrays:
    """Records with their user, item and explanations."""
    entries = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.argsort(entries["record"], kind="stable")
    entries = {name: array[order] for name, array in entries.items()}
    starts = np.flatnonzero(changes(entries["record"]))
    found: Arrays = {"indptr": np.append(starts, len(order)), "indices": entries["explanation"]}
    return found | {side: entries[side][starts] for side in ("user", "item")}


def said_by(learn: Dataset, side: Side, part: int, records: Arrays) -> CSR:
    """What the users (or items) of records say in a part."""
    return rows_of(learn, side, "explanation", part, np.unique(records[side]))


def write_reasons(store: Store, records: Arrays, *said: CSR) -> None:
    """The sample of held-out records, and what their users and items say in the learned ones."""
    found: Arrays = {name: records[name] for name in ("indptr", "indices")}
    for side, pieces in (("user", said[: len(said) // 2]), ("item", said[len(said) // 2 :])):
        found[side] = np.unique(records[side], return_inverse=True)[1].astype(np.int32)
        found |= _named(side, stacked(pieces))
    store.write("check-reasons", found)


def users_of(data: Dataset, part: int, held: Longs) -> NDArray[np.int32]:
    return np.unique(of_records(data, part, held)["user"])


def sample_users(*parts: NDArray[np.int32]) -> NDArray[np.int32]:
    """Those by which the ranking of items is checked, as `ValidationUsers.of` takes them."""
    return np.sort(np.random.default_rng(0).permutation(np.concatenate(parts))[:VALIDATION_USERS])


def items_of(data: Dataset, part: int, held: Longs, users: NDArray[np.int32]) -> CSR:
    """The held-out items of those of some users that a part has."""
    entries, (first, end) = of_records(data, part, held), data.bounds("user")[part : part + 2]
    mine = users[(users >= first) & (users < end)] - first
    return relation(entries, "user", "item", first, end - first, data.item_count).take(mine)


def write_items(store: Store, *rows: CSR) -> None:
    """The held-out items of the sample of users, and the learned ones."""
    relevant, known = stacked(rows[: len(rows) // 2]), stacked(rows[len(rows) // 2 :])
    found: Arrays = {"indptr": relevant.indptr, "indices": relevant.indices}
    store.write("check-items", found | _named("user", known))


def _are_in(numbers: Longs, at: Longs, asked: Longs) -> NDArray[np.bool_]:
    """Which of the asked numbers are among sorted ones, given where they would stand."""
    found = np.zeros(len(asked), np.bool_)
    inside = at < len(numbers)
    found[inside] = numbers[at[inside]] == asked[inside]
    return found


def _named(side: str, rows: CSR) -> Arrays:
    return {f"{side}.{name}": array for name, array in rows._asdict().items()}
