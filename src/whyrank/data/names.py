"""Names that models do not know: titles of items, aspects of explanations."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from whyrank.data.problems import Problems
from whyrank.data.tables import read_table
from whyrank.errors import DataError


def read_named(path: str | Path | None, key: str, value: str) -> pl.DataFrame | None:
    """A table of two text columns, such as item and title; None for no file."""
    if path is None:
        return None
    table = read_table(path, (key, value), None, Problems("raise", may_skip=False))
    for name in (key, value):
        if name not in table.columns:
            raise DataError("missing column", path=path, column=name, expected=f"{key} and {value}")
    return table.select(pl.col(key, value).cast(pl.String))


def read_groups(path: str | Path | None) -> dict[str, str]:
    """Groups, such as providers, by item."""
    table = read_named(path, "item", "group")
    return {} if table is None else {item: group for item, group in table.rows() if item and group}


def read_titles(path: str | Path | None, *, trim: bool = False) -> dict[str, str]:
    """Titles by item; with `trim`, blanks around ids go, as they do in the data."""
    table = read_named(path, "item", "title")
    return (
        {}
        if table is None
        else {item.strip() if trim else item: title for item, title in table.rows() if item and title}
    )
