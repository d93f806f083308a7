"""How commands read data: the options that they share, declared once, and the reading itself."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from whyrank.cli.app import (
    EXPANSION,
    Columns,
    Lower,
    MaxExpansion,
    OnErrorOption,
    RatingRange,
    Trim,
    new_problems,
    note,
    parse_columns,
    parse_range,
    report_problems,
)

if TYPE_CHECKING:
    import polars as pl

    from whyrank.data.problems import Problems
    from whyrank.data.triplets import Triplets


@dataclass(frozen=True)
class ReadOptions:
    """What a command is told about the file that it reads."""

    columns: Columns = None
    on_error: OnErrorOption = "raise"
    rating_range: RatingRange = None
    max_expansion: MaxExpansion = EXPANSION
    trim: Trim = False
    lower: Lower = False

    def triplets(self, path: Path, number: int = 1) -> Triplets:
        """Read triplets, and say what was skipped and which part of a split was read."""
        from whyrank.data import read
        from whyrank.data.split import is_split

        problems = new_problems(self.on_error)
        if is_split(path):
            note(f"{path}: the training part of split {number}")
        triplets = read(
            path,
            columns=parse_columns(self.columns),
            on_error=problems,
            number=number,
            rating_range=parse_range(self.rating_range),
            max_expansion=self.max_expansion,
            trim=self.trim,
            lower=self.lower,
        )
        report_problems(problems)
        return triplets

    def table(self, path: Path, wanted: tuple[str, ...], problems: Problems) -> pl.DataFrame:
        """Read the wanted columns of a file that holds no triplets."""
        from whyrank.data.foreign import lowered, trimmed
        from whyrank.data.tables import read_table

        table = read_table(path, wanted, parse_columns(self.columns), problems, self.max_expansion)
        table = trimmed(table) if self.trim else table
        return lowered(table) if self.lower else table


def with_reading(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with an option for everything in ReadOptions, which it gets as the argument `reading`."""
    hints, declared = get_type_hints(command, include_extras=True), get_type_hints(ReadOptions, include_extras=True)
    own = [each for name, each in inspect.signature(command).parameters.items() if name != "reading"]

    @wraps(command)
    def asked(**given: Any) -> None:
        reading = ReadOptions(**{field.name: given.pop(field.name) for field in fields(ReadOptions)})
        command(**given, reading=reading)

    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [each.replace(kind=keyword, annotation=hints[each.name]) for each in own] + [
        inspect.Parameter(field.name, keyword, default=field.default, annotation=declared[field.name])
        for field in fields(ReadOptions)
    ]
    asked.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    asked.__annotations__ = {each.name: each.annotation for each in parameters}
    return asked
