"""Where things lie: what can be made again on this machine, and what belongs to a model folder."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from whyrank.atomic import json_object, new_file


def user_cache() -> Path | None:
    """The user's folder for what can be made again; None where there is no home."""
    try:
        home = Path.home()
    except RuntimeError:
        home = None
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
    elif sys.platform == "darwin":
        base = str(home / "Library" / "Caches") if home else None
    else:
        base = os.environ.get("XDG_CACHE_HOME") or (str(home / ".cache") if home else None)
    return Path(base) / "whyrank" if base else None


def refresh_folder(model: Path) -> Path:
    """Where the refreshes of a model folder have their pool and runs, unless told otherwise."""
    return model.parent / f"{model.name}.refresh"


def register_refresh_folder(model: Path, work: Path) -> None:
    """Note beside a model where its refreshes work, if that cannot be told from the folder's own name.

    The model may be a link, or the place may have been chosen: who erases somebody must find it all the same.
    """
    known, place = _registered(model), str(work.resolve())
    if place in known or work.resolve() == refresh_folder(model.resolve()):
        return
    with new_file(_register(model)) as aside:
        aside.write_text(json.dumps({"work": [*known, place]}, indent=1) + "\n", encoding="utf-8")


def refresh_folders(model: Path) -> list[Path]:
    """All folders in which refreshes of a model have worked: beside its name, beside what a link shows, elsewhere."""
    places = [refresh_folder(model), refresh_folder(model.resolve()), *map(Path, _registered(model))]
    return list(dict.fromkeys(place.resolve() for place in places if place.is_dir()))


def _register(model: Path) -> Path:
    real = model.resolve()
    return real.parent / f"{real.name}.refresh-folders.json"


def _registered(model: Path) -> list[str]:
    found = json_object(_register(model)).get("work")
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []
