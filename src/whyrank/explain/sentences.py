"""A sentence for every reason, from templates: true, short, and chosen by what is known."""

from __future__ import annotations

import json
import math
import string
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.data.catalog import Catalog
from whyrank.errors import DataError
from whyrank.explain.facts import Facts
from whyrank.explain.phrases import Phrase, Words, phrase_of
from whyrank.plugins import installed_path

DEFAULT = Path(__file__).parent / "templates" / "en.json"
FEW = 4  # people, up to whom they are counted and not called "people"
PAIR = 3  # people who mention a thing from whom on "two of three" is said
MANY = 2000  # sentences that are written once for all that are alike
KEPT = 200_000  # sentences in memory
LARGEST = 1 << 20  # bytes of a file of templates
PLACES = frozenset(
    "supporting people everybody opposing agreeing mentions among mentioners user items topic phrase noun adjective "  # noqa: SIM905
    "details detail lack does words itself text this here it".split()
)
AGREES = {
    "is": "several",
    "disagree": "opposing",
    "object": "opposing",
    "call": "details",
}  # with what verbs agree; all others with the people who say it
Piece = tuple[str, str | None]  # literal text, then the name of a place


@dataclass(frozen=True, eq=False)
class Templates:
    """A set of templates with its words; `Templates.read` takes one from a file of the same form as the English one.

    Examples:
        >>> Templates.read(None).settings["people"]
        ['person', 'people']
    """

    settings: Mapping[str, Any]
    sentences: Mapping[str, tuple[tuple[Piece, ...], ...]]
    words: Words
    written: WeakKeyDictionary[Catalog, dict[bytes, str]] = field(default_factory=WeakKeyDictionary)
    phrases: WeakKeyDictionary[Catalog, dict[int, Phrase]] = field(default_factory=WeakKeyDictionary)

    @classmethod
    def read(cls, path: str | Path | None) -> Templates:
        """Templates of a file, or of an installed package by the name of its entry point; None: English.

        What an English file leaves out is as usual, so that `{"people": ["guest", "guests"]}` is enough for another
        noun; a file of another `language` must have all sentences.
        """
        usual = _document(DEFAULT)
        if path is None:
            return cls.of(usual, DEFAULT)
        if not Path(path).is_file():
            path = installed_path("templates", str(path)) or Path(path)
        given = _document(Path(path))
        unknown = [name for name in given if name not in usual]
        if unknown:
            raise DataError(f"no setting {unknown[0]!r}", path=path, expected=f"some of {', '.join(usual)}")
        missing = [case for case in usual["sentences"] if case not in _object(given, "sentences", path)]
        if given.get("language", "en") != "en" and missing:
            raise DataError(f"no sentence {missing[0]!r}", path=path, expected="all sentences of another language")
        merged = usual | given
        for name in ("sentences", "verbs", "irregular"):
            merged[name] = usual[name] | _object(given, name, path)
        return cls.of(merged, Path(path), set(usual["sentences"]))

    @classmethod
    def of(cls, document: Mapping[str, Any], path: Path, cases: set[str] | None = None) -> Templates:
        """Templates that were read from a file, checked."""
        _check_words(document, path)
        sentences = {}
        for case, templates in document["sentences"].items():
            if cases is not None and case not in cases:
                raise DataError(f"no sentence {case!r}", path=path, expected=f"some of {', '.join(sorted(cases))}")
            if not isinstance(templates, list) or not templates or not all(isinstance(t, str) for t in templates):
                raise DataError(f"{case} is not a list of templates", path=path, expected="at least one text")
            places = PLACES | set(document["verbs"])
            sentences[case] = tuple(tuple(_pieces(template, places, path)) for template in templates)
        lists = (frozenset(document[name]) for name in ("singular", "uncountable", "collective", "attributive"))
        words = Words(document["the"], frozenset(document["plural"]), document["irregular"], *lists)
        return cls(document, sentences, words)

    def __reduce__(self) -> tuple[Any, ...]:
        """For copies in other processes: without what is written again when it is needed."""
        return Templates.of, (dict(self.settings), DEFAULT)

    def sentence(self, catalog: Catalog, facts: Facts) -> str:
        """The sentence of one reason."""
        phrase = self._phrase(catalog, facts.explanation)
        places = self._places(catalog, facts, phrase)
        templates = self.sentences[case_of(facts, catalog, phrase)]
        fit = [each for each in templates if all(name is None or places[name] is not None for _, name in each)]
        pieces = fit[(facts.rank - 1) % len(fit)] if fit else self.sentences["said"][0]
        text = "".join(literal + (places[name] or "" if name else "") for literal, name in pieces)
        return text[:1].upper() + text[1:]

    def cached_sentence(self, catalog: Catalog, facts: bytes) -> str:
        """The sentence of a row of facts, which is written once."""
        known = self.written.setdefault(catalog, {})
        sentence = known.get(facts)
        if sentence is None:
            if len(known) > KEPT:
                known.clear()
            sentence = known[facts] = self.sentence(catalog, Facts(*np.frombuffer(facts, np.int32).tolist()))
        return sentence

    def _phrase(self, catalog: Catalog, explanation: int) -> Phrase:
        known = self.phrases.setdefault(catalog, {})
        if explanation not in known:
            aspect = catalog.aspects_listed[int(catalog.aspect[explanation])]
            text = catalog.texts_listed[explanation]
            plain = catalog.general is not None and bool(catalog.general[explanation])
            if len(known) > KEPT:
                known.clear()
            known[explanation] = Phrase() if aspect is None else phrase_of(text, aspect, self.words, plain=plain)
        return known[explanation]

    def _places(self, catalog: Catalog, facts: Facts, phrase: Phrase) -> dict[str, str | None]:
        """The texts for the places of a template; None: there is none for this reason."""
        settings = self.settings
        places: dict[str, str | None] = phrase._asdict() | {"several": None, "plain": None}
        places |= {name: self._number(getattr(facts, name)) for name in ("supporting", "opposing", "user", "details")}
        digits = facts.mentions >= len(settings["numbers"])  # "9 of 12", never "nine of 12"
        places |= {name: self._number(getattr(facts, name), digits) for name in ("agreeing", "mentions")}
        places["among"] = places["mentions"] if facts.mentions >= max(PAIR, facts.agreeing + 1) else None
        places["detail"] = self._phrase(catalog, facts.detail).adjective if facts.detail >= 0 else None
        places["text"] = catalog.texts_listed[facts.explanation].rstrip(".!").strip()
        places["people"] = settings["people"][facts.supporting != 1]
        places["mentioners"] = settings["people"][facts.mentions != 1]
        places["everybody"] = settings["people"][1] if facts.supporting > FEW else None
        places["items"] = settings["items"][facts.user != 1]
        places["it"] = settings["it"][phrase.several]
        places |= {"this": settings["this"], "here": settings["here"]}
        many = {"several": phrase.several, "opposing": facts.opposing != 1, "details": facts.details != 1}
        for verb, forms in settings["verbs"].items():
            places[verb] = forms[many.get(AGREES.get(verb, ""), facts.supporting != 1)]
        return places

    def _number(self, count: int, digits: bool = False) -> str:
        """Small numbers as words, unless a larger one of the same people stands beside them."""
        words = self.settings["numbers"]
        if count < len(words) and not digits:
            return str(words[count])
        return f"{count:,}".replace(",", self.settings["thousands"])


