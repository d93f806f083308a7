"""Skip tests without what they need beside the package, but never where everything has to be checked."""

from __future__ import annotations

import importlib
import os
from typing import Any

import pytest

ALL = os.environ.get("WHYRANK_TESTS") == "all"  # `make test-all`, which installs everything
CI = os.environ.get("CI") == "true" or ALL


def need(there: object, what: str, *, always: bool = False) -> None:
    """Skip without what `make test-all` installs; with `always`, it is what `make test` installs, too."""
    if there:
        return
    if ALL or (always and CI):
        pytest.fail(what, pytrace=False)
    pytest.skip(what, allow_module_level=True)


def module(name: str, extra: str) -> Any:
    """Import a module of an extra that `make test-all` installs, or skip."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        need(False, f"{name} is missing: pip install 'whyrank[{extra}]' ({error})")
