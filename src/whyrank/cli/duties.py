"""Commands: forget, retain, export-user, about."""

from __future__ import annotations

import json as formats
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whyrank.cli.app import Json, ModelFolder, command, note, print_json, print_text
from whyrank.errors import ParameterError

if TYPE_CHECKING:
    from whyrank.online.store import Store

User = Annotated[str, typer.Argument(help="The user's id, as in your data.")]
StoreUrl = Annotated[str | None, typer.Option("--store", help="A store, such as sqlite:///whyrank.db.")]
Models = Annotated[list[Path] | None, typer.Option("--model", help="A folder of a saved model. May be repeated.")]


@command("forget", "whyrank forget u000001 --store sqlite:///whyrank.db --model model --data split -o receipt.json")
def forget_command(
    user: User,
    store: StoreUrl = None,
    model: Models = None,
    data: Annotated[
        list[Path] | None,
        typer.Option("--data", help="A split folder, a mined folder or a checkpoint. May be repeated."),
    ] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Write the receipt to this file.")] = None,
    json: Json = False,
) -> None:
    """Erase a user from the stores, models and data that you name, and write a receipt without the user's id."""
    from whyrank.atomic import new_file
    from whyrank.errors import ParameterError
    from whyrank.online.forget import forget

    if store is None and not model and not data:
        raise ParameterError("nothing is named to erase from; give --store, --model or --data")
    opened = _store(store)
    try:
        receipt = forget(user, store=opened, models=model or (), data=data or ())
    finally:
        if opened is not None:
            opened.close()
    if output is not None:
        with new_file(output) as aside:
            aside.write_text(formats.dumps(receipt.as_dict(), indent=2) + "\n", encoding="utf-8")
    if json:
        print_json(receipt.as_dict())
        return
    if receipt.store is not None:
        print_text("store: " + ", ".join(f"{n:,} {name.replace('_', ' ')}" for name, n in receipt.store.items()))
    for each in receipt.folders:
        removed = ", ".join(f"{count:,} {name}" for name, count in each.removed.items())
        print_text(f"{each.folder} ({each.kind}): {removed or each.note or 'not in it'}")
        if removed and each.note:
            note(f"  {each.note}")
    if not receipt.found:
        note(f"nothing is known of {user!r}")
    note(f"receipt {receipt.id}" + ("" if output is None else f" -> {output}") + f". {receipt.note}")


@command("retain", "whyrank retain --store sqlite:///whyrank.db --days 90")
def retain_command(
    store: Annotated[str, typer.Option(help="A store, such as sqlite:///whyrank.db.")],
    days: Annotated[int, typer.Option(help="How many days exposures and events are stored.", min=1)],
    json: Json = False,
) -> None:
    """Erase old exposures and events; `whyrank serve --retain-days` does so every hour."""
    from whyrank.online.erasure import retain

    opened = _store(store)
    assert opened is not None
    try:
        erased = retain(opened, days)
    finally:
        opened.close()
    if json:
        print_json(erased)
    else:
        print_text(", ".join(f"{count:,} {name}" for name, count in erased.items()) + " erased")


@command("export-user", "whyrank export-user u000001 --store sqlite:///whyrank.db -o mine.json")
def export_command(
    user: User,
    store: StoreUrl = None,
    model: Models = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Write to this file.")] = None,
) -> None:
    """Write everything that is stored about a user as JSON."""
    from whyrank.atomic import new_file
    from whyrank.errors import ParameterError
    from whyrank.online.erasure import export
    from whyrank.online.forget import held_by_model

    if store is None and not model:
        raise ParameterError("nothing is named to look into; give --store or --model")
    found: dict[str, object] = {"user": user}
    opened = _store(store)
    if opened is not None:
        try:
            found |= export(opened, user)
        finally:
            opened.close()
    if model:
        from whyrank.models import load

        found["models"] = [{"folder": str(each), **held_by_model(load(each), user)} for each in model]
    if output is None:
        print_json(found)
        return
    with new_file(output) as aside:
        aside.write_text(formats.dumps(found, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    note(f"everything about the user -> {output}")


@command("about", "whyrank about model -o about.html")
def about_command(
    model: ModelFolder,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="A .md or .html file to write.")] = None,
    json: Json = False,
) -> None:
    """Say in plain words how a model ranks: its main parameters and their weights."""
    from whyrank.atomic import new_file
    from whyrank.errors import ParameterError
    from whyrank.models import load
    from whyrank.online.about import about

    if output is not None and output.suffix not in (".md", ".html"):
        raise ParameterError(f"{output}: use a name that ends in .md or .html")
    found = about(load(model))
    if output is not None:
        with new_file(output) as aside:
            aside.write_text(found.html() if output.suffix == ".html" else found.markdown(), encoding="utf-8")
        note(f"how the model ranks -> {output}")
    if json:
        print_json(found.as_dict())
    elif output is None:
        print_text("\n".join(_filled(line) for line in found.markdown().splitlines()))


def _filled(line: str) -> str:
    """A line of Markdown in lines that a terminal shows whole; points of a list stay indented."""
    return textwrap.fill(line, 80, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _store(url: str | None) -> Store | None:
    """A store that is there: one made anew by a mistyped name would have nothing to erase, and seem to be clean."""
    if url is None:
        return None
    from whyrank.online.store import Store

    opened = Store(url)
    file = opened.engine.url.database
    if opened.engine.dialect.name == "sqlite" and (not file or not Path(file).is_file()):
        raise ParameterError(f"the store {url} does not exist; name the one that the service writes to")
    return opened.create()
