"""What may be shown: options of a ranking, declared once.

The command line, the request schemas of the service and, through them, the page are derived from the fields here, so
this module imports nothing heavy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from whyrank.errors import ParameterError

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from _typeshed import DataclassInstance
    from numpy.typing import NDArray

    from whyrank.data.catalog import Catalog

Polarity = Literal["any", "positive", "negative"]
POLARITIES = ("any", "positive", "negative")
Kind = Literal["switch", "choice", "whole", "number", "texts", "numbers"]


class Declared(NamedTuple):
    """A field of `Options`: what it does, what it takes, and what it is called on the command line."""

    name: str
    kind: Kind
    default: Any
    help: str
    at_least: float | None
    at_most: float | None
    choices: tuple[str, ...]
    flag: str


def option(
    default: Any,
    kind: Kind,
    help: str,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    choices: tuple[str, ...] = (),
    flag: str | None = None,
) -> Any:
    about = {
        "kind": kind,
        "help": help,
        "at_least": at_least,
        "at_most": at_most,
        "choices": choices,
        "flag": flag,
    }
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=about)
    return field(default=default, metadata=about)


def declared_of(kind: type[DataclassInstance]) -> tuple[Declared, ...]:
    """The fields of a dataclass that were made by `option`."""
    return tuple(
        Declared(
            each.name,
            default={} if each.metadata["kind"] == "numbers" else each.default,
            **{**each.metadata, "flag": each.metadata["flag"] or "--" + each.name.replace("_", "-")},
        )
        for each in fields(kind)
        if each.metadata
    )


@dataclass(frozen=True)
class Options:
    """How reasons are chosen, beyond their scores. All of it applies before ranking, not after.

    By default reasons are true to the item: more people say them about the item than say the opposite, nothing speaks
    against the item (neutral explanations stay), and no aspect comes twice; fewer reasons are better than poor ones.
    `Options.plain()` ranks the whole pool, as evaluation does. `keep` is a function from the table of explanations (id,
    text, popularity, sentiment) to a column of booleans. A `query` may be a text or several.

    Examples:
        >>> Options(polarity="negative").grounded
        True
    """

    grounded: bool = option(True, "switch", "Only reasons that people gave for the item.")
    backing: float = option(
        2.0,
        "number",
        "With grounded: how many times more people must say it than say the opposite; 0: anything somebody says.",
        at_least=0,
        at_most=100,
    )
    support: int = option(
        2,
        "whole",
        "With grounded: how many people must say it.",
        at_least=1,
        at_most=1_000_000,
    )
    distinctive: float = option(
        0.2,
        "number",
        "With grounded: show a statement only for this share of items, those where people say it most; 1: for all.",
        at_least=0,
        at_most=1,
    )
    polarity: Polarity = option(  # noqa: RUF009 - a field
        "positive",
        "choice",
        "positive: nothing that speaks against the item; negative: only what does; any: all reasons.",
        choices=POLARITIES,
    )
    per_aspect: int = option(
        1,
        "whole",
        "The most reasons about one aspect (or kinds of it) in a list; no two use the same word. 0: no limit.",
        at_least=0,
        at_most=100,
    )
    consistent: bool = option(True, "switch", "No reason contradicts another one in the list.")
    diversity: float = option(
        0.0,
        "number",
        "0: by score alone; towards 1: reasons that differ more; above 0 never two that say nearly the same.",
        at_least=0,
        at_most=1,
    )
    specificity: float = option(
        0.0,
        "number",
        "Moves popular reasons down: this times the log of their popularity is subtracted from their scores.",
        at_least=-10,
        at_most=10,
    )
    vague: float = option(
        0.7,
        "number",
        "Subtracted from the score of praise or blame that does not say why, such as great food.",
        at_least=-10,
        at_most=10,
    )
    mu: float | None = option(
        None,
        "number",
        "Weight of the user's part of a score, for models that have one; by default the model's own.",
        at_least=0,
        at_most=1,
    )
    personal: bool = option(True, "switch", "Use what is known about the user; otherwise item and popularity only.")
    explore: float = option(
        0.0,
        "number",
        "0: the best reasons. Above 0, lists are drawn at random, better reasons more often; the higher, the more "
        "evenly (the temperature of a Plackett-Luce draw among the best that may be shown).",
        at_least=0,
        at_most=100,
    )
    epsilon: float = option(
        0.0,
        "number",
        "Share of draws in which every reason that may be shown is equally likely.",
        at_least=0,
        at_most=1,
    )
    draw: int = option(
        0,
        "whole",
        "With explore or epsilon: which list is drawn; the same number gives the same list.",
        at_least=0,
        at_most=2**53,
    )
    exclude: Sequence[str] = option((), "texts", "Explanation ids that are never shown.")
    banned: Sequence[str] = option((), "texts", "Words whose explanations are never shown.", flag="--ban")
    boosts: Mapping[str, float] = option(
        {}, "numbers", "Added to the scores of explanations, by id: e00012=0.5.", flag="--boost"
    )
    query: Sequence[str] = option(
        (), "texts", "What is searched for, such as quiet, near the station: reasons that answer it come first."
    )
    query_by: Literal["words", "vectors"] = option(
        "words",
        "choice",
        "How reasons answer a query: by words they share, or by vectors of texts (whyrank[minilm]).",
        choices=("words", "vectors"),
    )
    context_items: Sequence[str] = option(
        (), "texts", "Items chosen just now: what people mention about them counts more.", flag="--context-item"
    )
    context_aspects: Sequence[str] = option(
        (), "texts", "Aspects chosen just now, such as breakfast: their reasons count more.", flag="--context-aspect"
    )
    keep: Callable[[pl.DataFrame], pl.Series] | None = None

    @classmethod
    def plain(cls, **given: Any) -> Options:
        """The whole pool ranked by score alone, but for what is given: as evaluation and experiments rank."""
        return cls.of(
            {
                "grounded": False,
                "backing": 0.0,
                "support": 1,
                "distinctive": 1.0,
                "polarity": "any",
                "per_aspect": 0,
                "consistent": False,
                "vague": 0.0,
            }
            | given
        )

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Options:
        """Options by name, as methods take them."""
        if not given:
            return _usual()
        unknown = [name for name in given if name not in cls.__dataclass_fields__]
        if unknown:
            raise ParameterError(f"no option {unknown[0]!r}; there are {', '.join(cls.__dataclass_fields__)}")
        return cls(**given)

    @classmethod
    @cache
    def declared(cls) -> tuple[Declared, ...]:
        """The fields that can be written down, which are all but `keep`."""
        return declared_of(cls)

    def __post_init__(self) -> None:
        if isinstance(self.query, str):
            object.__setattr__(self, "query", (self.query,))
        for each in self.declared():
            value = getattr(self, each.name)
            problem = problem_of(value, each)
            if problem:
                raise ParameterError(f"{each.name} is {value!r}; {problem}")
        if not all(isinstance(word, str) and word.strip() for word in self.banned):
            raise ParameterError("banned holds an empty word, which would be in everything; leave it out")
        if self.drawn and self.diversity:
            raise ParameterError("diversity chooses lists and explore draws them; use one of the two")

    @property
    def drawn(self) -> bool:
        """Whether lists are drawn instead of ranked."""
        return self.explore > 0 or self.epsilon > 0

    def allowed(self, catalog: Catalog) -> NDArray[np.bool_] | None:
        """Which explanations may be shown at all; None: every one."""
        import numpy as np

        masks = []
        if self.polarity != "any":
            sided = catalog.favourable if self.polarity == "positive" else catalog.unfavourable
            if sided is not None:
                masks.append(sided)
        if self.exclude:
            mask = np.ones(len(catalog.explanations), np.bool_)
            mask[catalog.explanations.numbers(list(self.exclude))] = False
            masks.append(mask)
        if self.banned:
            masks.append(~_mentions(catalog, self.banned))
        if self.keep is not None:
            import polars as pl

            kept = pl.Series(self.keep(catalog.table())).cast(pl.Boolean).fill_null(False).to_numpy()
            if len(kept) != len(catalog.explanations):
                raise ParameterError(f"keep gives {len(kept)} values for {len(catalog.explanations)} explanations")
            masks.append(kept)
        return masks[0] if len(masks) == 1 else np.logical_and.reduce(masks) if masks else None

    def boost(self, catalog: Catalog) -> NDArray[np.float32] | None:
        """What is added to every explanation's score before ranking; None: nothing."""
        general = catalog.general if self.vague else None
        context = self.query or self.context_items or self.context_aspects
        if not self.specificity and not self.boosts and general is None and not context:
            return None
        import numpy as np

        boost = -self.specificity * np.log(np.maximum(catalog.popularity, 0.5)).astype(np.float32)
        if general is not None:
            boost[general] -= np.float32(self.vague)
        if self.boosts:
            numbers = catalog.explanations.numbers(list(self.boosts))
            boost[numbers] += np.array(list(self.boosts.values()), np.float32)
        if context:
            from whyrank.explain.context import FIRST, affinity, answers

            boost += affinity(catalog, self.context_items, self.context_aspects)
            boost += FIRST * answers(catalog, self.query, self.query_by)
        return boost.astype(np.float32)


