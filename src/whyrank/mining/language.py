"""A language: which classes and senses its words have. English ships; a language is a folder of word lists."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyrank.kernels import opinions as k

FOLDER = Path(__file__).parent / "languages"
ROLES = {  # classes of words.txt that are one bit each
    "DET": k.DET,
    "POSS": k.POSS,
    "PRON": k.PRON,
    "FIRST": k.FIRST,
    "COP": k.COP,
    "AUX": k.AUX,
    "HYP": k.HYP,
    "NEG": k.NEG,
    "AND": k.AND,
    "BUT": k.BUT,
    "REL": k.REL,
    "TO": k.TO,
    "PREP": k.PREP,
    "INT": k.INT,
    "VERB": k.VERB,
    "LOVE": k.LOVE | k.VERB,
    "LIKE": k.LIKE,
    "MISS": k.MISS | k.VERB,
    "AFFECT": k.AFFECT | k.ADJ,
    "TROUBLE": k.TROUBLE | k.NOUN,
    "NOUN": k.VERDICT | k.NOUN,
    "DO": k.DOES | k.VERB,
    "FIND": k.FIND | k.VERB,
    "LIGHT": k.LIGHT | k.NOUN,
    "NUM": k.DET,
    "TIME": k.TIME | k.NOUN,
    "VAGUE": k.VAGUE,
    "CONTAINER": k.CONTAINER | k.NOUN,
    "TRY": k.TRY | k.VERB,
    "WORKS": k.WORKS | k.VERB,
    "STOPS": k.STOPS | k.VERB,
    "PLAIN": k.NEUTRAL,
    "ROLE": k.ROLE | k.NOUN,
    "IMPLIES": k.IMPLIES | k.PARTICIPLE,
    "COULD": k.COULD,
    "WISH": k.WISH | k.HYP,
    "COST": 0,
    "EMPTY": 0,
    "ACTS": k.ACTS | k.VERB,
}
PENN = {
    "NN": k.NOUN,
    "JJ": k.ADJ,
    "RB": k.ADV,
    "VB": k.VERB,
    "MD": k.AUX,
    "IN": k.PREP,
    "DT": k.DET,
    "CD": k.DET,
    "WR": k.PREP,
    "WP": k.PREP,
    "WD": k.PREP,
    "UH": k.GLUE,
    "PR": k.PRON,
    "PD": k.DET,
    "EX": k.PRON,
}
ENDINGS = (  # of words that no list has
    ("ly", k.ADV),
    ("ful", k.ADJ),
    ("ous", k.ADJ),
    ("ive", k.ADJ),
    ("able", k.ADJ),
    ("ible", k.ADJ),
    ("less", k.ADJ),
    ("ish", k.ADJ),
    ("esque", k.ADJ),
    ("ing", k.GERUND | k.VERB),
    ("ed", k.PARTICIPLE | k.VERB),
)


class Word(NamedTuple):
    """What is known of a word."""

    bits: int
    polarity: int  # -1, 1, 2: a sense without a polarity of its own, 0: no sense
    sense: str | None


class English:
    def __init__(self, folder: Path = FOLDER / "en") -> None:
        self.roles: dict[str, int] = {}
        self.signs: dict[str, int] = {}
        self.senses: dict[str, tuple[str, int]] = {}
        self.guess: dict[str, int] = {}
        for name, words in read_lists(folder / "words.txt"):
            role, sign = name.rstrip("+-"), {"+": 1, "-": -1}.get(name[-1], 0)
            for word in words:
                self.roles[word] = self.roles.get(word, 0) | ROLES[role]
                if sign:
                    self.signs[word] = sign
        self.sense_polarity: dict[str, str] = {}
        for head, words in read_lists(folder / "senses.txt"):
            name, polarity = head.split()
            self.sense_polarity[name] = polarity
            for word in words:
                self.senses.setdefault(word, (name, {"+": 1, "-": -1}.get(polarity, 2)))
                self.guess.setdefault(word, {"?+": 1, "?-": -1, "?": 0, "+": 1, "-": -1}[polarity])
        self.neutral = read_words(folder / "neutral.txt")
        lists = dict(read_lists(folder / "words.txt"))
        self.empty = frozenset(lists["EMPTY"])
        self.opposites = {name: words[0] for name, words in read_lists(folder / "opposites.txt")}
        self.opposites |= {
            words[0]: name for name, words in read_lists(folder / "opposites.txt") if words[0] not in self.opposites
        }
        self.same_aspect = {word: name for name, words in read_lists(folder / "aspects.txt") for word in words}
        self.vulgar = read_words(folder / "moderation.txt")
        self.unspecific = read_words(folder / "unspecific.txt")
        self.light_verbs = read_words(folder / "light_verbs.txt")
        self.measures = read_words(folder / "measures.txt")
        self.implied = {word: name for name, words in read_lists(folder / "implied.txt") for word in words}
        self.cost = frozenset(next(words for name, words in read_lists(folder / "words.txt") if name == "COST"))
        self.phrases = {
            tuple(word.split("-")): word
            for word in self.senses
            if "-" in word
            and not word.endswith(("-priced", "-located", "-situated"))
            and "-to-" not in word.replace("-to-date", "").replace("second-to-none", "").replace("to-die-for", "")
        }
        self.common = tuple(
            "the and of to with for it that this but were are have very not you they at from which there would on was".split()
        )
        self.tags = penn_tags()
        self.vader, self.pattern = valences()

    @cache
    def word(self, text: str) -> Word:
        """The classes and the sense of a word in lower case."""
        bits = self.roles.get(text, 0)
        closed = bits & (k.DET | k.POSS | k.PRON | k.AUX | k.NEG | k.AND | k.BUT | k.TO | k.PREP | k.REL)
        sense, polarity = self.senses.get(text, (None, 0))
        if not text[0].isalnum() and not bits:
            return Word(punctuation(text), 0, None)
        if text in self.signs:
            polarity = self.signs[text]
        if sense is None and text.endswith("ly"):
            sense, polarity = self.adverb(text)
        if text == "of":
            bits |= k.OF
        if text == "no":
            bits |= k.NO
        if text == "too":
            bits |= k.TOO
        if text == "than":
            bits |= k.THAN
        if text == "enough":
            bits |= k.ENOUGH
        if text == "'s":
            bits |= k.APOSTROPHE_S
        if bits & k.COP and text not in BE:
            bits |= k.LINKING | k.VERB
        if not closed:
            bits |= self.open_classes(text)
        if sense is not None:
            bits |= (
                k.ADJ
                if not text.endswith("ly")
                or text
                in (
                    "friendly",
                    "lovely",
                    "ugly",
                    "lively",
                    "costly",
                    "deadly",
                    "smelly",
                    "homely",
                    "cuddly",
                    "chilly",
                    "silly",
                    "wobbly",
                )
                else k.ADV
            )
            if sense in ("easy", "difficult", "fast", "light", "heavy"):
                bits |= k.EASY
        elif polarity == 0 and not closed and bits & (k.ADJ | k.PARTICIPLE | k.GERUND | k.ADV) and not bits & k.INT:
            if text not in self.neutral and not bits & k.VERB or bits & k.PARTICIPLE and text not in self.neutral:
                polarity = self.valence(text)
        if text in self.neutral:
            bits |= k.NEUTRAL
        if text.endswith(("er", "est")) and bits & k.ADJ or text in ("better", "worse", "more", "less"):
            bits |= k.COMPARATIVE
        return Word(bits, polarity, sense)

    def adverb(self, text: str) -> tuple[str | None, int]:
        """The sense of an adverb: that of its adjective."""
        for stem in (text[:-2], text[:-2] + "e", text[:-3] + "y", text[:-1] + "e", text[:-4]):
            if stem in self.senses:
                return self.senses[stem]
        return None, 0

    def open_classes(self, text: str) -> int:
        tag = self.tags.get(text)
        if tag is None and "-" in text:
            parts = text.split("-")
            last = self.open_classes(parts[-1]) if parts[-1] else k.NOUN
            if parts[0] in ("well", "poorly", "badly", "nicely", "over", "under", "un", "non", "super", "ultra"):
                return k.ADJ
            return k.ADJ if last & (k.PARTICIPLE | k.GERUND) else last
        bits = 0
        if tag is None:
            bits = next(
                (classes for ending, classes in ENDINGS if text.endswith(ending) and len(text) > len(ending) + 2),
                k.NOUN,
            )
            if text[0].isdigit():
                bits = k.DET
        else:
            bits = PENN.get(tag[:2], k.NOUN if tag.startswith("NN") else 0) or k.NOUN
            if tag == "VBN" or tag == "VBD":
                bits |= k.PARTICIPLE
            if tag == "VBG":
                bits |= k.GERUND
        if bits & k.NOUN and self.verbal(text):
            bits |= k.VERB
        return bits

    def verbal(self, text: str) -> bool:
        stem = text[:-1] if text.endswith("s") and not text.endswith("ss") else text
        stem = stem[:-1] if stem.endswith("e") else stem
        return any(self.tags.get(stem + ending, "").startswith("VB") for ending in ("ed", "ing"))

    def stands_alone(self, noun: str) -> bool:
        """Whether a noun says nothing by itself: thing, size, time."""
        return noun in self.unspecific or bool(self.word(noun).bits & (k.VAGUE | k.TIME))

    def lexicon_sign(self, word: str) -> int:
        """The sign that general lexicons give a word, 0 where they have none."""
        sign = self.valence(word)
        return sign if sign in (-1, 1) and (word in self.vader or word in self.pattern) else 0

    def is_noun(self, word: str) -> bool:
        """Whether a word is a noun by the lexicon, or unknown to it, and names no verdict (shame, problem)."""
        tag = self.tags.get(word, "NN")
        return tag[:2] == "NN" and not self.word(word).bits & (k.VERDICT | k.TROUBLE)

    def verb_stem(self, verb: str) -> str:
        """A verb as it stands behind `to`: works -> work, cooked -> cook."""
        for ending, cut in (
            ("ies", "y"),
            ("ied", "y"),
            ("ing", ""),
            ("ing", "e"),
            ("ed", ""),
            ("ed", "e"),
            ("es", ""),
            ("s", ""),
        ):
            if verb.endswith(ending) and len(verb) > len(ending) + 2:
                stem = verb[: -len(ending)] + cut
                if self.tags.get(stem, "").startswith(("VB", "NN")):
                    return stem
        return verb

    def is_plain(self, noun: str) -> bool:
        """Whether the lexicon knows a word in lower case: then capitals do not make it a name."""
        return self.tags.get(noun, "NNP")[:3] != "NNP"

    def role_sense(self, word: str) -> int | None:
        """Praise or blame by a verb, a noun or a feeling (love, joke, disappointed): 1 or -1, None for other words."""
        return self.signs.get(word)

    def adjective(self, word: str) -> str:
        """An opinion word as it is written before a noun: perfectly -> perfect."""
        if word.endswith("ly") and word not in self.senses:
            for stem in (word[:-2], word[:-2] + "e", word[:-3] + "y", word[:-1] + "e", word[:-4]):
                if stem in self.senses:
                    return stem
        return word

    def lemma(self, noun: str) -> str:
        """A noun in the singular, by its usual name: rooms -> room, ambience -> atmosphere."""
        if noun in self.same_aspect:
            return self.same_aspect[noun]
        single = IRREGULAR.get(noun) or singular(noun, self.tags)
        return self.same_aspect.get(single, single)

    def valence(self, text: str) -> int:
        """The sign by general lexicons, 0 where they have none or contradict each other."""
        one, two = self.vader.get(text, 0.0) / 4, self.pattern.get(text, 0.0)
        if one and two and (one > 0) != (two > 0):
            return 2
        value = one + two if one and two else one or two
        if (
            not value
            and (text.startswith(("un", "dis", "over", "under", "mis")) or text.endswith("less"))
            and len(text) > 6
        ):
            return -1
        return 0 if abs(value) < 0.3 else 1 if value > 0 else -1

    def polarity(self, words: Sequence[str], head: int, first: int, sign: int, aspect: str = "") -> str:
        word = words[-1].lower()
        p = head
        sense = self.senses.get(word, (None, 0))[0]
        if sense == "average" and sign != 2:
            return "NEU"
        if aspect in self.cost and sense in ("large", "long", "heavy", "small", "short", "light", "hard"):
            p = -1 if sense in ("large", "long", "heavy", "hard") else 1
        if p in (0, 2):
            p = self.guess.get(word, 0) or (first if first in (1, -1) else 0) or 1
        if sign == 2:
            p = -1
        elif sign == -1:
            p = -p
        return "POS" if p > 0 else "NEG"

    def code_tokens(
        self, tokens: Sequence[str], ends: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int8], NDArray[np.int64]]:
        lower = [token.lower() for token in tokens]
        words = [self.word(token) for token in lower]
        glue = Word(k.GLUE, 0, None)
        for i in range(len(lower) - 1):
            for size in (4, 3, 2):
                phrase = self.phrases.get(tuple(lower[i : i + size]))
                if phrase is not None and len(lower[i : i + size]) == size:
                    words[i : i + size] = [glue] * (size - 1) + [self.word(phrase)]
                    break
        bits = np.array([word.bits for word in words], np.int64)
        sense = np.array([word.polarity for word in words], np.int8)
        capital = np.array([token[0].isupper() and not (len(token) > 2 and token.isupper()) for token in tokens])
        bits |= np.where(capital, k.CAPITAL, 0)
        cut = set(ends.tolist())
        for i, b in enumerate(bits.tolist()):
            if b & k.END:
                cut.add(i + 1)
        return bits, sense, np.array(sorted(cut), np.int64)


BE = frozenset("is are was were be been being am 's 're isn wasn weren aren".split())


IRREGULAR = {
    "children": "child",
    "men": "man",
    "women": "woman",
    "people": "people",
    "feet": "foot",
    "teeth": "tooth",
    "mice": "mouse",
    "knives": "knife",
    "wives": "wife",
    "lives": "life",
    "shelves": "shelf",
    "leaves": "leaf",
    "movies": "movie",
    "cookies": "cookie",
    "smoothies": "smoothie",
    "brownies": "brownie",
    "selfies": "selfie",
    "series": "series",
    "species": "species",
    "potatoes": "potato",
    "tomatoes": "tomato",
    "heroes": "hero",
    "shoes": "shoe",
    "toes": "toe",
    "buses": "bus",
    "gas": "gas",
    "glasses": "glass",
    "news": "news",
    "premises": "premises",
    "clothes": "clothes",
    "lens": "lens",
    "bus": "bus",
    "always": "always",
}


def singular(noun: str, known: dict[str, str]) -> str:
    """The singular by the usual endings; a candidate that the lexicon knows as a noun is preferred."""
    if len(noun) < 4 or not noun.endswith("s") or noun.endswith(("ss", "us", "is")):
        return noun
    candidates = [noun[:-1]]
    if noun.endswith("ies") and len(noun) > 4:
        candidates = [noun[:-3] + "y", noun[:-1]]
    elif noun.endswith(("ches", "shes", "sses", "xes", "zes", "oes")):
        candidates = [noun[:-2], noun[:-1]]
    return next((each for each in candidates if known.get(each, "").startswith("NN")), candidates[0])


def punctuation(text: str) -> int:
    if text in (":", "-", "--"):
        return k.COMMA | k.DASH
    if text in ("(", ")", "[", "]"):
        return k.BUT
    if text in (",", "/"):
        return k.COMMA
    if text in (".", "!", "?", ";", "...", "\n", ".."):
        return k.END
    return k.GLUE


def read_lists(file: Path) -> Iterable[tuple[str, list[str]]]:
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            head, words = line.split(":", 1)
            yield head.strip(), words.split()


def read_words(file: Path) -> frozenset[str]:
    """The words of a plain list."""
    lines = file.read_text(encoding="utf-8").splitlines()
    return frozenset(word for line in lines if not line.startswith("#") for word in line.split())


def penn_tags() -> dict[str, str]:
    from textblob import en

    tags: dict[str, str] = {}
    for line in (Path(en.__file__).parent / "en-lexicon.txt").read_text(encoding="utf-8").splitlines():
        parts = line.split()
        if len(parts) == 2 and not line.startswith(";;;"):
            word, tag = parts
            if word == word.lower():
                tags[word] = tag
            elif not tag.startswith("NNP"):
                tags.setdefault(word.lower(), tag)
    return tags


def valences() -> tuple[dict[str, float], dict[str, float]]:
    import vaderSentiment
    from textblob import en

    vader = {}
    for line in (Path(vaderSentiment.__file__).parent / "vader_lexicon.txt").read_text(encoding="utf-8").splitlines():
        parts = line.split("\t")
        if len(parts) > 2:
            vader[parts[0]] = float(parts[1])
    found: dict[str, list[float]] = {}
    text = (Path(en.__file__).parent / "en-sentiment.xml").read_text(encoding="utf-8")
    for form, polarity in re.findall(r'<word form="([^"]+)"[^>]* polarity="([-0-9.]+)"', text):
        found.setdefault(form, []).append(float(polarity))
    return vader, {form: sum(values) / len(values) for form, values in found.items()}
