"""Opinions: mentions under the names that statements have: aspect, sense, sign."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.data.statements import GENERAL, ITSELF
from whyrank.mining.language import Language
from whyrank.mining.lexicon import Lexicon
from whyrank.mining.mentions import COMPOUND, Mentions, Sentences
from whyrank.mining.patterns import MentionRule
from whyrank.wording.phrases import singular_of
from whyrank.wording.templates import default_templates

LONGEST = 3  # words of an aspect
MARKS = frozenset("@./:_")  # of addresses, which are no aspects
SURE = 0.5  # a sign of its own: smaller ones follow the ratings
OFTEN, UNSAID = 20, 0.05  # uses of a word from which it is judged; share of them with a verb or a degree
EXPECTED = 2.0  # uses with a verb or a degree that a pair of words would have if it were a judgement
TELLING = 0.35  # weight of a word that a use must have: who buys strings plays
PEOPLE = (
    "friendly",
    "rude",
    "helpful",
    "unhelpful",
    "attentive",
    "polite",
    "professional",
    "unprofessional",
    "patient",
)


class Meant(NamedTuple):
    """What a mention says under the names of statements."""

    aspect: str
    sense: str
    weight: float  # its sign, smaller where the word leaves it open
    sure: bool  # whether the word tells its sign


NOTHING = Meant("", "", 0.0, True)
PRAISING = frozenset(
    (
        *("love", "love_passive", "loved_that", "pleased", "pleases", "worth", "noun", "hate", "trouble"),
        *("trouble_with", "does_to_me", "does_to_mine"),
    )
)


class Names:
    """Names of aspects and senses, each worked out once."""

    def __init__(self, language: Language, lexicon: Lexicon, vocabulary: Sequence[str]) -> None:
        self.language, self.lexicon, self.vocabulary = language, lexicon, vocabulary
        self.words = default_templates().words
        self.known: dict[tuple[int, ...], str | None] = {}

    def singular(self, word: str) -> str:
        return self.language.tables["plurals"].get(word) or singular_of(word, self.words.irregular)

    def aspect(self, phrase: tuple[int, ...]) -> str | None:
        """Name the aspect of a phrase; None: it names none."""
        if phrase not in self.known:
            named = any(self.lexicon.names[k] for k in phrase)  # Marie Dupont, whatever stands around her
            words = [self.vocabulary[k] for k in phrase]
            self.known[phrase] = None if named else self._aspect(words, phrase[-1])
        return self.known[phrase]

    def _aspect(self, words: list[str], head: int) -> str | None:
        language = self.language
        last = words[-1]
        if last in language.tables["implied"]:
            return language.tables["implied"][last]
        single = self.singular(last)
        aspects = language.tables["aspects"]
        if len(words) > 1:
            whole = " ".join([*words[:-1], single])
            return aspects.get(whole, whole)
        if last in self.lexicon.kinds or single in self.lexicon.kinds:
            return ITSELF
        if last in language.has("wholes"):
            return ITSELF
        if (
            last in language.has("vague")
            or single in language.has("vague")
            or len(last) < 2
            or not last[0].isalpha()
            or not MARKS.isdisjoint(last)
        ):
            return None
        if last in language.has("relative") or last in language.has("shop") or last in language.has("other"):
            return None
        if self.lexicon.names[head]:
            return None
        return aspects.get(last) or aspects.get(single) or single

    def sense(self, word: str) -> str:
        """Name what a word says."""
        return self.language.senses.get(word, word)

    def said(self, key: list[int]) -> Meant:
        """Name what a mention says: its rule, aspect's words, property, if plural, verb, how it is turned."""
        rule = self.language.rules[key[0]]
        phrase = tuple(word for word in key[1 : 1 + LONGEST] if word >= 0)
        before, word, plural, verb, turned, strong, excess = key[1 + LONGEST :]
        said = self.vocabulary[word]
        aspect = self.aspect(phrase) if phrase else ITSELF
        sense, base = self.sense(said), float(rule.sign) or self.language.sign(said)
        if aspect is None and self.lexicon.names[phrase[-1]] and sense in PEOPLE:
            aspect = self.lexicon.person
        if aspect is None or (rule.kind == "opinion" and said in self.language.has("neutral")):
            return NOTHING
        action = self.vocabulary[verb] if verb >= 0 else ""
        if rule.kind in ("opinion", "comparison"):
            if len(phrase) == 1 and self.vocabulary[phrase[-1]] in self.language.has("body"):
                return NOTHING  # the buyer's own
            return self._opinion(rule, aspect, said, action, base, turned, strong, excess)
        if rule.kind == "effect":
            return self._effect(rule, aspect, said, action, base, turned)
        if rule.kind in ("use", "nearness"):
            return self._use(rule, before, word, plural, self.language.sign(action) if action else 1.0, turned)
        return Meant(aspect, "missing" if rule.kind == "lack" else "there", turned * (base or 1.0), True)

    def _use(self, rule: MentionRule, before: int, word: int, plural: int, judged: float, turned: int) -> Meant:
        """Name what an item is good for, or near to."""
        noun = self.vocabulary[word]
        rare = rule.kind == "nearness" or self.lexicon.weight[word] >= TELLING
        if self.lexicon.names[word] or not noun[0].isalpha() or not rare:
            return NOTHING
        if before >= 0 and not self.lexicon.names[before]:
            noun = f"{self.vocabulary[before]} {noun}"
        article = "the " if rule.kind == "nearness" else "an " if noun[0] in "aeiou" else "a "
        if plural or rule.id == "use_doing" or self.mass(noun):
            article = ""
        return Meant(
            ITSELF, f"{'near' if rule.kind == 'nearness' else 'for'} {article}{noun}", turned * (judged or 1.0), True
        )

    def mass(self, noun: str) -> bool:
        """Tell whether a noun has no plural: breakfast, parking."""
        return noun in self.words.uncountable or noun.endswith("ing")

    def _opinion(
        self, rule: MentionRule, aspect: str, said: str, action: str, base: float, turned: int, strong: int, excess: int
    ) -> Meant:
        """Name an opinion: too big and not big are other senses than big."""
        sense = self.sense(said)
        if rule.id in PRAISING:
            sense = "great" if base > 0 else "bad"
        elif rule.id in ("enough", "plenty_of"):
            sense = "plenty"
        elif rule.id == "easy_to":
            sense = f"{sense} to {action}"
        if excess:
            if turned < 0:
                return Meant(aspect, sense, abs(base), True) if base < 0 else NOTHING  # not too bad; not too big
            return Meant(aspect, f"too {said}", -1.0, True)
        sure = abs(base) >= SURE
        if strong:
            turned = 1
        if turned < 0 and sense in GENERAL:
            return Meant(aspect, "bad" if base > 0 else "great", -base, True)
        if turned < 0:
            opposite = self.language.tables["opposites"].get(sense)
            return Meant(aspect, opposite or f"not {said}", -base, sure)
        return Meant(aspect, sense, base, sure)

    def _effect(self, rule: MentionRule, aspect: str, said: str, action: str, base: float, turned: int) -> Meant:
        """Name an effect: removes (stains), leaves soft (hair)."""
        does = self.language.tables["verbs"].get(action, action)
        if turned < 0:
            return NOTHING
        if rule.id != "does":
            return Meant(aspect, f"{does} {said}", base or 1.0, True)
        bad = base < 0 or said in self.language.has("trouble")
        named = self.singular(said)
        if named in self.language.has("vague") or said in self.language.has("vague"):
            return NOTHING
        return Meant(named, does, (-1.0 if bad and does not in self.language.has("relieves") else 1.0), True)


