"""What came of the refreshes of a model, one line each, beside its folder: why one was refused can be read there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from whyrank.atomic import write_text

MOST = 200  # refreshes that are remembered


def log_file(model: Path) -> Path:
    return model.parent / f"{model.name}.refreshes.jsonl"


def read_refreshes(model: Path) -> list[dict[str, Any]]:
    """The refreshes of a model folder, the first one first; lines that are none are left out."""
    try:
        lines = log_file(model).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return []
    return [entry for line in lines if (entry := _entry(line)) is not None]


def add_refresh(model: Path, entry: Mapping[str, object]) -> None:
    """Add a refresh; one that was added before it was killed is not added twice."""
    before = read_refreshes(model)
    if before and all(before[-1].get(name) == entry[name] for name in ("run", "outcome")):
        return
    lines = [json.dumps(each, ensure_ascii=False) for each in [*before, entry][-MOST:]]
    write_text(log_file(model), "\n".join(lines) + "\n")


def _entry(line: str) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None
