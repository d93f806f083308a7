"""A sentence for every reason, from templates: true, short, and chosen by what is known."""

from __future__ import annotations

import json
import re
import string
from collections.abc import Iterable, Mapping
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
AT_LEAST = 3  # people from whom on "at least" is said
OFTEN, OFTEN_SHARE = 3, 0.3  # items, and share of the user's, from which on a user mentions an aspect often
OF_SHARE = 0.2  # of those who reviewed an item, from which on their number is told
NEW_WORDS = 2  # of a quote beyond those of its sentence
LONGEST_QUOTE = 100  # characters that stand within a sentence
CACHED = 200_000  # sentences, and as many phrases, of a catalog
RECENT = 20_000  # sentences with their quotes
LARGEST_BYTES = 1 << 20  # of a file of templates
WORD = re.compile(r"\w+")
QUOTE = "\0"  # where a quote will stand
VARIANTS = 12  # any number of templates up to four takes turns with it
PLACES = frozenset(
    "who at_least one many supporting people opposing mixed detail detailed user_says items topic "  # noqa: SIM905
    "noun phrase adjective found subject statement text this here it sentence quote reviewers".split()
)
AGREES = {"is": "several", "disagree": "opposing", "call": "detail"}  # other verbs agree with who says it
SIGNS = {1: "", -1: "-", 0: "0"}  # a kind's sentences of praise, blame, or neither; without those, of praise
Piece = tuple[str, str | None]  # literal text, then the name of a place
Template = tuple[Piece, ...]


class Told(NamedTuple):
    """Everything that a sentence depends on but a quote; counts have their names in the evidence."""

    explanation: int
    variant: int  # which of the templates that fit
    supporting: int
    opposing: int = 0
    mixed: int = 0
    detail: int = 0
    user_says: int = 0
    familiar: int = 0  # 1: the user has mentioned the aspect before; 2: and does so often
    detailed: int = -1  # what else people say about the aspect of plain praise or blame; -1: not to be told
    reviewers: int = 0  # how many people reviewed the item; 0: unknown


@dataclass(frozen=True, eq=False)
class Templates:
    """A set of templates with its words; `Templates.read` takes one from a file of the same form as the English one.

    Examples:
        >>> Templates.read(None).settings["people"]
        ['person', 'people']
    """

    settings: Mapping[str, Any]
    templates: Mapping[str, tuple[Template, ...]]  # by kind, with its sign where praise and blame differ
    words: Words
    quotes: bool = True  # whether quotes stand within sentences
    _writers: WeakKeyDictionary[Catalog, SentenceWriter] = field(default_factory=WeakKeyDictionary)

    @classmethod
    def read(cls, path: str | Path | None, *, quotes: bool = True) -> Templates:
        """Read templates of a file, or of an installed package by the name of its entry point; None: English.

        What an English file leaves out is as usual, so that `{"people": ["guest", "guests"]}` is enough for another
        noun; a file of another `language` must have all sentences. Without `quotes` nothing that people wrote stands
        in a sentence.
        """
        usual = _document(DEFAULT)
        if path is None:
            return cls.of(usual, DEFAULT, quotes=quotes)
        if not Path(path).is_file():
            path = installed_path("templates", str(path)) or path
        path = Path(path)
        given = _document(path)
        _check_form(given, usual, path)
        missing = [case for name in ("sentences", "pieces") for case in usual[name] if case not in given.get(name, {})]
        if given.get("language", "en") != "en" and missing:
            raise DataError(f"{missing[0]!r} is missing", path=path, expected="all sentences of another language")
        changed = {name: value | given.get(name, {}) for name, value in usual.items() if isinstance(value, dict)}
        return cls.of(usual | given | changed, path, quotes=quotes)

    @classmethod
    def of(cls, document: Mapping[str, Any], path: Path = DEFAULT, *, quotes: bool = True) -> Templates:
        """Make templates of what was read from a file."""
        places = PLACES | set(document["verbs"])
        groups = document["sentences"] | {name: [text] for name, text in document["pieces"].items()}
        templates = {case: tuple(_parsed(each, places, path) for each in texts) for case, texts in groups.items()}
        lists = {name: document[name] for name in Words._fields}
        sets: dict[str, Any] = {n: frozenset(each) if isinstance(each, list) else each for n, each in lists.items()}
        words = Words(**sets)
        return cls(document, templates, words, quotes)

    def __reduce__(self) -> tuple[Any, ...]:
        """For copies in other processes: without what is written again when it is needed."""
        return Templates, (dict(self.settings), dict(self.templates), self.words, self.quotes)

    def writer(self, catalog: Catalog) -> SentenceWriter:
        """Return what writes the sentences of a catalog, and remembers them."""
        known = self._writers.get(catalog)
        return known if known is not None else self._writers.setdefault(catalog, SentenceWriter(self, catalog))


