"""Vector functions that plain loops cannot express: a dot product summed in a fixed order and an 8-bit filter.

They are LLVM vector code and give the same bits on every processor, because every operation is either an integer one
or a single IEEE multiplication or addition whose order is written down here.
"""

from functools import partial
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


def _multiply_pairs(context: Any, builder: Any, unsigned: Any, signed: Any) -> Any:
    """Sum of two neighbouring products u8 x s8 in 16 bits, clamped.

    x86 has an instruction for it, which LLVM does not always recognize in what is written below: asked for by name.
    """
    if "+avx2" in context.codegen().magic_tuple()[2]:
        kind = ir.FunctionType(ir.VectorType(I16, 16), [unsigned.type, signed.type])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.avx2.pmadd.ub.sw")
        return builder.call(function, [unsigned, signed])
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


def _spread(builder: Any, value: Any, count: int = 16) -> Any:
    """A number in each lane of a vector."""
    empty = ir.Constant(ir.VectorType(value.type, count), ir.Undefined)
    return _pick(builder, builder.insert_element(empty, value, ir.Constant(I32, 0)), [0] * count)


class _Abreast:
    """What one pass over codes computes: 16-bit scores of a block, or of neighbouring ones, for one or more queries.

    Arguments, as `_block_arguments` types them: `codes` holds, block after block, for every pair of columns 32 x 2
    signed bytes; the block; the first pair of columns; `queries` holds in a row, for every pair from that one on, twice
    the same two unsigned bytes; `starts` holds in a row what each explanation begins from; `levels`, which of these
    rows a query takes; `rows` and a place in it from which the numbers of the queries stand. Sums wrap around: only the
    last has to fit.
    """

    def __init__(self, context: Any, builder: Any, sig: Any, args: Any, queries: int, blocks: int) -> None:
        self.context, self.builder, self.sig, self.args = context, builder, sig, args
        place = [builder.add(args[7], ir.Constant(I64, k)) for k in range(queries)]
        self.rows = [self.scalar(6, at) for at in place]
        self.scores = self._run(blocks)

    def load(self, argument: int, at: Any, element: Any, count: int) -> Any:
        return _load(self.context, self.builder, self.sig.args[argument], self.args[argument], at, element, count)

    def data(self, argument: int) -> Any:
        return make_array(self.sig.args[argument])(self.context, self.builder, self.args[argument]).data

    def scalar(self, argument: int, at: Any) -> Any:
        return self.builder.load(self.builder.gep(self.data(argument), [at]))

    def width(self, argument: int) -> Any:
        array = make_array(self.sig.args[argument])(self.context, self.builder, self.args[argument])
        return self.builder.extract_value(array.shape, 1)

    def _run(self, blocks: int) -> list[list[Any]]:
        builder, pairs, positions = self.builder, self.width(3), self.width(4)
        vectors, number = BLOCK // 16, partial(ir.Constant, I64)
        first = builder.mul(self.args[1], number(BLOCK))
        sums = []
        for row in self.rows:
            start = builder.add(builder.mul(self.scalar(5, row), positions), first)
            loaded = [self.load(4, builder.add(start, number(16 * k)), I16, 16) for k in range(vectors * blocks)]
            sums.append([cgutils.alloca_once_value(builder, each) for each in loaded])
        first_pair = builder.add(builder.mul(self.args[1], self.width(0)), self.args[2])
        code_at = builder.mul(first_pair, number(2 * BLOCK))
        query_at = [builder.mul(row, pairs) for row in self.rows]
        with cgutils.for_range(builder, pairs) as loop:
            codes, inside = [], builder.add(code_at, builder.mul(loop.index, number(2 * BLOCK)))
            for _ in range(blocks):
                codes += [self.load(0, builder.add(inside, number(32 * k)), I8, 32) for k in range(vectors)]
                inside = builder.add(inside, builder.mul(self.width(0), number(2 * BLOCK)))
            for at, totals in zip(query_at, sums, strict=True):
                both = self.scalar(3, builder.add(at, loop.index))
                query = builder.bitcast(_spread(builder, both, 8), ir.VectorType(I8, 32))
                for code, total in zip(codes, totals, strict=True):
                    products = _multiply_pairs(self.context, builder, query, code)
                    builder.store(builder.add(builder.load(total), products), total)
        return [[builder.load(total) for total in totals] for totals in sums]


def _block_arguments(codes: Any, queries: Any, starts: Any, levels: Any, rows: Any) -> tuple[Any, ...]:
    return (codes, types.int64, types.int64, queries, starts, levels, rows, types.int64)


