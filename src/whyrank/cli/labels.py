"""What help calls the values of options: FILE, NUMBER, NAME. Typer alone would show Python's types."""

from __future__ import annotations

import re
from typing import Any

from typer.core import TyperCommand, TyperGroup

NAMES = {
    "ID": ("user", "item", "study_id", "exclude", "context_items"),
    "URL": ("store", "url"),
    "PATH|URL": ("log",),
    "HOST": ("host", "allow_host", "proxy", "ray"),
    "LOW:HIGH": ("rating_range",),
    "USER,ITEM": ("pairs",),
    "NAME=VALUE": ("settings", "rules", "boosts", "shares", "goal", "columns", "arm"),
    "NAME": (
        *("model", "models", "name", "preset", "experiment", "baseline", "candidates", "form", "method", "metric"),
        *("on_error", "part", "polarity", "query_by", "route", "sampler", "test", "unit"),
    ),
}
TEXTS = {name: label for label, names in NAMES.items() for name in names}
NUMBERS = ("int", "float")


def label(parameter: Any) -> str:
    """What the value of an option or argument is called; nothing for a switch, which takes none."""
    if getattr(parameter, "is_flag", False):
        return ""
    if parameter.param_type_name == "option" and parameter.metavar is not None:
        return str(parameter.metavar)
    kind = parameter.bare_type().removeprefix("list[").removesuffix("]")
    if kind == "Path":
        return _place(parameter.help or "")
    if kind == "datetime":
        return "TIME"
    if re.match("(a )?model folder", parameter.help or "", re.I):  # or name=folder
        return "FOLDER"
    if kind not in NUMBERS:
        return TEXTS.get(parameter.name, "TEXT")
    low, high = parameter.min, parameter.max
    return "NUMBER" if low is None or high is None else f"{low:g}-{high:g}"


def _place(help_: str) -> str:
    """A path is a file, a folder, or may be either, as its help says."""
    file, folder = (re.search(rf"\b{word}", help_, re.I) for word in ("file", "folder"))
    return "PATH" if file and folder else "FOLDER" if folder else "FILE"


def _labelled(parameters: list[Any]) -> list[Any]:
    for each in parameters:
        shown = label(each)
        vars(each).update(display_type_rich=lambda ctx, shown=shown: shown, _get_number_range_help_str=lambda: None)
    return parameters


class LabelledCommand(TyperCommand):
    """A command whose help names values in plain words."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _labelled(super().get_params(ctx))


class LabelledGroup(TyperGroup):
    """The same for a command that has commands of its own."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _labelled(super().get_params(ctx))
