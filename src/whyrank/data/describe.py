"""The shape of a data set: the paper's Tables 2 and 3, and what a practitioner asks about."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.data.triplets import Triplets


@dataclass(frozen=True)
class Tail:
    """How triplets or records spread over users, items or explanations."""

    median: float
    mean: float
    p90: float
    largest: int
    once: int  # how many occur a single time
    head_share: float  # what part of everything the busiest 1% hold


@dataclass(frozen=True)
class Description:
    """Counts as in Table 2 of the paper, examples as in Table 3, tails and cold counts."""

    users: int
    items: int
    explanations: int
    pairs: int
    records: int
    triplets: int
    explanations_per_pair: float
    density: float
    per_user: Tail  # records of a user
    per_item: Tail  # records of an item
    per_explanation: Tail  # triplets of an explanation
    ratings: dict[str, float] | None
    copied: int | None  # records whose text stands under another record, too; None: nothing is known of it
    most_said: list[tuple[str, int]]
    examples: list[str]

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def describe(triplets: Triplets, examples: int = 5, seed: int = 0) -> Description:
    """Describe a data set: sizes, density, long tails, examples.

    Args:
        triplets: The data.
        examples: How many explanations to show; they are drawn at random, weighted by how often people say them.
        seed: Where the draw of examples begins.

    Returns:
        The figures, as attributes and as a table.

    Examples:
        >>> import whyrank as wr
        >>> describe(wr.simulate("small", users=20, items=5, records=60)).users
        20
    """
    pairs = len(triplets.user_items.indices)
    sizes = float(len(triplets.users)) * len(triplets.items) * len(triplets.explanations)
    popularity = triplets.popularity
    often = np.argsort(-popularity, kind="stable")[:10]
    count = min(examples, int((popularity > 0).sum()))
    drawn = np.random.default_rng(seed).choice(len(popularity), count, replace=False, p=popularity / popularity.sum())
    return Description(
        users=len(triplets.users),
        items=len(triplets.items),
        explanations=len(triplets.explanations),
        pairs=pairs,
        records=triplets.records,
        triplets=len(triplets),
        explanations_per_pair=len(triplets) / max(pairs, 1),
        density=len(triplets) / sizes,
        per_user=_tail(_row_counts(triplets.record_user, len(triplets.users))),
        per_item=_tail(_row_counts(triplets.record_item, len(triplets.items))),
        per_explanation=_tail(popularity),
        ratings=_ratings(triplets.rating),
        copied=_copied(triplets.copy_group),
        most_said=list(zip(triplets.text_of(often).to_list(), popularity[often].tolist(), strict=True)),
        examples=triplets.text_of(drawn).to_list(),
    )


def in_words(triplets: Triplets) -> str:
    """How much data there is, for messages and reports."""
    sizes = ((len(triplets.users), "user"), (len(triplets.items), "item"), (len(triplets.explanations), "explanation"))
    listed = ", ".join(f"{size:,} {name}{'' if size == 1 else 's'}" for size, name in sizes)
    return f"{len(triplets):,} triplets ({listed})"


def _row_counts(numbers: NDArray[np.int32], size: int) -> NDArray[np.int64]:
    return np.bincount(numbers, minlength=size)


def _tail(counts: NDArray[np.int64]) -> Tail:
    ordered = np.sort(counts)[::-1]
    head = ordered[: max(1, len(ordered) // 100)].sum() / max(ordered.sum(), 1)
    return Tail(
        median=float(np.median(counts)),
        mean=float(counts.mean()),
        p90=float(np.percentile(counts, 90)),
        largest=int(ordered[0]),
        once=int((counts == 1).sum()),
        head_share=float(head),
    )


def _copied(groups: pl.Series | None) -> int | None:
    if groups is None:
        return None
    return int(groups.drop_nulls().is_duplicated().sum())


def _ratings(rating: NDArray[np.float32] | None) -> dict[str, float] | None:
    known = np.empty(0, np.float32) if rating is None else rating[np.isfinite(rating)]
    if not len(known):
        return None
    return {
        "known": len(known),
        "mean": float(known.mean()),
        "low": float(known.min()),
        "high": float(known.max()),
    }


__all__ = ["Description", "Tail", "describe", "in_words"]
