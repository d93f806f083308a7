"""A saved thing is a folder: a manifest with checksums, arrays as .npy, tables as Arrow files; never a pickle."""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.artifacts.arrow import holds_compressed
from whyrank.atomic import Marker, json_object, new_folder
from whyrank.data.tables import UNREADABLE
from whyrank.errors import ArtifactError

FORMAT = 1
MANIFEST = "manifest.json"
# For arrays of any other type or layout, kernels would be compiled anew, which takes long.
TYPES = (np.float32, np.float64, np.int32, np.int64, np.uint8)
FILE_NAME = re.compile(r"(arrays/[A-Za-z0-9_.-]{1,200}\.npy|tables/[A-Za-z0-9_.-]{1,200}\.arrow)")


def is_saved(folder: Path) -> bool:
    """Whether a folder is one of ours: its manifest lists files with checksums as `save` does."""
    manifest = json_object(folder / MANIFEST)
    files = manifest.get("files")
    known = isinstance(manifest.get("kind"), str) and isinstance(manifest.get("format"), int)
    return known and isinstance(files, dict) and bool(files) and all(FILE_NAME.fullmatch(name) for name in files)


MARKER = Marker(MANIFEST, rf"manifest\.json|metrics\.json|{FILE_NAME.pattern}", is_saved)


@dataclass(frozen=True)
class Stored:
    """What a folder held: its facts, its arrays (memory-mapped) and its tables (memory-mapped)."""

    facts: dict[str, object]
    arrays: dict[str, NDArray[np.generic]]
    tables: dict[str, pl.DataFrame]


class Chunks(NamedTuple):
    """An array that comes piece by piece, because it need not fit into memory."""

    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    pieces: Iterable[NDArray[np.generic]]


def save(
    path: str | Path,
    kind: str,
    facts: Mapping[str, object],
    arrays: Mapping[str, NDArray[np.generic] | Chunks],
    tables: Mapping[str, pl.DataFrame | pl.LazyFrame],
    texts: Mapping[str, str] | None = None,
    check: Callable[[], object] | None = None,
) -> Path:
    """Write a folder aside, with a checksum of every file in its manifest, and rename it into place.

    `texts` are files beside the manifest that are not part of what is loaded. `check` is called when all is written:
    where it raises, nothing is renamed.
    """
    with new_folder(path, MARKER, check) as aside:
        (aside / "arrays").mkdir()
        (aside / "tables").mkdir()
        for name, array in arrays.items():
            _write_array(aside / "arrays" / f"{name}.npy", array)
        for name, table in tables.items():
            file = aside / "tables" / f"{name}.arrow"
            if isinstance(table, pl.LazyFrame):
                table.sink_ipc(file, compression="uncompressed")
            else:
                table.rechunk().write_ipc(file, compression="uncompressed")
        files = {str(file.relative_to(aside)): _checksum(file) for file in sorted(aside.glob("*/*"))}
        manifest = {"format": FORMAT, "kind": kind, **facts, "files": files}
        (aside / MANIFEST).write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        for name, text in (texts or {}).items():
            (aside / name).write_text(text, encoding="utf-8")
    return Path(path)


def _write_array(file: Path, array: NDArray[np.generic] | Chunks) -> None:
    if not isinstance(array, Chunks):
        np.save(file, np.ascontiguousarray(array), allow_pickle=False)
        return
    with file.open("wb") as handle:
        about = {"descr": np.lib.format.dtype_to_descr(array.dtype), "fortran_order": False, "shape": array.shape}
        np.lib.format.write_array_header_1_0(handle, about)
        for piece in array.pieces:
            handle.write(np.ascontiguousarray(piece).data)


def load(path: str | Path, kind: str, *, verify: bool = True) -> Stored:
    """Read a folder written by `save`; refuse what is missing, cut short, edited or of another kind."""
    path = Path(path)
    manifest = read_manifest(path, kind)
    files = manifest.get("files")
    if not isinstance(files, dict) or not files:
        raise ArtifactError(f"{path / MANIFEST}: lists no files")
    arrays: dict[str, NDArray[np.generic]] = {}
    tables: dict[str, pl.DataFrame] = {}
    for name, checksum in files.items():
        if not FILE_NAME.fullmatch(name):
            raise ArtifactError(f"{path / MANIFEST}: names a file that cannot be part of it: {name!r}")
        file = path / name
        if not file.is_file() or file.resolve() != path.resolve() / name:  # links may lead anywhere
            raise ArtifactError(f"{file}: is missing; save the model again")
        if verify and _checksum(file) != checksum:
            raise ArtifactError(f"{file}: has been changed or cut short since it was saved (checksum differs)")
        if name.startswith("arrays/"):
            arrays[file.stem] = _load_array(file)
        else:
            tables[file.stem] = _load_table(file)
    return Stored(manifest, arrays, tables)


def read_manifest(path: Path, kind: str) -> dict[str, object]:
    """The facts of a folder, without its arrays."""
    file = path / MANIFEST
    if not file.is_file():
        raise ArtifactError(f"{path}: is not a saved {kind} (no {MANIFEST})")
    try:
        manifest = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ArtifactError(f"{file}: is not readable JSON") from error
    if not isinstance(manifest, dict) or manifest.get("kind") != kind:
        raise ArtifactError(f"{path}: is not a saved {kind}")
    if manifest.get("format") != FORMAT:
        raise ArtifactError(
            f"{path}: has format {manifest.get('format')}; this version of whyrank reads format {FORMAT}"
        )
    return manifest


def _load_array(file: Path) -> NDArray[np.generic]:
    try:
        array: NDArray[np.generic] = np.load(file, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # a damaged header may raise nearly anything, a TokenError for example
        raise ArtifactError(f"{file}: is not a readable array") from error
    if array.dtype not in TYPES or not array.flags.c_contiguous:
        raise ArtifactError(f"{file}: is not an array as whyrank writes it")
    return array.view(np.ndarray)


def _load_table(file: Path) -> pl.DataFrame:
    try:
        if holds_compressed(file):
            raise ArtifactError(f"{file}: is compressed, which no table of whyrank is; save the model again")
        return pl.scan_ipc(file, glob=False).collect()
    except (*UNREADABLE, ValueError, struct.error) as error:
        raise ArtifactError(f"{file}: is not a readable table") from error


def _checksum(file: Path) -> str:
    with file.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
