"""What may be shown: options of a ranking, and what they mean for a given catalog."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.data.catalog import Catalog
from whyrank.errors import ParameterError

Polarity = Literal["any", "positive", "negative"]


@dataclass(frozen=True)
class Options:
    """How reasons are chosen, beyond their scores. All of it applies before ranking, not after.

    grounded: only explanations that someone has said of the item.
    polarity: "positive" shows nothing that speaks against the item (neutral explanations stay), "negative" only what
        does ("disrecommend").
    diversity: 0 ranks by score alone; towards 1 a reason that resembles those above it gives way. Above 0,
        near-duplicates and contradictions never stand in one list.
    specificity: score minus this times log-popularity, so that what everybody says steps back.
    exclude: explanation ids that are never shown.
    banned: words whose explanations are never shown.
    boosts: additions to the scores of given explanation ids.
    keep: a function from the table of explanations (id, text, popularity, sentiment) to a column of booleans.
    """

    grounded: bool = False
    polarity: Polarity = "any"
    diversity: float = 0.0
    specificity: float = 0.0
    exclude: Sequence[str] = ()
    banned: Sequence[str] = ()
    boosts: Mapping[str, float] = field(default_factory=dict)
    keep: Callable[[pl.DataFrame], pl.Series] | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Options:
        """Options by name, as methods take them."""
        unknown = [name for name in given if name not in cls.__dataclass_fields__]
        if unknown:
            raise ParameterError(f"no option {unknown[0]!r}; there are {', '.join(cls.__dataclass_fields__)}")
        return cls(**given)

    def __post_init__(self) -> None:
        if self.polarity not in ("any", "positive", "negative"):
            raise ParameterError(f"polarity is {self.polarity!r}; use 'any', 'positive' or 'negative'")
        if not isinstance(self.diversity, Real) or not 0 <= self.diversity <= 1:
            raise ParameterError(f"diversity is {self.diversity}; use a number from 0 to 1")
        if not isinstance(self.specificity, Real) or not math.isfinite(self.specificity):
            raise ParameterError(f"specificity is {self.specificity}; use a finite number")
        for name in ("exclude", "banned"):
            if isinstance(getattr(self, name), str | None):
                raise ParameterError(f"{name} is {getattr(self, name)!r}; give a list of texts")
        if not all(isinstance(word, str) and word.strip() for word in self.banned):
            raise ParameterError("banned holds an empty word, which would be in everything; leave it out")

    def allowed(self, catalog: Catalog) -> NDArray[np.bool_] | None:
        """Which explanations may be shown at all; None: every one."""
        masks = []
        if self.polarity != "any":
            sentiment = catalog.sentiment
            masks.append(sentiment >= 0 if self.polarity == "positive" else sentiment < 0)
        if self.exclude:
            mask = np.ones(len(catalog.explanations), bool)
            mask[catalog.explanations.numbers(self.exclude)] = False
            masks.append(mask)
        if self.banned:
            masks.append(~_mentions(catalog, self.banned))
        if self.keep is not None:
            masks.append(pl.Series(self.keep(catalog.table())).cast(pl.Boolean).fill_null(False).to_numpy())
        return np.logical_and.reduce(masks) if masks else None

    def boost(self, catalog: Catalog) -> NDArray[np.float32] | None:
        """What is added to every explanation's score before ranking; None: nothing."""
        if not self.specificity and not self.boosts:
            return None
        boost = -self.specificity * np.log(np.maximum(catalog.popularity, 0.5)).astype(np.float32)
        if self.boosts:
            numbers = catalog.explanations.numbers(list(self.boosts))
            boost[numbers] += np.array(list(self.boosts.values()), np.float32)
        return boost.astype(np.float32)


def _mentions(catalog: Catalog, words: Sequence[str]) -> NDArray[np.bool_]:
    """Explanations whose text holds one of the words, as a whole word in any case."""
    texts = catalog.text_of(np.arange(len(catalog.explanations)))
    escaped = "|".join(pl.select(pl.lit(pl.Series([word.strip() for word in words])).str.escape_regex()).to_series())
    return texts.str.contains(rf"(?i)(?:^|\W)(?:{escaped})(?:$|\W)").to_numpy()
