"""Commands: ab create, list, show, ramp, stop, results."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whyrank.cli.app import Json, app, console, note, print_json, print_text
from whyrank.cli.serve import DEFAULT_STORE, StoreOption
from whyrank.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from whyrank.online.assignment import Experiment
    from whyrank.online.results import Results
    from whyrank.online.store import Store

ab_app = typer.Typer(
    help="Experiments: which of several models, or options, or no reasons at all, people react to best.",
    epilog="Example: `whyrank ab create diverse --arm a=bper --arm b=bper,diversity=0.5`",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)
app.add_typer(ab_app, name="ab")

Name = Annotated[str, typer.Argument(help="The experiment's name.")]


@ab_app.command("create", epilog="Example: `whyrank ab create diverse --arm a=bper --arm b=bper,diversity=0.5`")
def create_command(
    name: Name,
    arm: Annotated[
        list[str],
        typer.Option(help="name=model,option=value; model as it is called in the service, or none: no reasons."),
    ],
    share: Annotated[str | None, typer.Option(help="Shares of the arms, such as 50:50; equal unless given.")] = None,
    ramp: Annotated[float, typer.Option(help="Share of users who take part.", min=0, max=1)] = 1.0,
    metric: Annotated[str, typer.Option(help="What decides: clicked, dismissed, helpful or converted.")] = "clicked",
    planned: Annotated[int, typer.Option(help="Lists for which the intervals are narrowest.", min=1)] = 10_000,
    model: Annotated[
        list[str] | None,
        typer.Option(help="A model folder as it is given to whyrank serve; arms must name one of these. Repeatable."),
    ] = None,
    store: StoreOption = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Start an experiment; the first arm is what the others are compared with."""
    from whyrank.online import ab
    from whyrank.online.assignment import Experiment, parse_arms

    experiment = Experiment(name, parse_arms(arm, share), ramp=ramp, metric=metric, planned=planned)
    _check_models(experiment, model)
    with _opened(store) as opened:
        _show(ab.create(opened, experiment), json)
    if not json:
        note(f'next: ask with "experiment": "{name}", or serve --experiment {name}; then whyrank ab results {name}')


@ab_app.command("list", epilog="Example: `whyrank ab list`")
def list_command(store: StoreOption = DEFAULT_STORE, json: Json = False) -> None:
    """Show all experiments, the newest first."""
    from whyrank.online import ab

    with _opened(store) as opened:
        found = ab.listed(opened)
    if json:
        print_json({"experiments": [each.as_dict() for each in found]})
        return
    for each in found:
        _show(each, False)
    if not found:
        note("no experiment in this store; start one with whyrank ab create")


@ab_app.command("show", epilog="Example: `whyrank ab show diverse`")
def show_command(name: Name, store: StoreOption = DEFAULT_STORE, json: Json = False) -> None:
    """Show one experiment."""
    from whyrank.online import ab

    with _opened(store) as opened:
        _show(ab.found(opened, name), json)


@ab_app.command("ramp", epilog="Example: `whyrank ab ramp diverse 0.5`")
def ramp_command(
    name: Name,
    share: Annotated[float, typer.Argument(help="Share of users who take part.", min=0, max=1)],
    store: StoreOption = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Change the share of users who take part; nobody changes arms."""
    from whyrank.online import ab

    with _opened(store) as opened:
        _show(ab.ramp(opened, name, share), json)


@ab_app.command("stop", epilog="Example: `whyrank ab stop diverse`")
def stop_command(name: Name, store: StoreOption = DEFAULT_STORE, json: Json = False) -> None:
    """End an experiment: everybody gets the default model again."""
    from whyrank.online import ab

    with _opened(store) as opened:
        _show(ab.stop(opened, name), json)


@ab_app.command("results", epilog="Example: `whyrank ab results diverse --markdown report.md`")
def results_command(
    name: Name,
    level: Annotated[float, typer.Option(help="Of all intervals of a metric together.", min=0.5, max=0.999)] = 0.95,
    markdown: Annotated[Path | None, typer.Option(help="Write a page in Markdown to this file.")] = None,
    store: StoreOption = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Show what came of an experiment so far; looking often does no harm."""
    from whyrank.atomic import new_file
    from whyrank.online import ab
    from whyrank.online.results import results
    from whyrank.online.visits import Followed

    with _opened(store) as opened:
        experiment = ab.found(opened, name)
        found = results(Followed(opened, experiment).look(), experiment, level=level)
    if markdown is not None:
        with new_file(markdown) as aside:
            aside.write_text(found.markdown(), encoding="utf-8")
    if json:
        print_json(found.as_dict())
    else:
        _print_results(found)


def _check_models(experiment: Experiment, folders: list[str] | None) -> None:
    """Refuse arms with models that are not served, or say that nobody has looked."""
    from whyrank.online.assignment import NO_REASONS

    wanted = {arm.model: arm.name for arm in experiment.arms if arm.model != NO_REASONS}
    if not folders:
        named = ", ".join(wanted)
        note(f"not checked: the service must serve {named} under this name; give its folders with --model and they are")
        return
    from whyrank.service.settings import served_names

    served = served_names(tuple(folders))
    for model, arm in wanted.items():
        if model not in served:
            raise ParameterError(f"arm {arm}: no model {model!r} would be served; there is {', '.join(served)}")


def _print_results(found: Results) -> None:
    from whyrank.online.results import ARMS, COMPARED, arm_row, compared_row, known_of
    from whyrank.render import Fitted

    print_text(found.verdict)
    compared = [compared_row(each) for each in known_of((*found.comparisons, *found.guardrails, *found.others))]
    tables = ((list(ARMS), [arm_row(each) for each in found.arms]), (list(COMPARED), compared))
    for header, rows in (each for each in tables if each[1]):
        console().print(Fitted(header, rows, drop=header[:1:-1]))
    for each in found.notes():
        note(each)


def _show(experiment: Experiment, json: bool) -> None:
    if json:
        print_json(experiment.as_dict())
        return
    state = "running" if experiment.stopped is None else f"stopped {_date(experiment.stopped)}"
    about = f"{experiment.ramp:.0%} of users, {experiment.metric}, since {_date(experiment.created)}"
    print_text(f"{experiment.name}: {state}, {about}")
    for arm in experiment.arms:
        options = "".join(f", {name}={value}" for name, value in arm.options.items())
        print_text(f"  {arm.name}: {arm.model}{options} ({arm.share:.0%})")


def _date(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


@contextmanager
def _opened(url: str) -> Iterator[Store]:
    from whyrank.online.store import Store

    store = Store(url).create()
    try:
        yield store
    finally:
        store.close()
