"""Compiled functions over arrays and scalars. `@kernel` compiles one with numba and keeps its machine code."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core.caching import FunctionCache

from whyrank.places import user_cache

F = TypeVar("F", bound=Callable[..., Any])


class _ForgivingCache(FunctionCache):
    """numba's cache, except that a full or vanished disk costs a compilation and not the run."""

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError:
            self.disable()


def kernel(function: F) -> F:
    """Compile a function on its first call: no GIL, no fast-math, division as in NumPy, cached where possible."""
    compiled = numba.njit(nogil=True, error_model="numpy")(function)
    folder = cache_folder()
    if folder is not None and not numba.config.DISABLE_JIT:
        own = folder / _digest(Path(function.__code__.co_filename))
        before, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(own)
        try:
            compiled._cache = _ForgivingCache(function)
        finally:
            numba.config.CACHE_DIR = before
    return cast(F, compiled)


def inlined(function: F) -> F:
    """Compile a function into every kernel that calls it: a call would hand over each field of each of its arrays.

    It counts no references to them, so it must not make an array.
    """
    return cast(F, numba.njit(nogil=True, error_model="numpy", forceinline=True, _nrt=False)(function))


def inner(function: F) -> F:
    """Compile a function that only kernels call: without an entry for Python and without counts of references.

    Both take long to compile where functions are many. It must not make an array.
    """
    options = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "_nrt": False}
    return cast(F, numba.njit(nogil=True, error_model="numpy", **options)(function))


def first_run() -> bool:
    """Whether kernels still have to be compiled on this machine: worth a word to someone who waits."""
    folder = cache_folder()
    return folder is None or next(folder.rglob("*.nbi"), None) is None


@cache
def cache_folder() -> Path | None:
    """Where machine code is kept: the first writable candidate, None without any (then every process compiles)."""
    for root in _cache_roots():
        folder = root / "kernels"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                return folder
        except OSError:
            continue
    return None


@cache
def _digest(file: Path) -> str:
    """A hash of a module and of all modules of this package that it imports, directly or not.

    numba itself notices only changes of a function's own file and would go on using old code of a function that was
    inlined from another one.
    """
    digest, todo, root = hashlib.sha256(), [file.resolve()], Path(__file__).parent
    for source in todo:
        text = source.read_text(encoding="utf-8")
        digest.update(text.encode())
        for home, names in re.findall(r"^from whyrank((?:\.\w+)*) import (\([^)]*\)|.*)", text, re.MULTILINE):
            place = root.joinpath(*home.split("."))
            inside = [place / f"{name}.py" for name in re.findall(r"\w+", names)]
            near = {each for each in (place.with_suffix(".py"), *inside) if each.is_file()}
            todo += sorted(near - set(todo))
    return digest.hexdigest()[:16]


def _cache_roots() -> Iterator[Path]:
    if numba.config.CACHE_DIR:
        yield Path(numba.config.CACHE_DIR) / "whyrank"
    folder = user_cache()
    if folder is not None:
        yield folder
    yield from _private_temporary_folder()


def _private_temporary_folder() -> Iterator[Path]:
    """A folder below the system's temporary one that nobody else can have put code into."""
    if not hasattr(os, "getuid"):
        return
    try:
        folder = Path(tempfile.gettempdir()) / f"whyrank-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError:
        return
    if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077:
        yield folder
