"""Files and folders that are written aside and renamed: a reader sees the old one or the new one, never half of one."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from whyrank.errors import ArtifactError

AT_FDCWD, RENAME_EXCHANGE = -100, 2


@contextlib.contextmanager
def new_file(path: str | Path) -> Iterator[Path]:
    """Yield a path beside `path` to write to; rename it over `path` when the block ends well."""
    path = Path(path)
    aside = _aside(path)
    try:
        yield aside
        _sync(aside)
        os.replace(aside, path)
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be written ({error.strerror or error})") from error
    finally:
        aside.unlink(missing_ok=True)


@contextlib.contextmanager
def new_folder(path: str | Path) -> Iterator[Path]:
    """Yield a fresh folder beside `path`; put it in the place of `path` when the block ends well."""
    path = Path(path)
    aside = _aside(path)
    try:
        aside.mkdir()
        yield aside
        for file in aside.rglob("*"):
            if file.is_file():
                _sync(file)
        _swap_in(aside, path)
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be written ({error.strerror or error})") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _aside(path: Path) -> Path:
    """An unused name beside `path`, in a folder that exists."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", suffix=".part") as unused:
            return Path(unused.name)
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be written ({error.strerror or error})") from error


def _sync(file: Path) -> None:
    """Make sure the bytes are on disk before the name points at them."""
    handle = os.open(file, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _swap_in(aside: Path, path: Path) -> None:
    """Rename the folder `aside` to `path`; an old folder there changes places with it in one step where Linux can."""
    if not path.exists():
        os.rename(aside, path)
        return
    if not path.is_dir():
        raise ArtifactError(f"{path}: is a file, a folder was to be written there")
    libc = ctypes.CDLL(None, use_errno=True)
    exchange = getattr(libc, "renameat2", None)
    if exchange is not None and exchange(AT_FDCWD, bytes(aside), AT_FDCWD, bytes(path), RENAME_EXCHANGE) == 0:
        return
    old = _aside(path)
    os.rename(path, old)
    os.rename(aside, path)
    shutil.rmtree(old, ignore_errors=True)
