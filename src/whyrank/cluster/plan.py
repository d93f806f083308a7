"""What a fit will cost, before it starts: time, memory and bytes moved, from measured constants.

`benchmarks/ray_speed.py` measures the constants; docs/ray.md says on which machine.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from whyrank.cluster.fit import passes_of
from whyrank.data.triplets import Triplets
from whyrank.models import BPER, COUNTS, BPERPlus, Model, Profile, ProfileJ
from whyrank.models.counts import SAMPLE as CHECKED
from whyrank.models.factors import FactorModel
from whyrank.models.neighbours import RICF, RUCF
from whyrank.models.profile import PENALTIES, comparison_steps
from whyrank.training import Run
from whyrank.training.passes import Pass, Table
from whyrank.training.shards import default_shards
from whyrank.training.softmax import FULL, MOST_PARTS, SoftmaxSettings
from whyrank.training.storage import LANES, blocks_of

UPDATES = {1: 11.5e6, 2: 5.8e6}  # pair updates a second and core, 20 factors, one process; in two- and three-way passes
SORTED = 10.8e6  # positives a second and core that find their way into blocks on a cluster
COPIED = 1.33e9  # bytes a second and core that a task takes in, copies and hands on
TASK = 1.10e-3  # seconds that one driver needs for each task
NETWORK = 1.0e9  # bytes a second into each machine: 10 Gbit/s, not measured
POSITIVE = {1: 20, 2: 28}  # bytes of a positive: row, column, what the row knows; in passes with so many columns
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
class DataSizes:
    """How large a data set is; `profile` is how much a record's user and item have said, together, on average."""

    users: int
    items: int
    explanations: int
    records: int
    triplets: int
    profile: float | None = None
    shared: float | None = None  # pairs of users (or items) and explanations that they have in common

    @classmethod
    def of(cls, data: Triplets) -> DataSizes:
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

    Tasks hand on every shard they change: `handed_bytes`, which stay on their machine where they can. `moved_bytes` go
    over the network.
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
    tasks: int = 0
    handed_bytes: int = 0
    moved_bytes: int = 0
    update_seconds: float = 0.0
    copy_seconds: float = 0.0
    driver_seconds: float = 0.0
    network_seconds: float = 0.0

    @property
    def epoch_seconds(self) -> float:
        """Tasks are sent out and shards travel while others run, so the slowest of the three decides."""
        return max(self.update_seconds + self.copy_seconds, self.driver_seconds, self.network_seconds)

    @property
    def bottleneck(self) -> str:
        if not self.on_cluster:
            return ONE_MACHINE
        shares = {
            "updates" if self.update_seconds > self.copy_seconds else "copies": self.update_seconds + self.copy_seconds,
            "one driver that sends out the tasks": self.driver_seconds,
            "the network": self.network_seconds,
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
            f"{self.model}, {epochs}; an estimate from what one machine was measured to do",
            f"here, {cores}: {_time(self.here_seconds)}, {_bytes(self.here_bytes)} of memory",
            f"  what takes longest: {self.here_limit}",
            f"tables: {_bytes(self.table_bytes)}",
        ]
        if not self.on_cluster:
            return "\n".join([*lines, f"Ray: {ONE_MACHINE}"])
        shards = f", {self.shards} shards" if self.shards else ""
        there = [
            f"Ray, {machines} of {cores}{shards}: "
            f"{_time(self.epoch_seconds * self.epochs)} ({_time(self.epoch_seconds)} an epoch), "
            f"{_bytes(self.machine_bytes)} of memory a machine",
            f"  an epoch: updates and sorting {_time(self.update_seconds)}, "
            f"{_bytes(self.handed_bytes)} handed from task to task {_time(self.copy_seconds)}, "
            f"{self.tasks:,} tasks sent {_time(self.driver_seconds)}, "
            f"{_bytes(self.moved_bytes)} over the network {_time(self.network_seconds)}",
            f"  what takes longest: {self.bottleneck}",
        ]
        return "\n".join([*lines, *there])


def plan_fit(model: Model, data: Triplets | DataSizes, machines: int = 1, cores: int | None = None) -> Plan:
    """An estimate for any model."""
    sizes = data if isinstance(data, DataSizes) else DataSizes.of(data)
    cores = cores or os.cpu_count() or 1
    if isinstance(model, FactorModel):
        return _engine(model, sizes, machines, cores)
    if isinstance(model, Profile):
        return _profile(model, sizes, machines, cores)
    return _others(model, sizes, machines, cores)


