"""A sentence for every reason, from templates: true, short, and chosen by what is known."""

from __future__ import annotations

import json
import string
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from whyrank.data.catalog import Catalog
from whyrank.errors import DataError
from whyrank.plugins import installed_path
from whyrank.wording.phrases import Phrase, Words, phrase_of

DEFAULT = Path(__file__).parent / "en.json"
FEW = 4  # people, up to whom they are counted and not called "people"
OFTEN, OFTEN_SHARE = 3, 0.3  # items, and share of the user's, from which on a user mentions an aspect often
CACHED = 200_000  # sentences, and as many phrases, of a catalog
LARGEST_BYTES = 1 << 20  # of a file of templates
PLACES = frozenset(
    "supporting people everybody opposing mixed user_says items topic phrase noun adjective detail detailed lack does "  # noqa: SIM905
    "words itself text this here it".split()
)
AGREES = {"is": "several", "disagree": "opposing", "call": "detail"}  # all other verbs agree with who says it
Piece = tuple[str, str | None]  # literal text, then the name of a place
Template = tuple[Piece, ...]


class Told(NamedTuple):
    """Everything that a sentence depends on; counts have their names in the evidence."""

    explanation: int
    rank: int
    supporting: int
    opposing: int = 0
    mixed: int = 0
    detail: int = 0
    user_says: int = 0
    familiar: int = 0  # 1: the user has mentioned the aspect before; 2: and does so often
    detailed: int = -1  # what else people say about the aspect of plain praise or blame; -1: not to be told


@dataclass(frozen=True, eq=False)
class Templates:
    """A set of templates with its words; `Templates.read` takes one from a file of the same form as the English one.

    Examples:
        >>> Templates.read(None).settings["people"]
        ['person', 'people']
    """

    settings: Mapping[str, Any]
    sentences: Mapping[str, tuple[Template, ...]]
    additions: Mapping[str, Template]
    words: Words
    _writers: WeakKeyDictionary[Catalog, SentenceWriter] = field(default_factory=WeakKeyDictionary)

    @classmethod
    def read(cls, path: str | Path | None) -> Templates:
        """Read templates of a file, or of an installed package by the name of its entry point; None: English.

        What an English file leaves out is as usual, so that `{"people": ["guest", "guests"]}` is enough for another
        noun; a file of another `language` must have all sentences.
        """
        usual = _document(DEFAULT)
        if path is None:
            return cls.of(usual, DEFAULT)
        if not Path(path).is_file():
            path = installed_path("templates", str(path)) or Path(path)
        given = _document(Path(path))
        _check_names("setting", given, usual, path)
        merged = usual | given
        for name in ("sentences", "additions"):
            own = _object(given, name, path)
            _check_names("sentence", own, usual[name], path)
            missing = [case for case in usual[name] if case not in own]
            if given.get("language", "en") != "en" and missing:
                raise DataError(f"no sentence {missing[0]!r}", path=path, expected="all sentences of another language")
        for name in ("sentences", "additions", "verbs", "irregular"):
            merged[name] = usual[name] | _object(given, name, path)
        return cls.of(merged, Path(path))

    @classmethod
    def of(cls, document: Mapping[str, Any], path: Path) -> Templates:
        """Make templates of what was read from a file, checked."""
        _check_words(document, path)
        places = PLACES | set(document["verbs"])
        sentences = {}
        for case, templates in document["sentences"].items():
            if not isinstance(templates, list) or not templates or not all(isinstance(t, str) for t in templates):
                raise DataError(f"{case} is not a list of templates", path=path, expected="at least one text")
            sentences[case] = tuple(tuple(_pieces(template, places, path)) for template in templates)
        additions = {}
        for case, template in document["additions"].items():
            if not isinstance(template, str):
                raise DataError(f"{case} is not a template", path=path, expected="a text")
            additions[case] = tuple(_pieces(template, places | {"sentence"}, path))
        lists = (frozenset(document[name]) for name in ("singular", "uncountable", "collective", "attributive"))
        words = Words(document["the"], frozenset(document["plural"]), document["irregular"], *lists)
        return cls(document, sentences, additions, words)

    def __reduce__(self) -> tuple[Any, ...]:
        """For copies in other processes: without what is written again when it is needed."""
        return Templates.of, (dict(self.settings), DEFAULT)

    def writer(self, catalog: Catalog) -> SentenceWriter:
        """Return what writes the sentences of a catalog, and remembers them."""
        known = self._writers.get(catalog)
        return known if known is not None else self._writers.setdefault(catalog, SentenceWriter(self, catalog))


