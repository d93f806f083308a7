"""Evidence: who says a reason about the item, who says the opposite, and who says it elsewhere.

What is counted is declared once, in the fields of `Evidence`. Columns, tables, JSON, schemas and the page follow from
them. To add a count: its field here with its line in `_count`, and in `data/people.py` what has to be known for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyrank.compile import kernel
from whyrank.data.catalog import Catalog
from whyrank.data.csr import CSR
from whyrank.data.once import OncePer
from whyrank.explain._neighbours import neighbours
from whyrank.index._lookup import count_at, counts_over, place_of
from whyrank.index.form import Numbers

LIKE = 20  # how many items count as "like" an item
UNKNOWN = np.iinfo(np.int64).min  # in columns of what may be unknown


class Count(NamedTuple):
    """A field of `Evidence`: what it counts, what tables call it, and whether it may be unknown."""

    name: str
    help: str
    label: str
    optional: bool

    @property
    def type(self) -> Any:
        """The type of its values."""
        return int | None if self.optional else int


def count(help: str, label: str, *, optional: bool = False) -> Any:
    """Declare a count: a whole number of 64 bits."""
    return field(metadata={"help": help, "label": label, "optional": optional})


@dataclass(frozen=True, slots=True)
class Evidence:
    """The counts behind a reason, of people unless they say otherwise.

    What the opposite of a statement is follows from its aspect, sense and polarity: see `whyrank.data.statements`.

    >>> [each.name for each in Evidence.declared()][:3]
    ['supporting', 'opposing', 'mixed']
    """

    supporting: int = count("People who say it about this item, and never the opposite.", "for")
    opposing: int = count("People who say the opposite about this item, and never this.", "against")
    mixed: int = count("People who say both this and the opposite about this item.", "mixed")
    praise: int = count("People who say something good about its aspect of this item.", "praise")
    complaints: int = count("People who say something bad about its aspect of this item.", "complaints")
    mentions: int = count("People who mention its aspect of this item at all.", "mention it")
    user_says: int = count("Items about which this user says it.", "user says it")
    user_mentions: int = count("Items of which this user mentions its aspect.", "user mentions it")
    similar_items: int | None = count(
        "Records of the items most like this one that say it; null unless asked for.", "similar items", optional=True
    )
    latest: int | None = count(
        "When it was last said about this item, in seconds since 1970; null where no times are known.",
        "latest",
        optional=True,
    )

    @classmethod
    @cache
    def declared(cls) -> tuple[Count, ...]:
        """The fields, in their order."""
        return tuple(Count(each.name, **each.metadata) for each in fields(cls))

    def as_dict(self) -> dict[str, int | None]:
        """All counts by name."""
        return {name: getattr(self, name) for name in Evidence.__slots__}
