"""What whyrank raises on purpose. Every message is one line that says what is wrong and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


class WhyrankError(Exception):
    """Base of every error that whyrank raises on purpose."""


class DataError(WhyrankError):
    """Input data that cannot be used; names the file, the row and the column where they are known."""

    def __init__(
        self,
        problem: str,
        *,
        path: str | Path | None = None,
        row: int | None = None,
        column: str | None = None,
        expected: str | None = None,
    ) -> None:
        self.problem, self.path, self.row, self.column, self.expected = problem, path, row, column, expected
        self.skippable = False  # whether a reader with on_error="skip" would have gone on
        where = [str(path)] if path is not None else []
        where += [f"row {row:,}"] if row is not None else []
        where += [f"column {column!r}"] if column is not None else []
        prefix = ", ".join(where) + ": " if where else ""
        suffix = f" (expected {expected})" if expected else ""
        super().__init__(f"{prefix}{problem}{suffix}")


class ParameterError(WhyrankError):
    """A parameter outside of what the model, function or command accepts."""


class UnknownId(WhyrankError):  # noqa: N818 - the name is part of the public design
    """An id the model has never seen; names the nearest known ones."""

    def __init__(self, kind: str, value: object, nearest: Iterable[str] = ()) -> None:
        self.kind, self.value, self.nearest = kind, value, tuple(nearest)
        hint = f"; nearest known: {', '.join(self.nearest)}" if self.nearest else ""
        super().__init__(f"unknown {kind} {str(value)!r}{hint}")


class NotFitted(WhyrankError):  # noqa: N818
    """A model was asked to rank before it was fitted."""


class ArtifactError(WhyrankError):
    """A saved model, split or checkpoint that is missing, damaged, edited or of another format."""


class TrainingError(WhyrankError):
    """Training went numerically wrong; names the parameter to change."""


class ClusterError(WhyrankError):
    """A cluster that does not answer, or that could not do its work; names what to do about it."""


class MissingExtra(WhyrankError):  # noqa: N818
    """An optional dependency is not installed; names the command that installs it."""

    def __init__(self, extra: str, what: str) -> None:
        self.extra = extra
        super().__init__(f"{what} needs an extra: pip install 'whyrank[{extra}]'")
