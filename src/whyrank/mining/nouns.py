"""What a language knows beyond single sentences: singulars, words for the same aspect, opposites, what is not shown."""

from __future__ import annotations

import re
from pathlib import Path

from whyrank.errors import ParameterError
from whyrank.mining import _wordclasses as k
from whyrank.mining.language import FOLDER, English, comparative_stems, read_lists
from whyrank.plugins import installed_as, installed_names

PLURALS = ("NPCS", "PCS", "TVS")
DRAWN_OUT = re.compile(r"(.)\1\1")
# Words that turn the meaning of a sentence.
NEGATIONS = frozenset({"no", "not", "never", "without", "nothing", "hardly", "barely"})
NEGATIONS |= {"lack", "lacked", "lacks", "lacking"}


class StatementEnglish(English):
    """English with the lists that statements need: languages/en, one file each, with its purpose in its first line."""

    def __init__(self, folder: Path = FOLDER / "en") -> None:
        super().__init__(folder)
        pairs = {name: words[0] for name, words in read_lists(folder / "opposites.txt")}
        self.opposites = {other: name for name, other in reversed(pairs.items())} | pairs
        self.twins = {word: name for name, words in read_lists(folder / "twins.txt") for word in words}
        self.same_aspect = {word: name for name, words in read_lists(folder / "aspects.txt") for word in words}
        self.implied = {word: name for name, words in read_lists(folder / "implied.txt") for word in words}
        self.rewritten = {
            word: name.replace("_", " ") for name, words in read_lists(folder / "wordings.txt") for word in words
        }
        self.plurals = {words[0]: name for name, words in read_lists(folder / "plurals.txt")}
        self.acronyms = read_words(folder / "acronyms.txt")
        self.vulgar = read_words(folder / "moderation.txt")
        self.unspecific = read_words(folder / "unspecific.txt")
        self.wholes = read_words(folder / "wholes.txt")
        self.measures = read_words(folder / "measures.txt")
        self.light_verbs = read_words(folder / "light_verbs.txt")
        self.empty = read_words(folder / "empty.txt")
        self.turns = read_words(folder / "turns.txt")
        self.common = tuple(sorted(read_words(folder / "common.txt")))

    def lemma(self, noun: str) -> str:
        """A noun in the singular, by its usual name: rooms -> room, ambience -> atmosphere."""
        if noun in self.same_aspect:
            return self.same_aspect[noun]
        single = self.plurals.get(noun) or self.singular(noun)
        return self.same_aspect.get(single, single)

    def parts(self, word: str) -> list[str]:
        """The words of a compound that people write apart: hard-drive -> hard, drive; check-in stays."""
        split = word in self.compounds and self.tags.get(word.split("-")[-1], "")[:2] == "NN"
        return word.split("-") if split else [word]

    def singular(self, noun: str) -> str:
        """The singular by the usual endings; a candidate that the lexicon knows as a noun is preferred."""
        if len(noun) < 4 or not noun.endswith("s") or noun.endswith(("ss", "us", "is")):
            return noun
        candidates = [noun[:-1]]
        if noun.endswith("ies") and len(noun) > 4:
            candidates = [noun[:-3] + "y", noun[:-1]]
        elif noun.endswith(("ches", "shes", "sses", "xes", "zes", "oes")):
            candidates = [noun[:-2], noun[:-1]]
        return next((each for each in candidates if self.tags.get(each, "").startswith("NN")), candidates[0])

    def stands_alone(self, noun: str) -> bool:
        """Whether a noun says nothing by itself: thing, size, time."""
        return noun in self.unspecific or bool(self.word(noun).bits & (k.VAGUE | k.TIME))

    def is_noun(self, word: str) -> bool:
        """Whether a word is a noun by the lexicon, or unknown to it, and names no verdict (shame, problem)."""
        known = self.tags.get(word)
        drawn_out = known is None and DRAWN_OUT.search(word) is not None  # soooo
        noun = (known or "NN")[:2] in ("NN", "VB") and word not in self.light_verbs
        return noun and not drawn_out and not self.word(word).bits & (k.VERDICT | k.TROUBLE)

    def is_plain(self, word: str) -> bool:
        """Whether the lexicon knows a word in lower case: then capitals do not make it a name."""
        return self.tags.get(word, "NNP")[:3] != "NNP"

    def verb_stem(self, verb: str) -> str:
        """A verb as it stands behind `to`: works -> work, cooked -> cook."""
        endings = (
            ("ies", "y"),
            ("ied", "y"),
            ("ing", ""),
            ("ing", "e"),
            ("ed", ""),
            ("ed", "e"),
            ("es", ""),
            ("s", ""),
        )
        for ending, instead in endings:
            if verb.endswith(ending) and len(verb) > len(ending) + 2:
                stem = verb[: -len(ending)] + instead
                if self.tags.get(stem, "").startswith(("VB", "NN")):
                    return stem
        return verb

    def describes(self, word: str) -> bool:
        """Whether a word can stand alone as what an item is: addictive, relaxing; not: plenty, loads."""
        known = word in self.senses or self.tags.get(word, "JJ")[:2] in ("JJ", "VB")
        return known and not self.word(word).bits & k.AMOUNT

    def role_sign(self, word: str) -> int | None:
        """Praise or blame by a verb, a noun or a feeling (love, joke, disappointed): 1 or -1, None for other words."""
        return self.signs.get(word)

    def adjective(self, word: str) -> str | None:
        """An opinion word as it is written before a noun: perfectly -> perfect, larger -> large; None: it is not."""
        if word in self.rewritten:
            return self.rewritten[word]
        stems: tuple[str, ...] = ()
        if word.endswith("ly") and self.tags.get(word, "RB") == "RB":
            stems = (word[:-2], word[:-2] + "e", word[:-3] + "y", word[:-1] + "e", word[:-4])
            return next((stem for stem in stems if stem in self.senses), None)
        if word.endswith(("er", "est")) and self.tags.get(word) in (None, "JJR", "JJS"):
            stems = comparative_stems(word)
        return next((stem for stem in stems if stem in self.senses), word)

    def spelled(self, text: str) -> str:
        """A statement with its acronyms in capitals: great ai -> great AI, small tvs -> small TVs."""
        words = (word if word not in self.acronyms else word.upper() for word in text.split(" "))
        return " ".join(word[:-1] + "s" if word in PLURALS else word for word in words)

    def lexicon_sign(self, word: str) -> int:
        """The sign that general lexicons give a word, 0 where they have none."""
        sign = self.valence(word)
        return sign if sign in (-1, 1) and (word in self.vader or word in self.pattern) else 0

    def spoils_praise(self, word: str) -> bool:
        """Whether a sentence with this word says more than praise: but, never, wasn't, disappointed."""
        if word in self.turns or word in NEGATIONS or word.endswith("n't"):
            return True
        return self.lexicon_sign(word) < 0


def language_of(name: str) -> StatementEnglish:
    """A language by its name: English, or one that an installed package adds.

    Raises:
        ParameterError: There is none of this name, or it cannot be used.

    Examples:
        >>> language_of("en").lemma("rooms")
        'room'
    """
    if name == "en":
        return StatementEnglish()
    added = installed_as("languages", name)
    if added is None:
        raise ParameterError(f"language is {name!r}; use one of {', '.join(['en', *installed_names('languages')])}")
    try:
        language = added()
    except Exception as error:  # of another package
        raise ParameterError(f"language {name!r} of an installed package cannot be used: {error}") from error
    if not isinstance(language, StatementEnglish):
        raise ParameterError(f"language {name!r} of an installed package is no StatementEnglish")
    return language


def read_words(file: Path) -> frozenset[str]:
    """The words of a plain list."""
    lines = file.read_text(encoding="utf-8").splitlines()
    return frozenset(word for line in lines if not line.startswith("#") for word in line.split())
