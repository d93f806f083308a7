"""What people say an item is: `it is a lovely pub`, `this was a quick dinner`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyrank.compile import kernel
from whyrank.mining import _wordclasses as w


@kernel
def kinds(bits: NDArray[np.int64], tag: NDArray[np.int8], sentences: NDArray[np.int64]) -> NDArray[np.int64]:
    """The places of nouns that a pronoun for the item is said to be, with any adjectives between."""
    found = np.empty(len(bits), np.int64)
    n = 0
    for number in range(len(sentences) - 1):
        s, e = sentences[number], sentences[number + 1]
        for i in range(s + 1, e - 2):
            if tag[i] != w.T_COP or tag[i - 1] != w.T_O or bits[i - 1] & w.ITEM == 0:
                continue
            k = i + 1
            while k < e and tag[k] in (w.T_R, w.T_NEG):
                k += 1
            if k >= e or tag[k] != w.T_D:
                continue
            k += 1
            while k < e and tag[k] in (w.T_J, w.T_R, w.T_AND, w.T_COMMA):
                k += 1
            if k >= e or tag[k] != w.T_N:
                continue
            while k + 1 < e and tag[k + 1] == w.T_N:
                k += 1
            found[n] = k
            n += 1
    return found[:n].copy()
