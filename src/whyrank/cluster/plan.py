"""What a fit will cost, before it starts: time, memory and bytes moved, from measured constants.

`benchmarks/ray_speed.py` measures the constants; docs/ray.md says on which machine.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from whyrank.cluster.fit import PARTS, passes_of
from whyrank.data.triplets import Triplets
from whyrank.errors import ParameterError
from whyrank.models import Model
from whyrank.models.factors import FactorModel
from whyrank.training.passes import PairwisePass, Pass, Table
from whyrank.training.shards import default_shards
from whyrank.training.storage import LANES, blocks_of

UPDATES = 11.5e6  # pair updates a second and core, 20 factors, one process
TRIPLE_UPDATES = 5.8e6  # the same of three-way passes
SORTED = 10.0e6  # positives a second and core that find their way into blocks on a cluster
COPIED = 0.65e9  # bytes a second and core that a task takes in, copies and hands on
TASK = 1.2e-3  # seconds that one driver needs for each task
NETWORK = 1.0e9  # bytes a second into each machine: 10 Gbit/s, not measured
POSITIVE = 20  # bytes of a positive on its way: row, column, what the row knows; 28 in three-way passes
REFERENCE_FACTORS = 20


@dataclass(frozen=True)
class Sizes:
    """How large a data set is."""

    users: int
    items: int
    explanations: int
    records: int
    triplets: int

    @classmethod
    def of(cls, data: Triplets) -> Sizes:
        return cls(len(data.users), len(data.items), len(data.explanations), data.records, len(data))


@dataclass(frozen=True)
class Plan:
    """Seconds, bytes and tasks of one epoch on a cluster, of all epochs here, and what takes longest there.

    Tasks hand on every shard they change: `handed_bytes`, which stay on their machine where they can. `moved_bytes` go
    over the network.
    """

    model: str
    epochs: int
    machines: int
    cores: int
    shards: int
    here_seconds: float
    here_bytes: int
    table_bytes: int
    machine_bytes: int
    tasks: int
    handed_bytes: int
    moved_bytes: int
    update_seconds: float
    copy_seconds: float
    driver_seconds: float
    network_seconds: float

    @property
    def epoch_seconds(self) -> float:
        """Tasks are sent out and shards travel while others run, so the slowest of the three decides."""
        return max(self.update_seconds + self.copy_seconds, self.driver_seconds, self.network_seconds)

    @property
    def bottleneck(self) -> str:
        shares = {
            "updates" if self.update_seconds > self.copy_seconds else "copies": self.update_seconds + self.copy_seconds,
            "one driver that sends out the tasks": self.driver_seconds,
            "the network": self.network_seconds,
        }
        return max(shares, key=lambda name: shares[name])

    def as_dict(self) -> dict[str, object]:
        return asdict(self) | {"epoch_seconds": self.epoch_seconds, "bottleneck": self.bottleneck}

    def _counted(self) -> tuple[tuple[int, str], ...]:
        return (self.machines, "machine"), (self.cores, "core")

    def text(self) -> str:
        """For people."""
        machines, cores = (f"{count} {name}{'s' * (count != 1)}" for count, name in self._counted())
        lines = [
            f"{self.model}, {self.epochs} epochs; an estimate from what one machine was measured to do",
            f"here, {cores}: {_time(self.here_seconds)}, {_bytes(self.here_bytes)} of memory",
            f"Ray, {machines} of {cores}, {self.shards} shards: "
            f"{_time(self.epoch_seconds * self.epochs)} ({_time(self.epoch_seconds)} an epoch), "
            f"{_bytes(self.machine_bytes)} of memory a machine",
            f"  an epoch: updates and sorting {_time(self.update_seconds)}, "
            f"{_bytes(self.handed_bytes)} handed from task to task {_time(self.copy_seconds)}, "
            f"{self.tasks:,} tasks sent {_time(self.driver_seconds)}, "
            f"{_bytes(self.moved_bytes)} over the network {_time(self.network_seconds)}",
            f"  what takes longest: {self.bottleneck}",
            f"tables: {_bytes(self.table_bytes)}",
        ]
        return "\n".join(lines)


def plan_fit(model: Model, data: Triplets | Sizes, machines: int = 1, cores: int | None = None) -> Plan:
    """An estimate for a model of the engine."""
    if not isinstance(model, FactorModel):
        raise ParameterError(f"--plan knows models that train in blocks (bper, pitf, cd, ...), not {model.id}")
    sizes = data if isinstance(data, Sizes) else Sizes.of(data)
    cores = cores or os.cpu_count() or 1
    tables, passes = _tables(model, sizes), passes_of(model)
    shards = model.shards or default_shards(tables, passes, sizes.triplets)
    positives = sizes.triplets if model.epoch_unit == "triplets" else sizes.records
    row = 4 * LANES * len(blocks_of(model.factors))
    table_bytes = sum(table.rows for table in tables.values()) * row
    seconds = sum(_seconds(one, positives, model.factors) for one in passes)
    sorting = sum(positives / SORTED for _ in passes)
    tasks, moved, handed = 2 * shards * len(tables), table_bytes, 2 * table_bytes
    for one in passes:
        three_way = not isinstance(one, PairwisePass)
        strata = shards * shards if three_way else shards
        traffic = positives * (POSITIVE + 8 * three_way)
        tasks += max(PARTS, machines * cores) + shards + shards * strata
        moved += traffic + strata * sum(tables[name].rows for name in one.tables[1:]) * row
        handed += 2 * traffic + strata * sum(tables[name].rows for name in one.tables) * row
    busy = min(machines * cores, shards * _at_once(passes))
    moved_over_wire = moved * (machines - 1) / machines
    held = table_bytes * 2 + len(passes) * positives * (POSITIVE + 8) * 2
    return Plan(
        model=model.id,
        epochs=model.epochs,
        machines=machines,
        cores=cores,
        shards=shards,
        here_seconds=seconds / min(cores, shards * _at_once(passes)) * model.epochs,
        here_bytes=table_bytes + len(passes) * sizes.triplets * 40,
        table_bytes=table_bytes,
        machine_bytes=int(held / machines),
        tasks=tasks,
        handed_bytes=handed,
        moved_bytes=int(moved_over_wire),
        update_seconds=(seconds + sorting) / busy,
        copy_seconds=handed / COPIED / busy,
        driver_seconds=tasks * TASK,
        network_seconds=moved_over_wire / machines / NETWORK,
    )


def _tables(model: FactorModel, sizes: Sizes) -> Mapping[str, Table]:
    counts = {"user": sizes.users, "item": sizes.items}
    return {name: Table(counts.get(name, sizes.explanations), model.factors) for name in model.layout}


def _seconds(one: Pass, positives: int, factors: int) -> float:
    """Of one core for one pass."""
    speed = UPDATES if isinstance(one, PairwisePass) else TRIPLE_UPDATES
    return positives / speed * (0.5 + 0.5 * factors / REFERENCE_FACTORS)


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
