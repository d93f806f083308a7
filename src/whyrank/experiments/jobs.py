"""Units of work that experiments are made of."""

from __future__ import annotations

from dataclasses import dataclass

from whyrank.evaluation.candidates import Kind

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