class SentenceWriter:
    """Writes sentences about the explanations of a catalog; those that depend on the same counts are written once."""

    def __init__(self, templates: Templates, catalog: Catalog) -> None:
        self._templates = templates
        # Not the catalog itself, which would never be forgotten: it is the key of the writers.
        self._texts, self._aspects, self._aspect = catalog.texts_listed, catalog.aspects_listed, catalog.aspect
        self._signs, self._general, self._tags = catalog.signs, catalog.general, catalog.are_tags
        self._phrases: dict[int, Phrase] = {}
        self._sentences: dict[tuple[int, ...], str] = {}

    def sentences(self, told: Iterable[tuple[int, ...]]) -> list[str]:
        """Write a sentence for each row, which has the fields of `Told`."""
        known = self._sentences
        if len(known) > CACHED:
            known.clear()
        return [known.get(row) or known.setdefault(row, self.sentence(Told(*row))) for row in told]

    def sentence(self, told: Told) -> str:
        """Write a sentence: what people say, and what there is to add to it."""
        phrase = self._phrase(told.explanation)
        case = self._case(told, phrase)
        places = self._places(told, phrase)
        templates = [each for each in self._templates.sentences[case] if _fits(each, places)]
        chosen = templates[(told.rank - 1) % len(templates)] if templates else self._templates.sentences["said"][0]
        text = _filled(chosen, places).rstrip(".")
        for name in _additions(told, phrase, case):
            template, places["sentence"] = self._templates.additions[name], text
            text = _filled(template, places) if _fits(template, places) else text
        return text[:1].upper() + text[1:] + ("" if text.endswith(("!", "?", "…")) else ".")

    def _case(self, told: Told, phrase: Phrase) -> str:
        """Which sentence is true of these counts."""
        if not told.supporting:
            return "divided" if told.mixed else "unsaid"
        if phrase == Phrase():
            return "tagged" if self._tags else "said"
        if phrase.itself is not None:
            return "found"
        sign = int(self._signs[told.explanation])
        if sign == 0:
            return "mentioned"
        if phrase.plain:
            return "liked" if sign > 0 else "disliked"
        return "praised" if sign > 0 else "criticized"

    def _phrase(self, explanation: int) -> Phrase:
        known = self._phrases.get(explanation)
        if known is None:
            aspect, text = self._aspects[int(self._aspect[explanation])], self._texts[explanation]
            plain = self._general is not None and bool(self._general[explanation])
            made = Phrase() if aspect is None else phrase_of(text, aspect, self._templates.words, plain=plain)
            if len(self._phrases) > CACHED:
                self._phrases.clear()
            known = self._phrases[explanation] = made
        return known

    def _places(self, told: Told, phrase: Phrase) -> dict[str, str | None]:
        """The texts for the places of a template; None: there is none for this reason."""
        settings, people = self._templates.settings, told.supporting or told.mixed
        places: dict[str, str | None] = {**phrase._asdict(), "several": None, "plain": None}
        for name in ("supporting", "opposing", "mixed", "detail", "user_says"):
            places[name] = self._number(getattr(told, name))
        places["detailed"] = self._phrase(told.detailed).adjective if told.detailed >= 0 else None
        places["text"] = self._texts[told.explanation].rstrip(".!").strip()
        places["people"] = settings["people"][people != 1]
        places["everybody"] = settings["people"][1] if told.supporting > FEW else None
        places["items"] = settings["items"][told.user_says != 1]
        places["it"] = settings["it"][phrase.several]
        places["this"], places["here"] = settings["this"], settings["here"]
        many = {"several": phrase.several, "opposing": told.opposing != 1, "detail": told.detail != 1}
        for verb, forms in settings["verbs"].items():
            places[verb] = forms[many.get(AGREES.get(verb, ""), people != 1)]
        return places

    def _number(self, count: int) -> str:
        """Small numbers as words."""
        words = self._templates.settings["numbers"]
        return words[count] if count < len(words) else f"{count:,}".replace(",", self._templates.settings["thousands"])


def _additions(told: Told, phrase: Phrase, case: str) -> list[str]:
    """What there is to add to a sentence, in the order in which it is added."""
    found = ["against"] if told.opposing and told.supporting else []
    if case in ("liked", "disliked") and told.detailed >= 0:
        found.append("detail")
    if told.user_says and case in ("tagged", "said"):
        return [*found, f"{case}_by_you"]
    if told.user_says and case == "unsaid":
        return ["unsaid_but_by_you"]
    if phrase.topic is None or case not in ("praised", "liked", "disliked", "criticized"):
        return found
    if told.familiar == 2:
        return [*found, "often"]
    return ["before"] if told.familiar and case == "praised" and not found else found


def _fits(template: Template, places: Mapping[str, str | None]) -> bool:
    return all(name is None or places[name] is not None for _, name in template)


def _filled(template: Template, places: Mapping[str, str | None]) -> str:
    return "".join(literal + (places[name] or "" if name else "") for literal, name in template)


@cache
def default_templates() -> Templates:
    """The English ones."""
    return Templates.read(None)


def _document(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > LARGEST_BYTES:
            raise DataError(f"is larger than {LARGEST_BYTES:,} bytes", path=path, expected="a file of templates")
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


def _check_names(what: str, given: Mapping[str, Any], usual: Mapping[str, Any], path: str | Path) -> None:
    unknown = [name for name in given if name not in usual]
    if unknown:
        raise DataError(f"no {what} {unknown[0]!r}", path=path, expected=f"some of {', '.join(sorted(usual))}")


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
