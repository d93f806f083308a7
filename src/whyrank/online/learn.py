"""Learning from a log, and the gate: a new model is let through only if it is not worse, with confidence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whyrank.errors import DataError
from whyrank.explain.options import Options
from whyrank.models.base import Model
from whyrank.models.learned import before_reactions, with_correction
from whyrank.online.estimate import Estimate, estimate
from whyrank.online.log import Log
from whyrank.online.propensity import Policy
from whyrank.online.reactions import learn_reactions
from whyrank.online.rewards import Goal, lists_of
from whyrank.training import Run

GATE = 0.3  # the newest share of the lists, from which nothing is learned
MARGIN = 0.01  # by which share a new model may be worse at the lower bound
HELP = "What helps: more lists, or more exploration while they are shown (--explore, --epsilon)."
CONFIDENCE = 0.98  # two-sided, so that the lower bound alone holds with 99%
FEWEST = 100  # lists


@dataclass(frozen=True, eq=False)
class Learned:
    """A model that learned from a log, and what the newest part of the log says about it."""

    model: Model
    estimate: Estimate
    attention: list[list[float]]  # by position: how many look if nothing above was clicked, and if something was
    strength: str  # what of the correction the log supports
    lists: int  # that it learned from

    @property
    def passed(self) -> bool:
        """Whether the gate lets the model through."""
        return self.estimate.not_worse(MARGIN)

    def verdict(self) -> str:
        """Say what the gate says, in one sentence."""
        estimate, (least, most) = self.estimate, self.estimate.bounds
        low = f"{100 * least:+.1f}%"
        if self.passed:
            return f"Passed: the uplift is above {low} with 99% confidence. {estimate.verdict()}"
        if estimate.refused:
            return f"Not passed. {estimate.verdict()} {HELP}"
        worse = not estimate.at_least and most <= -MARGIN
        helps = "More lists alone would hardly change that." if worse else HELP
        allowed = f"the uplift may be as low as {low}; {-100 * MARGIN:+.1f}% is allowed"
        return f"Not passed: {allowed}. {estimate.verdict()} {helps}"

    def as_dict(self) -> dict[str, object]:
        names = ("passed", "lists", "strength", "attention")
        found = {name: getattr(self, name) for name in names}
        return found | {"verdict": self.verdict(), "estimate": self.estimate.as_dict()}


def learn(
    model: Model,
    log: Log,
    options: Options | None = None,
    *,
    goal: Goal | None = None,
    clip: float = 50.0,
    run: Run | None = None,
) -> Learned:
    """Learn from what people did with reasons, and check the result on the newest part of the log.

    The correction is learned anew from the whole older part of the log, on top of what the reviews
    say, and replaces any that the model had.

    Args:
        model: a fitted model of the Profile or BPER families, BPER+ included; not changed.
        log: exposures with propensities, and reactions.
        options: how lists will be shown.
        goal: what is rewarded; clicks unless given.
        clip: no weight of the estimate is larger than this.
        run: progress and checkpoint; a run that was killed goes on where it was, to the same bits.

    Returns:
        The new model with the gate's estimate; nothing is saved.

    Raises:
        ParameterError: a model that cannot learn from reactions.
        DataError: a log that cannot be, or is too short.
    """
    before = before_reactions(model)
    lists = lists_of(log, goal)
    count = len(lists.reward)
    if count < FEWEST:
        raise DataError(f"the log holds {count} lists", expected=f"at least {FEWEST}")
    older = int(count * (1 - GATE))
    found = learn_reactions(before, lists.take(np.arange(older)), run)
    new = with_correction(before, found.correction, log.digest())
    shown = options or Options()
    newest, policies = lists.take(np.arange(older, count)), (Policy(new, shown), Policy(model, shown))
    checked = estimate(newest, *policies, clip=clip, confidence=CONFIDENCE)
    return Learned(new, checked, found.attention.tolist(), found.strength, older)