@dataclass(frozen=True)
class ItemGoals:
    """What lists of items are for, beside the best scores.

    `serendipity`: 0 by score alone; towards 1, items that are unlike what the user knows and that not everybody is
    shown, among those with good scores. `shares`: of the first k places, for every k, a group has at least this share,
    rounded down; `groups` says which item belongs to which group (a provider, a brand, a region).

    >>> ItemGoals(shares={"small": 0.5}, groups={"inn": "small"}).serendipity
    0.0
    """

    serendipity: float = option(
        0.0, "number", "0: items by score; towards 1: unexpected items among the good ones.", at_least=0, at_most=1
    )
    shares: Mapping[str, float] = option(
        {}, "numbers", "A group's least share of the places, by group: small=0.3.", flag="--share"
    )
    groups: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    @cache
    def declared(cls) -> tuple[Declared, ...]:
        """The goals that a request can name; which item is in which group is known beforehand."""
        return declared_of(cls)

    def __post_init__(self) -> None:
        for each in self.declared():
            value = getattr(self, each.name)
            problem = problem_of(value, each)
            if problem:
                raise ParameterError(f"{each.name} is {value!r}; {problem}")
        if any(not 0 <= share <= 1 for share in self.shares.values()) or sum(self.shares.values()) > 1 + 1e-9:
            raise ParameterError("shares must be from 0 to 1 and add up to at most 1")
        if not self.shares:
            return
        present = set(self.groups.values())
        missing = [name for name in self.shares if name not in present]
        if missing:
            known = ", ".join(sorted(present)[:10]) or "no group"
            raise ParameterError(f"no item is in group {missing[0]!r}; there is {known}")


