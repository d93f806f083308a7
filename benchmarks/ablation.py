"""What each part of Profile gives: the model without it, on every split of a folder.

    python benchmarks/ablation.py split [--splits 5] [--candidates pool|item|item-all] [--rows Profile,COUNTS,POP]

ndcg_paper@10 and recall@10 on the test part; nothing is chosen from them. `+-` is the deviation over splits of the
difference to the whole model. With item-all, Profile has learned from such candidates, and a row has not. What a part
does depends on the data.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import whyrank as wr
from whyrank.data import read_splits
from whyrank.models.profile_stages import ReasonStage
from whyrank.training._softmax import Side
from whyrank.training.softmax import SoftmaxTask


@dataclass(frozen=True, eq=False)
class Changed(ReasonStage):
    """A stage that learns from something else."""

    change: Callable[[SoftmaxTask], SoftmaxTask]

    def task(self, part: wr.Triplets) -> SoftmaxTask:
        return self.change(super().task(part))


@dataclass(kw_only=True, eq=False)
class WithoutEvidence(wr.Profile):
    """Profiles and popularity alone."""

    def stages(self, *given: Any) -> Any:
        return (Changed(self, *given, lambda task: replace(task, evidence=False)),)

    def bonus(self, *given: Any) -> Any:
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

    def stages(self, *given: Any) -> Any:
        return (Changed(self, *given, self._without),)

    def _without(self, task: SoftmaxTask) -> SoftmaxTask:
        sides = list(task.source.sides)
        gone = sides[self.side]
        sides[self.side] = Side(np.full(len(gone.rows), -1, np.int32), gone.relation, gone.own)
        return replace(task, source=replace(task.source, sides=(sides[0], sides[1])))

    def queries(self, users: Any, items: Any, mu: float | None = None) -> Any:
        return super().queries(*self._known(users, items))

    def bonus(self, users: Any, items: Any, n: int, mu: float | None = None) -> Any:
        return super().bonus(*self._known(users, items), n)

    def _known(self, users: Any, items: Any) -> tuple[Any, Any]:
        nobody = np.full(len(users), -1, np.int32)
        return (nobody, items) if self.side == 0 else (users, nobody)


ROWS: dict[str, Any] = {
    "Profile": wr.Profile,
    "without learning from validation (refit)": lambda: wr.Profile(refit=False),
    "without words": lambda: wr.Profile(words=False),
    "without evidence": WithoutEvidence,
    "without profiles (evidence as learned with them)": WithoutProfiles,
    "without the user": lambda: WithoutSide(side=0),
    "without the item": lambda: WithoutSide(side=1),
    "twice the factors": lambda: wr.Profile(factors=64),
    "COUNTS (closed form)": wr.COUNTS,
    "POP": wr.POP,
}
POOL = "learned from the pool"  # where item-all is measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("split")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--candidates", default="pool")
    parser.add_argument("--rows", help="names begin so, separated by commas")
    parser.add_argument("--threads", type=int)
    chosen = parser.parse_args()
    splits = read_splits(chosen.split)[: chosen.splits]
    rows = ROWS | ({POOL: wr.Profile} if chosen.candidates == "item-all" else {})
    begins = tuple(chosen.rows.split(",")) if chosen.rows else ("",)
    whole = np.zeros(len(splits))
    print(f"{len(splits)} splits\n\n| | ndcg_paper@10 % | difference % | recall@10 % |\n|---|--:|--:|--:|", flush=True)
    for name in (name for name in rows if name.startswith(begins)):
        found = []
        for split in splits:
            model = rows[name]().suited_to("pool" if name == POOL else chosen.candidates)
            model.fit(split, run=wr.Run(threads=chosen.threads))
            found.append(wr.evaluate(model, split, candidates=chosen.candidates, items=False).explanation)
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