def _engine(model: FactorModel, sizes: DataSizes, machines: int, cores: int) -> Plan:
    tables, passes = _tables(model, sizes), passes_of(model)
    shards = model.shards or default_shards(tables, passes, sizes.triplets)
    positives = sizes.triplets if model.epoch_unit == "triplets" else sizes.records
    row = 4 * LANES * len(blocks_of(model.factors))
    table_bytes = sum(table.rows for table in tables.values()) * row
    seconds = sum(_seconds(one, positives, model.factors) for one in passes)
    sorting = sum(positives / SORTED for _ in passes)
    tasks, moved, handed = 3 * shards * len(tables), table_bytes, 2 * table_bytes  # out, in, and a look at the loss
    for one in passes:
        strata = shards ** len(one.column_tables)
        traffic = positives * POSITIVE[len(one.column_tables)]
        tasks += shards + shards * strata
        moved += strata * sum(tables[name].rows for name in one.tables[1:]) * row
        handed += 2 * traffic + strata * sum(tables[name].rows for name in one.tables) * row
    busy = min(machines * cores, shards * _at_once(passes))
    moved_over_wire = moved * (machines - 1) / machines
    held = table_bytes * 2 + len(passes) * positives * POSITIVE[2] * 2
    here = min(cores, shards * _at_once(passes)) if model.solver == "blocks" else 1
    return Plan(
        model=model.id,
        epochs=model.epochs,
        machines=machines,
        cores=cores,
        here_seconds=seconds / here * model.epochs,
        here_bytes=table_bytes + len(passes) * sizes.triplets * 40,
        here_limit="updates" if here == cores else f"updates, by {here} of the cores",
        table_bytes=table_bytes,
        on_cluster=model.solver == "blocks",
        shards=shards,
        machine_bytes=int(held / machines),
        tasks=tasks,
        handed_bytes=handed,
        moved_bytes=int(moved_over_wire),
        update_seconds=(seconds + sorting) / busy,
        copy_seconds=handed / COPIED / busy,
        driver_seconds=tasks * TASK,
        network_seconds=moved_over_wire / machines / NETWORK,
    )


def _profile(model: Profile, sizes: DataSizes, machines: int, cores: int) -> Plan:
    """The stages in turn; epochs that validation may save are not saved here.

    On a cluster one machine learns, and an epoch is a task that reads a state and writes the next one.
    """
    settings = model.settings(sizes.records, Run())
    steps = math.ceil(sizes.records / settings.batch)
    per_epoch = _softmax_seconds(sizes, settings, sizes.explanations, sizes.entries)
    again = 1 + model.refit
    compared = min(1.0, comparison_steps(sizes.records, settings) / steps)
    epochs = again * model.epochs + len(PENALTIES) - 1
    seconds = (again * model.epochs + (len(PENALTIES) - 1) * compared) * per_epoch
    rows = 4 * model.factors * sizes.explanations
    if isinstance(model, ProfileJ):
        settings, seen = model.item_settings(sizes.records, Run()), sizes.records / max(sizes.users, 1)
        seconds += again * model.item_epochs * _softmax_seconds(sizes, settings, sizes.items, seen)
        epochs, rows = epochs + again * model.item_epochs, rows + 2 * settings.factors * sizes.items
    table_bytes, threads = 4 * rows, min(cores, MOST_PARTS)
    here_bytes = TABLES * table_bytes + sizes.triplets * REMEMBERED
    handed = 2 * TABLES * table_bytes
    moved = handed if machines > 1 else 0
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
        tasks=1,
        handed_bytes=handed,
        moved_bytes=moved,
        update_seconds=seconds / threads / epochs,
        copy_seconds=handed / COPIED,
        driver_seconds=TASK,
        network_seconds=moved / NETWORK,
    )


def _softmax_seconds(sizes: DataSizes, settings: SoftmaxSettings, pool: int, entries: float) -> float:
    """Of one core for an epoch of softmax training."""
    factors, sample, steps = settings.factors, settings.sample, math.ceil(sizes.records / settings.batch)
    columns = pool if pool <= FULL else sample
    changed = pool if pool <= FULL else pool * -math.expm1(-(settings.batch * entries + sample) / pool)
    record = entries * (ENTRY + ENTRY_FACTOR * factors) + columns * (SCORE + SCORE_FACTOR * factors)
    return sizes.records * record + steps * (pool * LOOKED + changed * factors * CHANGED)


def _others(model: Model, sizes: DataSizes, machines: int, cores: int) -> Plan:
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


def _tables(model: FactorModel, sizes: DataSizes) -> Mapping[str, Table]:
    counts = {"user": sizes.users, "item": sizes.items}
    return {name: Table(counts.get(name, sizes.explanations), model.factors) for name in model.layout}


def _seconds(one: Pass, positives: int, factors: int) -> float:
    """Of one core for one pass."""
    return positives / UPDATES[len(one.column_tables)] * (0.5 + 0.5 * factors / REFERENCE_FACTORS)


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
