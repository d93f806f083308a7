"""Stores on the command line: opened for a command, and named in what it prints."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from whyrank.cli.serve import DEFAULT_STORE
from whyrank.errors import ParameterError

if TYPE_CHECKING:
    from whyrank.online.store import Store


@contextmanager
def opened_store(place: str, *, makes: bool = True) -> Iterator[Store]:
    """Open a store for one command, which says so where it makes a new one.

    Args:
        place: a path or a URL.
        makes: whether the command has something to put into a store that is not there yet. For
            others a mistyped name would be a store that holds nothing.
    """
    from whyrank.cli.app import note
    from whyrank.online.store import NotInStore, Store, shown_url

    store, shown = Store(place), shown_url(place)
    if not store.exists and makes:
        note(f"{shown} is a new store; if the service writes to another one, name that with --store")
    elif not store.exists:
        hint = "name the one that the service writes to with --store"
        raise ParameterError(f"the store {shown} does not exist; {hint}")
    try:
        yield store.create()
    except NotInStore as error:
        hint = f"(the store is {shown}; --store names another one)"
        raise ParameterError(f"{error} {hint}") from error
    finally:
        store.close()


def store_option(place: str) -> str:
    """Return what a suggested command needs to find the same store; the reader adds a password."""
    from whyrank.online.store import shown_url

    return "" if place == DEFAULT_STORE else f" --store {shlex.quote(shown_url(place))}"
