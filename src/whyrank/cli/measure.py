"""Commands: evaluate, compare."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whyrank.cli.app import (
    Json,
    ModelFolder,
    Number,
    SplitFolder,
    Threads,
    command,
    console,
    note,
    print_json,
    progress,
    told_if_interrupted,
    warn_first_run,
)
from whyrank.errors import ParameterError
from whyrank.render import FittingTable

if TYPE_CHECKING:
    from whyrank.evaluation import Evaluation
    from whyrank.models.base import Model

Candidates = Annotated[
    str,
    typer.Option(
        help="What is ranked for a pair: pool (everything, the paper's), item (what the training part says about the "
        "item), item-all (what anybody ever said about it, test included; StaR's) or served (what explain shows)."
    ),
]
At = Annotated[int, typer.Option("--k", "-k", help="Length of the lists that are measured.", min=1)]


@command("evaluate", "whyrank evaluate model split")
def evaluate_command(
    model: ModelFolder,
    split: SplitFolder,
    k: At = 10,
    part: Annotated[str, typer.Option(help="test or validation.")] = "test",
    candidates: Candidates = "pool",
    save: Annotated[
        bool, typer.Option("--save", help="Store the figures in the model folder, with a curve over mu, for the page.")
    ] = False,
    alpha: Annotated[
        Path | None, typer.Option(help="With --save: results.json of `whyrank experiment alpha`, for its curve.")
    ] = None,
    number: Number = 1,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Measure a fitted model on the test part of a split."""
    from whyrank.artifacts import add_report
    from whyrank.data import read_split
    from whyrank.evaluation import evaluate
    from whyrank.evaluation.comparison import reach_text
    from whyrank.lab.experiments.record import alpha_curve, record
    from whyrank.models import load

    if part not in ("test", "validation"):
        raise ParameterError(f"--part is {part!r}; use test or validation")
    if alpha is not None and not save:
        raise ParameterError("--alpha is kept with the figures; give --save, too")
    if save and candidates != "pool":
        raise ParameterError("--save keeps figures over the whole pool; leave --candidates out")
    fitted, whole = load(model), read_split(split, number)
    measured = getattr(whole, part)
    result = evaluate(
        fitted,
        whole if part == "test" else whole.inner,
        k,
        candidates=candidates,  # type: ignore[arg-type]
        threads=threads,
    )
    if save:
        parts = record(fitted, measured, result, threads)
        add_report(model, parts if alpha is None else parts | {"alpha_curve": alpha_curve(alpha, fitted)})
    _warn_of_known(model.name, result)
    if json:
        print_json(result.as_dict())
        return
    headers, rows = ["metric", "explanations", "by user"], []
    if result.served:
        headers.append("served")
    if result.recommendation and result.explanation_on_recommended:
        headers += ["explanations, item recommended", "items"]
    for name, value in result.explanation.items():
        row = [name, _shown(name, value), _percent(result.by_user.get(name))]
        if result.served:
            row.append(_percent(result.served.explanation.get(name)))
        if result.recommendation and result.explanation_on_recommended:
            row += [
                _percent(result.explanation_on_recommended.get(name)),
                _percent(result.recommendation.get(name)),
            ]
        rows.append(row)
    found = result.explanation["hit"]
    console().print(f"{result.model} finds a right reason in {100 * found:.0f} of 100 lists of {k}.")
    title = f"{result.model} on {result.pairs:,} {part} pairs, lists of {k}"
    console().print(FittingTable(headers, rows, title=title, drop=headers[2:]))
    shown = result if result.candidates == "served" else result.served
    if shown:
        note(f"served: what explain shows; {shown.without_reason:.1%} of the pairs have no reason, which is a miss")
    if result.reach:
        note(reach_text(result.candidates, result.reach))
    if result.candidates == "item-all" and result.model.startswith("profile"):
        advice = (
            "" if result.learned_among == "item-all" else "; fit it with --set candidates=item-all to learn from these"
        )
        note(f"{result.model} has learned from {result.learned_among}{advice}")
    note(f"ranked in {result.seconds:.2f} s")


