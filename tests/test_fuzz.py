"""Damaged input for every reader, a little of it; `python benchmarks/fuzz.py` is the long run of this."""

from __future__ import annotations

import pytest

import fuzz
from fuzz_readers import READERS, Reader

INPUTS = 40


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_damaged_input_gives_a_typed_error_or_a_valid_result(reader: Reader) -> None:
    counts = fuzz.fuzz(reader, 1, range(INPUTS))
    assert not counts.failures
    assert counts.accepted + counts.refused == INPUTS


def test_the_fuzzer_notices_what_must_not_be(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_: object) -> None:
        __import__("os").system("true")

    def fail(_: object) -> None:
        raise KeyError("untyped")

    def hang(_: object) -> None:
        while True:
            pass

    monkeypatch.setattr(fuzz, "LIMIT", 0.1)
    for read, said in ((run, "forbidden: os.system"), (fail, "KeyError"), (hang, "Hang")):
        bad = Reader("bad", 1, lambda folder: [{"file": b"content"}], read)
        failures = fuzz.fuzz(bad, 0, range(2)).failures
        assert len(failures) == 2
        assert said in failures[0]


def test_an_input_is_a_function_of_its_number() -> None:
    sample = b"user,item,explanation\na,b,c\n"
    first, again = (fuzz.mutated(sample, [sample], fuzz.random.Random("0 csv 7")) for _ in range(2))
    assert first == again != sample
