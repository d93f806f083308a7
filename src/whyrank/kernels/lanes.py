"""Vector functions that plain loops cannot express: a dot product summed in a fixed order and an 8-bit filter.

They are ordinary LLVM vector code and give the same bits on every processor, because every operation is either an
integer one or a single IEEE multiplication or addition whose order is written down here.
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

I8, I16, I32, I64 = (ir.IntType(bits) for bits in (8, 16, 32, 64))
F32 = ir.FloatType()


def _load(context: Any, builder: Any, array_type: Any, array: Any, offset: Any, element: Any, count: int) -> Any:
    """Read `count` neighbouring elements of an array as one vector."""
    data = make_array(array_type)(context, builder, array).data
    vector = ir.VectorType(element, count)
    loaded = builder.load(builder.bitcast(builder.gep(data, [offset]), vector.as_pointer()))
    loaded.align = 1 if element is I8 else element.get_abi_size(context.target_data)
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
    """Ask for a row of a float32 table that will be read or written soon; nothing else happens."""
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


def _multiply_pairs(builder: Any, unsigned: Any, signed: Any) -> Any:
    """Sum of two neighbouring products u8 x s8 in 16 bits; the clamp makes it one instruction on x86."""
    wide = ir.VectorType(I32, 16)

    def product(first: int) -> Any:
        lanes = list(range(first, 32, 2))
        a = builder.zext(_pick(builder, unsigned, lanes), wide)
        return builder.mul(a, builder.sext(_pick(builder, signed, lanes), wide))

    total = builder.add(product(0), product(1))
    low, high = ir.Constant(wide, [-32768] * 16), ir.Constant(wide, [32767] * 16)
    total = builder.select(builder.icmp_signed("<", total, low), low, total)
    total = builder.select(builder.icmp_signed(">", total, high), high, total)
    return builder.trunc(total, ir.VectorType(I16, 16))


def _block_scores(context: Any, builder: Any, sig: Any, args: Any) -> list[Any]:
    """The 16-bit scores of the explanations of one block, 16 a vector.

    Arguments: `codes` holds, block after block, for every pair of columns 32 x 2 unsigned bytes; the block; `query`
    holds in a row, for every pair of columns, 16 times the same two signed bytes; its row; `starts` holds in a row
    what each explanation begins from; its row; the number of pairs of columns; what to subtract at the end.
    Sums wrap around, so only the final value has to fit 16 bits.
    """
    block, query_row, start_row, pairs, shift = (args[k] for k in (1, 3, 5, 6, 7))
    groups = range(BLOCK // 16)

    def number(value: int) -> Any:
        return ir.Constant(I64, value)

    def load(argument: int, at: Any, element: Any, count: int) -> Any:
        return _load(context, builder, sig.args[argument], args[argument], at, element, count)

    positions = builder.extract_value(make_array(sig.args[4])(context, builder, args[4]).shape, 1)
    start_at = builder.add(builder.mul(start_row, positions), builder.mul(block, number(BLOCK)))
    sums = [
        cgutils.alloca_once_value(builder, load(4, builder.add(start_at, number(16 * group)), I16, 16))
        for group in groups
    ]
    code_at = builder.mul(builder.mul(block, pairs), number(2 * BLOCK))
    query_at = builder.mul(builder.mul(query_row, pairs), number(32))
    with cgutils.for_range(builder, pairs) as loop:
        signed = load(2, builder.add(query_at, builder.mul(loop.index, number(32))), I8, 32)
        for group in groups:
            inner = builder.add(builder.mul(loop.index, number(2 * BLOCK)), number(32 * group))
            products = _multiply_pairs(builder, load(0, builder.add(code_at, inner), I8, 32), signed)
            builder.store(builder.add(builder.load(sums[group]), products), sums[group])
    return [builder.sub(builder.load(total), _spread(builder, shift)) for total in sums]


def _spread(builder: Any, value: Any) -> Any:
    """An int16 in each of 16 lanes."""
    empty = ir.Constant(ir.VectorType(I16, 16), ir.Undefined)
    return _pick(builder, builder.insert_element(empty, value, ir.Constant(I32, 0)), [0] * 16)


def _block_arguments(codes: Any, query: Any, starts: Any) -> tuple[Any, ...]:
    return (codes, types.int64, query, types.int64, starts, types.int64, types.int64, types.int16)


@intrinsic
def passing(
    typing_context: Any, codes: Any, block: Any, query: Any, query_row: Any, starts: Any, start_row: Any,
    pairs: Any, shift: Any, limit: Any,
) -> Any:  # fmt: skip
    """Bit mask of the explanations of a block whose score by codes (see `_block_scores`) reaches `limit`."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        mask = ir.Constant(I32, 0)
        for group, scores in enumerate(_block_scores(context, builder, sig, args)):
            reached = builder.icmp_signed(">=", scores, _spread(builder, args[8]))
            bits = builder.zext(builder.bitcast(reached, I16), I32)
            mask = builder.or_(mask, builder.shl(bits, ir.Constant(I32, 16 * group)))
        return mask

    return types.uint32(*_block_arguments(codes, query, starts), types.int16), generate


@intrinsic
def raise_peaks(
    typing_context: Any, codes: Any, block: Any, query: Any, query_row: Any, starts: Any, start_row: Any,
    pairs: Any, shift: Any, peaks: Any,
) -> Any:  # fmt: skip
    """Raise each of the 32 int16 in `peaks` to the score by codes of its explanation of the block, if higher."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = make_array(sig.args[8])(context, builder, args[8]).data
        for group, scores in enumerate(_block_scores(context, builder, sig, args)):
            at = builder.gep(data, [ir.Constant(I64, 16 * group)])
            place = builder.bitcast(at, scores.type.as_pointer())
            before = builder.load(place, align=2)
            higher = builder.select(builder.icmp_signed(">", scores, before), scores, before)
            builder.store(higher, place, align=2)
        return context.get_dummy_value()

    return types.void(*_block_arguments(codes, query, starts), peaks), generate


@intrinsic
def count_reaching(typing_context: Any, values: Any, limit: Any) -> Any:
    """How many of the first 32 int16 of an array are `limit` or more."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        loaded = _load(context, builder, sig.args[0], args[0], ir.Constant(I64, 0), I16, BLOCK)
        empty = ir.Constant(loaded.type, ir.Undefined)
        limits = _pick(builder, builder.insert_element(empty, args[1], ir.Constant(I32, 0)), [0] * BLOCK)
        reached = builder.bitcast(builder.icmp_signed(">=", loaded, limits), I32)
        return builder.zext(builder.ctpop(reached), I64)

    return types.int64(values, types.int16), generate


@intrinsic
def lowest_bit(typing_context: Any, mask: Any) -> Any:
    """Place of the lowest bit that is set; the mask must not be zero."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.zext(builder.cttz(args[0], ir.Constant(ir.IntType(1), 1)), I64)

    return types.int64(types.uint32), generate