def opinions(
    given: Sentences, found: Mentions, names: Names, plural: NDArray[np.bool_], rating: NDArray[np.float64]
) -> pl.DataFrame:
    """Return mentions that count, under the names of statements.

    Args:
        given: The parse.
        found: The mentions.
        names: The names.
        plural: Of the tags: whether they mark a plural.
        rating: Of every review, in standard deviations; nan where unknown.

    Returns:
        A row each: place (of the property's word), clause, review, rule, kind, aspect, sense, sign (-1, 0, 1), head and
        said (words of the vocabulary, -1 none).
    """
    counts = np.flatnonzero(found.matter == 0)
    head, said = found.aspect[counts], found.property[counts]
    columns: list[NDArray[Any]] = [found.rule[counts]]
    for back in range(LONGEST - 1, -1, -1):
        place = head - back
        inside = (head >= 0) & (place >= found.first[counts])
        columns.append(np.where(inside, given.word[np.maximum(place, 0)], -1))
    verb = found.verb[counts]
    before = np.maximum(said - 1, 0)
    joined = (given.label[before] == COMPOUND) & (given.head[before] == said) & (said > 0)
    columns.append(np.where(joined, given.word[before], -1))
    columns += [given.word[said], plural[given.tag[said]], np.where(verb >= 0, given.word[np.maximum(verb, 0)], -1)]
    columns += [found.turned[counts], found.strong[counts], found.excess[counts]]
    keys, which = np.unique(np.stack(columns, axis=1).astype(np.int64), axis=0, return_inverse=True)
    told = [names.said(key.tolist()) for key in keys]
    rules = names.language.rules
    sentence = np.searchsorted(given.starts, said, side="right") - 1
    table = pl.DataFrame(
        {
            "place": said,
            "clause": found.clause[counts],
            "review": (np.searchsorted(given.reviews, sentence, side="right") - 1).astype(np.int32),
            "rule": pl.Series([rule.id for rule in rules]).gather(found.rule[counts]),
            "kind": pl.Series([rule.kind for rule in rules]).gather(found.rule[counts]),
            "aspect": pl.Series([each.aspect for each in told], dtype=pl.String).gather(which.ravel()),
            "sense": pl.Series([each.sense for each in told], dtype=pl.String).gather(which.ravel()),
            "weight": pl.Series([each.weight for each in told], dtype=pl.Float64).gather(which.ravel()),
            "sure": pl.Series([each.sure for each in told], dtype=pl.Boolean).gather(which.ravel()),
            "head": np.where(head >= 0, given.word[np.maximum(head, 0)], -1).astype(np.int32),
            "said": given.word[said],
            "degree": _graded(given, said, names),
        }
    )
    return signed(judgements(table.filter(pl.col("aspect") != "")).drop("degree"), rating)


