"""Which reasons work, against counting by hand and plain NumPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from test_online_log import exposure, put
from whyrank.online import events
from whyrank.online.store import Store
from whyrank.online.working import ordered, read_shown, working


def by_hand(rows: list[tuple[str, int, bool, str]], key: str) -> dict[str, float]:
    """The figures of one key in plain words of arithmetic."""
    own = [row for row in rows if row[3] == key]
    n, c = len(own), sum(hit for _, _, hit, _ in own)
    people = sorted({user for user, *_ in own})
    rate = c / n
    residuals = [sum(hit - rate for user, _, hit, _ in own if user == each) for each in people]
    usual = [np.mean([hit for _, place, hit, _ in rows if place == position]) for _, position, _, _ in own]
    if len(people) > 1 and 0 < rate < 1:
        variance = len(people) / (len(people) - 1) * float(np.square(residuals).sum()) / n**2
        size = min(n, rate * (1 - rate) / variance) if variance else n
    else:
        size = len(people)
    z = 1.959964
    middle, half = rate + z**2 / (2 * size), z * np.sqrt(rate * (1 - rate) / size + z**2 / (4 * size**2))
    low, high = ((middle + sign * half) / (1 + z**2 / size) for sign in (-1, 1))
    figures = {"shown": n, "users": len(people), "events": c, "rate": rate, "expected": float(np.mean(usual))}
    return {**figures, "low": max(float(low), 0.0), "high": min(float(high), 1.0)}


ROWS = st.lists(
    st.tuples(st.sampled_from(["ann", "bob", "eve"]), st.integers(1, 3), st.booleans(), st.sampled_from("xyz")),
    min_size=1,
    max_size=40,
)


@given(ROWS)
def test_figures_are_those_of_counting_by_hand(rows: list[tuple[str, int, bool, str]]) -> None:
    table = working(pl.DataFrame(rows, ["user", "position", "hit", "key"], orient="row"), "key", minimum=1)
    assert table["key"].to_list() == sorted({row[3] for row in rows})
    for row in table.to_dicts():
        expected = by_hand(rows, row.pop("key"))
        assert row == pytest.approx(expected, abs=1e-5)
        assert row["low"] <= row["rate"] + 1e-5
        assert row["rate"] <= row["high"] + 1e-5


def test_ten_lists_of_one_person_tell_less_than_ten_people() -> None:
    def high(users: list[str]) -> float:
        rows = {"user": users, "position": [1] * 10, "hit": [False] * 10, "key": ["x"] * 10}
        return float(working(pl.DataFrame(rows), "key", minimum=1)["high"][0])

    assert high(["ann"] * 10) > 2 * high([f"u{at}" for at in range(10)])


def test_intervals_cover_the_truth_of_people_who_differ() -> None:
    """400 logs of 60 people who see a reason five times each, with rates of their own around 0.3."""
    generator = np.random.default_rng(0)
    people, times, logs = 60, 5, 400
    rates = generator.beta(1.5, 3.5, (logs, people))
    hits = generator.random((logs, people, times)) < rates[..., None]
    log, person, _ = np.indices(hits.shape)
    rows = {"user": person.ravel(), "position": np.ones(hits.size, int), "hit": hits.ravel(), "key": log.ravel()}
    table = working(pl.DataFrame(rows), "key", minimum=1)
    covered = ((table["low"] <= 0.3) & (table["high"] >= 0.3)).mean()
    assert 0.92 <= float(covered) <= 0.98  # type: ignore[arg-type]


def test_what_is_certain_comes_first() -> None:
    rows = {"key": ["lucky", "good", "bad"], "shown": [1, 900, 800], "low": [0.2, 0.4, 0.1], "high": [1.0, 0.5, 0.2]}
    table = pl.DataFrame(rows)
    orders = {order: ordered(table, order)["key"].to_list() for order in ("best", "worst", "shown")}
    assert orders["best"] == ["good", "lucky", "bad"]
    assert orders["worst"] == ["bad", "good", "lucky"]
    assert orders["shown"] == ["good", "bad", "lucky"]


def test_only_the_latest_lists_are_read(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path}/store.db").create()
    made = [exposure(user, id=f"{at:032x}", arm="a") for at, user in enumerate(("ann", "bob", "eve"))]  # quiet, clean
    put(store, *made)
    clicks = [{"event": "clicked", "exposure": each.id, "position": 2} for each in made]
    whole = {"event": "clicked", "exposure": made[2].id}  # of the list: says nothing about a reason
    events.add(store, [*clicks, whole, {**clicks[0], "event": "helpful"}])
    latest = read_shown(store, "clicked", lists=2)
    assert (latest.lists, latest.more) == (2, True)
    assert latest.rows.select("explanation", "hit").unique().sort("hit").rows() == [("quiet", False), ("clean", True)]
    assert sorted(latest.rows["user"].unique()) == ["bob", "eve"]
    everything = read_shown(store, "helpful", lists=3)
    assert (everything.lists, everything.more, everything.rows["hit"].sum()) == (3, False, 1)
    assert read_shown(store, "clicked", experiment="test", arm="b").lists == 0
    store.close()
