"""Factor rows as eight-lane vectors, so that a kernel reads like the paper's equations and runs at vector speed.

A row of a table is `8 * n` float32 numbers. `load` gives it as one value of type `Lanes(n)` on which `+ - *` work lane
by lane; a float32 on the right side of `*` scales every lane. The operations are spelled out for the compiler as
eight-lane instructions with a fixed order of additions: no fast-math, and the same bits on every machine. So is the
logistic function: its bits do not depend on a libm.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from llvmlite import ir
from numba import extending, types
from numba.core import cgutils
from numba.extending import models, overload, register_model

from whyrank.compile import kernel

intrinsic: Any = extending.intrinsic  # a decorated function has another signature, which its stub does not know

LANES = 8
FLOAT, WORD, LONG = ir.FloatType(), ir.IntType(32), ir.IntType(64)
VECTOR = ir.VectorType(FLOAT, LANES)
CACHE_LINE = 64


class Lanes(types.Type):
    """The numba type of a row held in registers: `count` vectors of eight lanes."""

    def __init__(self, count: int) -> None:
        self.count = count
        super().__init__(name=f"Lanes({count})")


@register_model(Lanes)
class LanesModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Lanes) -> None:
        super().__init__(dmm, fe_type, ir.ArrayType(VECTOR, fe_type.count))


def _row_address(context: Any, builder: Any, table_type: Any, table: Any, row: Any, count: int) -> Any:
    """Where a row starts. Its length is a constant of the compiled code."""
    data = cgutils.create_struct_proxy(table_type)(context, builder, value=table).data
    return builder.gep(data, [builder.mul(row, ir.Constant(row.type, LANES * count))])


def _vector_addresses(context: Any, builder: Any, table_type: Any, args: Any, count: int) -> list[Any]:
    start = _row_address(context, builder, table_type, args[0], args[1], count)
    vectors = builder.bitcast(start, VECTOR.as_pointer())
    return [builder.gep(vectors, [ir.Constant(WORD, part)]) for part in range(count)]


def _parts(builder: Any, value: Any, count: int) -> list[Any]:
    return [builder.extract_value(value, part) for part in range(count)]


def _joined(builder: Any, parts: list[Any]) -> Any:
    value = ir.Constant(ir.ArrayType(VECTOR, len(parts)), ir.Undefined)
    for index, part in enumerate(parts):
        value = builder.insert_value(value, part, index)
    return value


def _lane_numbers(numbers: list[int]) -> Any:
    return ir.Constant(ir.VectorType(WORD, len(numbers)), numbers)


@intrinsic
def load(typingctx: Any, table: Any, row: Any, blocks: Any) -> Any:
    """Row number `row` of a float32 table whose rows are `8 * len(blocks)` long."""
    count = len(blocks)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        addresses = _vector_addresses(context, builder, signature.args[0], args, count)
        return _joined(builder, [builder.load(address, align=4) for address in addresses])

    return Lanes(count)(table, types.intp, blocks), codegen


@intrinsic
def store(typingctx: Any, table: Any, row: Any, value: Any) -> Any:
    """Write a row back."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        addresses = _vector_addresses(context, builder, signature.args[0], args, value.count)
        for address, part in zip(addresses, _parts(builder, args[2], value.count), strict=True):
            builder.store(part, address, align=4)
        return context.get_dummy_value()

    return types.void(table, types.intp, value), codegen


@intrinsic
def prefetch(typingctx: Any, table: Any, row: Any, blocks: Any) -> Any:
    """Ask for a row's cache lines before they are needed (any row number is safe)."""
    count = len(blocks)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte_pointer = ir.IntType(8).as_pointer()
        shape = ir.FunctionType(ir.VoidType(), [byte_pointer, WORD, WORD, WORD])
        hint = builder.module.declare_intrinsic("llvm.prefetch", [byte_pointer], shape)
        flags = [ir.Constant(WORD, flag) for flag in (1, 3, 1)]  # for writing, keep near, data
        start = _row_address(context, builder, signature.args[0], args[0], args[1], count)
        start = builder.bitcast(start, byte_pointer)
        for offset in range(0, count * LANES * 4, CACHE_LINE):
            builder.call(hint, [builder.gep(start, [ir.Constant(LONG, offset)]), *flags])
        return context.get_dummy_value()

    return types.void(table, types.intp, blocks), codegen


