"""Commands: fit, add, models."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from whyrank.atomic import check_place, sole_writer
from whyrank.cli.app import (
    Data,
    Json,
    ModelFolder,
    Number,
    RayAddress,
    Threads,
    command,
    console,
    counted,
    new_problems,
    note,
    parse_pairs,
    print_json,
    print_text,
    progress,
    report_problems,
    told_if_interrupted,
    warn_first_run,
)
from whyrank.cli.reading import ReadOptions, with_reading
from whyrank.errors import DataError, ParameterError

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from whyrank.models.base import Model
    from whyrank.training import Monitor
    from whyrank.training.run import Solver

WIDE = 100  # columns of a terminal with room for more than the loss
Settings = Annotated[list[str] | None, typer.Option("--set", help="A parameter of the model: --set factors=50.")]


@command("fit", "whyrank fit split --model bper --set factors=50 -o model")
@with_reading
def fit_command(
    data: Data,
    output: Annotated[Path, typer.Option("-o", "--output", help="The model folder to write.")],
    model: Annotated[str | None, typer.Option(help="Which model, see `whyrank models`; by default our best.")] = None,
    settings: Settings = None,
    config: Annotated[Path | None, typer.Option(help="A configuration file, as `whyrank tune` writes it.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted run from its checkpoint.")] = False,
    threads: Threads = None,
    number: Number = 1,
    ray: RayAddress = None,
    json: Json = False,
    *,
    reading: ReadOptions,
) -> None:
    """Fit a model to triplets (of a split folder: to its training part) and save it."""
    from whyrank.artifacts import MARKER
    from whyrank.data.split import is_split, read_split
    from whyrank.training import History, Run

    chosen = make_model(model, settings, config)
    if is_split(data) and reading.rating_range is not None:
        raise ParameterError(f"{data}: is split already; give --rating-range to whyrank split")
    check_place(output, MARKER)
    if ray is None:
        warn_first_run()
    split = read_split(data, number) if is_split(data) else None
    if split:
        triplets = chosen.parts_of(split)[0]
    else:
        triplets = reading.triplets(data, number)
    checkpoint = output.parent / f".{output.name}.checkpoint"
    if checkpoint.exists() and not resume:
        note("an earlier run was interrupted; this one starts again; --resume would have continued it")
    begin, history = time.perf_counter(), History()
    with ExitStack() as stack:
        stack.enter_context(sole_writer(output))
        stack.enter_context(told_if_interrupted(lambda: kept_by(checkpoint)))
        solver = None if ray is None else stack.enter_context(solver_at(ray, chosen, threads))
        monitors = (bar_monitor(stack.enter_context(progress(json)), chosen.id), history)
        run = Run(threads=threads, monitors=monitors, checkpoint=checkpoint, resume=resume, solver=solver)
        chosen.fit(split or triplets, run=run)
        seconds = time.perf_counter() - begin
        chosen.save(output, {"training": history.rows} if history.rows else None)
        remove_checkpoint(checkpoint)
    if json:
        print_json({"model": chosen.id, "output": output, "triplets": len(triplets), "seconds": seconds})
    else:
        note(f"{chosen.id} fitted to {counted(triplets)} in {seconds:.1f} s -> {output}")
        if chosen.chosen():
            note(f"{chosen.id} {chosen.chosen()}")


@command("add", "whyrank add model new.csv -o larger-model")
@with_reading
def add_command(
    model: ModelFolder,
    texts: Annotated[Path, typer.Argument(help="A file with columns explanation (an id) and text.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The model folder to write.")],
    json: Json = False,
    *,
    reading: ReadOptions,
) -> None:
    """Add new explanations to a fitted bper+, which ranks them by their texts, without fitting again."""
    import polars as pl

    from whyrank.models import BPERPlus, load

    loaded = load(model)
    if not isinstance(loaded, BPERPlus):
        raise ParameterError(f"{model}: is a {loaded.id}, which does not read texts; use a model of bper+")
    problems = new_problems(reading.on_error)
    table = reading.table(texts, ("explanation", "text"), problems)
    if "explanation" not in table.columns:
        raise DataError("no column explanation", path=texts, expected="columns explanation and text")
    empty = table.select(pl.any_horizontal(pl.all().is_null() | (pl.all().cast(pl.String) == ""))).to_series()
    for row in empty.arg_true().to_list():
        problems.add(DataError("an explanation or its text is empty", path=texts, row=row + 1))
    report_problems(problems)
    table = table.filter(~empty)
    loaded.add_explanations(
        table["explanation"].to_list(), table["text"].to_list() if "text" in table.columns else None
    )
    loaded.save(output)
    if json:
        print_json({"model": loaded.id, "output": output, "added": len(table)})
    else:
        note(f"{len(table):,} explanations added, {len(loaded.catalog_.explanations):,} in all -> {output}")


@command("models", "whyrank models --json")
def models_command(json: Json = False) -> None:
    """List the models and their parameters."""
    import dataclasses

    from whyrank.models import MODELS
    from whyrank.models.parameters import as_text

    listed: list[dict[str, Any]] = [
        {
            "id": each.id,
            "summary": each.summary,
            "ranks_items": each.ranks_items,
            "parameters": {
                field.name: {"default": field.default, "help": field.metadata.get("help", "")}
                for field in dataclasses.fields(each)
            },
        }
        for each in MODELS.values()
    ]
    if json:
        print_json({"models": listed})
        return
    width = min(console().width, 100)
    for row in listed:
        named = ", ".join(f"{name}={as_text(about['default'])}" for name, about in row["parameters"].items())
        about = row["summary"] + ("; ranks items, too" if row["ranks_items"] else "")
        print_text(_hanging(f"{row['id']:<11} {about}", width))
        if named:
            print_text(_hanging(f"{'':<11} {named}", width))


def _hanging(text: str, width: int) -> str:
    """A text whose further lines begin below its second column; no name or value is broken."""
    indent = " " * 12
    first, rest = text[:12], text[12:]
    lines = textwrap.wrap(rest, width - 12, break_long_words=False, break_on_hyphens=False)
    return first + f"\n{indent}".join(lines)


@contextmanager
def solver_at(address: str, model: Model, threads: int | None) -> Iterator[Callable[..., Solver]]:
    """What trains a model on the machines of a cluster."""
    from whyrank.lab.ray.session import connect
    from whyrank.lab.ray.training import require_blocks, solver_on

    require_blocks(model)  # before a cluster is started
    with connect(address) as cluster, solver_on(cluster, model, threads) as solver:
        yield solver


def make_model(name: str | None, settings: list[str] | None, config: Path | None = None) -> Model:
    """A model by its id, its parameters from a configuration file and then from `--set`."""
    import json

    from whyrank.models import DEFAULT, model_class
    from whyrank.models.parameters import parse

    values: dict[str, object] = {}
    if config is not None:
        try:
            document = json.loads(config.read_text(encoding="utf-8"))
            meant, values = str(document["model"]), dict(document["parameters"])
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ParameterError(f"{config}: is not a configuration file as `whyrank tune` writes it") from error
        if name is not None and name != meant:
            raise ParameterError(f"{config}: is for {meant}, and --model says {name}; leave out one of them")
        name = meant
    kind = model_class(name or DEFAULT)
    values |= parse(kind, parse_pairs(settings or [], "--set"))
    try:
        return kind(**values)
    except TypeError as error:
        raise ParameterError(f"{name}: {error}") from error


def bar_monitor(bar: Progress, label: str) -> Monitor:
    """Draws epochs as they end."""
    from whyrank.training import Epoch, Monitor, Storage

    class Bar(Monitor):
        task: TaskID | None = None

        def on_epoch(self, epoch: Epoch, storage: Storage | None) -> bool:
            if self.task is None:
                self.task = bar.add_task(f"fitting {label}", total=epoch.of, remark="")
            remark = f"loss {epoch.loss:.4f}"
            if bar.console.width >= WIDE:
                remark += f", {per_second(epoch.updates_per_second)} updates/s"
            bar.update(self.task, completed=epoch.number, total=epoch.of, remark=remark)
            return False

    return Bar()


def per_second(rate: float) -> str:
    """A rate in three figures: 950, 12.3 k, 4.56 M."""
    for size, unit in ((1e6, " M"), (1e3, " k")):
        if rate >= size:
            return f"{rate / size:.3g}{unit}"
    return f"{rate:.0f}"


def kept_by(checkpoint: Path) -> str:
    """How an interrupted fit goes on."""
    return "the same command with --resume goes on" if checkpoint.exists() else "nothing was learned yet"


def remove_checkpoint(path: Path) -> None:
    import shutil

    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
