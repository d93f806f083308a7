"""Columns of strings as bytes with new lines between them, and back, without a Python string on the way."""

from __future__ import annotations

import io

import numpy as np
import polars as pl
from numpy.typing import NDArray


def to_lines(texts: pl.Series) -> bytes:
    """The texts, each followed by a new line; texts may hold new lines themselves. Null is an empty line."""
    buffer = io.BytesIO()
    texts.to_frame().write_csv(buffer, include_header=False, quote_style="never")
    return buffer.getvalue()


def from_lines(lines: NDArray[np.uint8]) -> pl.Series:
    """The lines of UTF-8 bytes that end with a new line."""
    if not len(lines):
        return pl.Series([], dtype=pl.String)
    return pl.Series(lines.tobytes().decode()[:-1].split("\n"), dtype=pl.String)
