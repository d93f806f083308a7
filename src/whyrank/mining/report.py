"""What each rule dropped, with counts and examples."""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

SHOWN = 5  # examples per rule
MEANING = {
    "vulgar": "opinions with vulgar words",
    "titles": "opinions about a part of the item's own name",
    "review": "explanations rejected by hand",
}


@dataclass
class MiningReport:
    """Counts by rule, in the order of `MEANING`; `rows` is the report as plain data."""

    dropped: dict[str, int] = field(default_factory=dict)
    wordings: dict[str, int] = field(default_factory=dict)
    examples: dict[str, list[str]] = field(default_factory=dict)
    sentences: int = 0  # before any rule

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
