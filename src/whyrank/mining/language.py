"""A language: which classes and senses its words have. English ships; a language is a folder of word lists."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyrank.errors import MissingExtra
from whyrank.mining import _wordclasses as k

LONGEST = 30  # letters of a word that is looked at at all
SPELLING = 6  # letters of a word that may be a misspelling
FOLDER = Path(__file__).parent / "languages"
ROLES = {  # classes of words.txt that are one bit each
    "DET": k.DET,
    "POSS": k.POSS,
    "PRON": k.PRON,
    "FIRST": k.FIRST,
    "COP": k.COP | k.LINKING | k.VERB,
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
    "USES": k.USES | k.VERB,
    "PLAIN": k.NEUTRAL,
    "ROLE": k.ROLE | k.NOUN,
    "IMPLIES": k.IMPLIES | k.PARTICIPLE,
    "COULD": k.COULD,
    "WISH": k.WISH | k.HYP,
    "COST": 0,
    "BE": k.COP,
    "OF": k.OF,
    "NO": k.NO,
    "TOO": k.TOO,
    "THAN": k.THAN,
    "AMOUNT": k.AMOUNT,
    "ONLY": k.ONLY,
    "THIRD": k.THIRD,
    "PLURAL": k.PLURAL,
    "WORTH": k.WORTH,
    "EASE": 0,
    "SORT": 0,
    "EXTENT": 0,
    "PAID": k.PAID,
    "LEVEL": k.LEVEL,
    "BURDEN": 0,
    "MODEST": 0,
    "ELSEWHERE": k.ELSEWHERE,
    "S": k.APOSTROPHE_S,
    "ADJLY": k.ADJ,
    "PREFIX": 0,
    "BETTER": k.COMPARATIVE,
    "COMPOUND": k.NOUN,
    "FILLER": k.MARK,
    "LESS": k.LESS,
    "PHRASE": 0,
    "APART": 0,
    "ACTS": k.ACTS | k.VERB,
    "ITEM": k.ITEM,
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
    "UH": k.ADV,
    "PR": k.PRON,
    "PD": k.DET,
    "EX": k.PRON,
}
# What a word of a list can be beside its role there, and the classes that leave nothing open.
CONTENT = k.NOUN | k.ADJ | k.VERB | k.ADV | k.PARTICIPLE | k.GERUND | k.PLURAL
CLOSED = k.DET | k.POSS | k.PRON | k.AUX | k.NEG | k.AND | k.BUT | k.TO | k.PREP | k.REL
ENDS = {"ADV": k.ADV, "ADJ": k.ADJ, "VERB": k.VERB, "GERUND": k.GERUND, "PARTICIPLE": k.PARTICIPLE}
SIGNS = {"+": 1, "-": -1}
NEITHER = ("average", "okay")  # senses that neither praise nor blame by themselves


class Word(NamedTuple):
    """What is known of a word."""

    bits: int
    polarity: int  # -1, 1, 2: a sense without a polarity of its own, 0: no sense
    sense: str | None
    unknown: bool = False  # neither a list nor a lexicon has it: with a capital it is probably a name


class CodedTokens(NamedTuple):
    """CodedTokens as the kernel takes them."""

    bits: NDArray[np.int64]
    sense: NDArray[np.int8]
    ends: NDArray[np.int64]
    texts: list[str]  # in lower case; the whole phrase at its last token


class English:
    """Classes and senses of English words, from word lists and general lexicons."""

    def __init__(self, folder: Path = FOLDER / "en") -> None:
        lists = dict(read_lists(folder / "words.txt"))
        self.roles: dict[str, int] = {}
        self.signs: dict[str, int] = {}
        for name, words in lists.items():
            role = ROLES[name.rstrip("+-")]
            for word in words:
                self.roles[word] = self.roles.get(word, 0) | role
                if name[-1] in SIGNS and role:
                    self.signs[word] = SIGNS[name[-1]]
        self.senses: dict[str, tuple[str, int]] = {}
        self.guess: dict[str, int] = {}
        self.sense_polarity: dict[str, str] = {}
        for head, words in read_lists(folder / "senses.txt"):
            name, polarity = head.split()
            self.sense_polarity[name] = polarity
            for word in words:
                self.senses.setdefault(word, (name, SIGNS.get(polarity, 2)))
                self.guess.setdefault(word, SIGNS.get(polarity[-1], 0))
        self.neutral = frozenset(word for _, words in read_lists(folder / "neutral.txt") for word in words)
        self.cost, self.ease = frozenset(lists["COST"]), frozenset(lists["EASE"])
        self.sorts = frozenset(lists["SORT"])
        self.paid, self.modest = frozenset(lists["PAID"]), frozenset(lists["MODEST"])
        self.levels, self.burdens = frozenset(lists["LEVEL"]), frozenset(lists["BURDEN"])
        self.extents = dict.fromkeys(lists["EXTENT+"], 1) | dict.fromkeys(lists["EXTENT-"], -1)
        self.prefixes = frozenset(lists["PREFIX"])
        self.endings = dict(read_lists(folder / "endings.txt"))
        together = {word for word in self.senses if "-" in word} - set(lists["APART"])
        together.update(lists["COMPOUND"], lists["PHRASE"])
        self.compounds = frozenset(lists["COMPOUND"])
        self.phrases = {tuple(word.split("-")): word for word in sorted(together)}
        self.cuts: dict[str, list[str]] = {}
        for word in self.senses:
            if word.isalpha() and len(word) >= SPELLING - 1:
                for cut in cuts(word):
                    self.cuts.setdefault(cut, []).append(word)
        self.tags = penn_tags()
        self.vader, self.pattern = valences()
        self.known: dict[str, Word] = {}

    def word(self, text: str) -> Word:
        """The classes and the sense of a word in lower case."""
        known = self.known.get(text)
        if known is None:
            known = self.known[text] = self.look_up(text)
        return known

    def look_up(self, text: str) -> Word:
        """A word that is seen for the first time."""
        bits = self.roles.get(text, 0)
        if not text[0].isalnum() and not bits:
            return Word(punctuation(text), 0, None)
        sense, polarity = self.senses.get(text, (None, 0))
        polarity = self.signs.get(text, polarity)
        neutral = text in self.neutral
        if not bits & CLOSED:
            if sense is None and text not in self.signs:
                sense, polarity = self.derived(text)
            left_open = ~0 if not bits else k.PLURAL if "-" in text else CONTENT  # phrases are what their list says
            bits |= self.open_classes(text) & left_open
            describes = bits & k.PARTICIPLE or (bits & (k.ADJ | k.GERUND | k.ADV) and not bits & k.VERB)
            if sense is None and polarity == 0 and describes and not bits & k.INT and not neutral:
                polarity = self.valence(text)
        if sense is not None:
            bits |= k.ADV if text.endswith("ly") and not bits & k.ADJ else k.ADJ
            bits &= ~0 if text in self.tags else ~k.NOUN
            bits |= k.EASY if sense in self.ease else 0
        bits |= k.NEUTRAL if neutral else 0
        bits |= k.COMPARATIVE if text.endswith("er") and bits & k.ADJ else 0
        return Word(bits, polarity, sense, sense is None and text not in self.tags and text not in self.roles)

    def derived(self, text: str) -> tuple[str | None, int]:
        """The sense of an adverb, a comparative, a superlative or a misspelling: that of its adjective."""
        if text in self.neutral:
            return None, 0
        stems: tuple[str, ...] = ()
        tag = self.tags.get(text)
        if text.endswith("ly"):
            stems = (text[:-2], text[:-2] + "e", text[:-3] + "y", text[:-1] + "e", text[:-4])
        elif text.endswith(("er", "est")) and (tag in ("JJR", "JJS") or (tag is None and len(text) >= SPELLING)):
            stems = comparative_stems(text)
        elif tag is None and SPELLING <= len(text) <= LONGEST and text.isalpha():
            stems = self.spelling(text)
        return next((self.senses[stem] for stem in stems if stem in self.senses), (None, 0))

    def spelling(self, text: str) -> tuple[str, ...]:
        """The one opinion word that a misspelling is an edit away from, if all candidates have the same sense."""
        found = {word for cut in cuts(text) for word in self.cuts.get(cut, ()) if one_edit(text, word)}
        return tuple(sorted(found)) if len({self.senses[word][0] for word in found}) == 1 else ()

    def open_classes(self, text: str) -> int:
        """The parts of speech of a content word, by the lexicon or else by its parts and its ending."""
        tag = self.tags.get(text)
        if tag is None:
            return self.unknown(text)
        bits = PENN.get(tag[:2], k.NOUN)
        bits |= k.PARTICIPLE if tag in ("VBN", "VBD") else k.GERUND if tag == "VBG" else 0
        other = self.tags.get(text + "s", self.tags.get(text[:-1], ""))
        if tag in ("VB", "VBP", "VBZ") and other.startswith("NN"):
            bits |= k.NOUN
        return bits | k.PLURAL if tag == "NNS" else bits

    def unknown(self, text: str) -> int:
        """The parts of speech of a word that the lexicon does not have."""
        if text[0].isdigit():
            return k.DET
        first, _, last = text.rpartition("-")
        if first and last:
            if self.roles.get(last, 0) & k.PREP:
                return k.NOUN  # check-in, build-up
            if text.split("-")[0] in self.prefixes:
                return k.ADJ
            bits = self.open_classes(last)
            return k.ADJ if bits & (k.PARTICIPLE | k.GERUND) else bits
        for names, endings in self.endings.items():
            if not names.startswith("TURNS") and any(text.endswith(e) and len(text) > len(e) + 2 for e in endings):
                return sum(ENDS[name] for name in names.split())
        return k.NOUN | k.PLURAL if text.endswith("s") and not text.endswith(("ss", "us", "is")) else k.NOUN

    def valence(self, text: str, least: float = 0.3) -> int:
        """The sign by general lexicons: 0 below the least value and where they have none, 2 where they disagree."""
        one, two = self.vader.get(text, 0.0) / 4, self.pattern.get(text, 0.0)
        if one and two and (one > 0) != (two > 0):
            return 2
        value = one + two if one and two else one or two
        before, behind = tuple(self.endings["TURNS BEFORE"]), tuple(self.endings["TURNS BEHIND"])
        if not value and len(text) > SPELLING and (text.startswith(before) or text.endswith(behind)):
            return -1
        return 0 if not value or abs(value) < least else 1 if value > 0 else -1

    def polarity(self, opinion: str, adverb: str, sign: int, aspect: str) -> int:
        """1, -1 or 0 by words alone, where ratings are not known: the guess for a sense that depends on its aspect."""
        if sign in (2, -2, 3):
            return 1 if sign == -2 else -1
        word = self.word(opinion)
        if opinion in self.modest and aspect in self.paid:
            return sign
        if word.sense in NEITHER:
            return 0
        value = word.polarity
        if word.sense is not None and word.sense in self.extents and aspect in self.cost:
            value = -self.extents[word.sense]
        if value in (0, 2):
            judged = self.word(adverb).polarity if adverb else 0
            guess = self.guess[word.sense] if word.sense else self.valence(opinion, 0.0)
            value = guess if guess in (1, -1) else (judged if judged in (1, -1) else 1)
        return value * sign

    def code_tokens(self, tokens: Sequence[str], ends: NDArray[np.int64]) -> CodedTokens:
        """Classes and senses of tokens, phrases joined, and the sentences between ends cut at their punctuation."""
        texts = [token.lower() for token in tokens]
        glue = np.zeros(len(texts), np.bool_)
        for size in sorted({len(phrase) for phrase in self.phrases}, reverse=True):
            for i in range(len(texts) - size + 1):
                phrase = self.phrases.get(tuple(texts[i : i + size]))
                if phrase is not None and not glue[i : i + size].any():
                    glue[i : i + size - 1] = True
                    texts[i + size - 1] = phrase
        words = [self.word(text) for text in texts]
        bits: NDArray[np.int64] = np.where(glue, k.GLUE, np.array([word.bits for word in words], np.int64))
        sense = np.where(glue, 0, np.array([word.polarity for word in words], np.int8)).astype(np.int8)
        capital = [token[0].isupper() and not (len(token) > 2 and token.isupper()) for token in tokens]
        bits |= np.where(capital, k.CAPITAL, 0)
        return CodedTokens(bits, sense, np.union1d(ends, np.flatnonzero(bits & k.END) + 1), texts)


def comparative_stems(text: str) -> tuple[str, ...]:
    """What a comparative or superlative can come from: larger -> large, easiest -> easy, bigger -> big."""
    short = text[:-2] if text.endswith("er") else text[:-3]
    stems = [short, short + "e"]
    if short.endswith("i"):
        stems.append(short[:-1] + "y")
    if len(short) > 3 and short[-1] == short[-2]:
        stems.append(short[:-1])
    return tuple(stems)


def cuts(text: str) -> set[str]:
    """A word, and the word without one of its letters but the first."""
    return {text} | {text[:i] + text[i + 1 :] for i in range(1, len(text))}


def one_edit(a: str, b: str) -> bool:
    """Whether one letter more, less, other or swapped with its neighbour makes a word of another."""
    if len(a) != len(b):
        return b in cuts(a) or a in cuts(b)
    differ = [i for i, (one, two) in enumerate(zip(a, b, strict=True)) if one != two]
    if len(differ) == 2:
        i, j = differ
        return j == i + 1 and a[i] == b[j] and a[j] == b[i]
    return len(differ) == 1


def punctuation(text: str) -> int:
    """The class of a token that is no word."""
    if text in (":", "-", "--"):
        return k.COMMA | k.DASH
    if text in ("(", ")", "[", "]"):
        return k.BUT
    if text in (",", "/"):
        return k.COMMA
    if text.startswith("?"):
        return k.END | k.QUESTION
    if text in (".", "!", ";", "...", "\n", ".."):
        return k.END
    return k.MARK


def read_lists(file: Path) -> Iterable[tuple[str, list[str]]]:
    """Lines of a name, a colon and words; # begins a comment."""
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            head, words = line.split(":", 1)
            yield head.strip(), words.split()


