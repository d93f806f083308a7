"""The logistic function in float32, from additions and multiplications: its bits do not depend on a libm."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import extending, types

from whyrank.compile import kernel

intrinsic: Any = extending.intrinsic  # a decorated function has another signature, which its stub does not know

_LOG2_E = np.float32(1.4426950408889634)
_LN2_HIGH = np.float32(0.693359375)  # few bits, so that n * _LN2_HIGH is exact
_LN2_LOW = np.float32(-2.12194440e-4)
_ROUND = np.float32(12582912.0)  # 1.5 * 2**23: adding it rounds to a whole number, which its low bits then hold
_LIMIT = np.float32(87.0)  # exp(87) is still a float32
_ONE = np.float32(1)
_C2, _C3, _C4, _C5, _C6 = (np.float32(1 / n) for n in (2, 6, 24, 120, 720))


@intrinsic
def _as_bits(typingctx: Any, value: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.IntType(32))

    return types.int32(types.float32), codegen


@intrinsic
def _as_float(typingctx: Any, bits: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(builder.trunc(args[0], ir.IntType(32)), ir.FloatType())

    return types.float32(types.int64), codegen


@intrinsic
def fma(typingctx: Any, value: Any, factor: Any, addend: Any) -> Any:
    """value * factor + addend in float32, rounded once."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fma(*args)

    return types.float32(types.float32, types.float32, types.float32), codegen


@kernel
def sigmoid_of_minus(r: Any) -> Any:
    """sigma(-r) = 1 / (1 + exp(r)), to about 2e-7 relative; r beyond +-87 counts as +-87."""
    r = min(max(r, -_LIMIT), _LIMIT)
    shifted = fma(r, _LOG2_E, _ROUND)
    n = shifted - _ROUND
    f = fma(n, -_LN2_LOW, fma(n, -_LN2_HIGH, r))
    f2 = f * f
    tail = fma(f2, _C6, fma(f, _C5, _C4))
    middle = fma(f, _C3, _C2)
    power = fma(f2, fma(f2, tail, middle), _ONE + f)
    exp = _as_float((np.int64(_as_bits(shifted)) << 23) + np.int64(_as_bits(power)))
    return _ONE / (_ONE + exp)
