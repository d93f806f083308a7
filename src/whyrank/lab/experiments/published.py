"""The figures that the paper prints, to set ours beside them where a data set has the size of one of its sets."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from whyrank.data.triplets import Triplets


@dataclass(frozen=True)
class Published:
    """One of the paper's sets; published.toml says what its figures are."""

    name: str
    sizes: list[int]
    ranking: dict[str, list[float]]
    joint: dict[str, list[list[float]]] = field(default_factory=dict)


def published_for(data: Triplets) -> Published | None:
    """Return the paper's set with these sizes, if it is one of them."""
    sizes = [len(data.users), len(data.items), len(data.explanations)]
    document = tomllib.loads((Path(__file__).parent / "published.toml").read_text(encoding="utf-8"))
    return next((Published(**each) for each in document["set"] if each["sizes"] == sizes), None)