def case_of(facts: Facts, catalog: Catalog, phrase: Phrase) -> str:
    """Which sentence is true of these counts, the most telling one first."""
    sign, known = int(catalog.signs[facts.explanation]), phrase != Phrase()
    if not facts.supporting:
        return "unsaid_but_by_you" if facts.user else "unsaid"
    if not known:
        kind = "tagged" if catalog.are_tags else "said"
        return f"{kind}_by_you" if facts.user else kind
    if phrase.itself is not None:
        return "found"
    clear = facts.agreeing >= 2 and 2 * facts.agreeing > facts.mentions and facts.agreeing > facts.opposing
    if facts.often and clear and sign:
        side = "often" if sign > 0 else "often_against"
        # Never "all five people who mention it": a complaint that was not recognized would make it false.
        return side if facts.agreeing < facts.mentions else f"{side}_all"
    if sign == 0:
        return "mentioned"
    if phrase.plain:
        return ("liked_mixed" if facts.opposing else "liked") if sign > 0 else "disliked"
    if sign < 0:
        return "criticized"
    if facts.opposing:
        return "mixed"
    if facts.user_aspect and phrase.words is None and phrase.does is None:
        return "before"
    return "praised"


def write_sentences(templates: Templates, catalog: Catalog, facts: NDArray[np.int32]) -> list[str] | pl.Series:
    """A sentence for each row of facts; of many, those that are alike get the same one, which is written once."""
    table = np.ascontiguousarray(facts[:, : len(Facts._fields)])
    if len(table) <= MANY:
        return [templates.cached_sentence(catalog, row.tobytes()) for row in table]
    sizes = [int(column.max(initial=0)) + 2 for column in table.T]
    if math.prod(sizes) > 1 << 62:
        return [templates.cached_sentence(catalog, row.tobytes()) for row in table]
    packed = np.zeros(len(table), np.int64)
    for column, size in zip(table.T, sizes, strict=True):
        packed = packed * size + column + 1  # no detail is -1
    _, first, place = np.unique(packed, return_index=True, return_inverse=True)
    distinct = [templates.cached_sentence(catalog, row.tobytes()) for row in table[first]]
    return pl.Series(distinct, dtype=pl.String).gather(place)


