"""Static vectors of words, in whole numbers, so that a product of two is the same on every machine."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whyrank.errors import MissingExtra

Floats = NDArray[np.float32]
SCALE = 254  # what a length of 1 is in whole numbers; a component is cut at LARGEST
LARGEST = 127  # 256 products of such numbers add up exactly in float32
BLOCK = 4096


@cache
def _weights() -> tuple[Any, Floats]:
    """Return the tokenizer and the vectors of its tokens, which come with wordllama."""
    found = find_spec("wordllama")
    if found is None or not found.submodule_search_locations:
        raise MissingExtra("mine", "mining")
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    folder = Path(found.submodule_search_locations[0])
    tokenizer = Tokenizer.from_file(str(folder / "tokenizers" / "l2_supercat_tokenizer_config.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer, load_file(folder / "weights" / "l2_supercat_256.safetensors")["embedding.weight"].astype(
        np.float32
    )


def vectors_of(words: Sequence[str]) -> Floats:
    """Return a vector for every word: the mean of those of its parts, in whole numbers.

    >>> bed, mattress, soup = vectors_of(["bed", "mattress", "soup"])
    >>> bool(bed @ mattress > 2 * (bed @ soup))
    True
    """
    tokenizer, table = _weights()
    found = np.zeros((len(words), table.shape[1]), np.float32)
    for start in range(0, len(words), BLOCK):
        part = words[start : start + BLOCK]
        for row, each in enumerate(tokenizer.encode_batch(list(part), add_special_tokens=False), start):
            if each.ids:
                found[row] = table[each.ids].sum(axis=0)
    return whole(found)


def whole(vectors: Floats) -> Floats:
    """Return vectors of length 1 in whole numbers.

    >>> float(np.abs(whole(np.ones((1, 4), np.float32))).max())
    127.0
    """
    wide = vectors.astype(np.float64)
    length = np.sqrt(np.cumsum(wide * wide, axis=1)[:, -1:])  # one after the other, on every machine
    scaled = wide * (SCALE / np.maximum(length, 1e-9))
    return np.clip(np.rint(scaled), -LARGEST, LARGEST).astype(np.float32)


def likeness(one: Floats, other: Floats) -> Floats:
    """Return the cosines of vectors in whole numbers, exact in float32."""
    return (one @ other.T) / np.float32(SCALE * SCALE)
