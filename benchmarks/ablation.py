"""What each part of Profile gives: the model without it, on every split of a folder.

    python benchmarks/ablation.py split [--splits 5]

ndcg_paper@10 and recall@10 on the test part; nothing is chosen from them. `+-` is the deviation over splits of the
difference to the whole model.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import whyrank as wr
from whyrank.data import read_splits
from whyrank.training.records import Side
from whyrank.training.softmax import SoftmaxTask


@dataclass(kw_only=True, eq=False)
class WithoutEvidence(wr.Profile):
    """Profiles and popularity alone."""

    def task(self, source: Any, popularity: Any, words: Any) -> SoftmaxTask:
        return replace(super().task(source, popularity, words), evidence=False)

    def bonus(self, users: Any, items: Any, n: int) -> Any:
        return None


@dataclass(kw_only=True, eq=False)
class WithoutProfiles(wr.Profile):
    """Popularity and evidence, whose strengths are learned."""

    def keys(self) -> Any:
        return super().keys() * (np.arange(2 * self.factors + 1) == 2 * self.factors).astype(np.float32)


@dataclass(kw_only=True, eq=False)
class WithoutSide(wr.Profile):
    """Neither profile nor evidence of the user (0) or of the item (1)."""

    side: int = 0

    def task(self, source: Any, popularity: Any, words: Any) -> SoftmaxTask:
        sides = list(source.sides)
        gone = sides[self.side]
        sides[self.side] = Side(np.full(len(gone.rows), -1, np.int32), gone.relation, gone.own)
        return super().task(replace(source, sides=tuple(sides)), popularity, words)

    def queries(self, users: Any, items: Any) -> Any:
        return super().queries(*self._known(users, items))

    def bonus(self, users: Any, items: Any, n: int) -> Any:
        return super().bonus(*self._known(users, items), n)

    def _known(self, users: Any, items: Any) -> tuple[Any, Any]:
        nobody = np.full(len(users), -1, np.int32)
        return (nobody, items) if self.side == 0 else (users, nobody)


ROWS: dict[str, Any] = {
    "Profile": wr.Profile,
    "without words": lambda: wr.Profile(words=False),
    "without evidence": WithoutEvidence,
    "without profiles (evidence as learned with them)": WithoutProfiles,
    "without the user": lambda: WithoutSide(side=0),
    "without the item": lambda: WithoutSide(side=1),
    "twice the factors": lambda: wr.Profile(factors=64),
    "COUNTS (closed form)": wr.COUNTS,
    "POP": wr.POP,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("split")
    parser.add_argument("--splits", type=int, default=5)
    chosen = parser.parse_args()
    splits = read_splits(chosen.split)[: chosen.splits]
    whole = np.zeros(len(splits))
    print(f"{len(splits)} splits\n\n| | ndcg_paper@10 % | difference % | recall@10 % |\n|---|--:|--:|--:|")
    for name, make in ROWS.items():
        found = [wr.evaluate(make().fit(split), split).explanation for split in splits]
        accuracy = 100 * np.array([each["ndcg_paper"] for each in found])
        recall = 100 * np.mean([each["recall"] for each in found])
        whole = accuracy if name == "Profile" else whole
        apart = 100 * (accuracy / whole - 1)
        spread = apart.std(ddof=min(1, len(apart) - 1))
        print(
            f"| {name} | {accuracy.mean():.3f} | {apart.mean():+.1f} +-{spread:.1f} | {recall:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
