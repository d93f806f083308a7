"""The options of `whyrank.Options` as options of commands."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer

from whyrank.cli.app import parse_pairs
from whyrank.errors import ParameterError
from whyrank.explain.options import Declared, ItemGoals, Options

PANEL = "Which reasons"


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """A command that takes every option of a ranking, and gets them as the argument `options`.

    One that has an argument `goals` takes those of lists of items as well, and gets them by name.
    """
    hints = get_type_hints(command, include_extras=True)
    own = inspect.signature(command).parameters
    sources = {"options": (Options.declared(), PANEL)}
    if "goals" in own:
        sources["goals"] = ItemGoals.declared(), "Which items"
    added = [
        inspect.Parameter(
            each.name, inspect.Parameter.KEYWORD_ONLY, default=_default(each), annotation=_annotation(each, panel)
        )
        for declared, panel in sources.values()
        for each in declared
    ]

    @wraps(command)
    def asked(*args: Any, **given: Any) -> None:
        chosen = {
            source: {each.name: _value(each, given.pop(each.name)) for each in declared}
            for source, (declared, _) in sources.items()
        }
        command(*args, **given, **chosen | {"options": Options(**chosen["options"])})

    left = [each.replace(annotation=hints[name]) for name, each in own.items() if name not in sources]
    parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in left] + added
    asked.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    asked.__annotations__ = {each.name: each.annotation for each in parameters}
    return asked


def _default(about: Declared) -> Any:
    return None if about.kind in ("texts", "numbers") else about.default


def _annotation(about: Declared, panel: str) -> Any:
    kinds: dict[str, Any] = {
        "switch": bool,
        "choice": str,
        "whole": int,
        "number": float,
        "texts": list[str] | None,
        "numbers": list[str] | None,
    }
    kind, help_ = kinds[about.kind], about.help
    flags = (f"{about.flag}/--no-{about.flag[2:]}",) if about.kind == "switch" else (about.flag,)
    if about.kind in ("texts", "numbers"):
        help_ += " May be repeated."
    if about.kind == "number" and about.default is None:
        kind = float | None
    return Annotated[kind, typer.Option(*flags, help=help_, rich_help_panel=panel)]


def _value(about: Declared, given: Any) -> Any:
    if about.kind == "texts":
        return tuple(given or ())
    if about.kind != "numbers":
        return given
    numbers = {}
    for name, text in parse_pairs(given or [], about.flag).items():
        try:
            numbers[name] = float(text)
        except ValueError:
            raise ParameterError(f"{about.flag} {name}: {text!r} is not a number") from None
    return numbers
