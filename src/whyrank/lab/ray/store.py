"""Where the parts of a run are kept: a folder that all machines see, by path or by any URL that fsspec knows."""

from __future__ import annotations

import io
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
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
from whyrank.errors import ArtifactError, ClusterError

Arrays = dict[str, NDArray[Any]]
CLAIM = "claim"


@dataclass(frozen=True)
class StateStore:
    """Names -> arrays, tables and documents. A name points at a whole file or at none.

    On disks a file is written aside and renamed; object stores show an object only when it is whole. A run that has
    claimed a store writes to it until another run claims it, and workers until the run starts others: who was given
    up, but still lives, changes nothing.
    """

    url: str
    run: str = ""  # that has claimed the store; empty: no claim is asked for
    start: str = ""  # of the workers of that run which write; empty: its driver
    claimed_at: str = ""  # the URL of the store that this one is a folder of; empty: of none

    @classmethod
    def at(cls, place: str | Path) -> StateStore:
        """A path means the same on every machine only when it is absolute."""
        text = str(place)
        return cls(text if "://" in text else str(Path(text).resolve()))

    def within(self, folder: str) -> StateStore:
        """A folder of this store, under the same claim."""
        return replace(self, url=f"{self.url}/{folder}", claimed_at=self.claimed_at or self.url)

    def claimed(self) -> StateStore:
        """The same store for one run: no earlier one may write any more. Who has claimed it must not have lost it."""
        if self.run:
            self.require_claim()
            return self
        mine = replace(self, run=secrets.token_hex(8))
        self._of_claim.write_document(CLAIM, {"run": mine.run, "start": ""})
        return mine

    def started(self) -> StateStore:
        """The same store for workers that a run starts now: its earlier ones may not write any more."""
        driver = self.claimed()
        mine = replace(driver, start=secrets.token_hex(8))
        driver._of_claim.write_document(CLAIM, {"run": mine.run, "start": mine.start})
        return mine

    def require_claim(self) -> None:
        """Raise where this run, or this start of its workers, has lost its claim."""
        if not self.run:
            return
        found = self._of_claim.read_document(CLAIM)
        if found is None:
            raise ClusterError(f"{self._of_claim.url}/{CLAIM}.json: is missing, the store was removed; start again")
        if found.get("run") != self.run or self.start not in ("", found.get("start")):
            raise ClusterError(f"{self.url}: another run has taken over; wait for it, or use another --store")

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
        """Remove a folder or a file, or all of it; where the claim is lost it is another run's and stays."""
        system, root = self._listed_anew
        path = f"{root}/{folder}" if folder else root
        if system.exists(path):
            self.require_claim()
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

    @property
    def _of_claim(self) -> StateStore:
        """Where the claim is."""
        return replace(self, url=self.claimed_at or self.url, claimed_at="")

    def _put(self, name: str, content: bytes) -> None:
        system, root = self._place
        self.require_claim()  # before anything is changed
        if "file" in system.protocol:
            with new_file(Path(root) / name, self.require_claim) as aside:
                aside.write_bytes(content)
        else:
            system.makedirs(f"{root}/{name}".rsplit("/", 1)[0], exist_ok=True)
            self.require_claim()
            system.pipe_file(f"{root}/{name}", content)

    def _get(self, name: str) -> bytes:
        system, root = self._place
        return bytes(system.cat_file(f"{root}/{name}"))