def _rate(abreast: int, blocks: int, raising: bool = False) -> Any:
    @intrinsic
    def rate(
        typing_context: Any, codes: Any, block: Any, pair: Any, queries: Any, starts: Any, levels: Any, rows: Any,
        first: Any, ratings: Any, place: Any,
    ) -> Any:  # fmt: skip
        """Write the scores of neighbouring blocks (see `_Abreast`) from a place in the row of each query on.

        When `raising`, only where they are higher than what stands there.
        """

        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            block, number = _Abreast(context, builder, sig, args, abreast, blocks), partial(ir.Constant, I64)
            across, inside = block.width(8), builder.mul(args[9], number(BLOCK))
            for row, halves in zip(block.rows, block.scores, strict=True):
                at = builder.add(builder.mul(row, across), inside)
                for group, scores in enumerate(halves):
                    spot = builder.gep(block.data(8), [builder.add(at, number(16 * group))])
                    spot = builder.bitcast(spot, scores.type.as_pointer())
                    if raising:
                        before = builder.load(spot, align=2)
                        scores = builder.select(builder.icmp_signed(">", scores, before), scores, before)
                    builder.store(scores, spot, align=2)
            return context.get_dummy_value()

        return types.void(*_block_arguments(codes, queries, starts, levels, rows), ratings, types.int64), generate

    return rate


ABREAST = 4  # queries whose scores one pass over a block computes: their sums stay in registers
GROUP = 2  # neighbouring blocks that one pass for one query computes
rate_one, rate, rate_group = _rate(1, 1), _rate(ABREAST, 1), _rate(1, GROUP)
rate_highest = _rate(ABREAST, 1, raising=True)


def _lanes_reaching(context: Any, builder: Any, sig: Any, args: Any, at: Any, limit: Any) -> Any:
    """Bit mask of the 32 numbers from a place on that are `limit` or more."""
    whole = sig.args[0].dtype == types.int16
    loaded = _load(context, builder, sig.args[0], args[0], at, I16 if whole else F32, BLOCK)
    compare = builder.icmp_signed if whole else builder.fcmp_ordered
    return builder.bitcast(compare(">=", loaded, _spread(builder, limit, BLOCK)), I32)


@intrinsic
def reaching(typing_context: Any, values: Any, at: Any, limit: Any) -> Any:
    """Bit mask of the 32 numbers, int16 or float32, from a place in a table on that are `limit` or more."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _lanes_reaching(context, builder, sig, args, args[1], args[2])

    return types.uint32(values, types.int64, values.dtype), generate


@intrinsic
def count_reaching(typing_context: Any, values: Any, at: Any, limit: Any) -> Any:
    """How many of the 32 int16 from a place in a table on are `limit` or more."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.zext(builder.ctpop(_lanes_reaching(context, builder, sig, args, args[1], args[2])), I64)

    return types.int64(values, types.int64, types.int16), generate


@intrinsic
def raise_peaks(typing_context: Any, values: Any, at: Any, peaks: Any, to: Any) -> Any:
    """Raise 32 int16 from a place in a table on to those of another table, where these are higher."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        new, old = (_load(context, builder, sig.args[k], args[k], args[k + 1], I16, BLOCK) for k in (0, 2))
        higher = builder.select(builder.icmp_signed(">", new, old), new, old)
        spot = builder.gep(make_array(sig.args[2])(context, builder, args[2]).data, [args[3]])
        builder.store(higher, builder.bitcast(spot, higher.type.as_pointer()), align=2)
        return context.get_dummy_value()

    return types.void(values, types.int64, peaks, types.int64), generate


@intrinsic
def highest(typing_context: Any, values: Any, at: Any) -> Any:
    """The highest of the 32 int16 from a place in a table on."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        lanes = _load(context, builder, sig.args[0], args[0], args[1], I16, BLOCK)
        kind = ir.FunctionType(I16, [lanes.type])
        function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.vector.reduce.smax.v{BLOCK}i16")
        return builder.call(function, [lanes])

    return types.int16(values, types.int64), generate


@intrinsic
def highest_reach(typing_context: Any, base: Any, norms: Any, at: Any, first: Any, second: Any) -> Any:
    """The highest `base + (first * norms[0] + second * norms[1])` of the 32 places from one on, none of them NaN."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        width = builder.extract_value(make_array(sig.args[1])(context, builder, args[1]).shape, 1)
        places = (args[2], builder.add(args[2], width))
        one, other = (_load(context, builder, sig.args[1], args[1], place, F32, BLOCK) for place in places)
        one, other = (
            builder.fmul(norm, _spread(builder, length, BLOCK)) for norm, length in ((one, args[3]), (other, args[4]))
        )
        start = _load(context, builder, sig.args[0], args[0], args[2], F32, BLOCK)
        lanes, half = builder.fadd(start, builder.fadd(one, other)), BLOCK // 2
        while half:
            lower, upper = (_pick(builder, lanes, list(range(k, k + half))) for k in (0, half))
            lanes, half = builder.select(builder.fcmp_ordered(">", lower, upper), lower, upper), half // 2
        return builder.extract_element(lanes, ir.Constant(I32, 0))

    return types.float32(base, norms, types.int64, types.float32, types.float32), generate


@intrinsic
def lowest_bit(typing_context: Any, mask: Any) -> Any:
    """Place of the lowest bit that is set; the mask must not be zero."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.zext(builder.cttz(args[0], ir.Constant(ir.IntType(1), 1)), I64)

    return types.int64(types.uint32), generate
