"""What a fit will cost, before it starts: time, memory and bytes moved.

The constants were measured on one machine (docs/ray.md). A short probe compares this machine with that one, and all
times are scaled by what it finds.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache

import numpy as np

from whyrank.data.csr import CSR
from whyrank.data.triplets import Triplets
from whyrank.lab.ray.fit import passes_of
from whyrank.models import BPER, COUNTS, BPERPlus, Model, Profile, ProfileJ
from whyrank.models.counts import SAMPLE as CHECKED
from whyrank.models.factors import FactorModel
from whyrank.models.neighbours import RICF, RUCF
from whyrank.models.profile import PENALTIES, comparison_steps
from whyrank.thread_pool import ThreadPool
from whyrank.training import FactorSettings, PairwisePass, Run, Storage, Table
from whyrank.training.blocks import BlockSolver
from whyrank.training.passes import Pass
from whyrank.training.shards import default_shards
from whyrank.training.softmax import FULL, MOST_PARTS, SoftmaxSettings
from whyrank.training.storage import LANES, blocks_of

# Seconds of a core for an update with 20 factors, sorting included: of two- and of three-way passes, each with tables
# that fit a cache (3 MB) and with tables that do not (60 MB or more).
UPDATE = {1: (42e-9, 66e-9), 2: (57e-9, 147e-9)}
SMALL, LARGE = 3e6, 60e6
PROBE = 0.0074  # seconds of `probe` on the machine of these figures
HANDED = 0.8e9  # bytes a second of columns that a machine sends and takes in beside its updates
EPOCH = 4e-3  # seconds until all machines know that an epoch begins, and the driver that it has ended
NETWORK = 1.0e9  # bytes a second into each machine: 10 Gbit/s, not measured
POSITIVE = {1: 28, 2: 40}  # bytes of a positive with what its row knows, and sorted; passes with so many columns
SHARED = 0.53  # of a softmax step: what machines share of it; the rest is done by each
REFERENCE_FACTORS = 20
# Profile, seconds of a core: an entry of a record's profiles and a score of the pool, each alone and per factor; a row
# of the tables that a step looks at, and a factor of a row that it changes.
ENTRY, ENTRY_FACTOR, SCORE, SCORE_FACTOR, LOOKED, CHANGED = 0.06e-6, 2.1e-9, 3.2e-9, 0.073e-9, 0.1e-6, 24e-9
TABLES = 8  # of one size that a table under Adam needs: itself, two moments, gradients in parts, what is best
READ_BPER = 0.16e6  # triplets a second and core of BPER+ with frozen texts
ENCODED = 130.0  # texts a second and core, by the small encoder
CATALOGED = 7.5e6  # triplets a second that are sorted into what a model remembers
CHECKS = 10e-6  # seconds for each validation record and setting of COUNTS
COMPARED = 9.4e6  # pairs of rows with an explanation in common, a second and core
REMEMBERED = 70  # bytes of memory for each triplet: by record, by user, by item, and what sorting needs
ONE_MACHINE = "one machine: this model is not trained in parts"


@dataclass(frozen=True)
class PlannedSizes:
    """How large a data set is; `profile` is how much a record's user and item have said, together, on average."""

    users: int
    items: int
    explanations: int
    records: int
    triplets: int
    profile: float | None = None
    shared: float | None = None  # pairs of users (or items) and explanations that they have in common

    @classmethod
    def of(cls, data: Triplets) -> PlannedSizes:
        said = data.user_explanations.sizes()[data.record_user] + data.item_explanations.sizes()[data.record_item]
        shared = max(float((holders**2.0).sum()) for holders in (data.user_holders, data.item_holders))
        counts = len(data.users), len(data.items), len(data.explanations), data.records, len(data)
        return cls(*counts, float(said.mean()), shared)

    @property
    def entries(self) -> float:
        """Of a record's two profiles; without data, as if all had said equally much."""
        if self.profile is not None:
            return self.profile
        return sum(min(self.triplets / max(rows, 1), self.explanations) for rows in (self.users, self.items))


