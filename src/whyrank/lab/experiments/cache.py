"""Results of runs on disk, by what they depend on: a second run reads them, an interrupted one goes on from them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whyrank.atomic import new_file

Facts = dict[str, Any]
FACTS = "facts"  # the member of the file that holds them, as JSON in bytes


@dataclass(frozen=True)
class Result:
    """Numbers by name, and arrays."""

    facts: Facts
    arrays: dict[str, NDArray[np.generic]] = field(default_factory=dict, repr=False)


class Cache:
    """One file per key in a folder. A file that cannot be read counts as one that is not there."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def load(self, key: Mapping[str, object], arrays: bool = True) -> Result | None:
        """Read what was saved under a key, if anything; `arrays=False` reads the facts alone."""
        path = self.path(key)
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
                facts = json.loads(stored[FACTS].tobytes())
                names = [name for name in stored.files if name != FACTS] if arrays else []
                return Result(facts["facts"], {name: stored[name] for name in names})
        except Exception:  # a damaged archive may raise nearly anything, a NotImplementedError for example
            return None

    def save(self, key: Mapping[str, object], result: Result) -> Result:
        """Keep a result; what is answered is what a later `load` will answer."""
        document = json.dumps({"key": _plain(key), "facts": _plain(result.facts)}, sort_keys=True)
        facts = np.frombuffer(document.encode(), np.uint8)
        with new_file(self.path(key)) as aside, aside.open("wb") as file:
            np.savez(file, allow_pickle=False, **{FACTS: facts}, **result.arrays)
        return Result(json.loads(document)["facts"], result.arrays)

    def has(self, key: Mapping[str, object]) -> bool:
        return self.path(key).is_file()

    def path(self, key: Mapping[str, object]) -> Path:
        return self.folder / f"{digest(key)}.npz"


def digest(key: Mapping[str, object]) -> str:
    """Return a name for a key that does not depend on the order of its entries."""
    text = json.dumps(_plain(key), sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _plain(value: Any) -> Any:
    """JSON's own types; 1 and 1.0 are one number."""
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, str | int | float | bool | None) else str(value)
