"""Bad rows: raise on the first one, or skip and count them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from whyrank.errors import DataError, ParameterError

OnError = Literal["raise", "skip"]


@contextmanager
def located(path: Path | None) -> Iterator[None]:
    """Errors about a table as errors about the file that it is from, if it is from one."""
    try:
        yield
    except DataError as error:
        if path is None or error.path is not None:
            raise
        raise DataError(
            error.problem, path=path, row=error.row, column=error.column, expected=error.expected
        ) from error


SHOWN = 3  # examples of each cause


@dataclass
class Problems:
    """Takes every bad row that a reader meets.

    With `on_error="raise"` the first one ends the reading; with "skip" they are counted by cause, and the first few
    of each cause are kept for the report.
    """

    on_error: OnError = "raise"
    may_skip: bool = True  # whether whoever reads could have asked for "skip"
    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.on_error not in ("raise", "skip"):
            raise ParameterError(f"on_error is {self.on_error!r}; use 'raise' or 'skip'")

    def add(self, error: DataError) -> None:
        if self.on_error == "raise":
            error.skippable = self.may_skip
            raise error
        cause = error.problem.split(":")[0]
        self.counts[cause] += 1
        shown = self.examples.setdefault(cause, [])
        if len(shown) < SHOWN:
            shown.append(str(error))

    @property
    def skipped(self) -> int:
        return self.counts.total()

    def summary(self) -> str:
        """One line: how many rows were skipped, and why."""
        causes = ", ".join(f"{cause} ({count:,})" for cause, count in self.counts.most_common())
        return f"skipped {self.skipped:,} row{'s' * (self.skipped != 1)}: {causes}"
