"""The pool of explanations of a simulated data set, with the truth about each of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyrank.errors import ParameterError
from whyrank.simulation.draw import spread
from whyrank.simulation.text import PoolSentence, parse_aspects, sentences

PRAISE_SHARE = 0.6
COSTS = (1.3, 2.0, 3.0, 9.0)  # ever more elaborate sentences, until there are enough


class SimulatedPool(NamedTuple):
    """One entry per explanation, by number."""

    texts: list[str]
    aspect: NDArray[np.int64]
    positive: NDArray[np.bool_]
    sentiment: NDArray[np.float32]  # -1 to 1
    weight: NDArray[np.float64]  # popularity within its cell, that is aspect and side; sums to 1 there
    aspects: tuple[str, ...]  # names

    @property
    def cell(self) -> NDArray[np.int64]:
        """Aspect and side as one number: 2 * aspect + (1 if praise)."""
        return 2 * self.aspect + self.positive


def aspect_weights(aspects: int) -> NDArray[np.float64]:
    """How often people mention each aspect: a gentle long tail."""
    weights = (1.0 + np.arange(aspects)) ** -0.35
    return weights / weights.sum()


def build_pool(domain: str, explanations: int, rng: np.random.Generator) -> SimulatedPool:
    """Draw distinct sentences, plain ones first, and give each cell a Zipf law of popularity."""
    names = tuple(aspect.name.rstrip("=") for aspect in parse_aspects(domain))[: max(1, explanations // 12)]
    cells = _cells(domain, len(names), explanations)
    weights = np.repeat(aspect_weights(len(names)), 2) * np.tile([1 - PRAISE_SHARE, PRAISE_SHARE], len(names))
    sizes = spread(rng, explanations, weights, np.array([len(cell) for cell in cells]))
    chosen: list[PoolSentence] = []
    zipf: list[NDArray[np.float64]] = []
    for cell, size in zip(cells, sizes, strict=True):
        cost = np.array([sentence.cost for sentence in cell])
        drawn = np.argsort(cost - 0.5 * rng.gumbel(size=len(cell)), kind="stable")[:size]
        drawn = drawn[np.argsort(cost[drawn] + rng.normal(0.0, 0.3, size=size), kind="stable")]
        chosen.extend(cell[place] for place in drawn)
        law = 1.0 / (1.0 + np.arange(size))
        zipf.append(law / law.sum())
    cell_of = np.repeat(np.arange(len(cells)), sizes)
    order = rng.permutation(explanations)  # so that an id tells nothing
    return SimulatedPool(
        [chosen[place].text for place in order],
        cell_of[order] // 2,
        cell_of[order] % 2 == 1,
        np.array([sentence.sentiment for sentence in chosen], np.float32)[order],
        np.concatenate(zipf)[order],
        names,
    )


def _cells(domain: str, aspects: int, explanations: int) -> list[list[PoolSentence]]:
    """All candidate sentences, cell by cell (blame, then praise, of each aspect), no text twice."""
    for max_cost in COSTS:
        seen: set[str] = set()
        cells: list[list[PoolSentence]] = []
        for aspect in parse_aspects(domain)[:aspects]:
            for positive in (False, True):
                found = {each.text: each for each in sentences(domain, aspect, positive, max_cost)}
                cells.append([sentence for text, sentence in found.items() if text not in seen])
                seen.update(found)
        if len(seen) >= explanations * (1 if max_cost == COSTS[-1] else 3):
            return cells
    raise ParameterError(f"explanations is {explanations:,}; the {domain} sentences number only {len(seen):,}")
