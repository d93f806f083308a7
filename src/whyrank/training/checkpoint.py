"""A run's state on disk: written aside and renamed, so that there is always a whole one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from whyrank.atomic import new_file
from whyrank.data.csr import CSR
from whyrank.errors import ArtifactError
from whyrank.training.monitor import Monitor
from whyrank.training.passes import Pass, Settings, Table
from whyrank.training.storage import Storage

FORMAT = "whyrank-checkpoint-2"


def fingerprint(
    tables: Mapping[str, Table], passes: Sequence[Pass], settings: Settings, records: object, start: Storage | None
) -> str:
    """A hash of all that decides the result; threads and the place of the checkpoint do not."""
    chosen = asdict(settings)
    for name in ("threads", "checkpoint_seconds", *(["epochs"] if settings.schedule == "constant" else [])):
        del chosen[name]
    digest = hashlib.sha256(json.dumps(chosen, sort_keys=True).encode())
    for part in (*tables.items(), *passes, records, None if start is None else start.values):
        _feed(digest, part)
    return digest.hexdigest()


def _feed(digest: hashlib._Hash, value: object) -> None:
    if isinstance(value, np.ndarray):
        digest.update(f"{value.dtype.str}{value.shape}".encode())
        digest.update(np.ascontiguousarray(value).data)
    elif isinstance(value, (tuple, CSR)):
        for part in value:
            _feed(digest, part)
    elif hasattr(value, "__dataclass_fields__"):
        for name in value.__dataclass_fields__:
            _feed(digest, getattr(value, name))
    else:
        digest.update(repr(value).encode())


def save(path: Path, storage: Storage, monitors: Sequence[Monitor], epoch: int, mark: str) -> None:
    """Write the state after `epoch` epochs over `path`."""
    arrays: dict[str, NDArray[np.generic]] = {"values": storage.values}
    for index, monitor in enumerate(monitors):
        arrays |= {f"monitor{index}.{name}": array for name, array in monitor.state().items()}
    write_arrays(path, mark, arrays | {"epoch": np.array([epoch])})


def load(path: Path, storage: Storage, monitors: Sequence[Monitor], mark: str, epochs: int) -> int:
    """Take up the state of a checkpoint; the number of epochs done, 0 if there is no checkpoint."""
    arrays = read_arrays(path, mark)
    if not arrays:
        return 0
    try:
        require_reachable(path, int(arrays["epoch"][0]), epochs)
        storage.values[:] = arrays["values"]
        for index, monitor in enumerate(monitors):
            prefix = f"monitor{index}."
            monitor.restore({name.removeprefix(prefix): a for name, a in arrays.items() if name.startswith(prefix)})
        return int(arrays["epoch"][0])
    except (ValueError, KeyError, IndexError) as error:
        raise _damaged(path, error) from error


def write_arrays(path: Path, mark: str, arrays: Mapping[str, NDArray[np.generic]]) -> None:
    """Arrays by name, over what was there; `mark` says what they belong to."""
    whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    with new_file(path) as aside:
        save_file(whole, aside, {"format": FORMAT, "fingerprint": mark})


def read_arrays(path: Path, mark: str) -> dict[str, NDArray[Any]]:
    """What was written; nothing if there is no file."""
    if not path.exists():
        return {}
    try:
        with safe_open(path, "numpy") as file:
            about = file.metadata() or {}
            if about.get("format") != FORMAT:
                raise ArtifactError(f"{path}: not a checkpoint of this version; remove it or train without resume")
            if about.get("fingerprint") != mark:
                raise ArtifactError(f"{path}: belongs to other data or settings; remove it or train without resume")
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
    except (SafetensorError, OSError, ValueError) as error:
        raise _damaged(path, error) from error


def require_reachable(place: object, done: int, epochs: int) -> None:
    """Raise unless a run of so many epochs passes through the state after `done` of them."""
    if done > epochs:
        raise ArtifactError(
            f"{place}: holds {done} epochs and only {epochs} are asked for; remove it or train without resume"
        )


def _damaged(path: Path, error: Exception) -> ArtifactError:
    return ArtifactError(f"{path}: damaged checkpoint ({error}); remove it or train without resume")