@cache
def default_templates() -> Templates:
    """The English ones."""
    return Templates.read(None)


def _document(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > LARGEST:
            raise DataError(f"is larger than {LARGEST:,} bytes", path=path, expected="a file of templates")
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError("not readable JSON", path=path, expected="a file of templates") from error
    if not isinstance(document, dict):
        raise DataError("not a JSON object", path=path, expected="a file of templates")
    return document


def _object(document: Mapping[str, Any], name: str, path: str | Path) -> dict[str, Any]:
    value = document.get(name, {})
    if not isinstance(value, dict):
        raise DataError(f"{name} is not an object", path=path, expected="names and values")
    return value


def _check_words(document: Mapping[str, Any], path: Path) -> None:
    """Raise unless the words of a set have the form that sentences need."""

    def texts(value: object, least: int) -> bool:
        return isinstance(value, list) and len(value) >= least and all(isinstance(each, str) for each in value)

    for name in ("people", "items", "it"):
        if not texts(document[name], 2) or len(document[name]) != 2:
            raise DataError(f"{name} is not a pair", path=path, expected='one and many, such as ["guest", "guests"]')
    for name in ("this", "here", "the", "thousands", "language"):
        if not isinstance(document[name], str):
            raise DataError(f"{name} is not a text", path=path)
    for name in ("numbers", "plural", "singular", "uncountable", "collective", "attributive"):
        if not texts(document[name], 0):
            raise DataError(f"{name} is not a list of texts", path=path)
    for verb, forms in document["verbs"].items():
        if not texts(forms, 2) or len(forms) != 2:
            raise DataError(f"the verb {verb!r} is not a pair", path=path, expected="one and many")
    if not all(isinstance(each, str) for each in document["irregular"].values()):
        raise DataError("irregular is not an object of texts", path=path)


def _pieces(template: str, places: frozenset[str] | set[str], path: Path) -> Iterator[Piece]:
    """A template cut at its places."""
    try:
        parsed = list(string.Formatter().parse(template))
    except ValueError as error:
        raise DataError(f"not a template: {template!r} ({error})", path=path) from error
    for literal, name, form, conversion in parsed:
        if name is not None and (name not in places or form or conversion):
            raise DataError(
                f"no placeholder {{{name}}} in {template!r}", path=path, expected=f"some of {', '.join(sorted(places))}"
            )
        yield literal, name