def _graded(given: Sentences, said: NDArray[np.int32], names: Names) -> NDArray[np.bool_]:
    """Tell which properties stand behind a degree: very, too, so."""
    degrees = names.language.has("degree")
    graded = np.array([word in degrees for word in names.vocabulary], np.bool_)
    return (said > 0) & graded[given.word[np.maximum(said - 1, 0)]]


def judgements(table: pl.DataFrame) -> pl.DataFrame:
    """Return mentions without words that say which sort of a thing is meant: sour cream, green chili, shared bath.

    A judgement can be said with a verb or a degree: a word that hardly ever is judges nothing, and a word that often is
    names a sort where it stands before one noun again and again and is never said of it.
    """
    own = pl.col("kind") == "opinion"
    said = ~pl.col("rule").is_in(["attribute"]) | pl.col("degree")
    spoken = table.filter(own).group_by("said").agg(uses=pl.len(), rate=said.mean())
    pairs = (
        table.filter(own & (pl.col("aspect") != ITSELF))
        .group_by("said", "aspect")
        .agg(n=pl.len(), own_rate=said.mean())
    )
    table = table.join(spoken, on="said", how="left", maintain_order="left")
    table = table.join(pairs, on=["said", "aspect"], how="left", maintain_order="left")
    kind = ~pl.col("sure") & (pl.col("uses") >= OFTEN) & (pl.col("rate") < UNSAID)
    sort = (pl.col("n") * pl.col("rate") >= EXPECTED) & (pl.col("own_rate") == 0)
    sure = pl.col("sense").is_in([*GENERAL])
    return table.filter(~(own & (kind | (sort & ~sure)).fill_null(False))).drop("uses", "rate", "n", "own_rate")


def signed(table: pl.DataFrame, rating: NDArray[np.float64]) -> pl.DataFrame:
    """Give mentions whose word leaves it open the sign that the ratings of their reviews have."""
    scores = pl.Series("score", rating)
    table = table.with_columns(score=scores.gather(table["review"]).fill_nan(None))
    open_ = table.filter(~pl.col("sure"))
    learned = open_.group_by("aspect", "sense").agg(mean=pl.col("score").mean(), n=pl.col("score").count())
    table = table.join(learned, on=["aspect", "sense"], how="left", maintain_order="left")
    enough = (pl.col("n") >= 8) & (pl.col("mean").abs() >= 0.15)
    guess = pl.col("weight").sign()
    sign = pl.when(~pl.col("sure") & enough).then(pl.col("mean").sign()).otherwise(guess)
    return table.with_columns(sign=sign.cast(pl.Int8)).drop("mean", "n", "score")
