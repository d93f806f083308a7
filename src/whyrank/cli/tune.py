"""Command: tune."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from whyrank.atomic import sole_writer
from whyrank.cli.app import (
    Columns,
    Data,
    Json,
    Lower,
    Number,
    RayAddress,
    Seed,
    Threads,
    Trim,
    command,
    console,
    note,
    print_json,
    progress,
    told_if_interrupted,
    workers_at,
)
from whyrank.cli.measure import Candidates
from whyrank.errors import ParameterError
from whyrank.render import FittingTable

TRIALS = 40


@command("tune", "whyrank tune triplets.parquet --model bper --trials 40 -o configs/bper.json")
def tune_command(
    data: Data,
    model: Annotated[str, typer.Option(help="Which model, see `whyrank models`.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The configuration to write, a .json file.")],
    trials: Annotated[int | None, typer.Option(help=f"How many trials in all; {TRIALS} unless given.", min=1)] = None,
    seconds: Annotated[float | None, typer.Option(help="Start no more trials after this many seconds.", min=0)] = None,
    sampler: Annotated[str, typer.Option(help="tpe, or grid (the paper's).")] = "tpe",
    space: Annotated[Path | None, typer.Option(help="A JSON file with your own search space.")] = None,
    candidates: Candidates = "pool",
    number: Number = 1,
    seed: Seed = 0,
    threads: Threads = None,
    columns: Columns = None,
    trim: Trim = False,
    lower: Lower = False,
    ray: RayAddress = None,
    json: Json = False,
) -> None:
    """Find good parameters on validation records; `whyrank fit --config` and `experiment --config` read them.

    Trials are stored next to the output (.sqlite): an interrupted search continues, and a longer one adds to it.
    """
    from whyrank.cli.experiment import read_or_draw
    from whyrank.lab.experiments.spaces import space_of
    from whyrank.lab.experiments.tuning import tune

    if output.suffix != ".json":
        raise ParameterError(f"-o is {str(output)!r}; name a .json file")
    where = space_of(model, sampler, space)
    splits = read_or_draw(data, number, seed, columns, trim, lower)
    if number > len(splits):
        raise ParameterError(f"--number is {number}; {data} has {len(splits)} splits")
    if trials is None and seconds is None and sampler == "tpe":
        trials = TRIALS
    goes_on = told_if_interrupted(lambda: "the same command goes on after the last whole trial")
    with goes_on, sole_writer(output), workers_at(ray) as workers, progress(json) as bar:
        task = bar.add_task(f"tuning {model}", total=trials, remark="")

        def tell(done: int, of: int | None, what: str) -> None:
            bar.update(task, completed=done, total=of, remark=what)

        found = tune(
            model.lower(),
            splits[number - 1],
            where,
            sampler=sampler,  # type: ignore[arg-type]
            trials=trials,
            seconds=seconds,
            storage=output.with_suffix(".sqlite"),
            seed=seed,
            threads=threads,
            tell=tell,
            workers=workers,
            candidates=candidates,  # type: ignore[arg-type]
        )
        found.write(output)
    if json:
        print_json(found.document() | {"output": output})
        return
    rows = [
        [name, f"{value:.4g}" if isinstance(value, float) else str(value)] for name, value in found.parameters.items()
    ]
    rows += [
        [f"NDCG@10 of {kind}", f"{100 * measured:.3f} %"]
        for kind, measured in zip(found.tasks, found.values, strict=True)
    ]
    title = f"{found.model}: best of {len(found.trials)} trials on validation"
    console().print(FittingTable(["parameter", "value"], rows, title=title))
    note(f"{output}; all trials in {output.with_suffix('.csv')}")
