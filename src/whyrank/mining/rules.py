"""The rules by which opinions in reviews become statements: one frozen object, checked when made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from whyrank.errors import ParameterError


@dataclass(frozen=True, kw_only=True)
class MiningRules:
    """How statements are mined. Thresholds that are None follow the size of the data.

    >>> MiningRules(min_count=10).min_count
    10
    """

    language: str = "en"  # or one that an installed package adds
    review_titles: bool = True  # the title of a review is read, too
    english: float = 0.03  # least share of frequent English words in a review of unknown ones; 0 reads every language
    english_words: int = 20  # reviews with fewer words and marks are not judged
    vulgar: bool = False  # keep vulgar words, in statements and in quotes
    min_count: int | None = None  # least number of records that hold a statement
    min_users: int = 2  # what one person says again and again is no shared statement
    min_items: int | None = None
    words: tuple[str, ...] = ()  # folders whose lists and rules are added to those of the language
    matcher: str | None = None  # a file of what was learned from annotated reviews, instead of the one that ships

    def __post_init__(self) -> None:
        for name, (accepts, expected) in CHECKS.items():
            value = getattr(self, name)
            if not accepts(value):
                raise ParameterError(f"{name} is {value!r}; use {expected}")

    def changed(self, settings: Mapping[str, object]) -> MiningRules:
        """Return these rules with some settings changed."""
        known = {field.name for field in fields(self)}
        for name in settings:
            if name not in known:
                raise ParameterError(f"there is no mining rule {name!r}; there are: {', '.join(sorted(known))}")
        values: dict[str, Any] = dict(settings)
        if isinstance(values.get("words"), list):  # as JSON has it
            values["words"] = tuple(values["words"])
        return replace(self, **values)

    def as_dict(self) -> dict[str, object]:
        """For JSON; `MiningRules().changed(...)` reads it back."""
        return asdict(self)


Check = tuple[Callable[[object], bool], str]


def _whole(least: int) -> Check:
    return (lambda v: type(v) is int and v >= least), f"a whole number of at least {least}"


def _number(low: float, high: float, *, none: bool = False) -> Check:
    expected = f"a number from {low:g} to {high:g}" + (" or None" if none else "")
    return (lambda v: (none and v is None) or (type(v) in (int, float) and low <= v <= high)), expected


def _optional(check: Check) -> Check:
    accepts, expected = check
    return (lambda v: v is None or accepts(v)), f"{expected} or None"


FLAG: Check = ((lambda v: isinstance(v, bool)), "True or False")
CHECKS: dict[str, Check] = {
    "language": (lambda v: isinstance(v, str), "the name of a language"),
    "review_titles": FLAG,
    "english": _number(0, 1),
    "english_words": _whole(1),
    "vulgar": FLAG,
    "min_count": _optional(_whole(1)),
    "min_users": _whole(1),
    "min_items": _optional(_whole(1)),
    "words": (
        (lambda v: isinstance(v, tuple | list) and all(isinstance(each, str) for each in v)),
        "a tuple of folders",
    ),
    "matcher": ((lambda v: v is None or isinstance(v, str)), "a file or None"),
}
