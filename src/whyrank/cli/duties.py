"""Commands: forget, retain, export-user, about."""

from __future__ import annotations

import json as formats
import textwrap
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from whyrank.atomic import write_text
from whyrank.cli.app import Json, ModelFolder, command, note, print_json, print_text
from whyrank.cli.stores import opened_store
from whyrank.errors import ParameterError

User = Annotated[str, typer.Argument(help="The user's id, as in your data.")]
STORE = "A store: the path of a SQLite file, or a URL."
Store = Annotated[str | None, typer.Option("--store", help=STORE)]
Models = Annotated[list[Path] | None, typer.Option("--model", help="A folder of a saved model. May be repeated.")]
Output = Annotated[Path | None, typer.Option("-o", "--output", help="Write the result to this file.")]


@command("forget", "whyrank forget u000001 --store whyrank.db --model model --data split -o receipt.json")
def forget_command(
    user: User,
    store: Store = None,
    model: Models = None,
    data: Annotated[
        list[Path] | None,
        typer.Option("--data", help="A split folder, a mined folder or a checkpoint. May be repeated."),
    ] = None,
    output: Output = None,
    json: Json = False,
) -> None:
    """Erase a user from stores, models and data that you name; the receipt does not hold the id."""
    from whyrank.online.forget import forget

    if store is None and not model and not data:
        raise ParameterError("nothing is named to erase from; give --store, --model or --data")
    with ExitStack() as stack:
        opened = None if store is None else stack.enter_context(opened_store(store, makes=False))
        receipt = forget(user, store=opened, models=model or (), data=data or ())
    if output is not None:
        write_text(output, formats.dumps(receipt.as_dict(), indent=2) + "\n")
    if json:
        print_json(receipt.as_dict())
        return
    if receipt.store is not None:
        counts = (f"{n:,} {name.replace('_', ' ')}" for name, n in receipt.store.items())
        print_text("store: " + ", ".join(counts))
    for each in receipt.folders:
        removed = ", ".join(f"{count:,} {name}" for name, count in each.removed.items())
        print_text(f"{each.folder} ({each.kind}): {removed or each.note or 'not in it'}")
        if removed and each.note:
            note(f"  {each.note}")
    if not receipt.found:
        note(f"nothing is known of {user!r}")
    written = "" if output is None else f" -> {output}"
    note(f"receipt {receipt.id}{written}. {receipt.note}")


@command("retain", "whyrank retain --store whyrank.db --days 90")
def retain_command(
    store: Annotated[str, typer.Option(help=STORE)],
    days: Annotated[int, typer.Option(help="How many days exposures and events are stored.", min=1)],
    json: Json = False,
) -> None:
    """Erase old exposures and events; `whyrank serve --retain-days` does so every hour."""
    from whyrank.online.erasure import retain

    with opened_store(store, makes=False) as opened:
        erased = retain(opened, days)
    if json:
        print_json(erased)
    else:
        print_text(", ".join(f"{count:,} {name}" for name, count in erased.items()) + " erased")


@command("export-user", "whyrank export-user u000001 --store whyrank.db -o mine.json")
def export_command(user: User, store: Store = None, model: Models = None, output: Output = None) -> None:
    """Write everything that is stored about a user as JSON."""
    from whyrank.models import load
    from whyrank.online.erasure import export
    from whyrank.online.forget import held_by_model

    if store is None and not model:
        raise ParameterError("nothing is named to look into; give --store or --model")
    found: dict[str, object] = {"user": user}
    if store is not None:
        with opened_store(store, makes=False) as opened:
            found |= export(opened, user)
    if model:
        found["models"] = [{"folder": str(each), **held_by_model(load(each), user)} for each in model]
    if output is None:
        print_json(found)
        return
    write_text(output, formats.dumps(found, indent=2, ensure_ascii=False) + "\n")
    note(f"everything about the user -> {output}")


@command("about", "whyrank about model -o about.html")
def about_command(model: ModelFolder, output: Output = None, json: Json = False) -> None:
    """Say in plain words how a model ranks: its main parameters and their weights."""
    from whyrank.models import load
    from whyrank.online.about import about

    if output is not None and output.suffix not in (".md", ".html"):
        raise ParameterError(f"{output}: use a name that ends in .md or .html")
    found = about(load(model))
    if output is not None:
        write_text(output, found.html() if output.suffix == ".html" else found.markdown())
        note(f"how the model ranks -> {output}")
    if json:
        print_json(found.as_dict())
    elif output is None:
        for line in found.markdown().splitlines():
            print_text(textwrap.fill(line, 80, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False))
