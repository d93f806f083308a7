"""Commands on the folder of a fitted model: fold-in, export."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from whyrank.atomic import check_place, sole_writer
from whyrank.cli.app import Json, ModelFolder, command, note, print_json
from whyrank.cli.reading import ReadOptions, with_reading
from whyrank.render import number_of


@command("fold-in", "whyrank fold-in model new.csv -o model")
@with_reading
def fold_in_command(
    model: ModelFolder,
    data: Annotated[Path, typer.Argument(help="New triplets: a file with columns user, item, explanation.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The model folder to write; may be the same one.")],
    json: Json = False,
    *,
    reading: ReadOptions,
) -> None:
    """Add new users and items to a fitted model without fitting again; a service loads the new folder by itself."""
    from whyrank.artifacts import MARKER
    from whyrank.models import load

    check_place(output, MARKER)
    new = reading.triplets(data)
    with sole_writer(output):
        loaded = load(model).fold_in(new)
        loaded.save(output)
    found = loaded.folded_in_
    if json:
        print_json({"model": loaded.id, "output": output, **found._asdict()})
        return
    sizes = ((found.triplets, "triplet"), (found.users, "new user"), (found.items, "new item"))
    triplets, users, items = (number_of(*each) for each in sizes)
    note(f"{triplets}, {users} and {items} -> {output}")
    if found.unknown_explanations:
        skipped = number_of(found.unknown_explanations, "triplet")
        note(f"{skipped} skipped: the model does not know what is said there; fit it again")
    if found.known_pairs:
        note(f"{number_of(found.known_pairs, 'record')} skipped: the model knows such pairs")


@command("export", "whyrank export model -o vectors")
def export_command(
    model: ModelFolder,
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder to write.")],
    json: Json = False,
) -> None:
    """Write keys and queries as Parquet files, for a vector index or another system."""
    from whyrank.explain.export import MARKER, export
    from whyrank.models import load

    check_place(output, MARKER)
    report = export(load(model), output)
    if json:
        print_json(report.as_dict())
        return
    note(f"{report.explanations:,} keys of width {report.width} -> {output}")
    if report.bonus:
        note("this model also adds evidence for what the user and the item are known for; vectors do not hold that")
