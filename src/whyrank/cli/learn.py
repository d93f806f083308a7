"""Commands: estimate, learn."""

from __future__ import annotations

from datetime import UTC, datetime
from math import ceil, isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whyrank.atomic import check_place, sole_writer
from whyrank.cli.app import (
    Json,
    ModelFolder,
    command,
    console,
    note,
    print_json,
    print_text,
    progress,
    told_if_interrupted,
)
from whyrank.cli.fit import bar_monitor, remove_checkpoint
from whyrank.cli.options import with_options
from whyrank.errors import ParameterError
from whyrank.explain.options import Options

if TYPE_CHECKING:
    from whyrank.online.estimate import Estimate
    from whyrank.online.log import Log

LOG = "Exposures and events: a folder, or a store (the path of a SQLite file, or a URL)."
GoalText = Annotated[
    str,
    typer.Option("--goal", help="What reactions are worth: clicked=1,dismissed=-1."),
]
Clip = Annotated[float, typer.Option(help="The largest weight of one list.", min=1)]
Route = Annotated[str | None, typer.Option(help="Only lists of this route, explain or recommend.")]
UNTIL = "Only what happened before this time (UTC, 2026-11-30), however the log grows."
Until = Annotated[datetime | None, typer.Option(help=UNTIL)]
REFUSED = 3  # exit code: the gate let nothing through, or the log cannot tell
SAVED = 2.0  # seconds between two checkpoints of learn


@command("estimate", "whyrank estimate log --model new --baseline model --explore 0.5")
@with_options
def estimate_command(
    log: Annotated[str, typer.Argument(help=LOG)],
    model: Annotated[Path, typer.Option(help="The folder of the model to estimate.")],
    baseline: Annotated[
        Path | None,
        typer.Option(help="The model folder to compare with, under the same options; by default what was shown."),
    ] = None,
    goal: GoalText = "clicked=1",
    clip: Clip = 50.0,
    route: Route = None,
    until: Until = None,
    confidence: Annotated[float, typer.Option(help="The confidence of the intervals.", min=0.5, max=0.999)] = 0.95,
    json: Json = False,
    *,
    options: Options,
) -> None:
    """Estimate from a log what a model or an option would have achieved, or say why the log cannot tell.

    Exit code 3: the log cannot tell.
    """
    from whyrank.models import load
    from whyrank.online.estimate import estimate
    from whyrank.online.propensity import Policy
    from whyrank.online.rewards import Goal

    wanted = Goal.parse(goal)
    candidate = Policy(load(model), options)
    compared = None if baseline is None else Policy(load(baseline), options)
    shown = _read(log, route, until)
    found = estimate(shown, candidate, compared, goal=wanted, clip=clip, confidence=confidence)
    if json:
        print_json(found.as_dict())
    else:
        print_text(found.verdict())
        show_estimate(found)
    if found.refused:
        raise typer.Exit(REFUSED)


@command("learn", "whyrank learn model --log log -o new --explore 0.5")
@with_options
def learn_command(
    model: ModelFolder,
    log: Annotated[str, typer.Option("--log", "--store", help=LOG)],
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder for the new model; written if it passes.")],
    goal: GoalText = "clicked=1",
    clip: Clip = 50.0,
    route: Route = None,
    until: Until = None,
    force: Annotated[bool, typer.Option("--force", help="Write the new model even if it does not pass.")] = False,
    json: Json = False,
    *,
    options: Options,
) -> None:
    """Learn from people's reactions which reasons work. The new model is written only if it is not worse.

    Give the options under which lists are shown. An interrupted command continues when it is run again, unless the log
    has grown meanwhile (see --until). Exit code 3: the new model did not pass and is not written.
    """
    from whyrank.artifacts import MARKER
    from whyrank.models import load
    from whyrank.online.learn import learn
    from whyrank.online.rewards import Goal
    from whyrank.training import Run

    wanted, loaded = Goal.parse(goal), load(model)
    if output.exists() and output.resolve() == model.resolve():
        raise ParameterError(f"{output}: is the model itself; name another folder, so that there is a way back")
    check_place(output, MARKER)
    checkpoint = output.parent / f".{output.name}.checkpoint"

    def how_to_go_on() -> str:
        return "the same command goes on" if checkpoint.exists() else "nothing was learned yet"

    with sole_writer(output), told_if_interrupted(how_to_go_on), progress(json) as bar:
        monitors = (bar_monitor(bar, loaded.id),)
        run = Run(monitors=monitors, checkpoint=checkpoint, checkpoint_seconds=SAVED)
        shown = _read(log, route, until)
        found = learn(loaded, shown, options, goal=wanted, clip=clip, run=run)
        written = found.passed or force
        if written:
            found.model.save(output)
        remove_checkpoint(checkpoint)
    if json:
        print_json(found.as_dict() | {"output": output if written else None})
    else:
        looks = ", ".join(f"{100 * each[0]:.0f}%" for each in found.attention)
        print_text(f"learned from {found.lists:,} lists: {found.strength}; people look at positions: {looks}")
        print_text(found.verdict())
        show_estimate(found.estimate)
        if written:
            note(f"model -> {output}" + ("" if found.passed else " (--force)"))
    if not written:
        raise typer.Exit(REFUSED)


def _read(log: str, route: str | None, until: datetime | None) -> Log:
    """Read a log; a time without a zone is UTC."""
    from whyrank.online.log import Log

    if until is None:
        return Log.read(log).of_route(route)
    zoned = until if until.tzinfo else until.replace(tzinfo=UTC)
    return Log.read(log, until=ceil(zoned.timestamp())).of_route(route)


def show_estimate(found: Estimate) -> None:
    """Print a table of all estimators, unless the log cannot tell: figures would say nothing."""
    from whyrank.render import FittingTable

    people = f"{found.lists:,} lists of {found.users:,} people, {found.logged:.4f} per list as shown"
    if found.refused:
        note(f"the log: {people}; --json has the figures that do not count")
    else:
        headers = ["estimator", "per list", "interval", "baseline", "uplift"]
        headers += ["interval of uplift", "effective lists"]
        rows = []
        for each in found.lines:
            interval = f"{each.low:.4f} to {each.high:.4f}"
            uplift = uplift_of(each.uplift, each.uplift_low, each.uplift_high)
            figures = (f"{each.value:.4f}", interval, f"{each.baseline:.4f}")
            rows.append([each.estimator, *figures, *uplift, f"{each.ess:,.0f}"])
        drop = ["baseline", "interval", "effective lists", "uplift"]
        console().print(FittingTable(headers, rows, title=people, drop=drop))
    for text in found.notes:
        note(text)


def uplift_of(uplift: float, low: float, high: float) -> tuple[str, str]:
    """Write the uplift and its interval; empty where the baseline got nothing."""
    if isnan(uplift):
        return "", ""
    return f"{100 * uplift:+.1f}%", f"{100 * low:+.1f}% to {100 * high:+.1f}%"