@dataclass(frozen=True)
class Plan:
    """Seconds and bytes of all epochs here; of one epoch on a cluster, where the model has one; and what limits both.

    `moved_bytes` go from machine to machine in an epoch. `assumed` is what was not measured here.
    """

    model: str
    epochs: int
    machines: int
    cores: int
    here_seconds: float
    here_bytes: int
    here_limit: str
    table_bytes: int
    on_cluster: bool = False
    shards: int | None = None
    machine_bytes: int = 0
    moved_bytes: int = 0
    update_seconds: float = 0.0
    hand_on_seconds: float = 0.0
    network_seconds: float = 0.0
    assumed: list[str] = field(default_factory=list)

    @property
    def epoch_seconds(self) -> float:
        """Columns travel while others are worked on, so the slower of the two decides."""
        return self.on_cluster * (max(self.update_seconds + self.hand_on_seconds, self.network_seconds) + EPOCH)

    @property
    def bottleneck(self) -> str:
        if not self.on_cluster:
            return ONE_MACHINE
        shares = {
            "updates": self.update_seconds,
            "handing columns on": self.hand_on_seconds,
            "the network": self.network_seconds,
            "the driver's call": EPOCH,
        }
        return max(shares, key=lambda name: shares[name])

    def as_dict(self) -> dict[str, object]:
        return asdict(self) | {"epoch_seconds": self.epoch_seconds, "bottleneck": self.bottleneck}

    def _counted(self) -> tuple[tuple[int, str], ...]:
        return (self.machines, "machine"), (self.cores, "core"), (self.epochs, "epoch")

    def text(self) -> str:
        """For people."""
        machines, cores, epochs = (f"{count} {name}{'s' * (count != 1)}" for count, name in self._counted())
        lines = [
            f"{self.model}, {epochs}; an estimate",
            f"here, {cores}: {_time(self.here_seconds)}, {_bytes(self.here_bytes)} of memory",
            f"  what takes longest: {self.here_limit}",
            f"tables: {_bytes(self.table_bytes)}",
        ]
        if self.on_cluster:
            shards = f", {self.shards} shards" if self.shards else ""
            lines += [
                f"Ray, {machines} of {cores}{shards}: "
                f"{_time(self.epoch_seconds * self.epochs)} ({_time(self.epoch_seconds)} an epoch), "
                f"{_bytes(self.machine_bytes)} of memory a machine",
                f"  an epoch: updates {_time(self.update_seconds)}, handing columns on {_time(self.hand_on_seconds)}, "
                f"{_bytes(self.moved_bytes)} over the network {_time(self.network_seconds)}",
                f"  what takes longest: {self.bottleneck}",
            ]
        else:
            lines.append(f"Ray: {ONE_MACHINE}")
        return "\n".join([*lines, *(f"assumed: {each}" for each in self.assumed)])


@cache
def slower() -> float:
    """How many times as long this machine takes as the one of the figures, by processor time of a small epoch."""
    rng, rows, columns, count = np.random.default_rng(0), 20_000, 5_000, 200_000
    row, column = np.sort(rng.integers(0, rows, count, np.int32)), rng.integers(0, columns, count, np.int32)
    one = PairwisePass("row", "column", row, column, CSR.from_pairs(row, column, rows, columns))
    tables = {"row": Table(rows, REFERENCE_FACTORS), "column": Table(columns, REFERENCE_FACTORS, bias=True)}
    times = []
    with ThreadPool(1) as threads:
        solver = BlockSolver(Storage.started(tables, 0, 0.1), (one,), FactorSettings(shards=4), threads)
        for number in range(1, 7):
            begin = time.thread_time()
            solver.epoch(number)
            times.append(time.thread_time() - begin)
    return min(times[1:]) / PROBE


def plan_fit(model: Model, data: Triplets | PlannedSizes, machines: int = 1, cores: int | None = None) -> Plan:
    """An estimate for any model, on machines like this one."""
    sizes = data if isinstance(data, PlannedSizes) else PlannedSizes.of(data)
    cores = cores or os.cpu_count() or 1
    if isinstance(model, FactorModel):
        planned = _engine(model, sizes, machines, cores)
    elif isinstance(model, Profile):
        planned = _profile(model, sizes, machines, cores)
    else:
        planned = _others(model, sizes, machines, cores)
    scaled = {name: getattr(planned, name) * slower() for name in ("here_seconds", "update_seconds", "hand_on_seconds")}
    about = [f"every core is like one of this machine ({1 / slower():.2f} times as fast as where it was measured)"]
    if planned.on_cluster and machines > 1:
        about.append(f"{_bytes(NETWORK)} a second into each machine")
    return replace(planned, **scaled, assumed=about)


