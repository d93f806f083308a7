"""What each rule dropped, with counts and examples."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.mining.groups import Wordings
from whyrank.mining.sentences import Spool

SHOWN = 5  # examples per rule
MEANING = {
    "english": "sentences of reviews with too few English function words",
    "min_words": "sentences with too few words",
    "max_words": "sentences with too many words",
    "first_person": "sentences with a first-person word",
    "garbled": "sentences with undecodable characters",
    "repeated": "sentences said before in the same review",
    "vulgar": "opinions with vulgar words",
    "titles": "opinions about a part of the item's own name",
    "judgements": "overall judgements of the item",
    "whole": "opinions about the item in words that nobody uses with its name",
    "idioms": "opinions about what is never spoken of by itself",
    "odd": "opinions that hardly ever go with their aspect",
    "own_names": "names that one item has",
    "place_names": "names of places and things, written with capitals",
    "sorts": "words that say which sort of a thing is meant",
    "absences": "absences of what is hardly ever there",
    "rare": "sentences whose group cannot reach min_count",
    "fragment": "sentences that start or end like half a sentence",
    "nouns": "sentences with too few nouns",
    "adjectives": "sentences with too few adjectives",
    "names": "sentences written like a name",
    "merge_paraphrases": "explanations merged into one that means the same",
    "min_count": "explanations in too few records",
    "min_users": "explanations of too few users",
    "min_items": "explanations about too few items",
    "min_specificity": "explanations that say too little about an item",
    "review": "explanations rejected by hand",
}


@dataclass
class MiningReport:
    """Counts by rule, in the order of `MEANING`; `rows` is the report as plain data."""

    dropped: dict[str, int] = field(default_factory=dict)
    wordings: dict[str, int] = field(default_factory=dict)
    examples: dict[str, list[str]] = field(default_factory=dict)
    sentences: int = 0  # before any rule

    def add_cut(self, dropped: dict[str, int], kept: int) -> None:
        self.dropped |= dropped
        self.sentences = kept + sum(dropped.values())

    def add_examples(self, examples: dict[str, list[str]]) -> None:
        self.examples |= {rule: shown[:SHOWN] for rule, shown in examples.items()}

    def add_rare(self, spool: Spool, wordings: Wordings, kept: NDArray[np.bool_]) -> None:
        """Wordings that cannot reach `min_count`; the most frequent ones, by key, are the examples."""
        most = int(wordings.counts[~kept].max(initial=0))
        often = np.flatnonzero(~kept & (wordings.counts == most))[:SHOWN]
        self.dropped["rare"], self.wordings["rare"] = int(wordings.counts[~kept].sum()), int((~kept).sum())
        self.examples["rare"] = spool.texts(wordings.first[often]).to_list()

    def add_wordings(self, rule: str, dropped: pl.DataFrame) -> None:
        """Wordings (columns count, text) that a rule dropped; the most frequent ones are the examples."""
        self.dropped[rule] = self.dropped.get(rule, 0) + int(dropped["count"].sum())
        self.wordings[rule] = self.wordings.get(rule, 0) + dropped.height
        top = dropped.sort("count", "text", descending=[True, False]).head(SHOWN)
        self.examples[rule] = top["text"].to_list()

    def rows(self) -> list[dict[str, object]]:
        """One row per rule that dropped something: rule, what it drops, how many sentences and wordings, examples.

        For the rules on whole explanations `sentences` counts triplets and `wordings` explanations.
        """
        return [
            {
                "rule": rule,
                "drops": meaning,
                "sentences": self.dropped[rule],
                "wordings": self.wordings.get(rule),
                "examples": self.examples.get(rule, []),
            }
            for rule, meaning in MEANING.items()
            if self.dropped.get(rule)
        ]
