"""Bits of fitted models that no change may move by itself, and scores of Profile-J, whose last bits are a BLAS's own.

Who changes them on purpose writes `golden.json` anew: python tests/test_golden.py.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from whyrank.explain.rank import rank
from whyrank.lab.simulate import simulate
from whyrank.models import BPER, BPERJ, PITF, Model, ProfileJ
from whyrank.training import Run

FILE = Path(__file__).with_name("golden.json")
FACTORS = {kind.id: kind for kind in (BPER, PITF, BPERJ)}


def fitted(model: Model, threads: int) -> Model:
    data = simulate("small", users=150, items=40, explanations=80, records=1500, triplets=2600, seed=3)
    return model.fit(data.split(seed=1), run=Run(threads=threads))


def digest(model: Model) -> str:
    """The SHA-256 of all that was learned."""
    arrays = (np.ascontiguousarray(getattr(model, f"{name}_")) for name in model.fitted)
    return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()


def scores(model: Model) -> list[list[float]]:
    """The best scores of ten pairs, of reasons and of items."""
    numbers = np.arange(10, dtype=np.int32)
    items = model.item_queries(numbers) @ model.item_keys().T
    return [*rank(model, numbers, numbers, 5).scores.tolist(), np.sort(items)[:, -5:].ravel().tolist()]


def made(threads: int) -> dict[str, object]:
    bits = {name: digest(fitted(kind(factors=12, epochs=10), threads)) for name, kind in FACTORS.items()}
    return {**bits, "profile-j": scores(fitted(ProfileJ(), threads))}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", FACTORS)
def test_factor_models_learn_the_same_bits_as_ever(name: str, threads: int) -> None:
    assert digest(fitted(FACTORS[name](factors=12, epochs=10), threads)) == json.loads(FILE.read_text())[name]


def test_profile_scores_as_ever() -> None:
    found, expected = scores(fitted(ProfileJ(), 2)), json.loads(FILE.read_text())["profile-j"]
    for one, other in zip(found, expected, strict=True):
        assert one == pytest.approx(other, abs=5e-3)


if __name__ == "__main__":
    FILE.write_text(json.dumps(made(threads=2), indent=1) + "\n")
