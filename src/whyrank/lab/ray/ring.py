"""Columns on their way: a machine hands its first shard of columns to the machine before it, stratum by stratum.

Row shards lie in a ring of machines and never move. From one stratum to the next every shard of columns moves on by one
row shard, so most stay on their machine, and one crosses each border while the others are worked on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from whyrank.lab.ray.peers import Peers
from whyrank.training.blocks import Offsets, Task
from whyrank.training.passes import Counts, Ints, Pass
from whyrank.training.shards import Partition
from whyrank.training.storage import Storage

ARRIVAL = -1  # in place of a stratum's number


class Ring:
    """Where the rows of the tables are that move, and how they get to where they are needed.

    `owners[a]` is the machine of row shard a. `where[table]` has the machine of every row of a table that moves; None:
    all machines have all rows, as at the start. Such tables have room for all rows on every machine.
    """

    def __init__(
        self,
        storage: Storage,
        passes: Sequence[Pass],
        owners: NDArray[np.int16],
        peers: Peers,
        rows: dict[str, Partition],
    ) -> None:
        self.storage, self.passes, self.owners, self.peers, self.rows = storage, passes, owners, peers, rows
        mine = np.flatnonzero(owners == peers.me)
        self.own = range(int(mine[0]), int(mine[-1]) + 1)
        self.where: dict[str, NDArray[np.int16] | None] = {}
        self.epoch, self.columns = 0, dict[int, list[tuple[list[str], list[Ints]]]]()

    def gather(self, epoch: int, index: int, columns: Sequence[Partition]) -> Callable[[], None]:
        one, shards, self.epoch = self.passes[index], len(self.owners), epoch
        # A further table of explanations lies as the first one does.
        further = list(one.tables[1 + len(columns) :])
        names = [[name] for name in one.column_tables[:-1]] + [[one.column_tables[-1], *further]]
        self.columns[index] = [
            (own, [cut.pool(shard) for shard in range(shards)]) for own, cut in zip(names, columns, strict=True)
        ]
        waiting: list[Callable[[], None]] = []
        if one.tables[0] in self.where:  # its rows are columns of another pass
            there = self.owners[self.rows[one.tables[0]].shard_of]
            waiting += self._move(index, one.tables[0], there)
            self.where[one.tables[0]] = there
        for own, cut in zip(names, columns, strict=True):
            for name in own:
                waiting += self._move(index, name, self.owners[cut.shard_of])
                self.where[name] = np.roll(self.owners, -1)[cut.shard_of]  # as the last stratum leaves them

        def arrive() -> None:
            for each in waiting:
                each()

        return arrive

    def carried(self, work: Task, index: int, strata: Offsets, stratum: int, a: int) -> Task:
        now = strata[stratum]
        last, first = a == self.own[-1] and stratum > 0, a == self.own[0] and stratum + 1 < len(strata)
        comes = [n for n, offset in enumerate(now) if last and offset != strata[stratum - 1][n]]
        goes = [n for n, offset in enumerate(now) if first and offset != strata[stratum + 1][n]]
        if not comes and not goes:
            return work

        def task() -> Counts:
            for n in comes:
                self._receive(index, n, stratum, (a + now[n]) % len(self.owners), int(self.owners[self._after(a)]))
            counts = work()
            for n in goes:
                self._send(index, n, stratum + 1, (a + now[n]) % len(self.owners), int(self.owners[a - 1]))
            return counts

        return task

    def _after(self, a: int) -> int:
        return (a + 1) % len(self.owners)

    def _send(self, index: int, column: int, stratum: int, shard: int, to: int) -> None:
        names, pools = self.columns[index][column]
        for name in names:
            self.peers.send(to, self._tag(index, stratum, name), self.storage.whole(name)[pools[shard]])

    def _receive(self, index: int, column: int, stratum: int, shard: int, source: int) -> None:
        names, pools = self.columns[index][column]
        for name in names:
            self.storage.whole(name)[pools[shard]] = self.peers.receive(source, self._tag(index, stratum, name))

    def _move(self, index: int, name: str, there: NDArray[np.int16]) -> list[Callable[[], None]]:
        """Send rows of a table to where they are needed; the answers wait for those that come here."""
        before, me, tag = self.where[name], self.peers.me, self._tag(index, ARRIVAL, name)
        table = self.storage.whole(name)
        if before is None:
            return []
        others = [machine for machine in range(int(self.owners.max()) + 1) if machine != me]
        leave, come = np.flatnonzero((before == me) & (there != me)), np.flatnonzero((before != me) & (there == me))
        for machine in others:
            self.peers.send(machine, tag, table[leave[there[leave] == machine]])

        def arrive(machine: int) -> None:
            table[come[before[come] == machine]] = self.peers.receive(machine, tag)

        return [lambda machine=machine: arrive(machine) for machine in others]  # type: ignore[misc]

    def _tag(self, index: int, stratum: int, name: str) -> tuple[int, int, int, int]:
        return self.epoch, index, stratum, list(self.storage.tables).index(name)
