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
def opened_store(url: str) -> Iterator[Store]:
    """A store for one command; what is not in it is an error that says which store that is."""
    from whyrank.online.store import NotInStore, Store, shown_url

    store = Store(url).create()
    try:
        yield store
    except NotInStore as error:
        raise ParameterError(f"{error} (the store is {shown_url(url)}; --store names another one)") from error
    finally:
        store.close()


def store_option(url: str) -> str:
    """What a command that is suggested needs to find the same store; a password is left for the reader to put in."""
    from whyrank.online.store import shown_url

    return "" if url == DEFAULT_STORE else f" --store {shlex.quote(shown_url(url))}"
