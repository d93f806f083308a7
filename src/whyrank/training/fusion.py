"""How the ID factors o and the text vector t of an explanation become one vector, and the derivatives of that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyrank.training._descent import product, product_with_transposed

Floats = NDArray[np.float32]
Weights = Mapping[str, Floats]
Gradients = tuple[Floats, Floats, dict[str, Floats]]  # by o, by t, by each weight


class Fusion(NamedTuple):
    """A fusion operator: `fuse(o, t, weights)` and `gradients(by the fused, o, t, weights)`.

    `identity` is the o that leaves t as it is.
    """

    shapes: Callable[[int], dict[str, tuple[int, int]]]
    fuse: Callable[[Floats, Floats, Weights], Floats]
    gradients: Callable[[Floats, Floats, Floats, Weights], Gradients]
    identity: float


def _no_weights(factors: int) -> dict[str, tuple[int, int]]:
    return {}


def _multiply(o: Floats, t: Floats, weights: Weights) -> Floats:
    return o * t


def _multiply_gradients(by_fused: Floats, o: Floats, t: Floats, weights: Weights) -> Gradients:
    return by_fused * t, by_fused * o, {}


def _add(o: Floats, t: Floats, weights: Weights) -> Floats:
    return o + t


def _add_gradients(by_fused: Floats, o: Floats, t: Floats, weights: Weights) -> Gradients:
    return by_fused, by_fused, {}


def _gate_shapes(factors: int) -> dict[str, tuple[int, int]]:
    return {"id_gate": (factors, factors), "text_gate": (factors, factors), "gate_bias": (1, factors)}


def _open(o: Floats, t: Floats, weights: Weights) -> Floats:
    """How much of each factor comes from the ID: between 0 and 1."""
    raw = product(o, weights["id_gate"]) + product(t, weights["text_gate"]) + weights["gate_bias"]
    gate: Floats = 1 / (1 + np.exp(-np.clip(raw, -30, 30)))
    return gate


def _gate(o: Floats, t: Floats, weights: Weights) -> Floats:
    gate = _open(o, t, weights)
    return gate * o + (1 - gate) * t


def _gate_gradients(by_fused: Floats, o: Floats, t: Floats, weights: Weights) -> Gradients:
    gate = _open(o, t, weights)
    by_raw = by_fused * (o - t) * gate * (1 - gate)
    by_o = by_fused * gate + product(by_raw, _turned(weights["id_gate"]))
    by_t = by_fused * (1 - gate) + product(by_raw, _turned(weights["text_gate"]))
    return by_o, by_t, {
        "id_gate": product_with_transposed(o, by_raw),
        "text_gate": product_with_transposed(t, by_raw),
        "gate_bias": by_raw.sum(0, keepdims=True),
    }  # fmt: skip


def _mlp_shapes(factors: int) -> dict[str, tuple[int, int]]:
    inner = 2 * factors
    return {
        "id_in": (factors, inner), "text_in": (factors, inner), "in_bias": (1, inner),
        "out": (inner, factors), "out_bias": (1, factors),
    }  # fmt: skip


def _inner(o: Floats, t: Floats, weights: Weights) -> Floats:
    raw = product(o, weights["id_in"]) + product(t, weights["text_in"]) + weights["in_bias"]
    inner: Floats = np.maximum(raw, np.float32(0))
    return inner


def _mlp(o: Floats, t: Floats, weights: Weights) -> Floats:
    return product(_inner(o, t, weights), weights["out"]) + weights["out_bias"]


def _mlp_gradients(by_fused: Floats, o: Floats, t: Floats, weights: Weights) -> Gradients:
    inner = _inner(o, t, weights)
    by_raw = product(by_fused, _turned(weights["out"])) * (inner > 0)
    by_o = product(by_raw, _turned(weights["id_in"]))
    by_t = product(by_raw, _turned(weights["text_in"]))
    return by_o, by_t, {
        "id_in": product_with_transposed(o, by_raw),
        "text_in": product_with_transposed(t, by_raw),
        "in_bias": by_raw.sum(0, keepdims=True),
        "out": product_with_transposed(inner, by_fused),
        "out_bias": by_fused.sum(0, keepdims=True),
    }  # fmt: skip


def _turned(matrix: Floats) -> Floats:
    return np.ascontiguousarray(matrix.T)


FUSIONS = {
    "multiply": Fusion(_no_weights, _multiply, _multiply_gradients, 1.0),
    "add": Fusion(_no_weights, _add, _add_gradients, 0.0),
    "gate": Fusion(_gate_shapes, _gate, _gate_gradients, 0.0),
    "mlp": Fusion(_mlp_shapes, _mlp, _mlp_gradients, 0.0),
}
