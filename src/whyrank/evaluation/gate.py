"""Whether a new model may take the place of the one in service."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from whyrank.data.triplets import Triplets
from whyrank.evaluation.evaluator import evaluate
from whyrank.evaluation.significance import clustered_mean
from whyrank.models.base import Model

METRIC = "ndcg"
LEAST_KNOWN = 0.5  # share of the served model's triplets and items that a new model must know


@dataclass(frozen=True)
class Gate:
    """Both models on the same held-out records, and what follows."""

    metric: str
    records: int
    served: float
    candidate: float
    difference: float  # candidate - served
    interval: tuple[float, float]  # 95%, with records of one user taken together
    tolerance: float  # share of the served model's figure that may be lost
    passed: bool

    def as_dict(self) -> dict[str, object]:
        return asdict(self)

    def summary(self) -> str:
        """One line for people."""
        low, high = self.interval
        return (
            f"{self.metric} on {self.records:,} held-out records: {self.candidate:.4f}, in service {self.served:.4f} "
            f"(difference {self.difference:+.4f}, 95% interval {low:+.4f} to {high:+.4f})"
        )


def compare_on(
    held_out: Triplets, served: Model, candidate: Model, tolerance: float, threads: int | None = None
) -> Gate:
    """Measure both models on records that neither was fitted to.

    The candidate passes unless its mean is below that of the served model by more than `tolerance` of it. The interval
    says how sure the difference is; it does not decide, since few held-out records would then stop every refresh.
    """
    found = []
    for model in (served, candidate):
        measured = evaluate(model, held_out, items=False, beyond_accuracy=False, served=False, threads=threads)
        found.append(measured.per_pair[METRIC])
    theirs, ours = found
    mean = float(theirs.mean())
    change = clustered_mean(ours - theirs, held_out.record_user)
    interval = (change.value - change.half(), change.value + change.half())
    passed = change.value >= -tolerance * mean
    figures = (mean, float(ours.mean()), change.value, interval, tolerance, passed)
    return Gate(METRIC, held_out.records, *figures)


def knows_less(served: Model, candidate: Model) -> str | None:
    """What a new model knows far less of than the one in service, in words; None where it does not.

    Held-out records are of what is new. On them a model that knows nothing else can seem to be better.
    """
    theirs, ours = ((int(each.catalog_.popularity.sum()), len(each.catalog_.items)) for each in (served, candidate))
    for name, had, has in zip(("triplets", "items"), theirs, ours, strict=True):
        if has < LEAST_KNOWN * had:
            return f"the new model knows {has:,} {name}, the one in service {had:,}"
    return None
