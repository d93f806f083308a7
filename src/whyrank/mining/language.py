"""A language: lists of words, senses of opinions, and rules. English ships; a language is a folder, so is a domain."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from whyrank.errors import DataError, MissingExtra, ParameterError
from whyrank.mining.patterns import MentionRule
from whyrank.plugins import installed_names, installed_path

FOLDER = Path(__file__).parent / "languages"
SIGNS = {"+": 1.0, "-": -1.0, "?+": 0.4, "?-": -0.4, "?": 0.0, "0": 0.0}
LEAST_VALENCE = 0.8  # of four, in the lexicon of valences: below it a word does not judge
SHORT = 6  # letters of a word that has a comparative of its own
DOUBLED = re.compile(r"[a-z]?[^aeiou][aeiou][^aeiouwxy]")  # big, bigger
PRAISE = ("joy", "pleased", "shines", "love", "advise", "enough", "plenty", "worth")  # lists whose words praise
BLAME = ("pity", "displeased", "fails", "hate", "missing")
TABLES = ("alike", "aspects", "implied", "plurals", "opposites", "phrases", "verbs")  # lists of `name: words`


@dataclass(frozen=True)
class Language:
    """What mining knows of a language before it has read a review."""

    name: str
    lists: dict[str, frozenset[str]]
    tables: dict[str, dict[str, str]]  # word: the name that it stands under
    senses: dict[str, str]  # word: sense
    polarity: dict[str, float]  # sense: its sign, smaller where aspects and domains decide
    valence: dict[str, float]  # of words without a sense
    rules: tuple[MentionRule, ...]
    examples: tuple[dict[str, Any], ...] = field(default=(), repr=False)  # of the rules, as they are written

    def has(self, name: str) -> frozenset[str]:
        """Return the words of a list; there may be none."""
        return self.lists.get(name, frozenset())

    @property
    def vulgar(self) -> str:
        """Return a pattern of the words that are not shown; empty: there are none."""
        words = "|".join(map(re.escape, sorted(self.has("moderation"))))
        return rf"(?i)\b(?:{words})\b" if words else ""

    def sign(self, word: str) -> float:
        """Tell how much a word praises (1) or blames (-1) by itself."""
        sense = self.senses.get(word)
        if sense is not None:
            return self.polarity[sense]
        for sign, names in ((1.0, PRAISE), (-1.0, BLAME)):
            if any(word in self.has(name) for name in names):
                return sign
        value = self.valence.get(word, 0.0)
        return value / 4 if abs(value) >= LEAST_VALENCE else 0.0


@cache
def language_of(name: str, *extra: Path) -> Language:
    """Read a language, with further folders of words and rules laid over it.

    Args:
        name: A language that ships, or one of an installed package, or a folder; without rules it lies over English.
        extra: Folders of the same form: their lists and senses add words, their rules come behind.

    Raises:
        ParameterError: There is no such language.
        DataError: A file of it cannot be read.
    """
    folder = FOLDER / name if name.isalpha() and (FOLDER / name).is_dir() else installed_path("languages", name)
    folder = folder or Path(name)
    if not folder.is_dir():
        shipped = sorted(each.name for each in FOLDER.iterdir() if each.is_dir())
        known = ", ".join([*shipped, *installed_names("languages")])
        raise ParameterError(f"there is no language {name!r}; there are {known}, and folders")
    if not (folder / "rules.toml").is_file():  # a domain: it lies over English
        folder, extra = FOLDER / "en", (folder, *extra)
    lists: dict[str, frozenset[str]] = {}
    tables: dict[str, dict[str, str]] = {each: {} for each in TABLES}
    senses: dict[str, str] = {}
    polarity: dict[str, float] = {}
    rules: list[dict[str, Any]] = []
    for place in (folder, *extra):
        if not place.is_dir():
            raise ParameterError(f"{place} is no folder of words")
        for file in sorted([*place.glob("*.txt"), *place.glob("words/*.txt")]):
            lines = _lines(file)
            if file.stem == "senses":
                _read_senses(file, lines, senses, polarity)
            elif file.stem in TABLES:
                tables[file.stem] |= _table(file, lines)
            else:
                lists[file.stem] = lists.get(file.stem, frozenset()) | {word for line in lines for word in line.split()}
        if (place / "rules.toml").is_file():
            rules += _rules(place / "rules.toml")
    plain = lists.get("degree", frozenset()) | lists.get("negation", frozenset())
    for word, sense in list(senses.items()):
        for form in _forms(word):
            if form not in plain:
                senses.setdefault(form, sense)
    opposites = tables["opposites"]
    for word, name in list(opposites.items()):
        opposites.setdefault(name, word)
    made = tuple(_rule(each, folder / "rules.toml") for each in rules)
    return Language(name, lists, tables, senses, polarity, _valences(), made, tuple(rules))


def _lines(file: Path) -> list[str]:
    """Read the lines of a list but its remarks."""
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DataError("not UTF-8", path=file, expected="a list of words in UTF-8") from error
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]


def _table(file: Path, lines: Iterable[str]) -> dict[str, str]:
    """Read lines `name: word word`."""
    found: dict[str, str] = {}
    for line in lines:
        name, colon, words = line.partition(":")
        if not colon:
            raise DataError(f"{line!r} has no colon", path=file, expected="lines such as `staff: crew personnel`")
        found |= {word: name.strip() for word in words.split()}
    return found


def _read_senses(file: Path, lines: Iterable[str], senses: dict[str, str], polarity: dict[str, float]) -> None:
    """Read lines `sense sign: word word`; the first sense of a word is its own."""
    for line in lines:
        head, colon, words = line.partition(":")
        name, _, sign = head.strip().partition(" ")
        if not colon or sign not in SIGNS:
            expected = f"lines such as `soft ?+: fluffy silky`, signs are {' '.join(SIGNS)}"
            raise DataError(f"{line!r} is no sense", path=file, expected=expected)
        polarity[name] = SIGNS[sign]
        for word in [name, *words.split()]:
            senses.setdefault(word, name)


def _forms(word: str) -> list[str]:
    """Return comparative, superlative and adverb of an adjective.

    >>> _forms("easy"), _forms("big"), _forms("comfortable")
    (['easier', 'easiest', 'easily'], ['bigger', 'biggest', 'bigly'], ['comfortably'])
    """
    if not word.isalpha() or word.endswith(("ed", "ing", "ly")):
        return []
    stem = word[:-1] + "i" if word.endswith("y") else word
    short = len(word) <= SHORT
    if DOUBLED.fullmatch(word):
        grown = word + word[-1]
    else:
        grown = stem.removesuffix("e")
    adverb = word[:-1] + "y" if word.endswith("le") else stem + ("ally" if word.endswith("ic") else "ly")
    return [*(grown + end for end in ("er", "est") if short), adverb]


def _rules(file: Path) -> list[dict[str, Any]]:
    try:
        rules: list[dict[str, Any]] = tomllib.loads(file.read_text(encoding="utf-8"))["rule"]
    except (tomllib.TOMLDecodeError, KeyError) as error:
        raise DataError(f"not readable: {error}", path=file, expected="rules in TOML, each [[rule]]") from error
    return rules


def _rule(row: dict[str, Any], file: Path) -> MentionRule:
    """Make a rule of what a file says."""
    try:
        return MentionRule(
            id=row["id"],
            kind=row["kind"],
            lines=tuple(row["match"]),
            label=row.get("label", ""),
            aspect=row["aspect"],
            property=row["property"],
            verb=row.get("verb", row.get("by", "")),
            sign=row.get("sign", 0),
        )
    except KeyError as error:
        raise DataError(f"rule {row.get('id', '?')} lacks {error}", path=file) from error


@cache
def _valences() -> dict[str, float]:
    """Read the valences of words, from -4 to 4, that people gave for VADER."""
    found = find_spec("vaderSentiment")
    if found is None or not found.submodule_search_locations:
        raise MissingExtra("mine", "mining")
    text = (Path(found.submodule_search_locations[0]) / "vader_lexicon.txt").read_text(encoding="utf-8")
    rows = (line.split("\t") for line in text.splitlines() if "\t" in line)
    return {row[0]: float(row[1]) for row in rows if row[0].isalpha()}
