"""Command: fold-in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from whyrank.atomic import check_place, sole_writer
from whyrank.cli.app import Columns, Json, ModelFolder, OnErrorOption, command, note, print_json, read_data


@command("fold-in", "whyrank fold-in model new.csv -o model")
def fold_in_command(
    model: ModelFolder,
    data: Annotated[Path, typer.Argument(help="New triplets: a file with columns user, item, explanation.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The model folder to write; may be the same one.")],
    columns: Columns = None,
    on_error: OnErrorOption = "raise",
    json: Json = False,
) -> None:
    """Add new users and items to a fitted model without fitting again; a service loads the new folder by itself."""
    from whyrank.artifacts import MARKER
    from whyrank.models import load

    check_place(output, MARKER)
    new = read_data(data, columns, on_error)
    with sole_writer(output):
        loaded = load(model).fold_in(new)
        loaded.save(output)
    found = loaded.folded_in_
    if json:
        print_json({"model": loaded.id, "output": output, **found._asdict()})
        return
    note(f"{found.triplets:,} triplets, {found.users:,} new users and {found.items:,} new items -> {output}")
    if found.unknown_explanations:
        note(
            f"{found.unknown_explanations:,} triplets skipped: the model does not know their explanations; fit it again"
        )
    if found.known_pairs:
        note(f"{found.known_pairs:,} records skipped: the model knows these pairs")
