"""Files and folders that are written aside and renamed: a reader sees the old one or the new one, never half of one."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from whyrank.errors import ArtifactError, WhyrankError
from whyrank.locks import lock, release

AT_FDCWD, RENAME_EXCHANGE = -100, 2
PART, LOCK = ".part", ".lock"


class Marker(NamedTuple):
    """How folders of a kind are known, and which of their files are ours; others stay when a folder is replaced."""

    file: str  # the one that says what the folder is
    own: str = ".*"  # a pattern of the names of files that are ours, seen from the folder
    check: Callable[[Path], bool] | None = None  # whether that is a folder of ours; None: its file is enough

    def marks(self, folder: Path) -> bool:
        return (folder / self.file).is_file() if self.check is None else self.check(folder)


def json_object(file: Path) -> dict[str, Any]:
    """The JSON object in a file, empty if there is none."""
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


@contextlib.contextmanager
def new_file(path: str | Path, check: Callable[[], object] | None = None) -> Iterator[Path]:
    """Yield a path to write to; what was written there takes the place of `path` when the block ends well.

    A link stays one and shows the new file, and a file keeps its mode. What is no file (a pipe, a device) is written
    to in the end. `check` is called right before that: where it raises, the old file stays.
    """
    check = check or (lambda: None)
    path = Path(path)
    if path.exists() and not path.is_file() and not path.is_dir():
        with writing(path), tempfile.TemporaryDirectory(prefix="whyrank-") as folder:
            yield Path(folder) / path.name
            check()
            with (Path(folder) / path.name).open("rb") as made, path.open("wb") as output:
                shutil.copyfileobj(made, output)
        return
    path = path.resolve()
    with _aside(path) as aside:
        yield aside
        _sync(aside)
        if path.exists():
            shutil.copymode(path, aside)
        check()
        os.replace(aside, path)


def write_text(path: str | Path, text: str) -> None:
    """Write a text file aside and put it in the place of `path`."""
    with new_file(path) as aside:
        aside.write_text(text, encoding="utf-8")


@contextlib.contextmanager
def new_folder(path: str | Path, marker: Marker, check: Callable[[], object] | None = None) -> Iterator[Path]:
    """Yield a fresh folder; put it in the place of `path` when the block ends well.

    Only an empty folder or one of the same kind, which `marker` tells, gives way to it. What is in that one beside the
    files of its kind is in the new one, too. `check` is called right before: where it raises, the old folder stays.
    """
    path = Path(path).resolve()  # a link stays one, and shows the new folder
    check_place(path, marker)
    with _aside(path) as aside:
        aside.mkdir()
        yield aside
        for file in aside.rglob("*"):
            if file.is_file():
                _sync(file)
        check_place(path, marker)
        if path.exists():
            _keep_others(path, aside, marker)
        if check is not None:
            check()
        old = _swap_in(aside, path)
        if old is not None:
            _keep_others(old, path, marker)  # what came in between


def check_place(path: str | Path, marker: Marker) -> None:
    """Refuse a path where something stands that a folder of this kind must not take the place of."""
    path = Path(path)
    if path.exists() and not path.is_dir():
        raise ArtifactError(f"{path}: is a file, a folder was to be written there")
    if path.is_dir() and not marker.marks(path) and any(path.iterdir()):
        raise ArtifactError(
            f"{path}: holds other things, which would be lost; name a new folder, or one with a {marker.file} of ours"
        )


def _keep_others(old: Path, new: Path, marker: Marker) -> None:
    """Put what is not ours of an older folder into the new one; files that are in both keep their modes."""
    shutil.copymode(old, new)
    for file in sorted(old.rglob("*")):
        name = file.relative_to(old)
        target = new / name
        if file.is_dir() and not file.is_symlink():
            if not any(file.iterdir()):
                target.mkdir(parents=True, exist_ok=True)
        elif re.fullmatch(marker.own, name.as_posix()):
            if target.is_file():
                shutil.copymode(file, target)
        elif not os.path.lexists(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(file, target, follow_symlinks=False)
            except (OSError, NotImplementedError):  # not every file system has links
                shutil.copy2(file, target, follow_symlinks=False)


@contextlib.contextmanager
def sole_writer(path: str | Path) -> Iterator[None]:
    """Keep other processes from a work of hours that ends in the same `path`; they are told so at once."""
    path = Path(path)
    file = path.parent / f".{path.name}.lock"
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = lock(file)
    if handle is None:
        raise ArtifactError(f"{path}: another process is writing it; wait for that one, or name another output")
    try:
        yield
    finally:
        release(handle, file)


@contextlib.contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Trouble of the file system as an error of ours; libraries written in Rust tell of it in their messages only."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or f"not all of it: {error}"  # NumPy says no more when a disk is full
        raise ArtifactError(f"{path}: cannot be written ({reason})") from error
    except Exception as error:
        number = re.search(r"\(os error (\d+)\)", str(error))
        if number is None or isinstance(error, WhyrankError):
            raise
        raise ArtifactError(f"{path}: cannot be written ({os.strerror(int(number[1]))})") from error


@contextlib.contextmanager
def _aside(path: Path) -> Iterator[Path]:
    """A name for the new `path` in a folder beside it that goes away in the end, or with the next write if killed."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        _sweep(path)
        handle = None
        while handle is None:  # another process may sweep it away before it is locked
            folder = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.", suffix=PART))
            handle = lock(folder / LOCK)
        try:
            yield folder / path.name
        finally:
            _discard(folder, handle)


def _discard(folder: Path, handle: int) -> None:
    """Remove a folder that is locked: its lock last, so that who locks it next finds it empty, and keeps it."""
    for each in folder.iterdir():
        if each.is_dir() and not each.is_symlink():
            shutil.rmtree(each, ignore_errors=True)
        elif each.name != LOCK:
            each.unlink(missing_ok=True)
    release(handle, folder / LOCK)
    with contextlib.suppress(OSError):
        folder.rmdir()


def _sweep(path: Path) -> None:
    """Remove what killed processes left of earlier writes to `path`; what is in use is locked."""
    prefix = f".{path.name}."
    with contextlib.suppress(OSError):
        for folder in list(path.parent.iterdir()):
            if folder.name.startswith(prefix) and folder.name.endswith(PART) and not folder.is_symlink():
                handle = lock(folder / LOCK)
                if handle is not None:
                    _discard(folder, handle)


def _sync(file: Path) -> None:
    """Make sure the bytes are on disk before the name points at them."""
    handle = os.open(file, os.O_RDWR if sys.platform == "win32" else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _swap_in(aside: Path, path: Path) -> Path | None:
    """Rename the folder `aside` to `path`; where an old one is now. They change places in one step where Linux can."""
    if not path.exists():
        os.rename(aside, path)
        return None
    exchange = getattr(ctypes.CDLL(None), "renameat2", None) if sys.platform == "linux" else None
    if exchange is not None and exchange(AT_FDCWD, bytes(aside), AT_FDCWD, bytes(path), RENAME_EXCHANGE) == 0:
        return aside
    old = aside.with_name(f"{aside.name}.old")
    os.rename(path, old)
    os.rename(aside, path)
    return old
