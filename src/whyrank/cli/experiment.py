"""Command: experiment."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whyrank.atomic import sole_writer
from whyrank.cli.app import (
    Columns,
    Data,
    Json,
    Lower,
    RayAddress,
    Seed,
    Threads,
    Trim,
    command,
    note,
    print_json,
    progress,
    told_if_interrupted,
    workers_at,
)
from whyrank.cli.measure import Candidates
from whyrank.cli.reading import ReadOptions
from whyrank.cli.serve import Titles
from whyrank.errors import ParameterError

if TYPE_CHECKING:
    from rich.progress import Progress

    from whyrank.data import Split

NAMES = "datasets, ranking, mu, sparsity, alpha, joint, cases, relation, beyond"
LARGE = 2_000_000  # records of data that is not held once per core


@command("experiment", "whyrank experiment all triplets.parquet -o report")
def experiment_command(
    name: Annotated[str, typer.Argument(help=f"all, or some of: {NAMES}; separated by commas.")],
    data: Data,
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder for the report.")],
    splits: Annotated[int, typer.Option(help="How many splits; of a split folder: at most that many.", min=1)] = 5,
    models: Annotated[str | None, typer.Option(help="Model ids, separated by commas.")] = None,
    config: Annotated[Path | None, typer.Option(help="A folder of configurations that `whyrank tune` wrote.")] = None,
    tune: Annotated[
        int,
        typer.Option(
            help="First tune each model for every split, with this many trials on its validation part.", min=0
        ),
    ] = 0,
    candidates: Candidates = "pool",
    pairs: Annotated[list[str] | None, typer.Option("--pair", help="A case to show: --pair user,item.")] = None,
    titles: Titles = None,
    cache: Annotated[Path | None, typer.Option(help="The folder for finished runs; by default OUTPUT/runs.")] = None,
    seed: Seed = 0,
    threads: Threads = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            help=f"Runs in parallel, one thread each; as many as threads, or 1 over {LARGE:,} records.", min=1
        ),
    ] = None,
    columns: Columns = None,
    trim: Trim = False,
    lower: Lower = False,
    ray: RayAddress = None,
    json: Json = False,
) -> None:
    """Make the paper's tables and figures, and more, from any data set. Finished runs are reused."""
    from whyrank.data.names import read_titles
    from whyrank.lab.experiments.cache import Cache
    from whyrank.lab.experiments.lab import Lab, of_same_data, read_configs, read_tuned
    from whyrank.lab.experiments.suite import names_of, run, tune_first
    from whyrank.lab.experiments.workers import processes

    names = names_of(name)
    if candidates != "pool" and "ranking" not in names:
        raise ParameterError("--candidates is for the experiment ranking; others rank the whole pool")
    given = config if config is not None and (config.exists() or not tune) else None
    lab = Lab(
        name=data.resolve().name.split(".")[0],
        splits=read_or_draw(data, splits, seed, columns, trim, lower),
        cache=Cache(cache or output / "runs"),
        configs=read_configs(given),
        candidates=candidates,  # type: ignore[arg-type]
        models=models.lower().split(",") if models else None,
        pairs=[_pair(text) for text in pairs or []],
        titles=read_titles(titles),
        threads=threads,
    )
    if given is not None:
        lab.tuned = read_tuned(given, len(lab.splits))
        if len(lab.splits) > 1 and (same := of_same_data(given, lab.data.digest())):
            note(
                f"{', '.join(same)}: tuned on one split of these data, whose validation records may be test records of "
                "others; --tune tunes for every split"
            )
    if jobs is None:
        jobs = 1 if lab.data.records > LARGE else threads or os.cpu_count() or 1
    with ExitStack() as stack:
        stack.enter_context(told_if_interrupted(lambda: "the same command goes on after the last whole run"))
        stack.enter_context(sole_writer(output))
        cluster = stack.enter_context(workers_at(ray))
        tell = teller(stack.enter_context(progress(json)))
        if tune:
            tune_first(names, lab, config or output / "configs", tune, tell, cluster)
        beside = stack.enter_context(processes(jobs)) if cluster is None and jobs > 1 else None
        page, found = run(names, lab, output, tell, cluster or beside)
    for model, reason in lab.skipped.items():
        note(f"{model} was left out: {reason}")
    if json:
        print_json(found | {"report": page})
    else:
        note(f"report -> {page}")


def read_or_draw(
    data: Path, count: int, seed: int, columns: str | None, trim: bool, lower: bool = False
) -> list[Split]:
    """The splits of a folder that has some, or fresh ones."""
    from whyrank.data import read_splits
    from whyrank.data import splits as draw
    from whyrank.data.split import is_split, split_numbers
    from whyrank.errors import DataError

    if data.is_dir():
        try:
            numbered = is_split(data) or bool(split_numbers(data))
        except DataError:
            numbered = False
        if numbered:
            found = read_splits(data)
            if len(found) < count:
                note(f"{data} holds {len(found)} of the {count} splits asked for; using those")
            return found[:count]
    return draw(ReadOptions(columns, trim=trim, lower=lower).triplets(data), count, seed=seed)


def teller(bar: Progress) -> Callable[[str, int, int], None]:
    """Draws runs as they start."""
    task = bar.add_task("running", total=None, remark="")

    def tell(what: str, done: int, of: int) -> None:
        bar.update(task, description=what, completed=done, total=of)

    return tell


def _pair(text: str) -> tuple[str, str]:
    user, comma, item = text.partition(",")
    if not comma:
        raise ParameterError(f"--pair takes user,item, not {text!r}")
    return user, item
