"""Where things lie: what can be made again on this machine, and what belongs to a model folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path


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