def _engine(model: FactorModel, sizes: PlannedSizes, machines: int, cores: int) -> Plan:
    tables, passes = _tables(model, sizes), passes_of(model)
    shards = model.shards or default_shards(tables, passes, sizes.triplets)
    positives = sizes.triplets if model.epoch_unit == "triplets" else sizes.records
    row = 4 * LANES * len(blocks_of(model.factors))
    table_bytes = sum(table.rows for table in tables.values()) * row
    seconds = positives * sum(_update_seconds(one, model.factors, table_bytes) for one in passes)
    used = min(machines, shards)
    moved = int(moved_rows(passes, {name: table.rows for name, table in tables.items()}, shards, used) * row)
    travel = {name for one in passes for name in one.tables[1:]}
    whole = sum(tables[name].rows for name in travel) * row
    held = sum(sizes.triplets * POSITIVE[len(one.column_tables)] for one in passes)
    busy, here = min(used * cores, shards * _at_once(passes)), min(cores, shards * _at_once(passes))
    here = here if model.solver == "blocks" else 1
    return Plan(
        model=model.id,
        epochs=model.epochs,
        machines=machines,
        cores=cores,
        here_seconds=seconds / here * model.epochs,
        here_bytes=table_bytes + held,
        here_limit="updates" if here == cores else f"updates, by {here} of the cores",
        table_bytes=table_bytes,
        on_cluster=model.solver == "blocks",
        shards=shards,
        machine_bytes=whole + (table_bytes - whole + held) // used,
        moved_bytes=moved,
        update_seconds=seconds / busy,
        hand_on_seconds=moved / used / HANDED,
        network_seconds=moved / used / NETWORK,
    )


def moved_rows(passes: tuple[Pass, ...], rows: Mapping[str, int], shards: int, machines: int) -> float:
    """Rows that go from machine to machine in an epoch.

    Every machine hands on a shard of a column table when its offset changes; and at the start of a pass rows go to
    where it needs them, which is another machine for all but one of `machines`.
    """
    if machines == 1:
        return 0.0
    travel, total = {name for one in passes for name in one.tables[1:]}, 0.0
    for one in passes:
        columns = len(one.column_tables)
        for place, name in enumerate(one.tables):
            if name in travel:
                total += rows[name] * (machines - 1) / machines
            if place:
                changes = shards ** min(place, columns) - 1
                total += changes * machines * rows[name] / shards
    return total


def _profile(model: Profile, sizes: PlannedSizes, machines: int, cores: int) -> Plan:
    """The stages in turn; epochs that validation may save are not saved here."""
    settings = model.settings(sizes.records, Run())
    steps = math.ceil(sizes.records / settings.batch)
    per_epoch = _softmax_seconds(sizes, settings, sizes.explanations, sizes.entries)
    again = 1 + model.refit
    compared = min(1.0, comparison_steps(sizes.records, settings) / steps)
    epochs = again * model.epochs + len(PENALTIES) - 1
    seconds = (again * model.epochs + (len(PENALTIES) - 1) * compared) * per_epoch
    rows = 4 * model.factors * sizes.explanations
    swapped = _swapped(sizes, settings, sizes.explanations) * epochs
    if isinstance(model, ProfileJ):
        settings, seen = model.item_settings(sizes.records, Run()), sizes.records / max(sizes.users, 1)
        seconds += again * model.item_epochs * _softmax_seconds(sizes, settings, sizes.items, seen)
        swapped += again * model.item_epochs * _swapped(sizes, settings, sizes.items)
        epochs, rows = epochs + again * model.item_epochs, rows + 2 * settings.factors * sizes.items
    table_bytes, threads, used = 4 * rows, min(cores, MOST_PARTS), min(machines, MOST_PARTS)
    here_bytes = TABLES * table_bytes + sizes.triplets * REMEMBERED
    moved = int(swapped / epochs * (used - 1))
    busy = min(used * threads, MOST_PARTS)
    return Plan(
        model=model.id,
        epochs=epochs,
        machines=machines,
        cores=cores,
        here_seconds=seconds / threads,
        here_bytes=here_bytes,
        here_limit=f"softmax steps, one after the other, each by at most {MOST_PARTS} cores",
        table_bytes=table_bytes,
        on_cluster=True,
        machine_bytes=here_bytes,
        moved_bytes=moved,
        update_seconds=seconds / epochs * (SHARED / busy + (1 - SHARED) / threads),
        hand_on_seconds=moved / used / HANDED,
        network_seconds=moved / used / NETWORK,
    )


