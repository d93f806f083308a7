"""Commands: ab create, list, show, ramp, stop, results."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whyrank.atomic import write_text
from whyrank.cli.app import Json, app, command, console, note, print_json, print_text
from whyrank.cli.labels import LabelledGroup
from whyrank.cli.serve import DEFAULT_STORE, StoreOption
from whyrank.cli.stores import opened_store, store_option
from whyrank.errors import ParameterError

if TYPE_CHECKING:
    from whyrank.online.assignment import Experiment
    from whyrank.online.results import Results

ab_app = typer.Typer(
    cls=LabelledGroup,
    help="Run experiments: find out which models or options people react to best, or whether reasons help at all.",
    epilog="Example: `whyrank ab create diverse --arm a=bper --arm b=bper,diversity=0.5`",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)
app.add_typer(ab_app, name="ab")

Name = Annotated[str, typer.Argument(help="The experiment's name.")]
Ramp = Annotated[float, typer.Argument(help="Share of users who take part.", min=0, max=1)]


@command("create", "whyrank ab create diverse --arm a=bper --arm b=bper,diversity=0.5", ab_app)
def create_command(
    name: Name,
    arm: Annotated[
        list[str],
        typer.Option(help="name=model,option=value; model as it is called in the service, or none: no reasons."),
    ],
    share: Annotated[str | None, typer.Option(help="Shares of the arms, such as 50:50; by default equal.")] = None,
    ramp: Annotated[float, typer.Option(help="Share of users who take part.", min=0, max=1)] = 1.0,
    metric: Annotated[str, typer.Option(help="What decides: clicked, dismissed, helpful or converted.")] = "clicked",
    planned: Annotated[
        int, typer.Option(help="The number of lists you plan for; intervals are narrowest there.", min=1)
    ] = 10_000,
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="A model folder as it is given to whyrank serve; arms must name one of these. May be repeated."
        ),
    ] = None,
    store: StoreOption = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Start an experiment; the first arm is what the others are compared with."""
    from whyrank.online import ab
    from whyrank.online.assignment import Experiment, parse_arms

    arms = parse_arms(arm, share)
    experiment = Experiment(name, arms, ramp=ramp, metric=metric, planned=planned)
    _check_models(experiment, model)
    with opened_store(store) as opened:
        _show(ab.create(opened, experiment), json)
    if not json:
        there = store_option(store)
        service = f"whyrank serve --experiment {name}{there}"
        ask = f'ask a service with "experiment": "{name}", or {service}'
        note(f"next: {ask}; then whyrank ab results {name}{there}")


@command("list", "whyrank ab list", ab_app)
def list_command(store: StoreOption = DEFAULT_STORE, json: Json = False) -> None:
    """Show all experiments, the newest first."""
    from whyrank.online import ab
    from whyrank.online.store import shown_url

    with opened_store(store, makes=False) as opened:
        found = ab.listed(opened)
    if json:
        print_json({"experiments": [each.as_dict() for each in found]})
        return
    for each in found:
        _show(each, False)
    if not found:
        start = f"whyrank ab create{store_option(store)}"
        note(f"no experiment in {shown_url(store)}; start one with {start}")


@command("show", "whyrank ab show diverse", ab_app)
def show_command(name: Name, store: StoreOption = DEFAULT_STORE, json: Json = False) -> None:
    """Show one experiment."""
    from whyrank.online import ab

    with opened_store(store, makes=False) as opened:
        _show(ab.found(opened, name), json)


@command("ramp", "whyrank ab ramp diverse 0.5", ab_app)
def ramp_command(name: Name, share: Ramp, store: StoreOption = DEFAULT_STORE, json: Json = False) -> None:
    """Change the share of users who take part; nobody changes arms."""
    from whyrank.online import ab

    with opened_store(store, makes=False) as opened:
        _show(ab.ramp(opened, name, share), json)


@command("stop", "whyrank ab stop diverse", ab_app)
def stop_command(name: Name, store: StoreOption = DEFAULT_STORE, json: Json = False) -> None:
    """End an experiment: everybody gets the default model again."""
    from whyrank.online import ab

    with opened_store(store, makes=False) as opened:
        _show(ab.stop(opened, name), json)


@command("results", "whyrank ab results diverse --markdown report.md", ab_app)
def results_command(
    name: Name,
    level: Annotated[
        float, typer.Option(help="The confidence of all intervals of a metric together.", min=0.5, max=0.999)
    ] = 0.95,
    markdown: Annotated[Path | None, typer.Option(help="Write a page in Markdown to this file.")] = None,
    store: StoreOption = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Show the results of an experiment so far. You may look as often as you like."""
    from whyrank.online import ab
    from whyrank.online.results import results
    from whyrank.online.visits import Followed

    with opened_store(store, makes=False) as opened:
        experiment = ab.found(opened, name)
        found = results(Followed(opened, experiment).poll(), experiment, level=level)
    if markdown is not None:
        write_text(markdown, found.markdown())
    if json:
        print_json(found.as_dict())
    else:
        _print_results(found)


def _check_models(experiment: Experiment, folders: list[str] | None) -> None:
    """Refuse arms with models that are not served, or say that nobody has looked."""
    from whyrank.online.assignment import NO_REASONS

    wanted = {arm.model: arm.name for arm in experiment.arms if arm.model != NO_REASONS}
    if not folders:
        named = f"the service must serve {', '.join(wanted)} under this name"
        note(f"not checked: {named}; give its folders with --model and they are")
        return
    from whyrank.service.settings import served_names

    served = served_names(tuple(folders))
    for model, arm in wanted.items():
        if model not in served:
            there = f"there is {', '.join(served)}"
            raise ParameterError(f"arm {arm}: no model {model!r} would be served; {there}")


def _print_results(found: Results) -> None:
    from whyrank.online.results import ARMS, COMPARED, rows_of
    from whyrank.render import FittingTable

    print_text(found.verdict)
    compared = rows_of((*found.comparisons, *found.guardrails, *found.others))
    for header, rows in ((list(ARMS), [each.row() for each in found.arms]), (list(COMPARED), compared)):
        if rows:
            console().print(FittingTable(header, rows, drop=header[:1:-1]))
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
