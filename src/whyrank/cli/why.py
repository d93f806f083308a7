"""Command: why."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whyrank.cli.app import Json, command, console, note, print_json
from whyrank.errors import DataError, MissingExtra
from whyrank.render import FittingTable

if TYPE_CHECKING:
    import polars as pl


@command("why", "whyrank why mined inn-7 'bed|comfortable|+'")
def why_command(
    mined: Annotated[Path, typer.Argument(help="A folder that whyrank mine wrote.")],
    item: Annotated[str, typer.Argument(help="The id of an item.")],
    statement: Annotated[
        str | None, typer.Argument(help="The id or the text of a statement; without it, all of the item's are listed.")
    ] = None,
    json: Json = False,
) -> None:
    """Show who was counted for a statement about an item: every clause, what found it, and how sure it is."""
    try:
        import polars as pl

        from whyrank.mining import Mined
    except ImportError as error:
        raise MissingExtra("mine", "mining") from error

    table = Mined.read(mined).frame().filter(pl.col("item") == item)
    if not table.height:
        raise DataError(f"no statement about the item {item!r}", path=mined, expected="the id of an item with reviews")
    if statement is None:
        _list(table, item, json)
        return
    said = table.filter((pl.col("explanation") == statement) | (pl.col("text") == statement))
    if not said.height:
        raise DataError(f"nobody says {statement!r} about {item!r}", path=mined, expected="a statement that is listed")
    said = said.sort(["chance", "user"], descending=[True, False])
    columns = ("user", "source", "said", "rule", "chance")
    if json:
        print_json({"item": item, "explanation": said["explanation"][0], "said": said.select(columns).to_dicts()})
        return
    rows = [
        [str(user), str(source or ""), str(text or "(private)"), str(rule or "meaning"), f"{chance:.0%}"]
        for user, source, text, rule, chance in said.select(columns).iter_rows()
    ]
    title = f"{said['text'][0]}: {said['user'].n_unique():,} people"
    headers = ["user", "review", "what they wrote", "found by", "sure"]
    console().print(FittingTable(headers, rows, title=title, wrap=["what they wrote"], drop=["review"]))


def _list(table: pl.DataFrame, item: str, json: bool) -> None:
    """List what is said about an item."""
    import polars as pl

    counts = table.group_by("explanation", "text").agg(people=pl.col("user").n_unique(), worth=pl.col("worth").max())
    counts = counts.sort(["people", "explanation"], descending=[True, False])
    if json:
        print_json({"item": item, "statements": counts.to_dicts()})
        return
    rows = [
        [text, f"{people:,}", name, f"{worth:.2f}" if worth else ""] for name, text, people, worth in counts.iter_rows()
    ]
    headers = ["statement", "people", "id", "worth showing"]
    console().print(
        FittingTable(headers, rows, title=f"What people say about {item}", wrap=["statement"], drop=headers[:1:-1])
    )
    note("give a statement, by its text or id, to see who says it and in which words")
