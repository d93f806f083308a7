"""Parts of speech: which sentences have a noun and an adjective, and what each is about."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import cache

import polars as pl

from whyrank.errors import MissingExtra
from whyrank.mining.language import FOLDER, read_lists
from whyrank.mining.rules import MiningRules
from whyrank.mining.words import NEGATIONS

Tagged = list[tuple[str, str]]  # words with Penn Treebank tags
Tagger = Callable[[Iterable[str]], Iterator[Tagged]]
CONTRACTION = re.compile(r"(n't|'(?:s|re|ve|ll|d|m))\b")


def pattern_tagger() -> Tagger:
    """The tagger of textblob: a lexicon and rules, no download."""
    try:
        from textblob.en import tag
    except ImportError as error:
        raise MissingExtra("mine", "mining") from error
    with warnings.catch_warnings():  # it leaves the file of its lexicon open
        warnings.simplefilter("ignore", ResourceWarning)
        tag("a quiet room", tokenize=False)
    return lambda texts: (tag(CONTRACTION.sub(r" \1", text), tokenize=False) for text in texts)


def spacy_tagger() -> Tagger:
    """The tagger of spaCy's small English model; slower, a little better."""
    try:
        import spacy

        pipeline = spacy.load("en_core_web_sm", disable=["parser", "ner", "lemmatizer"])
    except (ImportError, OSError) as error:
        raise MissingExtra(
            "mine", "the spaCy tagger (spacy and its model en_core_web_sm; use tagger='pattern' without)"
        ) from error
    return lambda texts: ([(word.text, word.tag_) for word in doc] for doc in pipeline.pipe(texts, batch_size=512))


TAGGERS: dict[str, Callable[[], Tagger]] = {"pattern": pattern_tagger, "spacy": spacy_tagger}


def tag_texts(texts: pl.Series, rules: MiningRules) -> pl.DataFrame:
    """Per normalized text: whether it has the nouns, whether it has the adjectives, and its head noun."""
    pale = frozenset(rules.pale_adjectives)
    rows = [_judge(tagged, rules, pale) for tagged in TAGGERS[rules.tagger]()(texts)]
    return pl.DataFrame(rows, schema={"nouns": pl.Boolean, "adjectives": pl.Boolean, "aspect": pl.String}, orient="row")


def _judge(tagged: Tagged, rules: MiningRules, pale: frozenset[str]) -> tuple[bool, bool, str | None]:
    nouns = sum(tag.startswith("NN") for _, tag in tagged)
    adjectives = sum(tag.startswith("JJ") and word not in pale for word, tag in tagged)
    return nouns >= rules.nouns, adjectives >= rules.adjectives, head_noun(tagged)


def head_noun(tagged: Tagged) -> str | None:
    """The last noun of the first run of nouns, in the singular: `front desk staff was friendly` is about `staff`."""
    head: tuple[str, str] | None = None
    for word, tag in tagged:
        if tag.startswith("NN"):
            head = (word, tag)
        elif head:
            break
    if head is None:
        return None
    word, tag = head
    return singular(word) if tag == "NNS" else word


def singular(noun: str) -> str:
    """`facilities` -> `facility`, `rooms` -> `room`, `movies` -> `movie`."""
    if noun in _plurals():
        return _plurals()[noun]
    for ending, short in (("ies", "y"), ("sses", "ss"), ("shes", "sh"), ("ches", "ch"), ("xes", "x")):
        if noun.endswith(ending) and len(noun) > len(ending) + 1:
            return noun[: -len(ending)] + short
    if noun.endswith("s") and not noun.endswith(("ss", "us", "is")) and len(noun) > 3:
        return noun[:-1]
    return noun


@cache
def _plurals() -> dict[str, str]:
    """Plurals that the usual endings do not explain."""
    return {words[0]: name for name, words in read_lists(FOLDER / "en" / "plurals.txt")}


def is_negated(text: str) -> bool:
    """Whether a normalized text holds a word that turns its meaning."""
    return any(word in NEGATIONS or word.endswith("n't") for word in text.split())