@cache
def _usual() -> Options:
    return Options()


def problem_of(value: object, about: Declared) -> str | None:
    """What is wrong with a value, as the advice what to use instead."""
    if value is None and about.default is None:
        return None
    if about.kind == "switch":
        return None if isinstance(value, bool) else "use True or False"
    if about.kind == "choice":
        return None if value in about.choices else f"use {', '.join(map(repr, about.choices))}"
    if about.kind == "texts":
        listed = isinstance(value, Sequence) and not isinstance(value, str)
        return None if listed and all(isinstance(each, str) for each in value) else "give a list of texts"  # type: ignore[attr-defined]
    if about.kind == "numbers":
        numbers = isinstance(value, Mapping) and all(
            isinstance(each, Real) and not isinstance(each, bool) and math.isfinite(each) for each in value.values()
        )
        return None if numbers else "give numbers by id"
    whole = about.kind == "whole"
    if not isinstance(value, Integral if whole else Real) or isinstance(value, bool) or not math.isfinite(value):
        return "use a whole number" if whole else "use a finite number"
    low, high = about.at_least, about.at_most
    inside = (low is None or value >= low) and (high is None or value <= high)  # type: ignore[operator]
    return None if inside else f"use a number from {low} to {high}"


def _mentions(catalog: Catalog, words: Sequence[str]) -> NDArray[np.bool_]:
    """Explanations whose text holds one of the words, as a whole word in any case."""
    import numpy as np
    import polars as pl

    texts = catalog.text_of(np.arange(len(catalog.explanations)))
    escaped = "|".join(pl.select(pl.lit(pl.Series([word.strip() for word in words])).str.escape_regex()).to_series())
    return texts.str.contains(rf"(?i)(?:^|\W)(?:{escaped})(?:$|\W)").to_numpy()
