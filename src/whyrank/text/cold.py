"""Explanations that nobody has used yet borrow from the used ones that say nearly the same."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyrank.text.encoder import unit_vectors
from whyrank.text.features import one_blas_thread

Floats = NDArray[np.float32]
NEIGHBOURS = 10
SHARPNESS = 8  # weights are cosines to this power: near-duplicates count far more than vague resemblance
CHUNK = 1024


def nearest(cold: Floats, warm: Floats) -> tuple[NDArray[np.int64], Floats]:
    """The nearest warm rows of each cold row by cosine, and their weights, which add up to one."""
    cold, warm = unit_vectors(cold), unit_vectors(warm)
    count = min(NEIGHBOURS, len(warm))
    places, weights = np.empty((len(cold), count), np.int64), np.empty((len(cold), count), np.float32)
    for begin in range(0, len(cold), CHUNK):
        with one_blas_thread():
            cosines = cold[begin : begin + CHUNK] @ warm.T
        best = np.argsort(-cosines, axis=1, kind="stable")[:, :count]
        part = np.maximum(np.take_along_axis(cosines, best, 1), 1e-3) ** SHARPNESS
        places[begin : begin + CHUNK], weights[begin : begin + CHUNK] = best, part / part.sum(1, keepdims=True)
    return places, weights


def borrowed(values: Floats, places: NDArray[np.int64], weights: Floats) -> Floats:
    """Weighted means of rows of `values`."""
    mean: Floats = np.einsum("nk,nk...->n...", weights, values[places]).astype(np.float32)
    return mean
