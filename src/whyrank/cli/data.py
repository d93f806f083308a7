"""Commands over data: describe, simulate, split, convert."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whyrank.atomic import check_place
from whyrank.cli.app import (
    Data,
    Json,
    Number,
    RayAddress,
    Seed,
    command,
    console,
    counted,
    note,
    parse_columns,
    print_json,
)
from whyrank.cli.reading import ReadOptions, with_reading
from whyrank.errors import ParameterError
from whyrank.render import FittingTable

if TYPE_CHECKING:
    from whyrank.data.describe import Description
    from whyrank.data.split import SplitInfo


@command("describe", "whyrank describe triplets.parquet")
@with_reading
def describe_command(
    data: Data,
    examples: Annotated[int, typer.Option(help="How many example explanations.")] = 5,
    seed: Seed = 0,
    number: Number = 1,
    json: Json = False,
    *,
    reading: ReadOptions,
) -> None:
    """Describe a data set: sizes, density, long tails, examples."""
    from whyrank.data.describe import describe

    description = describe(reading.triplets(data, number), examples, seed)
    if json:
        print_json(description.as_dict())
        return
    out = console()
    out.print(_sizes(description))
    out.print(_tails(description))
    out.print(_most_said(description))
    found = _columns_of(data, reading.columns)
    if found:
        note(found)


@command("simulate", "whyrank simulate small -o small.parquet --reviews reviews.jsonl.gz")
def simulate_command(
    preset: Annotated[str, typer.Argument(help="small, amazon, tripadvisor or yelp (the paper's Table 2).")] = "small",
    output: Annotated[Path | None, typer.Option("-o", "--output", help="The file for the triplets.")] = None,
    reviews: Annotated[
        Path | None, typer.Option(help="Write reviews to mine as well (.jsonl, .csv, .parquet, .gz).")
    ] = None,
    users: Annotated[int | None, typer.Option(help="Overrides the preset.")] = None,
    items: Annotated[int | None, typer.Option(help="Overrides the preset.")] = None,
    explanations: Annotated[int | None, typer.Option(help="Overrides the preset.")] = None,
    records: Annotated[int | None, typer.Option(help="Overrides the preset.")] = None,
    triplets: Annotated[int | None, typer.Option(help="Overrides the preset.")] = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Simulate a data set with known preferences, and reviews that express them."""
    from whyrank.data.tables import write_table
    from whyrank.lab.simulate import simulate, simulate_reviews

    if output is None and reviews is None:
        raise ParameterError("nothing to write; give -o for triplets, --reviews for reviews, or both")
    sizes = {
        "users": users,
        "items": items,
        "explanations": explanations,
        "records": records,
        "triplets": triplets,
    }
    made = simulate(preset, seed=seed, **sizes)
    if output is not None:
        made.write(output)
    if reviews is not None:
        write_table(simulate_reviews(preset, seed=seed, **sizes), reviews)
    written = {"triplets": output, "reviews": reviews}
    if json:
        print_json({**written, "digest": made.digest(), "description": repr(made)})
    else:
        note(f"{counted(made)} -> {', '.join(str(path) for path in written.values() if path)}")


@command("split", "whyrank split triplets.parquet -o split --repeats 5")
@with_reading
def split_command(
    data: Data,
    output: Annotated[Path, typer.Option("-o", "--output", help="The split folder to write.")],
    repeats: Annotated[int, typer.Option(help="How many splits to make, each with its own random seed.", min=1)] = 1,
    test: Annotated[float | None, typer.Option(help="Share of records in test; by default 0.3.")] = None,
    validation: Annotated[
        float | None, typer.Option(help="Share of training records held out for validation; by default 0.1.")
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            help="random (the paper's), time (latest records are the test), leave-last (each user's latest records, "
            "StaR's) or hash (by ids alone)."
        ),
    ] = "random",
    last: Annotated[
        int | None,
        typer.Option(help="With leave-last: records per user in test, and as many in validation; by default 1."),
    ] = None,
    min_user_pairs: Annotated[int, typer.Option(help="Keep users with at least this many pairs.")] = 1,
    min_item_pairs: Annotated[int, typer.Option(help="Keep items with at least this many pairs.")] = 1,
    min_uses: Annotated[int, typer.Option(help="Keep explanations used at least this often.")] = 1,
    seed: Seed = 0,
    ray: RayAddress = None,
    json: Json = False,
    *,
    reading: ReadOptions,
) -> None:
    """Split records into training, validation and test, as the paper does, into a self-contained folder."""
    from whyrank.data import splits, write_splits
    from whyrank.data.split import MARKER, TEST, VALIDATION, SplitInfo, is_split

    if is_split(data):
        raise ParameterError(
            f"{data}: is split already; its data are in {data / 'triplets.parquet'} (--columns record=record)"
        )
    check_place(output, MARKER)
    if ray is not None:
        if method != "hash" or repeats > 1 or max(min_user_pairs, min_item_pairs, min_uses) > 1:
            raise ParameterError("--ray splits file by file: use --method hash, one repeat and no least numbers")
        if reading.rating_range is not None:
            raise ParameterError("--rating-range is for splits on one machine; --ray copies ratings as they are")
        shares = (TEST if test is None else test, VALIDATION if validation is None else validation)
        info = SplitInfo(method=method, seed=seed, test=shares[0], validation=shares[1], number=1)
        split_on_cluster(data, output, info, ray, reading.columns, json)
        return
    triplets = reading.triplets(data)
    if max(min_user_pairs, min_item_pairs, min_uses) > 1:
        triplets = triplets.filtered(user_pairs=min_user_pairs, item_pairs=min_item_pairs, explanation_uses=min_uses)
    parts = splits(triplets, repeats, seed=seed, test=test, validation=validation, method=method, last=last)  # type: ignore[arg-type]
    write_splits(parts, output)
    counts = {
        name: [len(getattr(part, f"{name}_records")) for part in parts] for name in ("train", "validation", "test")
    }
    if json:
        print_json({"split": output, "data": triplets.digest(), "splits": repeats, "records": counts})
    else:
        one = parts[0]
        sizes = f"{len(one.train_records):,} training, {len(one.validation_records):,} validation and "
        sizes += f"{len(one.test_records):,} test records"
        more = f", {repeats} times" if repeats > 1 else ""
        note(f"{counted(triplets)} split into {sizes}{more} -> {output}")


