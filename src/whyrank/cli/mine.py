"""Command: mine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whyrank.atomic import check_place, sole_writer
from whyrank.cli.app import (
    EXPANSION,
    Columns,
    Json,
    MaxExpansion,
    OnErrorOption,
    RatingRange,
    RayAddress,
    Threads,
    command,
    console,
    note,
    parse_columns,
    parse_pairs,
    parse_range,
    print_json,
    progress,
    told_if_interrupted,
)
from whyrank.errors import DataError, MissingExtra, ParameterError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

    from whyrank.mining import Mined


@command("mine", "whyrank mine reviews.jsonl.gz -o mined")
def mine_command(
    reviews: Annotated[list[Path], typer.Argument(help="Files of reviews: user, item, text; Amazon's and Yelp's too.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder to write, data for every other command.")],
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A rule of MiningRules: --set min_count=10.")
    ] = None,
    extra: Annotated[bool, typer.Option("--extra", help="EXTRA's rules and nothing else.")] = False,
    pool: Annotated[
        Path | None, typer.Option(help="A mined folder to carry on: its explanations keep their ids.")
    ] = None,
    rules: Annotated[bool, typer.Option("--rules", help="Show what each rule dropped, with examples.")] = False,
    review: Annotated[
        Path | None,
        typer.Option(help="A CSV of groups to accept, merge or reject: written, or read back if there."),
    ] = None,
    columns: Columns = None,
    on_error: OnErrorOption = "raise",
    rating_range: RatingRange = None,
    max_expansion: MaxExpansion = EXPANSION,
    threads: Threads = None,
    ray: RayAddress = None,
    json: Json = False,
) -> None:
    """Mine explanations and triplets from reviews."""
    try:
        from whyrank.mining import Mined, MiningRules, apply_review, mine, write_review
        from whyrank.mining.mined import MARKER
    except ImportError as error:
        raise MissingExtra("mine", "mining") from error

    check_place(output, MARKER)
    chosen = _settings(settings)
    base = MiningRules.extra() if extra else None
    with sole_writer(output), told_if_interrupted(lambda: "nothing was written"), progress(json) as bar:
        tasks: dict[str, TaskID] = {}

        def tell(stage: str, done: int, total: int | None) -> None:
            if stage not in tasks:
                tasks[stage] = bar.add_task(stage, total=total, remark="")
            bar.update(tasks[stage], completed=done, total=total)

        if ray is not None:
            from whyrank.cluster.mining import mine_files
            from whyrank.cluster.session import connect

            if pool is not None or rating_range is not None:
                raise ParameterError("--pool and --rating-range are for one machine; leave out --ray")
            with connect(ray) as cluster:
                mine_files(
                    cluster,
                    reviews,
                    output,
                    output.parent / f".{output.name}.ray",
                    columns=parse_columns(columns),  # type: ignore[arg-type]
                    rules=(base or MiningRules()).changed(chosen),
                    on_error=on_error,  # type: ignore[arg-type]
                    tell=tell,
                )
            mined = Mined.read(output)
        else:
            mined = mine(
                list(reviews),
                columns=parse_columns(columns),  # type: ignore[arg-type]
                rules=base,
                threads=threads,
                progress=tell,
                on_error=on_error,  # type: ignore[arg-type]
                pool=pool,
                rating_range=parse_range(rating_range),
                max_expansion=max_expansion,
                **chosen,
            )
        if review is not None and review.is_file():
            mined = apply_review(mined, review)
        if not mined.explanations.height:
            if rules:
                _show_rules(mined, console(stderr=True))
            raise DataError("no explanation was found, so none was written", expected="more reviews, or other rules")
        mined.write(output)
    if review is not None and not review.is_file():
        write_review(mined, review)
        note(f"groups to accept, merge or reject -> {review}; give the same command again to apply it")
    if json:
        print_json({"output": output, **mined.summary()})
    else:
        _show(mined, output, rules)


def _settings(texts: list[str] | None) -> dict[str, object]:
    """Rules from the command line; numbers, true, false and none as such, lists separated by commas."""
    import dataclasses

    from whyrank.mining import MiningRules

    kinds = {field.name: str(field.type) for field in dataclasses.fields(MiningRules)}
    values: dict[str, object] = {}
    for name, text in parse_pairs(texts or [], "--set").items():
        kind = kinds.get(name, "")
        try:
            if text.lower() == "none":
                values[name] = None
            elif kind == "bool":
                values[name] = {"true": True, "false": False}[text.lower()]
            elif kind == "int":
                values[name] = int(text)
            elif kind.startswith("float"):
                values[name] = float(text)
            elif kind.startswith("tuple"):
                values[name] = tuple(word for word in text.split(",") if word)
            else:
                values[name] = text
        except (ValueError, KeyError):
            raise ParameterError(f"{name} is {text!r}; use a value of type {kind}") from None
    return values


def _show_rules(mined: Mined, out: Console) -> None:
    from rich.table import Table

    table = Table(title="What the rules dropped", title_justify="left")
    for header in ("rule", "drops", "sentences", "for example"):
        table.add_column(header, justify="right" if header == "sentences" else "left")
    for row in mined.rule_report():
        examples = row["examples"] if isinstance(row["examples"], list) else []
        shown = "; ".join(str(text)[:60] for text in examples[:3])
        table.add_row(str(row["rule"]), str(row["drops"]), f"{row['sentences']:,}", shown)
    out.print(table)


def _show(mined: Mined, output: Path, rules: bool) -> None:
    from rich.table import Table

    if rules:
        _show_rules(mined, console())
    table = Table(title="Explanations said most", title_justify="left")
    for header in ("explanation", "records", "aspect", "sentiment"):
        table.add_column(header, justify="right" if header in ("records", "sentiment") else "left")
    for row in mined.explanations.head(20).iter_rows(named=True):
        table.add_row(str(row["text"]), f"{row['count']:,}", str(row["aspect"] or ""), f"{row['sentiment']:+.2f}")
    console().print(table)
    rejected = ", ".join(f"{count:,} {cause}" for cause, count in mined.rejected.items() if count)
    note(f"{mined!r} in {mined.seconds:.1f} s -> {output}" + (f"; reviews rejected: {rejected}" if rejected else ""))
