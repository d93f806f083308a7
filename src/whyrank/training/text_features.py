"""Feature vectors made fit for learning: centred, turned to their main directions, scaled; neighbours among them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

from whyrank.data.vocabulary import Vocabulary
from whyrank.errors import ParameterError
from whyrank.text.encoder import unit_vectors
from whyrank.training._descent import product

Floats = NDArray[np.float32]
NEIGHBOURS = 10
SHARPNESS = 8  # weights are cosines to this power: near-duplicates count far more than vague resemblance
CHUNK = 1024


class Preparation(NamedTuple):
    """x -> (x - mean) @ projection, with the same constants for explanations that come later."""

    mean: Floats
    projection: Floats

    @classmethod
    def of(cls, features: Floats, dimensions: int) -> Preparation:
        """From the features of a pool: the `dimensions` directions in which they vary most, one common scale.

        Vectors of pre-trained encoders share a large common part and vary little around it; without this the linear
        layer learns the common part first. Fewer dimensions also make an epoch proportionally quicker.
        """
        mean = features.mean(0, dtype=np.float64)
        centred = features - mean
        with one_blas_thread():
            values, directions = np.linalg.eigh(centred.T @ centred / len(features))
        kept = np.argsort(-values, kind="stable")[: min(dimensions, features.shape[1])]
        directions = directions[:, kept]
        directions = directions * np.sign(np.take_along_axis(directions, np.abs(directions).argmax(0)[None], 0))
        scale = np.sqrt(max(float(values[kept].mean()), 1e-12))
        return cls(mean.astype(np.float32), np.ascontiguousarray(directions / scale, np.float32))

    def apply(self, features: Floats) -> Floats:
        """Rows of about unit size in every coordinate on average."""
        if features.shape[1:] != self.mean.shape:
            raise ParameterError(f"features have shape {features.shape}; use rows of {len(self.mean)} numbers")
        return product(np.ascontiguousarray(features - self.mean), self.projection)


def one_blas_thread() -> threadpool_limits:
    """Inside of it BLAS and LAPACK give the same bits however many cores there are."""
    return threadpool_limits(limits=1, user_api="blas")


def checked(features: ArrayLike) -> Floats:
    """Features as a table of finite float32 numbers."""
    try:
        table = np.ascontiguousarray(features, np.float32)
    except (TypeError, ValueError) as error:
        raise ParameterError("features: use a table of numbers, one row per explanation") from error
    if table.ndim != 2 or not table.shape[1] or not np.isfinite(table).all():
        raise ParameterError(f"features of shape {table.shape}: use a table of finite numbers, one row per explanation")
    return table


def in_order(features: Floats, ids: Iterable[object] | None, explanations: Vocabulary) -> Floats:
    """One row per explanation of a vocabulary; `ids` say whose row is whose (None: they are in its order)."""
    if ids is None:
        if len(features) != len(explanations):
            raise ParameterError(
                f"features: {len(features):,} rows, {len(explanations):,} explanations; give feature_ids"
            )
        return features
    named = pl.Series("id", [str(each) for each in ids], pl.String)
    if len(named) != len(features) or named.n_unique() != len(named):
        raise ParameterError(f"feature_ids: use {len(features):,} different ids, one per row of features")
    rows = pl.DataFrame({"id": named}).with_row_index("row")
    pool = pl.DataFrame({"id": explanations.ids})
    found = pool.join(rows, on="id", how="left", maintain_order="left")["row"]
    if found.null_count():
        missing = explanations.ids.filter(found.is_null())[0]
        raise ParameterError(f"features: no row for explanation {missing!r}; give one for every explanation")
    chosen: Floats = features[found.to_numpy()]
    return chosen


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