def split_on_cluster(data: Path, output: Path, info: SplitInfo, address: str, columns: str | None, json: bool) -> None:
    """Folders of Parquet files instead of index files, because nobody has all records."""
    from whyrank.lab.ray.session import connect
    from whyrank.lab.ray.split import split_files

    with connect(address) as cluster:
        counts = split_files(cluster, data, output, info, parse_columns(columns))
    if json:
        print_json({"split": output, "rows": counts})
    else:
        note(f"{', '.join(f'{count:,} rows of {name}' for name, count in counts.items())} -> {output}")


@command("convert", "whyrank convert triplets.parquet -o extra_folder")
@with_reading
def convert_command(
    data: Data,
    output: Annotated[Path, typer.Option("-o", "--output", help="A file (form by suffix) or an EXTRA folder.")],
    form: Annotated[str, typer.Option(help="auto, extra (pickle and text) or extra-text.")] = "auto",
    json: Json = False,
    *,
    reading: ReadOptions,
) -> None:
    """Write a data set in another form: CSV, TSV, JSON lines, Parquet (.gz, .zst) or an EXTRA folder."""
    from whyrank.data import write

    if form not in ("auto", "extra", "extra-text"):
        raise ParameterError(f"--form is {form!r}; use auto, extra or extra-text")
    triplets = reading.triplets(data)
    write(triplets, output, form)  # type: ignore[arg-type]
    if json:
        print_json({"output": output, "triplets": len(triplets), "records": triplets.records})
    else:
        note(f"{counted(triplets)} -> {output}")


def _sizes(description: Description) -> FittingTable:
    rows = [
        ["users", f"{description.users:,}"],
        ["items", f"{description.items:,}"],
        ["explanations", f"{description.explanations:,}"],
        ["(user, item) pairs", f"{description.pairs:,}"],
        ["(user, item, explanation) triplets", f"{description.triplets:,}"],
        ["explanations per pair", f"{description.explanations_per_pair:.2f}"],
        ["triplets that occur, of all possible", f"one in {1 / description.density:,.0f}"],
    ]
    if description.ratings:
        low, high, mean = (description.ratings[name] for name in ("low", "high", "mean"))
        rows.append(["ratings", f"{low:g} to {high:g}, mean {mean:.2f}"])
    if description.copied is not None:
        rows.append(["records with a text of another one", f"{description.copied:,}"])
    return FittingTable(["what", "count"], rows, title="Sizes", head=False)


def _tails(description: Description) -> FittingTable:
    named = (
        ("records per user", description.per_user, description.users),
        ("records per item", description.per_item, description.items),
        ("uses per explanation", description.per_explanation, description.explanations),
    )
    rows = [
        [
            *(name, f"{tail.median:g}", f"{tail.mean:.1f}", f"{tail.p90:g}", f"{tail.largest:,}"),
            *(f"{tail.once:,} ({tail.once / total:.0%})", f"{tail.head_share:.0%}"),
        ]
        for name, tail, total in named
    ]
    headers = ["", "median", "mean", "90%", "largest", "only once", "top 1%"]
    return FittingTable(headers, rows, title="How they spread", drop=["90%", "mean"])


def _most_said(description: Description) -> FittingTable:
    examples = [*description.examples, *[""] * len(description.most_said)]
    rows = [[text, f"{count:,}", examples[at]] for at, (text, count) in enumerate(description.most_said)]
    headers = ["most frequent", "times", "random examples"]
    return FittingTable(headers, rows, title="Explanations", wrap=[headers[0], headers[2]], drop=[headers[2]])


def _columns_of(path: Path, columns: str | None) -> str | None:
    """Which columns of a file were used; None for folders, whose columns have our names."""
    from whyrank.data.files import COLUMNS
    from whyrank.data.tables import columns_of

    found = columns_of(path) if path.is_file() else None
    if not found:
        return None
    renamed = parse_columns(columns) or {}
    used = {name: renamed.get(name, name) for name in COLUMNS}
    if any(isinstance(source, int) for source in used.values()):
        return None  # a file without a header
    there = [name if name == source else f"{name} (as {source})" for name, source in used.items() if source in found]
    others = [name for name in found if name not in used.values()]
    return f"{path}: columns {', '.join(there)}" + (f"; not used: {', '.join(others)}" if others else "")