class SentenceWriter:
    """Writes sentences about the explanations of a catalog; those that depend on the same counts are written once."""

    def __init__(self, templates: Templates, catalog: Catalog) -> None:
        self._templates, self._settings = templates, templates.settings
        # Not the catalog itself, which would never be forgotten: it is the key of the writers.
        self._texts, self._aspects, self._aspect = catalog.texts_listed, catalog.aspects_listed, catalog.aspect
        self._senses, self._signs, self._tags = catalog.senses, catalog.signs, catalog.are_tags
        self._phrases: dict[int, Phrase] = {}
        self._sentences: dict[tuple[int, ...], tuple[str, str]] = {}
        self._with_quotes: dict[tuple[tuple[int, ...], str | None], str] = {}

    def sentences(self, told: Iterable[tuple[int, ...]], quotes: Iterable[str | None]) -> list[str]:
        """Write sentences.

        Args:
            told: A row for each, which has the fields of `Told`.
            quotes: What somebody wrote who is counted, for each; None: there is nothing to quote.
        """
        known = self._with_quotes
        if len(known) > RECENT:
            known.clear()
        return [
            known.get(each) or known.setdefault(each, self.sentence(*each)) for each in zip(told, quotes, strict=True)
        ]

    def sentence(self, row: tuple[int, ...], quote: str | None = None) -> str:
        """Write what people say and how many, what somebody wrote, and what there is to add."""
        quoted = quote is not None and self._templates.quotes and len(quote) <= LONGEST_QUOTE
        known, key = self._sentences, (*row, int(quoted))
        if key not in known:
            if len(known) > CACHED:
                known.clear()
            known[key] = self._written(Told(*row), quoted=quoted)
        text, rest = known[key]
        if QUOTE in text:
            if len(self._content(quote or "") - self._content(text)) < NEW_WORDS:  # it says no more than the sentence
                return self.sentence(row)
            text = text.replace(QUOTE, quote or "")
        return _finished(text) + rest

    def _written(self, told: Told, *, quoted: bool) -> tuple[str, str]:
        """Write the sentence about the counts, without its mark, and the sentences to add to it."""
        phrase = self._phrase(told.explanation)
        case = self._case(told, phrase)
        places = self._places(told, phrase)
        text = self._filled(case, told.variant, places)
        quotable = told.supporting > 0 and phrase.kind not in ("words", "said")
        if quoted and quotable:
            text = self._filled("quoted", 0, places | {"sentence": text, "quote": QUOTE})
        added = [self._filled(name, 0, places) for name in _additions(told, phrase, case, QUOTE not in text)]
        return text, "".join(f" {_finished(each)}" for each in added if each)

    def _filled(self, case: str, variant: int, places: Mapping[str, str | None]) -> str:
        """Fill one of the templates that have something for each of their places; without any, the text is quoted."""
        fitting = [
            each
            for each in self._templates.templates[case]
            if all(name is None or places[name] is not None for _, name in each)
        ]
        if not fitting:
            return "" if case in self._settings["pieces"] else self._filled("said", 0, places)
        return "".join(
            literal + (places[name] or "" if name else "") for literal, name in fitting[variant % len(fitting)]
        )

    def _case(self, told: Told, phrase: Phrase) -> str:
        """Which sentences are true of these counts."""
        if not told.supporting:
            return "divided" if told.mixed else "unsaid"
        if phrase.kind == "said":
            return "tagged" if self._tags else "said"
        case = phrase.kind + SIGNS[int(self._signs[told.explanation])]
        return case if case in self._templates.templates else phrase.kind

    def _phrase(self, explanation: int) -> Phrase:
        known = self._phrases.get(explanation)
        if known is None:
            aspect, text = self._aspects[int(self._aspect[explanation])], self._texts[explanation]
            sense = None if self._senses is None else self._senses[explanation]
            if len(self._phrases) > CACHED:
                self._phrases.clear()
            known = self._phrases[explanation] = phrase_of(text, aspect, sense, self._templates.words)
        return known

    def _places(self, told: Told, phrase: Phrase) -> dict[str, str | None]:
        """The texts for the places of a template; None: there is none for this reason."""
        settings, people = self._settings, told.supporting or told.mixed
        places: dict[str, str | None] = dict.fromkeys(PLACES) | phrase._asdict()
        for name in ("supporting", "opposing", "mixed", "detail", "user_says"):
            places[name] = self._number(getattr(told, name))
        if told.detailed >= 0:
            places["detailed"] = self._phrase(told.detailed).adjective
        text = self._texts[told.explanation]
        places["text"] = text.rstrip(".!").strip() or text
        places["people"] = settings["people"][people != 1]
        places["items"] = settings["items"][told.user_says != 1]
        places["it"] = settings["it"][phrase.several or phrase.person]
        places["this"], places["here"] = settings["this"], settings["here"]
        many = {"several": phrase.several, "opposing": told.opposing != 1, "detail": told.detail != 1}
        for verb, forms in settings["verbs"].items():
            places[verb] = forms[many.get(AGREES.get(verb, ""), people != 1)]
        return places | self._people(told, places)

    def _people(self, told: Told, places: dict[str, str | None]) -> dict[str, str | None]:
        """Who says it: seven people, 7 of 13 people; at least seven people."""
        told_of = 0 < told.supporting <= told.reviewers <= told.supporting / OF_SHARE and told.reviewers > 1
        if told_of:
            digits = max(told.supporting, told.reviewers) >= len(self._settings["numbers"])
            of = [self._number(count, digits=digits) for count in (told.supporting, told.reviewers)]
            places |= {"supporting": of[0], "reviewers": of[1], "people": self._settings["people"][1]}
        who = self._filled("who_of" if told_of else "who", 0, places)
        at_least = self._filled("at_least", 0, places | {"who": who}) if told.supporting >= AT_LEAST else None
        one, many = (who, None) if told.supporting == 1 else (None, who)
        return {"who": who, "at_least": at_least, "one": one, "many": many}

    def _content(self, text: str) -> set[str]:
        """The words that say something, whatever their number."""
        return {word.rstrip("s") for word in WORD.findall(text.lower()) if word not in self._templates.words.empty}

    def _number(self, count: int, *, digits: bool = False) -> str:
        """Small numbers as words."""
        words = self._settings["numbers"]
        if count < len(words) and not digits:
            return str(words[count])
        return f"{count:,}".replace(",", self._settings["thousands"])


