"""Vector functions that plain loops cannot express: a dot product summed in a fixed order and an 8-bit filter.

They are LLVM vector code and give the same bits on every processor, because every operation is either an integer one
or a single IEEE multiplication or addition whose order is written down here.
"""

from typing import Any

from llvmlite import ir
from numba import extending, types
from numba.core import cgutils as numba_cgutils
from numba.np import arrayobj

# What numba's stubs do not know.
intrinsic: Any = extending.intrinsic
make_array: Any = arrayobj.make_array
cgutils: Any = numba_cgutils

LANES = 8  # float32 lanes of a dot product; rows are padded with zeros to a multiple of it
BLOCK = 32  # explanations the filter looks at together

I8, I32, I64 = (ir.IntType(bits) for bits in (8, 32, 64))
F32 = ir.FloatType()


def _load(context: Any, builder: Any, array_type: Any, array: Any, offset: Any, element: Any, count: int) -> Any:
    """Read `count` neighbouring elements of an array as one vector."""
    data = make_array(array_type)(context, builder, array).data
    vector = ir.VectorType(element, count)
    loaded = builder.load(builder.bitcast(builder.gep(data, [offset]), vector.as_pointer()))
    loaded.align = element.get_abi_size(context.target_data)
    return loaded


def _pick(builder: Any, vector: Any, lanes: list[int]) -> Any:
    return builder.shuffle_vector(vector, vector, ir.Constant(ir.VectorType(I32, len(lanes)), lanes))


@intrinsic
def dot(typing_context: Any, x: Any, x_offset: Any, y: Any, y_offset: Any, width: Any) -> Any:
    """Dot product of `width` (a multiple of 8) float32 of two arrays, each from its own offset.

    Lane j sums the products at j, j + 8, ...; then 8 lanes become 4, 2 and 1 by adding the upper half.
    """
    signature = types.float32(x, types.int64, y, types.int64, types.int64)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        vector = ir.VectorType(F32, LANES)
        total = cgutils.alloca_once_value(builder, ir.Constant(vector, [0.0] * LANES))
        zero, step = ir.Constant(I64, 0), ir.Constant(I64, LANES)
        with cgutils.for_range_slice(builder, zero, args[4], step) as (at, _):
            a = _load(context, builder, sig.args[0], args[0], builder.add(args[1], at), F32, LANES)
            b = _load(context, builder, sig.args[2], args[2], builder.add(args[3], at), F32, LANES)
            builder.store(builder.fadd(builder.load(total), builder.fmul(a, b)), total)
        lanes = builder.load(total)
        for half in (4, 2, 1):
            lower = _pick(builder, lanes, list(range(half)))
            lanes = builder.fadd(lower, _pick(builder, lanes, list(range(half, 2 * half))))
        return builder.extract_element(lanes, ir.Constant(I32, 0))

    return signature, generate


@intrinsic
def add_scaled(typing_context: Any, factor: Any, x: Any, x_offset: Any, y: Any, y_offset: Any, width: Any) -> Any:
    """y += factor * x for `width` (a multiple of 8) float32 of two arrays, each from its own offset."""
    signature = types.void(types.float32, x, types.int64, y, types.int64, types.int64)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        empty = ir.Constant(ir.VectorType(F32, LANES), ir.Undefined)
        factors = _pick(builder, builder.insert_element(empty, args[0], ir.Constant(I32, 0)), [0] * LANES)
        data = make_array(sig.args[3])(context, builder, args[3]).data
        with cgutils.for_range_slice(builder, ir.Constant(I64, 0), args[5], ir.Constant(I64, LANES)) as (at, _):
            a = _load(context, builder, sig.args[1], args[1], builder.add(args[2], at), F32, LANES)
            place = builder.bitcast(builder.gep(data, [builder.add(args[4], at)]), a.type.as_pointer())
            total = builder.fadd(builder.load(place, align=4), builder.fmul(factors, a))
            builder.store(total, place, align=4)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def fetch_row(typing_context: Any, table: Any, row: Any) -> Any:
    """Ask for a row of a table of 32-bit numbers that will be read or written soon; nothing else happens."""
    signature = types.void(table, types.int64)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        array = make_array(sig.args[0])(context, builder, args[0])
        width = builder.extract_value(array.shape, 1)
        first = builder.mul(args[1], width)
        pointer, code = I8.as_pointer(), ir.Constant(I32, 1)
        kind = ir.FunctionType(ir.VoidType(), [pointer, I32, I32, I32])
        ask = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        with cgutils.for_range_slice(builder, ir.Constant(I64, 0), width, ir.Constant(I64, 16)) as (at, _):
            place = builder.bitcast(builder.gep(array.data, [builder.add(first, at)]), pointer)
            builder.call(ask, [place, ir.Constant(I32, 0), ir.Constant(I32, 3), code])
        return context.get_dummy_value()

    return signature, generate