def penn_tags() -> dict[str, str]:
    """The most frequent tag of words, by TextBlob's lexicon; names are left out."""
    tags: dict[str, str] = {}
    for line in _file_of("textblob", "en", "en-lexicon.txt").read_text(encoding="utf-8").splitlines():
        parts = line.split()
        if len(parts) == 2 and not line.startswith(";;;"):
            word, tag = parts
            if word == word.lower():
                tags[word] = tag
            elif not tag.startswith("NNP"):
                tags.setdefault(word.lower(), tag)
    return tags


def valences() -> tuple[dict[str, float], dict[str, float]]:
    """How positive words are by VADER (-4 to 4) and by TextBlob (-1 to 1)."""
    vader = {}
    for line in _file_of("vaderSentiment", "vader_lexicon.txt").read_text(encoding="utf-8").splitlines():
        parts = line.split("\t")
        if len(parts) > 2:
            vader[parts[0]] = float(parts[1])
    found: dict[str, list[float]] = {}
    text = _file_of("textblob", "en", "en-sentiment.xml").read_text(encoding="utf-8")
    for form, polarity in re.findall(r'<word form="([^"]+)"[^>]* polarity="([-0-9.]+)"', text):
        found.setdefault(form, []).append(float(polarity))
    return vader, {form: sum(values) / len(values) for form, values in found.items()}


def _file_of(package: str, *names: str) -> Path:
    """A file of a package, which is not imported: TextBlob takes seconds, for NLTK and what that imports."""
    found = find_spec(package)
    file = Path(found.origin).parent.joinpath(*names) if found is not None and found.origin is not None else None
    if file is None or not file.is_file():
        raise MissingExtra("mine", "mining")
    return file
