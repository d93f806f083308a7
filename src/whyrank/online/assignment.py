"""Experiments and who gets which arm: by a salted hash of the user, so nothing is stored."""

from __future__ import annotations

import hashlib
import json
import math
import re
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from whyrank.errors import ParameterError
from whyrank.explain.options import ItemGoals, Options
from whyrank.online.log import KINDS

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
NO_REASONS = "none"  # as the model of an arm: lists without reasons
PLANNED = 10_000  # lists for which the intervals of an experiment are narrowest unless another number is given
MOST_ARMS = 20
LISTS = ("texts", "numbers")  # kinds of options that an arm cannot have
GOALS = tuple(each.name for each in ItemGoals.declared() if each.kind not in LISTS)


@dataclass(frozen=True)
class Arm:
    """One of the things that are compared.

    A model by its name in the service, with options, or no reasons at all. Options are those of
    rankings, and goals of recommended lists that are one number.
    """

    name: str
    model: str
    share: float
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise ParameterError(f"arm {self.name!r}: use letters, digits and . _ + -, at most 64")
        if not self.model:
            raise ParameterError(f"arm {self.name}: names no model")
        if not (isinstance(self.share, int | float) and 0 < self.share < math.inf):
            raise ParameterError(f"arm {self.name}: share is {self.share!r}; use a number above 0")
        Options.of(self.ranking)
        ItemGoals(**self.goals)
        if self.model == NO_REASONS and self.options:
            raise ParameterError(f"arm {self.name}: without reasons there are no options; leave them out")

    @property
    def goals(self) -> dict[str, Any]:
        """What lists of items are for, in this arm."""
        return {name: value for name, value in self.options.items() if name in GOALS}

    @property
    def ranking(self) -> dict[str, Any]:
        """The options without goals."""
        return {name: value for name, value in self.options.items() if name not in GOALS}

    def as_dict(self) -> dict[str, object]:
        return {"name": self.name, "model": self.model, "share": self.share, "options": dict(self.options)}


@dataclass(frozen=True)
class Experiment:
    """Arms, the first of which is what the others are compared with, and the share of users who take part.

    >>> arms = (Arm("a", "bper", 0.5), Arm("b", "profile", 0.5, {"diversity": 0.5}))
    >>> test = Experiment("diverse", arms, salt="00", created=0)
    >>> [test.arm_of(user).name for user in ("ann", "bob", "eve", "joe")]
    ['a', 'b', 'a', 'a']
    """

    name: str
    arms: tuple[Arm, ...]
    salt: str = field(default_factory=lambda: secrets.token_hex(16))
    created: int = field(default_factory=lambda: int(time.time()))
    stopped: int | None = None
    ramp: float = 1.0
    metric: str = "clicked"
    planned: int = PLANNED

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise ParameterError(f"experiment {self.name!r}: use letters, digits and . _ + -, at most 64")
        if not 2 <= len(self.arms) <= MOST_ARMS:
            raise ParameterError(f"experiment {self.name}: has {len(self.arms)} arms; use 2 to {MOST_ARMS}")
        if len({arm.name for arm in self.arms}) < len(self.arms):
            raise ParameterError(f"experiment {self.name}: two arms have the same name")
        if not 0 <= self.ramp <= 1:
            raise ParameterError(f"ramp is {self.ramp}; use a share of users from 0 to 1")
        if self.metric not in KINDS:
            raise ParameterError(f"metric is {self.metric!r}; use one of {', '.join(KINDS)}")
        if self.planned < 1:
            raise ParameterError(f"planned is {self.planned}; use a number of lists of at least 1")
        total = math.fsum(arm.share for arm in self.arms)
        object.__setattr__(self, "arms", tuple(replace(arm, share=arm.share / total) for arm in self.arms))

    def arm_of(self, user: str) -> Arm | None:
        """Return the arm of a user; None: does not take part.

        A user takes part from some ramp on and in one arm for ever, whatever the ramp was when they
        first came.
        """
        digest = hashlib.sha256(f"{self.salt}\0{user}".encode()).digest()
        inside, at = (int.from_bytes(part, "big") / 2**64 for part in (digest[:8], digest[8:16]))
        if inside >= self.ramp:
            return None
        for arm in self.arms[:-1]:
            at -= arm.share
            if at < 0:
                return arm
        return self.arms[-1]

    def as_dict(self) -> dict[str, object]:
        """Return JSON without the salt, which would let others compute who is in which arm."""
        shown = ("name", "created", "stopped", "ramp", "metric", "planned")
        return {name: getattr(self, name) for name in shown} | {"arms": [arm.as_dict() for arm in self.arms]}


def parse_arms(texts: Sequence[str], share: str | None) -> tuple[Arm, ...]:
    """Read arms from `name=model,option=value` and their shares from `50:50`, equal by default.

    >>> [arm.options for arm in parse_arms(["a=bper", "b=none"], "90:10")]
    [{}, {}]
    """
    try:
        shares = [1.0] * len(texts) if share is None else [float(each) for each in share.split(":")]
    except ValueError:
        raise ParameterError(f"--share takes numbers as in 50:50, not {share!r}") from None
    if len(shares) != len(texts):
        raise ParameterError(f"--share has {len(shares)} numbers for {len(texts)} arms")
    arms = []
    for text, part in zip(texts, shares, strict=True):
        name, separator, rest = text.partition("=")
        if not separator:
            raise ParameterError(f"--arm takes name=model,option=value, not {text!r}")
        model, *given = (each.strip() for each in rest.split(","))
        arms.append(Arm(name.strip(), model, part, dict(_option(each) for each in given)))
    return tuple(arms)


def _option(text: str) -> tuple[str, object]:
    """Read an option of a ranking; lists are not for the command line."""
    name, separator, value = text.partition("=")
    declared = (*Options.declared(), *ItemGoals.declared())
    known = {each.name: each for each in declared if each.kind not in LISTS}
    if not separator or name not in known:
        raise ParameterError(f"no option {name!r} of an arm; there are {', '.join(known)}")
    if known[name].kind == "choice":
        return name, value
    try:
        return name, json.loads(value)
    except ValueError:
        raise ParameterError(f"option {name} of an arm is {value!r}; use a number, true or false") from None
