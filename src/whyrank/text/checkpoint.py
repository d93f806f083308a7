"""The state of a training on disk, so that an interrupted one can go on."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from whyrank.atomic import new_file
from whyrank.errors import ArtifactError

SECONDS = 30.0  # between two checkpoints at least: quick epochs are not slowed down by the disk
State = Mapping[str, NDArray[np.generic]]


class Checkpoint:
    """Named arrays in a file; `path=None` keeps nothing.

    `facts` are everything the training depends on: the checkpoint of another training is refused.
    """

    def __init__(self, path: Path | None, facts: Mapping[str, object]) -> None:
        self.path = path
        self.digest = hashlib.sha256(json.dumps(dict(facts), sort_keys=True).encode()).hexdigest()
        self.saved = time.monotonic()

    def due(self) -> bool:
        """Whether it is time to save."""
        return self.path is not None and time.monotonic() - self.saved >= SECONDS

    def save(self, state: State, epoch: int) -> None:
        """Write the state after an epoch; the one before it is replaced in one step."""
        if self.path is None:
            return
        with new_file(self.path) as aside:
            arrays = {name: np.ascontiguousarray(array) for name, array in state.items()}
            save_file(arrays, aside, {"training": self.digest, "epoch": str(epoch)})
        self.saved = time.monotonic()

    def load(self, like: State) -> tuple[State, int] | None:
        """The state to go on from and the number of epochs behind it; None where nothing was saved."""
        if self.path is None or not self.path.is_file():
            return None
        try:
            with safe_open(self.path, "np") as file:
                facts = file.metadata() or {}
                state: State = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
        except (OSError, SafetensorError) as error:
            raise ArtifactError(f"{self.path}: is not a readable checkpoint; remove it or do not resume") from error
        if facts.get("training") != self.digest:
            raise ArtifactError(
                f"{self.path}: is of a training with other data or parameters; remove it or do not resume"
            )
        for name, array in like.items():
            if name not in state or (state[name].shape, state[name].dtype) != (array.shape, array.dtype):
                raise ArtifactError(f"{self.path}: does not fit this training ({name}); remove it or do not resume")
        return state, int(facts["epoch"])
