"""What the tests of the page and its pictures share: the browser, and an experiment with two weeks of clicks."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np

from whyrank.online import ab, tables
from whyrank.online.assignment import Experiment, parse_arms
from whyrank.online.store import Store
from whyrank.online.writer import Exposure

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


def experiment_of_two_weeks(
    store: Store, explanations: list[str], lists: int = 1600, model: str = "counts", now: float | None = None
) -> None:
    """An experiment in which b gets more clicks, and the first explanation more than the others."""
    generator, now = np.random.default_rng(0), int(now or time.time())
    arms = parse_arms([f"a={model}", f"b={model},diversity=0.5"], None)
    test = Experiment("diverse", arms, "00", now - 14 * 86_400)
    ab.create(store, test)
    rows, clicks = [], []
    for at in range(lists):
        user, shown = f"u{generator.integers(lists // 2):06d}", generator.permutation(min(len(explanations), 12))[:3]
        arm = test.arm_of(user)
        assert arm is not None
        slate = [{"i": f"i{at % 20:05d}", "e": explanations[each], "p": 1.0} for each in shown]
        head = (f"{at:032x}", test.created + at * (14 * 86_400) // lists, user, "explain", model, "d1", "diverse")
        rows.append(Exposure(*head, arm.name, "{}", json.dumps(slate, separators=(",", ":")), 3)._asdict())
        for place, each in enumerate(shown):
            if generator.random() < (0.08 if arm.name == "a" else 0.16) * (2 if each == 0 else 1) / (1 + 0.3 * place):
                about = {
                    "key": None,
                    "value": 1.0,
                    "position": place + 1,
                    "event": "clicked",
                    "exposure": rows[-1]["id"],
                }
                clicks.append({**about, "time": rows[-1]["time"]})
    with store.writing() as connection:
        connection.execute(tables.exposures.insert(), rows)
        connection.execute(tables.events.insert(), clicks)
