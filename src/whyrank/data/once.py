"""What is made once of an object, however many threads are the first to ask for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cached_property
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

Made = TypeVar("Made")
Of = TypeVar("Of")
_locks: WeakKeyDictionary[object, threading.RLock] = WeakKeyDictionary()


def _lock_of(instance: object) -> threading.RLock:
    """A lock for each object, so that nobody waits for what is made of another one."""
    return _locks.get(instance) or _locks.setdefault(instance, threading.RLock())


class made_once(cached_property[Made]):  # noqa: N801 - used as a decorator
    """A cached property that threads wait for; since Python 3.12 each of them would compute `cached_property`.

    >>> class Table:
    ...     @made_once
    ...     def total(self) -> int:
    ...         return 3
    >>> Table().total
    3
    """

    def __get__(self, instance: object, owner: type[Any] | None = None) -> Any:
        if instance is None:
            return self
        with _lock_of(instance):
            return super().__get__(instance, owner)


class OncePer(Generic[Of, Made]):
    """A function of one object whose result is kept as long as the object is.

    >>> class Pool(list): __hash__ = object.__hash__
    >>> size = OncePer(len)
    >>> pool = Pool([1, 2])
    >>> size(pool), size(pool)
    (2, 2)
    """

    def __init__(self, make: Callable[[Of], Made]) -> None:
        self._make, self._made = make, WeakKeyDictionary[Of, Made]()

    def __call__(self, instance: Of) -> Made:
        made = self._made.get(instance)
        if made is None:
            with _lock_of(instance):
                made = self._made.get(instance)
                if made is None:
                    made = self._made[instance] = self._make(instance)
        return made
