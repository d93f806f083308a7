"""Damaged input for every reader, a little of it; `python benchmarks/fuzz.py` is the long run of this."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest

import fuzz
from fuzz_readers import READERS, Reader
from whyrank.errors import DataError

INPUTS = 40


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_damaged_input_gives_a_typed_error_or_a_valid_result(reader: Reader) -> None:
    counts = fuzz.fuzz(reader, 1, range(INPUTS))
    assert not counts.failures
    assert counts.accepted + counts.refused == INPUTS


def a_reader(act: Callable[[], object], *, damaged: bool) -> Reader:
    """Does something on damaged input, or on sound one."""

    def read(folder: Path) -> None:
        if ((folder / "file").read_bytes() != b"content") is damaged:
            act()

    return Reader("bad", 1, lambda folder: [{"file": b"content"}], read)


def fail(error: Exception) -> None:
    raise error


def hang() -> None:
    while True:
        pass


def test_the_fuzzer_notices_what_must_not_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "LIMIT", 0.1)
    bad = {"forbidden: os.system": lambda: os.system("true"), "KeyError": lambda: fail(KeyError()), "Hang": hang}
    for said, act in bad.items():
        failures = fuzz.fuzz(a_reader(act, damaged=True), 0, range(2)).failures
        assert len(failures) == 2
        assert said in failures[0]


def test_a_reader_that_refuses_what_is_sound_tests_nothing() -> None:
    with pytest.raises(AssertionError, match="refuses all that is sound"):
        fuzz.fuzz(a_reader(lambda: fail(DataError("no")), damaged=False), 0, range(1))
    assert not logging.root.manager.disable  # later tests look at logs


def test_an_input_is_a_function_of_its_number() -> None:
    sample = b"user,item,explanation\na,b,c\n"
    first, again = (fuzz.mutated(sample, [sample], fuzz.random.Random("0 csv 7")) for _ in range(2))
    assert first == again != sample
