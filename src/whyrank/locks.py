"""Locks on files that end with the process that holds them, on POSIX and on Windows."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    import msvcrt

    REMOVES_OPEN = False  # whether a file can be removed while it is open

    def _claim(handle: int) -> None:
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
else:
    REMOVES_OPEN = True

    def _claim(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def lock(path: Path) -> int | None:
    """A handle that locks a file, which is made if need be, until `release` or the end of the process.

    None where somebody else holds it, or where its folder is gone. Waits for nobody.
    """
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except FileNotFoundError:
        return None
    except PermissionError:
        if REMOVES_OPEN:
            raise
        return None  # Windows: it is about to be removed
    try:
        _claim(handle)
        if os.path.samestat(os.fstat(handle), os.stat(path)):  # nobody removed it between our two looks
            return handle
    except (BlockingIOError, PermissionError, FileNotFoundError):
        pass
    os.close(handle)
    return None


def release(handle: int, path: Path) -> None:
    """Give a lock back and remove its file: while it is still ours, where the system can."""
    if REMOVES_OPEN:
        path.unlink(missing_ok=True)
    os.close(handle)
    if not REMOVES_OPEN:
        with contextlib.suppress(OSError):  # somebody else has it by now
            path.unlink(missing_ok=True)