def _lane_by_lane(name: str) -> Any:
    @intrinsic
    def operation(typingctx: Any, left: Any, right: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            apply = getattr(builder, name)
            pairs = zip(_parts(builder, args[0], left.count), _parts(builder, args[1], left.count), strict=True)
            return _joined(builder, [apply(one, other) for one, other in pairs])

        return left(left, right), codegen

    return operation


_add, _subtract, _multiply = (_lane_by_lane(name) for name in ("fadd", "fsub", "fmul"))


def _fma(builder: Any, value: Any, factor: Any, addend: Any) -> Any:
    shape = ir.FunctionType(VECTOR, [VECTOR] * 3)
    return builder.call(
        cgutils.get_or_insert_function(builder.module, shape, f"llvm.fma.v{LANES}f32"),
        [value, factor, addend],
    )


def _everywhere(builder: Any, scalar: Any) -> Any:
    single = builder.insert_element(ir.Constant(VECTOR, ir.Undefined), scalar, ir.Constant(WORD, 0))
    return builder.shuffle_vector(single, single, _lane_numbers([0] * LANES))


@intrinsic
def _scale(typingctx: Any, value: Any, factor: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        factors = _everywhere(builder, args[1])
        return _joined(builder, [builder.fmul(part, factors) for part in _parts(builder, args[0], value.count)])

    return value(value, types.float32), codegen


@intrinsic
def fused(typingctx: Any, value: Any, factor: Any, addend: Any) -> Any:
    """value * factor + addend, rounded once; the factor is a row or a float32."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if isinstance(factor, Lanes):
            factors = _parts(builder, args[1], value.count)
        else:
            factors = [_everywhere(builder, args[1])] * value.count
        operands = zip(
            _parts(builder, args[0], value.count), factors, _parts(builder, args[2], value.count), strict=True
        )
        return _joined(builder, [_fma(builder, *three) for three in operands])

    return value(value, factor if isinstance(factor, Lanes) else types.float32, value), codegen


@intrinsic
def dot(typingctx: Any, left: Any, right: Any) -> Any:
    """Sum of the products of all lanes: the vectors in order, then upper halves onto lower halves."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pairs = list(zip(_parts(builder, args[0], left.count), _parts(builder, args[1], left.count), strict=True))
        total = builder.fmul(*pairs[0])
        for pair in pairs[1:]:
            total = _fma(builder, *pair, total)
        width = LANES // 2
        while width:
            lower = builder.shuffle_vector(total, total, _lane_numbers(list(range(width))))
            upper = builder.shuffle_vector(total, total, _lane_numbers(list(range(width, 2 * width))))
            total, width = builder.fadd(lower, upper), width // 2
        return builder.extract_element(total, ir.Constant(WORD, 0))

    return types.float32(left, right), codegen


@intrinsic
def choose_tail(typingctx: Any, where: Any, one: Any, other: Any) -> Any:
    """`one`, except for the lanes of the last vector in which `where` is zero: there `other`.

    Only the last vector of a row has lanes that are not factors: the bias and the padding.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        mask, other_tail = (_parts(builder, value, where.count)[-1] for value in (args[0], args[2]))
        *head, tail = _parts(builder, args[1], where.count)
        is_one = builder.fcmp_ordered("!=", mask, ir.Constant(VECTOR, [0.0] * LANES))
        return _joined(builder, [*head, builder.select(is_one, tail, other_tail)])

    return one(where, one, other), codegen


def _both(left: Any, right: Any) -> bool:
    return isinstance(left, Lanes) and isinstance(right, Lanes)


@overload(operator.add, strict=False)
def _overload_add(left: Any, right: Any) -> Any:
    return (lambda left, right: _add(left, right)) if _both(left, right) else None


@overload(operator.sub, strict=False)
def _overload_subtract(left: Any, right: Any) -> Any:
    return (lambda left, right: _subtract(left, right)) if _both(left, right) else None


@overload(operator.mul, strict=False)
def _overload_multiply(left: Any, right: Any) -> Any:
    if _both(left, right):
        return lambda left, right: _multiply(left, right)
    if isinstance(left, Lanes) and isinstance(right, types.Float):
        return lambda left, right: _scale(left, right)
    return None


# -- the logistic function, from additions and multiplications --------------------------------------------------------

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
