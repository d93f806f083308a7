"""The rules by which sentences of reviews become explanations: one frozen object, checked when made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, TypeVar

from whyrank.errors import ParameterError
from whyrank.mining.words import ARTICLES, FIRST_PERSON, FRAGMENT_ENDS, FRAGMENT_STARTS, OPENERS, PALE_ADJECTIVES


@dataclass(frozen=True, kw_only=True)
class MiningRules:
    """How explanations are mined. Thresholds are those of the EXTRA data sets; `MiningRules.extra()` is all EXTRA.

    >>> MiningRules(min_count=10).min_count
    10
    """

    boundaries: str = ".,:;?!()[]{}*|~\n"  # a sentence ends at any of these, except between two digits
    split_dashes: bool = True  # and at a dash with a space beside it, and at a gap of three spaces
    review_titles: bool = True  # the title of a review is one more sentence
    min_words: int = 2
    max_words: int = 0  # 0: no limit
    first_person: tuple[str, ...] = FIRST_PERSON
    openers: tuple[str, ...] = OPENERS
    articles: tuple[str, ...] = ARTICLES  # a leading one makes no difference
    fragment_starts: tuple[str, ...] = FRAGMENT_STARTS
    fragment_ends: tuple[str, ...] = FRAGMENT_ENDS
    english: float = 0.03  # least share of English function words in a review; 0 keeps every language
    english_words: int = 20  # reviews with fewer words are not judged
    names: float | None = 0.8  # written with capitals at least so often, it is a name; None keeps names
    tagger: Literal["pattern", "spacy"] = "pattern"
    nouns: int = 1  # least number in a sentence
    adjectives: int = 1  # least number in a sentence, without the pale ones
    pale_adjectives: tuple[str, ...] = PALE_ADJECTIVES
    shingle: int = 2  # words; a sentence with fewer words is one shingle
    similarity: float = 0.9  # least Jaccard similarity to the center of a group
    min_count: int = 5  # least number of records that hold an explanation
    min_users: int = 2  # what one person says again and again is no shared explanation
    min_items: int = 1
    min_specificity: float | None = None  # least specificity (bits); None keeps boilerplate
    merge_paraphrases: float | None = None  # least cosine of the text encoder; None does not merge

    def __post_init__(self) -> None:
        for name, (accepts, expected) in CHECKS.items():
            value = getattr(self, name)
            if not accepts(value):
                raise ParameterError(f"{name} is {value!r}; use {expected}")

    @classmethod
    def extra(cls) -> MiningRules:
        """EXTRA's rules and nothing else: no language rule, no words cut off, names and fragments kept."""
        return cls(
            boundaries=".,:?!\n",
            split_dashes=False,
            openers=(),
            articles=(),
            fragment_starts=(),
            fragment_ends=(),
            english=0.0,
            names=None,
            min_users=1,
            pale_adjectives=(),
        )

    def changed(self, settings: Mapping[str, object]) -> MiningRules:
        """These rules with some settings changed; lists may come as lists."""
        return _changed(self, settings)

    def as_dict(self) -> dict[str, object]:
        """For JSON; `MiningRules().changed(...)` reads it back."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


@dataclass(frozen=True, kw_only=True)
class StatementRules:
    """How statements are mined. Thresholds that are None follow the size of the data.

    >>> StatementRules(min_count=10).min_count
    10
    """

    language: str = "en"  # or one that an installed package adds
    review_titles: bool = True  # the title of a review is read, too
    english: float = 0.03  # least share of frequent English words in a review of unknown ones; 0 reads every language
    english_words: int = 20  # reviews with fewer words and marks are not judged
    names: float | None = 0.8  # a noun written with a capital at least so often is a name; None keeps names
    judgements: bool = False  # keep overall judgements of the item, such as "great hotel"
    vulgar: bool = False  # keep vulgar words, in statements and in quotes
    min_count: int | None = None  # least number of records that hold a statement
    min_users: int = 2  # what one person says again and again is no shared statement
    min_items: int | None = None
    merge_paraphrases: float | None = None  # least cosine of the text encoder; None merges by words alone

    def __post_init__(self) -> None:
        for name, (accepts, expected) in STATEMENT_CHECKS.items():
            value = getattr(self, name)
            if not accepts(value):
                raise ParameterError(f"{name} is {value!r}; use {expected}")

    def changed(self, settings: Mapping[str, object]) -> StatementRules:
        """These rules with some settings changed; lists may come as lists."""
        return _changed(self, settings)

    def as_dict(self) -> dict[str, object]:
        """For JSON; `StatementRules().changed(...)` reads it back."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


Rules = TypeVar("Rules", MiningRules, StatementRules)


def _changed(rules: Rules, settings: Mapping[str, object]) -> Rules:
    known = {field.name for field in fields(rules)}
    for name in settings:
        if name not in known:
            raise ParameterError(f"there is no mining rule {name!r}; there are: {', '.join(sorted(known))}")
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()
    }
    return replace(rules, **values)


Check = tuple[Callable[[object], bool], str]


def _whole(least: int) -> Check:
    return (lambda v: type(v) is int and v >= least), f"a whole number of at least {least}"


def _number(low: float, high: float, *, none: bool = False) -> Check:
    expected = f"a number from {low:g} to {high:g}" + (" or None" if none else "")
    return (lambda v: (none and v is None) or (type(v) in (int, float) and low <= v <= high)), expected


def _words(value: object) -> bool:
    return isinstance(value, tuple) and all(
        isinstance(word, str) and word == word.lower().strip() != "" for word in value
    )


WORDS: Check = (_words, "a tuple of words in lower case")
CHECKS: dict[str, Check] = {
    "boundaries": (
        lambda v: isinstance(v, str) and v.isascii() and "\n" in v and not any(c.isalnum() or c in " '-&" for c in v),
        "ASCII punctuation with the new line among it, without space, apostrophe, hyphen and ampersand",
    ),
    "split_dashes": (lambda v: isinstance(v, bool), "True or False"),
    "review_titles": (lambda v: isinstance(v, bool), "True or False"),
    "min_words": _whole(1),
    "max_words": _whole(0),
    "first_person": WORDS,
    "openers": WORDS,
    "articles": WORDS,
    "names": _number(0, 1, none=True),
    "fragment_starts": WORDS,
    "fragment_ends": WORDS,
    "pale_adjectives": WORDS,
    "english": _number(0, 1),
    "english_words": _whole(1),
    "tagger": (lambda v: v in ("pattern", "spacy"), "'pattern' or 'spacy'"),
    "nouns": _whole(0),
    "adjectives": _whole(0),
    "shingle": _whole(1),
    "similarity": _number(0.05, 1),
    "min_count": _whole(1),
    "min_users": _whole(1),
    "min_items": _whole(1),
    "min_specificity": _number(-100, 100, none=True),
    "merge_paraphrases": _number(0, 1, none=True),
}


def _optional(check: Check) -> Check:
    accepts, expected = check
    return (lambda v: v is None or accepts(v)), f"{expected} or None"


FLAG: Check = ((lambda v: isinstance(v, bool)), "True or False")
STATEMENT_CHECKS: dict[str, Check] = {
    "language": (lambda v: isinstance(v, str), "the name of a language"),
    "review_titles": FLAG,
    "english": _number(0, 1),
    "english_words": _whole(1),
    "names": _number(0, 1, none=True),
    "judgements": FLAG,
    "vulgar": FLAG,
    "min_count": _optional(_whole(1)),
    "min_users": _whole(1),
    "min_items": _optional(_whole(1)),
    "merge_paraphrases": _number(0, 1, none=True),
}
