"""Where things lie on this machine that can be made again."""

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