def _spread(builder: Any, value: Any, count: int) -> Any:
    """A number in each lane of a vector."""
    empty = ir.Constant(ir.VectorType(value.type, count), ir.Undefined)
    return _pick(builder, builder.insert_element(empty, value, ir.Constant(I32, 0)), [0] * count)


def _sums(context: Any, builder: Any, sig: Any, args: Any, query_at: Any, start: Any) -> Any:
    """32 sums of products, side by side: from a place in `keys` on, `columns` times 32 numbers; from one in `query`."""
    total = cgutils.alloca_once_value(builder, _spread(builder, start, BLOCK))
    query = make_array(sig.args[3])(context, builder, args[3]).data
    vector = ir.VectorType(F32, BLOCK)
    kind = ir.FunctionType(vector, [vector] * 3)
    multiply_add = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fmuladd.v{BLOCK}f32")
    with cgutils.for_range(builder, args[2]) as loop:
        at = builder.add(args[1], builder.mul(loop.index, ir.Constant(I64, BLOCK)))
        keys = _load(context, builder, sig.args[0], args[0], at, F32, BLOCK)
        factor = builder.load(builder.gep(query, [builder.add(query_at, loop.index)]))
        added = builder.call(multiply_add, [keys, _spread(builder, factor, BLOCK), builder.load(total)])
        builder.store(added, total)
    return builder.load(total)


@intrinsic
def sum_products(typing_context: Any, keys: Any, at: Any, columns: Any, query: Any, start: Any, sums: Any) -> Any:
    """Write 32 sums, each `start` and then column by column the products with a query, first from first.

    A loop over lanes inside one over columns keeps its sums in memory: three times as slow.
    """

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        total = _sums(context, builder, sig, args, ir.Constant(I64, 0), args[4])
        data = make_array(sig.args[5])(context, builder, args[5]).data
        builder.store(total, builder.bitcast(data, total.type.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(keys, types.int64, types.int64, query, types.float32, sums), generate


@intrinsic
def highest_sum(typing_context: Any, keys: Any, at: Any, columns: Any, query: Any, query_at: Any) -> Any:
    """The highest of 32 such sums, which begin from zero; none is NaN. Numba finds a maximum one by one."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        lanes, half = _sums(context, builder, sig, args, args[4], ir.Constant(F32, 0.0)), BLOCK // 2
        while half:
            lower, upper = (_pick(builder, lanes, list(range(k, k + half))) for k in (0, half))
            lanes, half = builder.select(builder.fcmp_ordered(">", lower, upper), lower, upper), half // 2
        return builder.extract_element(lanes, ir.Constant(I32, 0))

    return types.float32(keys, types.int64, types.int64, query, types.int64), generate


@intrinsic
def reaching(typing_context: Any, values: Any, at: Any, limit: Any) -> Any:
    """Bit mask of the 32 float32 from a place on that are `limit` or more: one instruction instead of 32 branches."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        loaded = _load(context, builder, sig.args[0], args[0], args[1], F32, BLOCK)
        return builder.bitcast(builder.fcmp_ordered(">=", loaded, _spread(builder, args[2], BLOCK)), I32)

    return types.uint32(values, types.int64, types.float32), generate


@intrinsic
def lowest_bit(typing_context: Any, mask: Any) -> Any:
    """Place of the lowest bit that is set; the mask must not be zero."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.zext(builder.cttz(args[0], ir.Constant(ir.IntType(1), 1)), I64)

    return types.int64(types.uint32), generate
