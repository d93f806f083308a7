"""Command: mine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    Trim,
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
from whyrank.render import FittingTable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

    from whyrank.mining import Mined


THIN = 0.3  # share of reviews with a statement below which the pool is too thin to rely on


def stages_on(bar: Progress) -> Callable[[str, int, int | None], None]:
    """Return what draws the stages of mining as they go on."""
    tasks: dict[str, TaskID] = {}

    def tell(stage: str, done: int, total: int | None) -> None:
        if stage not in tasks:
            tasks[stage] = bar.add_task(stage, total=total, remark="")
        bar.update(tasks[stage], completed=done, total=total)

    return tell


@command("mine", "whyrank mine reviews.jsonl.gz -o mined")
def mine_command(
    reviews: Annotated[
        list[Path],
        typer.Argument(help="Review files with user, item and text. Amazon's and Yelp's formats are recognized."),
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="The folder to write; other commands read it as data.")
    ],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="A rule of mining: --set min_count=10. May be repeated."),
    ] = None,
    titles: Annotated[
        Path | None,
        typer.Option(help="A file with columns item and title. Words of an item's own name do not become aspects."),
    ] = None,
    pool: Annotated[
        Path | None, typer.Option(help="Add to this mined folder; its explanations keep their ids.")
    ] = None,
    words: Annotated[
        list[Path] | None,
        typer.Option(help="A folder of word lists and rules that are added to the language's. May be repeated."),
    ] = None,
    matcher: Annotated[
        Path | None, typer.Option(help="A file of what was learned from annotated reviews, instead of whyrank's own.")
    ] = None,
    rules: Annotated[bool, typer.Option("--rules", help="Show what each rule dropped, with examples.")] = False,
    review: Annotated[
        Path | None,
        typer.Option(help="A CSV file for reviewing statements by hand: written if missing, applied if it exists."),
    ] = None,
    columns: Columns = None,
    on_error: OnErrorOption = "raise",
    rating_range: RatingRange = None,
    max_expansion: MaxExpansion = EXPANSION,
    trim: Trim = False,
    threads: Threads = None,
    ray: RayAddress = None,
    json: Json = False,
) -> None:
    """Mine statements and triplets from reviews."""
    try:
        from whyrank.data.names import read_titles
        from whyrank.mining import Mined, MiningRules, apply_review, mine, write_review
        from whyrank.mining.mined import MARKER
    except ImportError as error:
        raise MissingExtra("mine", "mining") from error

    check_place(output, MARKER)
    chosen = parse_rules(settings, MiningRules)
    chosen |= {"words": tuple(map(str, words))} if words else {}
    chosen |= {"matcher": str(matcher)} if matcher else {}
    with sole_writer(output), told_if_interrupted(lambda: "nothing was written"), progress(json) as bar:
        tell = stages_on(bar)
        if ray is not None:
            from whyrank.lab.ray.session import connect
            from whyrank.lab.ray.statements import mine_statement_files

            if pool is not None or rating_range is not None:
                raise ParameterError("--pool and --rating-range are for one machine; leave out --ray")
            with connect(ray) as cluster:
                mine_statement_files(
                    cluster,
                    reviews,
                    output,
                    output.parent / f".{output.name}.ray",
                    columns=parse_columns(columns),  # type: ignore[arg-type]
                    rules=MiningRules().changed(chosen),
                    titles=read_titles(titles, trim=trim),
                    on_error=on_error,  # type: ignore[arg-type]
                    trim=trim,
                    tell=tell,
                )
            mined = Mined.read(output)
        else:
            mined = mine(
                list(reviews),
                columns=parse_columns(columns),  # type: ignore[arg-type]
                titles=read_titles(titles, trim=trim),
                threads=threads,
                progress=tell,
                on_error=on_error,  # type: ignore[arg-type]
                pool=pool,
                rating_range=parse_range(rating_range),
                max_expansion=max_expansion,
                trim=trim,
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


def parse_rules(texts: list[str] | None, rules: type, option: str = "--set") -> dict[str, Any]:
    """Rules from the command line; numbers, true, false and none as such."""
    import dataclasses

    kinds = {field.name: str(field.type) for field in dataclasses.fields(rules)}
    values: dict[str, Any] = {}
    for name, text in parse_pairs(texts or [], option).items():
        kind = kinds.get(name, "")
        try:
            if text.lower() == "none":
                values[name] = None
            elif kind == "bool":
                values[name] = {"true": True, "false": False}[text.lower()]
            elif kind.startswith("int"):
                values[name] = int(text)
            elif kind.startswith("float"):
                values[name] = float(text)
            else:
                values[name] = text
        except (ValueError, KeyError):
            raise ParameterError(f"{name} is {text!r}; use a value of type {kind}") from None
    return values


def _show_rules(mined: Mined, out: Console) -> None:
    headers, rows = ["rule", "drops", "sentences", "for example"], []
    for row in mined.rule_report():
        examples = row["examples"] if isinstance(row["examples"], list) else []
        shown = "; ".join(str(text)[:60] for text in examples[:3])
        rows.append([str(row["rule"]), str(row["drops"]), f"{row['sentences']:,}", shown])
    out.print(
        FittingTable(headers, rows, title="What the rules dropped", wrap=[headers[1], headers[3]], drop=[headers[3]])
    )


def _show(mined: Mined, output: Path, rules: bool) -> None:
    if rules:
        _show_rules(mined, console())
    rows = [
        [str(row["text"]), f"{row['count']:,}", str(row["aspect"] or ""), f"{row['sentiment']:+.2f}"]
        for row in mined.explanations.head(20).iter_rows(named=True)
    ]
    headers = ["text", "records", "aspect", "sentiment"]
    title = "The most frequent statements"
    console().print(FittingTable(headers, rows, title=title, wrap=["text"], drop=["aspect", "sentiment"]))
    if mined.coverage:
        covered = mined.coverage
        shares = {name: f"{covered[name]:.0%}" for name in ("reviews", "users", "items_with_3")}
        note(
            f"statements in {shares['reviews']} of the reviews, by {shares['users']} of the users; "
            f"three or more for {shares['items_with_3']} of the items"
        )
        if covered["reviews"] < THIN:
            note("few reviews hold a statement: add reviews, or lower the threshold with --set min_count=2")
    rejected = ", ".join(f"{count:,} {cause}" for cause, count in mined.rejected.items() if count)
    sizes = (mined.explanations.height, mined.pool.triplets.height, mined.reviews)
    found = "{:,} statements and {:,} triplets from {:,} reviews".format(*sizes)
    note(f"{found} in {mined.seconds:.1f} s -> {output}" + (f"; reviews rejected: {rejected}" if rejected else ""))