@command("compare", "whyrank compare split --models pop,pitf,bper")
def compare_command(
    split: SplitFolder,
    models: Annotated[
        str, typer.Option(help="Model ids, fitted here, or model folders (./bper, not an id), separated by commas.")
    ],
    settings: Annotated[list[str] | None, typer.Option("--set", help="A parameter: --set bper.factors=50.")] = None,
    k: At = 10,
    baseline: Annotated[
        str | None, typer.Option(help="Which model others are tested against; by default the second best.")
    ] = None,
    test: Annotated[
        str,
        typer.Option(
            help="Within splits: student, wilcoxon or randomization, all clustered by user. Five splits and more have "
            "the corrected resampled t-test."
        ),
    ] = "student",
    candidates: Candidates = "pool",
    number: Annotated[
        int | None, typer.Option("--number", help="One split of the folder; by default all of them.")
    ] = None,
    form: Annotated[str, typer.Option("--format", help="table, markdown or latex.")] = "table",
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Compare models on a split, with significance: fit them here or take fitted ones.

    Where the folder holds several splits, fitted models give their settings and are fitted again to each.
    """
    from whyrank.data import read_split, read_splits
    from whyrank.evaluation import compare
    from whyrank.training import Run

    if form not in ("table", "markdown", "latex"):
        raise ParameterError(f"--format is {form!r}; use table, markdown or latex")
    warn_first_run()
    parts = [read_split(split, number)] if number else read_splits(split)
    chosen = _models([name.strip() for name in models.split(",") if name.strip()], settings or [])
    with told_if_interrupted(lambda: "nothing was kept"), progress(json) as bar:
        task = bar.add_task("comparing", total=len(parts) * len(chosen), remark="")

        def tell(name: str, count: int) -> None:
            bar.update(task, description=f"{name}, split {count}", advance=1)

        result = compare(
            chosen,
            parts,
            k,
            baseline=baseline,
            test=test,
            candidates=candidates,  # type: ignore[arg-type]
            run=Run(threads=threads),
            progress=tell,
        )
    for row in result.rows:
        _warn_of_known(row.name, row.evaluations[0])
    if json:
        print_json(result.as_dict())
    elif form == "table":
        console().print(result.verdict())
        console().print(result.table())
        if baseline is None:
            note(f"the baseline {result.baseline} is the second best of these; --baseline names another")
    else:
        typer.echo(result.markdown() if form == "markdown" else result.latex())


def _models(names: list[str], settings: list[str]) -> dict[str, Model]:
    """Fresh models by their ids, with the settings that name them; what is no id is a model folder."""
    from whyrank.cli.fit import make_model
    from whyrank.models import MODELS, load

    if not names:
        raise ParameterError("--models is empty; name some, see `whyrank models`")
    fresh = [name for name in names if name in MODELS or not Path(name).is_dir()]
    for text in settings:
        if text.partition(".")[0] not in fresh:
            raise ParameterError(f"--set {text}: name one of the models that are fitted here, as in bper.factors=50")
    own = {name: [text.partition(".")[2] for text in settings if text.startswith(f"{name}.")] for name in fresh}
    return {name: make_model(name, own[name]) if name in own else load(name) for name in names}


def _warn_of_known(name: str, result: Evaluation) -> None:
    """Say so when figures are too good to be those of new pairs."""
    if result.known_pairs:
        share = f"{result.known_pairs:,} of these {result.pairs:,} pairs"
        note(f"{name} was fitted to data that hold {share}: its figures are too good for new ones")


def _shown(name: str, value: float) -> str:
    return f"{value:.2f} bits" if name == "novelty" and not math.isnan(value) else _percent(value)


def _percent(value: float | None) -> str:
    return "" if value is None else "-" if math.isnan(value) else f"{value * 100:.3f} %"
