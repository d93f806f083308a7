"""Command: export."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from whyrank.atomic import check_place
from whyrank.cli.app import Json, ModelFolder, Seed, command, note, print_json


@command("export", "whyrank export model -o exported --form faiss")
def export_command(
    model: ModelFolder,
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder to write.")],
    form: Annotated[
        str, typer.Option(help="parquet (vectors only), faiss, usearch or hnswlib (and an index).")
    ] = "parquet",
    n: Annotated[int, typer.Option("-n", help="Length of the lists on which recall is measured.", min=1)] = 10,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Write keys and queries for a vector index or for anything else, and measure what an index finds."""
    from whyrank.models import load
    from whyrank.ranking.export import MARKER, export

    check_place(output, MARKER)
    report = export(load(model), output, form, n=n, seed=seed)
    if json:
        print_json(report.as_dict())
        return
    found = "" if report.recall is None else f"; the index finds {report.recall:.1%} of the exact top {n}"
    note(f"{report.explanations:,} keys of width {report.width} -> {output}{found}")
    if report.bonus:
        note("this model also adds evidence for what the user and the item are known for; an index cannot know that")
