"""Where the parts of a run are kept: a folder that all machines see, by path or by any URL that fsspec knows."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as from_bytes
from safetensors.numpy import save as to_bytes

from whyrank.atomic import new_file
from whyrank.errors import ArtifactError

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Store:
    """Names -> arrays, tables and documents. A name points at a whole file or at none.

    On disks a file is written aside and renamed; object stores show an object only when it is whole.
    """

    url: str

    @classmethod
    def at(cls, place: str | Path) -> Store:
        """A path means the same on every machine only when it is absolute."""
        text = str(place)
        return cls(text if "://" in text else str(Path(text).resolve()))

    def write(self, name: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._put(f"{name}.safetensors", to_bytes({key: np.ascontiguousarray(a) for key, a in arrays.items()}))

    def read(self, name: str) -> Arrays:
        try:
            return from_bytes(self._get(f"{name}.safetensors"))
        except (SafetensorError, OSError, ValueError) as error:
            raise ArtifactError(f"{self.url}/{name}: is missing or damaged ({error}); start again") from error

    def write_table(self, name: str, table: pl.DataFrame) -> None:
        buffer = io.BytesIO()
        table.write_ipc(buffer, compression="uncompressed")
        self._put(f"{name}.arrow", buffer.getvalue())

    def read_table(self, name: str) -> pl.DataFrame:
        return pl.read_ipc(io.BytesIO(self._get(f"{name}.arrow")))

    def scan_table(self, name: str) -> pl.DataFrame | pl.LazyFrame:
        """A table that is not read before it is used, where the store is a folder."""
        system, root = self._place
        if "file" in system.protocol:
            return pl.scan_ipc(f"{root}/{name}.arrow", glob=False)
        return self.read_table(name)

    def write_document(self, name: str, document: Mapping[str, object]) -> None:
        self._put(f"{name}.json", (json.dumps(document, indent=1, sort_keys=True) + "\n").encode())

    def read_document(self, name: str) -> dict[str, Any] | None:
        """What was written, None if nothing was."""
        try:
            document = json.loads(self._get(f"{name}.json"))
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise ArtifactError(f"{self.url}/{name}.json: is not readable JSON") from error
        return dict(document)

    def folders(self, prefix: str) -> list[str]:
        """The names of folders that start so."""
        system, root = self._listed_anew
        found = system.ls(root, detail=True) if system.exists(root) else []
        names = (entry["name"].rstrip("/").rsplit("/", 1)[-1] for entry in found if entry["type"] == "directory")
        return sorted(name for name in names if name.startswith(prefix))

    def remove(self, folder: str = "") -> None:
        system, root = self._listed_anew
        path = f"{root}/{folder}" if folder else root
        if system.exists(path):
            system.rm(path, recursive=True)

    @property
    def _listed_anew(self) -> tuple[Any, str]:
        """Object stores remember lists of files, but other machines write too."""
        system, root = self._place
        system.invalidate_cache()
        return system, root

    @cached_property
    def _place(self) -> tuple[Any, str]:
        import fsspec

        return fsspec.core.url_to_fs(self.url)

    def _put(self, name: str, content: bytes) -> None:
        system, root = self._place
        if "file" in system.protocol:
            with new_file(Path(root) / name) as aside:
                aside.write_bytes(content)
        else:
            system.makedirs(f"{root}/{name}".rsplit("/", 1)[0], exist_ok=True)
            system.pipe_file(f"{root}/{name}", content)

    def _get(self, name: str) -> bytes:
        system, root = self._place
        return bytes(system.cat_file(f"{root}/{name}"))
