"""The state of a training run in a file: written aside and renamed, so that there is always a whole one."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from whyrank.atomic import new_file
from whyrank.data.csr import CSR
from whyrank.errors import ArtifactError
from whyrank.training.run import Run

Arrays = dict[str, NDArray[Any]]
FORMAT = "whyrank-checkpoint-4"


class Checkpoint:
    """The arrays of a fit's stages by name, and those of its monitors; without a path it saves nothing.

    `decides` is all that the result depends on: the checkpoint of other data or settings is refused.
    """

    def __init__(self, run: Run, *decides: object) -> None:
        self.path, self.monitors, self.fingerprint, self.arrays = run.checkpoint, run.monitors, "", Arrays()
        if self.path is None:
            return
        self.fingerprint = fingerprint(*decides)
        if run.resume:
            self.arrays = read_arrays(self.path, self.fingerprint)
            for index, monitor in enumerate(self.monitors):
                self.read(monitor.restore, f"monitor{index}")

    def read(self, restore: Any, name: str) -> bool:
        """Hand what was saved under a name to a method that takes it up; whether there was anything."""
        found = part_of(self.arrays, name)
        if found:
            try:
                restore(found)
            except (ValueError, KeyError, IndexError, TypeError) as error:
                raise _damaged(self.path, error) from error
        return bool(found)

    def save(self, name: str, state: Mapping[str, NDArray[Any]]) -> None:
        """Write a stage's state, beside those of other stages, over what was there."""
        if self.path is None:
            return
        self.arrays = {key: array for key, array in self.arrays.items() if not key.startswith(f"{name}.")}
        self.arrays |= {f"{name}.{key}": array for key, array in state.items()}
        for index, monitor in enumerate(self.monitors):
            self.arrays |= {f"monitor{index}.{key}": array for key, array in monitor.state().items()}
        whole = {key: np.ascontiguousarray(array) for key, array in self.arrays.items()}
        with new_file(self.path) as aside:
            save_file(whole, aside, {"format": FORMAT, "fingerprint": self.fingerprint, "content": fingerprint(whole)})


def fingerprint(*decides: object) -> str:
    """A hash of arrays, dataclasses, tuples, mappings and plain values."""
    digest = hashlib.sha256()
    _feed(digest, decides)
    return digest.hexdigest()


def _feed(digest: hashlib._Hash, value: object) -> None:
    if isinstance(value, np.ndarray):
        digest.update(f"{value.dtype.str}{value.shape}".encode())
        digest.update(np.ascontiguousarray(value).data)
    elif isinstance(value, (tuple, list, CSR)):
        digest.update(str(len(value)).encode())
        for part in value:
            _feed(digest, part)
    elif isinstance(value, Mapping):
        _feed(digest, sorted(value.items()))
    elif hasattr(value, "__dataclass_fields__"):
        for name in value.__dataclass_fields__:
            _feed(digest, getattr(value, name))
    else:
        digest.update(repr(value).encode())


def read_arrays(path: Path, mark: str) -> Arrays:
    """What was saved; nothing if there is no file."""
    if not path.exists():
        return {}
    try:
        with safe_open(path, "numpy") as file:
            about = file.metadata() or {}
            if about.get("format") != FORMAT:
                raise ArtifactError(f"{path}: not a checkpoint of this version; remove it or train without resume")
            if about.get("fingerprint") != mark:
                raise ArtifactError(f"{path}: belongs to other data or settings; remove it or train without resume")
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
            if about.get("content") != fingerprint(arrays):
                raise ValueError("its arrays are not those that were written")
            return arrays
    except (SafetensorError, OSError, ValueError) as error:
        raise _damaged(path, error) from error


def is_of(path: Path, *decides: object) -> bool:
    """Whether a file is a checkpoint of these data and settings; one of others has no part in this run."""
    try:
        with safe_open(path, "numpy") as file:
            about = file.metadata() or {}
    except (SafetensorError, OSError):
        return False
    return (about.get("format"), about.get("fingerprint")) == (FORMAT, fingerprint(*decides))


def part_of(arrays: Mapping[str, NDArray[Any]], name: str) -> Arrays:
    """The arrays whose names start with `name.`, without it."""
    return {key.removeprefix(f"{name}."): array for key, array in arrays.items() if key.startswith(f"{name}.")}


def set_arrays(to: Mapping[str, NDArray[Any]], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Copy saved arrays to where they came from; raises ValueError where they do not fit."""
    for name, array in to.items():
        if (arrays[name].shape, arrays[name].dtype) != (array.shape, array.dtype):
            raise ValueError(f"{name} has the wrong size or type")
        array[...] = arrays[name]


def require_reachable(place: object, done: int, epochs: int) -> None:
    """Raise unless a run of so many epochs passes through the state after `done` of them."""
    if done > epochs:
        raise ArtifactError(
            f"{place}: holds {done} epochs and only {epochs} are asked for; remove it or train without resume"
        )


def _damaged(path: Path | None, error: Exception) -> ArtifactError:
    return ArtifactError(f"{path}: damaged checkpoint ({error}); remove it or train without resume")
