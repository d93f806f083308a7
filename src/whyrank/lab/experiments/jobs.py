"""Experiments by name, and the units of work that they are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from whyrank.evaluation.candidates import Kind

if TYPE_CHECKING:
    from whyrank.lab.experiments.cache import Facts
    from whyrank.lab.experiments.lab import Lab
    from whyrank.lab.experiments.report import ExperimentReport

K = 10  # places of a list, as in the paper
Parameters = tuple[tuple[str, object], ...]


@dataclass(frozen=True)
class Job:
    """A model fitted to one split, and what is asked of it (a name in `measures.ASKS`)."""

    model: str
    split: int
    ask: str = "lists"
    parameters: Parameters = ()
    share: float | None = None  # of all records that may be used for training; None: all that are there
    candidates: Kind = "pool"  # what is ranked, where lists are asked for

    @property
    def fit(self) -> tuple[object, ...]:
        """Jobs with the same value share a fit."""
        return (self.model, self.split, self.parameters, self.share)


class ReportSection(NamedTuple):
    """Which runs it needs, and how it writes them into a report, where it has a place among the others."""

    place: int
    jobs: Callable[[Lab], list[Job]]
    write: Callable[[Lab, ExperimentReport], Facts]


_registered: dict[str, ReportSection] = {}


def experiment(
    name: str, place: int, jobs: Callable[[Lab], list[Job]]
) -> Callable[[Callable[[Lab, ExperimentReport], Facts]], Callable[[Lab, ExperimentReport], Facts]]:
    """Register an experiment: put before the function that writes it, in any module of this package.

    Args:
        name: On the command line.
        place: In reports of several experiments; smaller ones come first.
        jobs: Which runs it needs.

    Returns:
        A decorator that leaves the function as it is.
    """

    def register(write: Callable[[Lab, ExperimentReport], Facts]) -> Callable[[Lab, ExperimentReport], Facts]:
        _registered[name] = ReportSection(place, jobs, write)
        return write

    return register


def registered() -> dict[str, ReportSection]:
    """Return all experiments of the modules that are imported, in their order."""
    return dict(sorted(_registered.items(), key=lambda each: each[1].place))