def _additions(told: Told, phrase: Phrase, case: str, unquoted: bool) -> list[str]:
    """What there is to add to a sentence, each a sentence of its own."""
    found = ["against"] if told.opposing and told.supporting else []
    if phrase.kind == "whole" and told.detailed >= 0 and unquoted:
        found.append("detail")
    if told.user_says and case in ("tagged", "said"):
        return [*found, f"{case}_by_you"]
    if told.user_says and case == "unsaid":
        return ["unsaid_by_you"]
    if not told.supporting or phrase.topic is None:
        return found
    if told.familiar == 2:
        return [*found, "often"]
    return ["before"] if told.familiar and case in ("opinion", "whole") and not found else found


def _finished(text: str) -> str:
    """A sentence with its capital and its mark."""
    ends = text.rstrip("”’\"'»)").endswith((".", "!", "?", "…"))
    return text[:1].upper() + text[1:] + ("" if ends else ".")


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


def _check_form(given: object, usual: Mapping[str, Any], path: Path, what: str = "settings") -> None:
    """Raise unless what was given has names and values of the same form as usual; verbs and plurals may be added."""
    if not isinstance(given, dict):
        raise DataError(f"{what}: not an object", path=path, expected="names and values")
    for name, value in given.items():
        if name not in usual and what not in ("verbs", "irregular"):
            raise DataError(f"no {name!r} in {what}", path=path, expected=f"some of {', '.join(sorted(usual))}")
        like = usual.get(name, next(iter(usual.values())))
        if isinstance(like, dict):
            _check_form(value, like, path, name)
        elif isinstance(like, str) and not isinstance(value, str):
            raise DataError(f"{name} is not a text", path=path)
        elif isinstance(like, list) and not (isinstance(value, list) and all(isinstance(each, str) for each in value)):
            raise DataError(f"{name} is not a list of texts", path=path)
        elif what == "sentences" and not value:
            raise DataError(f"{name} is empty", path=path, expected="at least one template")
        elif what != "sentences" and isinstance(like, list) and len(like) == 2 != len(value):
            raise DataError(f"{name} is not a pair", path=path, expected='one and many, such as ["guest", "guests"]')


def _parsed(template: str, places: frozenset[str] | set[str], path: Path) -> Template:
    """A template cut at its places."""
    try:
        parsed = list(string.Formatter().parse(template))
    except ValueError as error:
        raise DataError(f"not a template: {template!r} ({error})", path=path) from error
    for _, name, form, conversion in parsed:
        if name is not None and (name not in places or form or conversion):
            raise DataError(
                f"no placeholder {{{name}}} in {template!r}", path=path, expected=f"some of {', '.join(sorted(places))}"
            )
    return tuple((literal, name) for literal, name, _, _ in parsed)
