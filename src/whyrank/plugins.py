"""What other packages add: models, encoders, templates and languages, found by their entry points.

A package names what it adds in its pyproject.toml, under `whyrank.models`, `whyrank.encoders`, `whyrank.templates` or
`whyrank.languages`; nothing of ours is edited.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, TypeVar

from whyrank.errors import ParameterError

Kind = Literal["models", "encoders", "templates", "languages"]
T = TypeVar("T")


def installed(kind: Kind, check: Callable[[Any], T]) -> list[T]:
    """Everything of a kind; what cannot be imported, and what `check` refuses, is left out with a warning."""
    found = []
    for point in entry_points(group=f"whyrank.{kind}"):
        try:
            found.append(check(point.load()))
        except Exception as error:  # of another package: it can be anything, and must not stop ours
            what = f"{kind.removesuffix('s')} {point.value}"
            logging.getLogger("whyrank").warning("%s of an installed package is left out: %s", what, error)
    return found


def installed_names(kind: Kind) -> list[str]:
    """The names of what is installed, for messages; nothing is imported."""
    return sorted(point.name for point in entry_points(group=f"whyrank.{kind}"))


def installed_as(kind: Kind, name: str) -> Any:
    """What a package adds under this name; None: no package does."""
    points = list(entry_points(group=f"whyrank.{kind}", name=name))
    if not points:
        return None
    try:
        return points[0].load()
    except Exception as error:
        what = f"{kind.removesuffix('s')} {name!r} of an installed package ({points[0].value})"
        raise ParameterError(f"{what} cannot be used: {error}") from error


def installed_path(kind: Kind, name: str) -> Path | None:
    """The file or folder that a package adds under this name, as a path or a function that returns one."""
    found = installed_as(kind, name)
    try:
        return None if found is None else Path(found() if callable(found) else found)
    except Exception as error:
        what = f"{kind.removesuffix('s')} {name!r} of an installed package"
        raise ParameterError(f"{what} is no path: {error}") from error


def extra_folders() -> ModuleType:
    """Return the lab's reader and writer of EXTRA folders, which the core imports for such a folder only."""
    return import_module("whyrank.lab.extra.folders")


def study_routes() -> ModuleType:
    """Return the lab's routes of the blind study, which the service offers beside its own."""
    return import_module("whyrank.lab.study.routes")


def reader_of(folder: Path) -> ModuleType | None:
    """Return what reads a folder of the lab's kind; None: it is not one."""
    found = any((folder / name).is_file() for name in ("IDs.pickle", "IDs.txt"))
    return extra_folders() if found else None
