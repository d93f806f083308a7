"""Vectors on disk, so that a text is encoded once in its life. Losing the cache costs time and nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whyrank.atomic import new_file
from whyrank.errors import ArtifactError
from whyrank.places import user_cache

Floats = NDArray[np.float32]


def encodings() -> Path | None:
    """The user's folder for vectors of texts; None where there is no home."""
    folder = user_cache()
    return None if folder is None else folder / "encodings"


class VectorCache:
    """Text -> vector in files that are only ever added; `folder=None` remembers nothing.

    A folder that cannot be written or a file that cannot be read counts as one that is not there.
    """

    def __init__(self, folder: Path | None, width: int) -> None:
        self.folder, self.width = folder, width

    def load(self, texts: Sequence[str]) -> dict[str, Floats]:
        """The vectors of those texts that are known."""
        wanted = {text_hash(text): text for text in texts}
        found: dict[str, Floats] = {}
        for file in self._files():
            for key, vector in _read(file, self.width).items():
                if key in wanted:
                    found[wanted[key]] = vector
        return found

    def store(self, texts: Sequence[str], vectors: Floats) -> None:
        """Remember vectors for later runs; several processes may do so at once."""
        if self.folder is None or not len(texts):
            return
        from safetensors.numpy import save_file

        keys = np.frombuffer(b"".join(text_hash(text) for text in texts), np.uint8).reshape(len(texts), -1)
        name = hashlib.sha256(keys.tobytes()).hexdigest()[:32]
        try:
            with new_file(self.folder / f"{name}.safetensors") as aside:
                arrays: dict[str, NDArray[Any]] = {"keys": keys, "vectors": np.ascontiguousarray(vectors, np.float32)}
                save_file(arrays, str(aside))
        except (ArtifactError, OSError):
            self.folder = None  # full or read-only: do not try again

    def _files(self) -> list[Path]:
        try:
            return sorted(self.folder.glob("*.safetensors")) if self.folder is not None else []
        except OSError:
            return []


def text_hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _read(file: Path, width: int) -> dict[bytes, Floats]:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        arrays = load_file(str(file))
        keys, vectors = arrays["keys"], arrays["vectors"]
    except (OSError, KeyError, ValueError, SafetensorError):
        return {}
    if keys.shape != (len(vectors), 32) or vectors.shape[1:] != (width,) or vectors.dtype != np.float32:
        return {}
    return {key.tobytes(): vector for key, vector in zip(keys, vectors, strict=True)}