def _swapped(sizes: PlannedSizes, settings: SoftmaxSettings, pool: int) -> float:
    """Bytes of an epoch that each machine but one must have from others: profiles, their gradients, some masses."""
    columns = pool if pool <= FULL else settings.sample
    return 4.0 * sizes.records * (4 * settings.factors + columns / 2)


def _softmax_seconds(sizes: PlannedSizes, settings: SoftmaxSettings, pool: int, entries: float) -> float:
    """Of one core for an epoch of softmax training."""
    factors, sample, steps = settings.factors, settings.sample, math.ceil(sizes.records / settings.batch)
    columns = pool if pool <= FULL else sample
    changed = pool if pool <= FULL else pool * -math.expm1(-(settings.batch * entries + sample) / pool)
    record = entries * (ENTRY + ENTRY_FACTOR * factors) + columns * (SCORE + SCORE_FACTOR * factors)
    return sizes.records * record + steps * (pool * LOOKED + changed * factors * CHANGED)


def _others(model: Model, sizes: PlannedSizes, machines: int, cores: int) -> Plan:
    """Models that are fitted on one machine."""
    work = {"sorting the triplets": sizes.triplets / CATALOGED}
    table_bytes, epochs = 0, 1
    if isinstance(model, BPERPlus):
        epochs, rows = model.passes, sizes.users + sizes.items + 2 * sizes.explanations
        table_bytes = 4 * (model.factors + 1) * rows
        work["learning"] = epochs * sizes.triplets / READ_BPER * (0.5 + 0.5 * model.factors / REFERENCE_FACTORS)
        if model.features is None:
            work["encoding texts (once in their life)"] = sizes.explanations / ENCODED / cores
        if model.start == "bper":
            before = BPER(factors=model.factors, epochs=model.start_epochs)
            work["BPER before it"] = _engine(before, sizes, machines, cores).here_seconds
    elif isinstance(model, COUNTS):
        given = (model.user_smoothing, model.item_smoothing, model.power)
        settings = math.prod(n for n, value in zip((4, 4, 2), given, strict=True) if value is None)
        if settings > 1:
            work["choosing strengths on validation"] = settings * min(CHECKED, sizes.records) * CHECKS
    elif isinstance(model, RUCF | RICF) and model.neighbours is not None:
        shared = sizes.shared or sizes.triplets**2 / max(sizes.explanations, 1)
        work["comparing all who share an explanation"] = shared / COMPARED
    return Plan(
        model=model.id,
        epochs=epochs,
        machines=machines,
        cores=cores,
        here_seconds=sum(work.values()),
        here_bytes=3 * table_bytes + sizes.triplets * REMEMBERED,
        here_limit=max(work, key=lambda name: work[name]),
        table_bytes=table_bytes,
    )


def _tables(model: FactorModel, sizes: PlannedSizes) -> Mapping[str, Table]:
    counts = {"user": sizes.users, "item": sizes.items}
    return {name: Table(counts.get(name, sizes.explanations), model.factors) for name in model.layout}


def _update_seconds(one: Pass, factors: int, table_bytes: int) -> float:
    """Of one core for one update of a pass."""
    small, large = UPDATE[len(one.column_tables)]
    share = np.clip(math.log(max(table_bytes, 1) / SMALL) / math.log(LARGE / SMALL), 0, 1)
    return float(small + share * (large - small)) * (0.5 + 0.5 * factors / REFERENCE_FACTORS)


def _at_once(passes: tuple[Pass, ...]) -> int:
    """How many passes run side by side at the start: those that share no table."""
    used: set[str] = set()
    count = 0
    for one in passes:
        if not used.isdisjoint(one.tables):
            break
        used |= set(one.tables)
        count += 1
    return count


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"
