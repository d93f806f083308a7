"""Softmax over a pool from profiles: sums of vectors over what was said, with count evidence (see models/profile.py).

A record has two profiles, one for each side (for reasons: what the user said, what was said about the item). `numbers`,
`counts` and `places` are their flat lists: side `s` of the k-th record of a batch is places[2k+s] .. places[2k+s+1].
Kernels take tuples of arrays apart before their loops: a look into a tuple inside of one counts references.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyrank.compile import inlined, kernel
from whyrank.data.csr import CSR
from whyrank.rng import below, draw, key_of
from whyrank.simd import LANES, add_scaled, dot, fetch_row
from whyrank.training._descent import adam, adam_rates

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Relation = tuple[Longs, Ints, Ints]  # a CSR without names, which cost a call from Python a microsecond each
SAMPLE = key_of(15)  # keeps the random numbers of different purposes apart
AHEAD = 6  # rows are fetched so many entries before they are used
CAP = np.float32(60)  # of scores, before they are exponents
SMALL = np.float32(1e-8)
NO_RECORDS = CSR.empty(0)


class Side(NamedTuple):
    """A profile of every record: the entries of the record's row in a relation, without the record's own."""

    rows: Ints  # record -> row of the relation, -1: none
    relation: CSR
    own: CSR = NO_RECORDS  # record -> its own entries, where they are left out

    @classmethod
    def none(cls, records: int) -> Side:
        """A side that says nothing."""
        return cls(np.full(records, -1, np.int32), NO_RECORDS)


class RecordLists(NamedTuple):
    """What some records say (record k: targets[indptr[k]] ...), and the entries of their sides."""

    indptr: Longs
    targets: Ints
    numbers: Ints
    counts: Floats
    places: Longs

    def cut(self, first: int, end: int) -> RecordLists:
        """Of the records first ... end - 1."""
        indptr, places = self.indptr[first : end + 1], self.places[2 * first : 2 * end + 1]
        inside = slice(places[0], places[-1])
        targets = self.targets[indptr[0] : indptr[-1]]
        return RecordLists(indptr - indptr[0], targets, self.numbers[inside], self.counts[inside], places - places[0])


class ScoreParts(NamedTuple):
    """Profiles, keys and biases; a score is profile . key + bias."""

    x: Floats
    keys: Floats
    bias: Floats


class Strengths(NamedTuple):
    """How counts become evidence: on each side A = exp(theta0) x n x share^-theta1 x (1 + N)^-theta2."""

    theta: Doubles
    log_share: Doubles
    powers: Doubles  # share^-theta1 of both sides


class SoftmaxSlopes(NamedTuple):
    """Where gradients go: by the scores of the pool, by profiles, by scores of entries and of targets, by theta.

    `mass` comes as exp of the base scores of the whole pool or of a weighted sample of it. Of an entry on both sides
    the gradient stands at its first place.
    """

    mass: Floats
    x: Floats
    entries: Floats
    targets: Floats
    theta: Doubles


class Grouped(NamedTuple):
    """A sparse gradient: the rows that it touches, and for each the list of what is added up.

    Entry j of a list adds coefficients[order[j]] times the row sources[order[j]] of some matrix.
    """

    rows: Ints
    indptr: Longs
    order: Ints
    sources: Ints
    coefficients: Floats


class WordRows(NamedTuple):
    """The words of every entry of a vocabulary, with weights."""

    indptr: Longs
    indices: Ints
    weights: Floats


class AdamTable(NamedTuple):
    """Numbers to learn, the moments of their gradients, and the last gradients of touched rows."""

    x: Floats
    m: Floats
    v: Floats
    totals: Floats


class AdamMove(NamedTuple):
    """A step of all tables: its rate, the pull of values to zero, its number, and what gradients are scaled by."""

    rate: float
    penalty: float
    step: int
    scale: float


# -- profiles ----------------------------------------------------------------------------------------------------------


@kernel
def other_entries(batch: Longs, first: Side, second: Side, leave_out: bool, longest: int) -> tuple[Ints, Floats, Longs]:
    """Both sides' entries of every record; with `leave_out`, without the record's own; an unknown row (-1) has none.

    Of a row with more than `longest` entries so many stand for all, which the record's own entry decides: a row with
    as many records as entries would otherwise take the square of its length.
    """
    room = _room_for(first, batch, longest) + _room_for(second, batch, longest)
    numbers, counts = np.empty(room, np.int32), np.empty(room, np.float32)
    places = np.zeros(2 * len(batch) + 1, np.int64)
    used = 0
    for k in range(len(batch)):
        used = _gather(first, batch[k], leave_out, longest, numbers, counts, used)
        places[2 * k + 1] = used
        used = _gather(second, batch[k], leave_out, longest, numbers, counts, used)
        places[2 * k + 2] = used
    return numbers[:used], counts[:used], places


@inlined
def _room_for(side: Side, batch: Longs, longest: int) -> int:
    """Entries of a side at most; sides may differ in type, as arrays of a saved model cannot be written to."""
    room = 0
    for r in batch:
        row = side.rows[r]
        if row >= 0:
            room += min(side.relation.indptr[row + 1] - side.relation.indptr[row], longest)
    return room


@inlined
def _gather(side: Side, record: int, leave_out: bool, longest: int, numbers: Ints, counts: Floats, used: int) -> int:
    row, own = side.rows[record], side.own.indices
    if row < 0:
        return used
    indptr, indices, amounts = side.relation
    mine = side.own.indptr[record] if leave_out else np.int64(0)
    end = side.own.indptr[record + 1] if leave_out else np.int64(0)
    size = indptr[row + 1] - indptr[row]
    if size > longest:
        first = below(draw(SAMPLE, own[mine] if mine < end else 0), size)
        for j in range(longest):
            entry = indptr[row] + (first + j * size // longest) % size
            amount = amounts[entry]
            for k in range(mine, end):
                amount -= own[k] == indices[entry]
            if amount > 0:
                numbers[used], counts[used] = indices[entry], np.float32(amount * size / longest)
                used += 1
        return used
    for entry in range(indptr[row], indptr[row + 1]):
        number, amount = indices[entry], amounts[entry]
        while mine < end and own[mine] < number:
            mine += 1
        if mine < end and own[mine] == number:
            amount -= 1
        if amount > 0:
            numbers[used], counts[used] = number, amount
            used += 1
    return used


@kernel
def profile_weights(counts: Floats, places: Longs) -> Floats:
    """n / sqrt(sum of n) within each profile."""
    weights = np.empty(len(counts), np.float32)
    for p in range(len(places) - 1):
        total = 0.0
        for j in range(places[p], places[p + 1]):
            total += counts[j]
        scale = np.float32(1 / np.sqrt(max(total, 1.0)))
        for j in range(places[p], places[p + 1]):
            weights[j] = counts[j] * scale
    return weights


@kernel
def gather_profiles(numbers: Ints, weights: Floats, places: Longs, first: Floats, second: Floats, x: Floats) -> None:
    """x[k] = [sum of weights x vectors over the first side, the same for the second]."""
    d = first.shape[1]
    for k in range(x.shape[0]):
        for j in range(places[2 * k], places[2 * k + 1]):
            _add_row(weights[j], first, numbers[j], 0, x, k, 0, d)
        for j in range(places[2 * k + 1], places[2 * k + 2]):
            if j + AHEAD < len(numbers):
                fetch_row(second, numbers[j + AHEAD])
            _add_row(weights[j], second, numbers[j], 0, x, k, d, second.shape[1])


@kernel
def pair_profiles(
    rows: Ints, relation: Relation, other_rows: Ints, other_relation: Relation, vectors: Floats, others: Floats
) -> Floats:
    """Both sides' profiles of every pair, side by side, and a one behind them; an unknown row (-1) has zeros."""
    own, other = CSR(*relation), CSR(*other_relation)
    sides = Side(rows, own, own), Side(other_rows, other, other)
    numbers, counts, places = other_entries(np.arange(len(rows)), sides[0], sides[1], False, 1 << 62)
    x = np.zeros((len(rows), vectors.shape[1] + others.shape[1] + 1), np.float32)
    gather_profiles(numbers, profile_weights(counts, places), places, vectors, others, x)
    x[:, -1] = 1
    return x


# -- losses ------------------------------------------------------------------------------------------------------------


@kernel
def softmax_step(
    full: bool,
    evidence: bool,
    records: RecordLists,
    scores: ScoreParts,
    by: Strengths,
    slopes: SoftmaxSlopes,
    place_of: Ints,
) -> float:
    """Write the gradients of a batch whose targets compete with the pool, and return its loss.

    Evidence multiplies exp(base) by (1 + A) of both sides; the partition function gets the difference, exactly, entry
    by entry. With the whole pool (`full`) gradients by scores are in `mass` alone; with a sample those by the entries
    are apart, and that by a target's score is -1. `place_of` is room of zeros for the pool.
    """
    (x, keys, bias), (indptr, targets, _, _, places) = scores, records
    mass, dx, coefficients, _, dtheta = slopes
    width, loss = x.shape[1], 0.0
    seen, where, amount_a, amount_b, base = _room(places)
    for k in range(x.shape[0]):
        n, log_a, log_b = 0, 0.0, 0.0
        if evidence:
            n, log_a, log_b = _evidence_of(k, records, by, place_of, seen, where, amount_a, amount_b)
        z = 0.0
        for s in range(mass.shape[1]):
            z += mass[k, s]
        for c in range(n):
            e = seen[c]
            if not full and c + AHEAD < n:
                fetch_row(keys, seen[c + AHEAD])
            base[c] = mass[k, e] if full else np.exp(min(_score(x, k, keys, e, bias), CAP))
            z += base[c] * ((1 + amount_a[c]) * (1 + amount_b[c]) - 1)
        begin, end = indptr[k], indptr[k + 1]
        scale, log_z = (end - begin) / z, np.log(z)
        for s in range(mass.shape[1]):
            mass[k, s] *= np.float32(scale)
        for c in range(n):
            e, a, b = seen[c], amount_a[c], amount_b[c]
            g = np.float32(scale * base[c] * ((1 + a) * (1 + b) - 1))
            if full:
                mass[k, e] += g
            else:
                coefficients[where[c]] = g
                _add_row(g, keys, e, 0, dx, k, 0, width)
            share = by.log_share[e]
            _by_theta(dtheta, scale * base[c] * a * (1 + b), scale * base[c] * b * (1 + a), share, log_a, log_b)
        for t in range(begin, end):
            e = targets[t]
            score = np.float64(_score(x, k, keys, e, bias))
            if place_of[e] > 0:
                a, b = amount_a[place_of[e] - 1], amount_b[place_of[e] - 1]
                score += np.log((1 + a) * (1 + b))
                _by_theta(dtheta, -a / (1 + a), -b / (1 + b), by.log_share[e], log_a, log_b)
            loss -= score - log_z
            if full:
                mass[k, e] -= np.float32(1)
            else:
                _add_row(np.float32(-1), keys, e, 0, dx, k, 0, width)
        for c in range(n):
            place_of[seen[c]] = 0
    return loss


@kernel
def item_softmax_step(
    records: RecordLists, scores: ScoreParts, by: Strengths, slopes: SoftmaxSlopes, place_of: Ints
) -> float:
    """As `softmax_step`, among what people say about a record's item: its profile, and what the record itself says.

    What the record alone says about the item stands in no profile: its gradient, one less than its probability, goes to
    `slopes.targets`, as that of all targets does.
    """
    (x, keys, bias), (indptr, targets, _, _, places) = scores, records
    _, dx, coefficients, of_targets, dtheta = slopes
    width, loss = x.shape[1], 0.0
    seen, where, amount_a, amount_b, base = _room(places)
    for k in range(x.shape[0]):
        n, log_a, log_b = _evidence_of(k, records, by, place_of, seen, where, amount_a, amount_b)
        begin, end = indptr[k], indptr[k + 1]
        z = 0.0
        for c in range(n):
            if c + AHEAD < n:
                fetch_row(keys, seen[c + AHEAD])
            base[c] = 0.0
            if amount_b[c] > 0:
                base[c] = np.exp(min(_score(x, k, keys, seen[c], bias), CAP))
                z += base[c] * (1 + amount_a[c]) * (1 + amount_b[c])
        for t in range(begin, end):
            a, b = _amounts(place_of[targets[t]], amount_a, amount_b)
            if b == 0:
                z += np.exp(min(_score(x, k, keys, targets[t], bias), CAP)) * (1 + a)
        scale, log_z = (end - begin) / z, np.log(z)
        for c in range(n):
            if amount_b[c] > 0:
                e, a, b = seen[c], amount_a[c], amount_b[c]
                g = np.float32(scale * base[c] * (1 + a) * (1 + b))
                coefficients[where[c]] = g
                _add_row(g, keys, e, 0, dx, k, 0, width)
                share = by.log_share[e]
                _by_theta(dtheta, scale * base[c] * a * (1 + b), scale * base[c] * b * (1 + a), share, log_a, log_b)
        for t in range(begin, end):
            e = targets[t]
            score = np.float64(_score(x, k, keys, e, bias))
            a, b = _amounts(place_of[e], amount_a, amount_b)
            chance = scale * np.exp(min(score, 60.0)) * (1 + a) if b == 0 else 0.0
            g = np.float32(chance - 1)
            of_targets[t] = g
            _add_row(g, keys, e, 0, dx, k, 0, width)
            _by_theta(dtheta, (chance - 1) * a / (1 + a), -b / (1 + b), by.log_share[e], log_a, log_b)
            loss -= score + np.log((1 + a) * (1 + b)) - log_z
        for c in range(n):
            place_of[seen[c]] = 0
    return loss


@kernel
def _room(places: Longs) -> tuple[Ints, Longs, Doubles, Doubles, Doubles]:
    """Room for the entries of any record: what they are, where they stand, the evidence of both sides, base scores."""
    longest = 0
    for k in range(len(places) // 2):
        longest = max(longest, places[2 * k + 2] - places[2 * k])
    return (
        np.empty(longest, np.int32),
        np.empty(longest, np.int64),
        np.empty(longest),
        np.empty(longest),
        np.empty(longest),
    )


@inlined
def _evidence_of(
    k: int, records: RecordLists, by: Strengths, place_of: Ints, seen: Ints, where: Longs, amount_a: Doubles,
    amount_b: Doubles,
) -> tuple[int, float, float]:  # fmt: skip
    """Merge both sides' evidence of the k-th record by explanation: the number of entries, log(1 + N) of the sides."""
    numbers, counts, places = records.numbers, records.counts, records.places
    theta, powers = by.theta, by.powers
    first, second, third = places[2 * k], places[2 * k + 1], places[2 * k + 2]
    total_a = total_b = 1.0
    for j in range(first, second):
        total_a += counts[j]
    for j in range(second, third):
        total_b += counts[j]
    log_a, log_b = np.log(total_a), np.log(total_b)
    scale_a, scale_b = np.exp(theta[0] - theta[2] * log_a), np.exp(theta[3] - theta[5] * log_b)
    n = 0
    for j in range(first, second):
        e = numbers[j]
        seen[n], where[n], amount_a[n], amount_b[n] = e, j, counts[j] * scale_a * powers[0, e], 0.0
        n += 1
        place_of[e] = n
    for j in range(second, third):
        e = numbers[j]
        amount = counts[j] * scale_b * powers[1, e]
        if place_of[e] > 0:
            amount_b[place_of[e] - 1] = amount
        else:
            seen[n], where[n], amount_a[n], amount_b[n] = e, j, 0.0, amount
            n += 1
            place_of[e] = n
    return n, log_a, log_b


@inlined
def _amounts(place: int, amount_a: Doubles, amount_b: Doubles) -> tuple[float, float]:
    """Both sides' evidence of an explanation that is at a place, counted from one; none where it is zero."""
    if place > 0:
        return amount_a[place - 1], amount_b[place - 1]
    return 0.0, 0.0


@inlined
def _by_theta(dtheta: Doubles, g_a: float, g_b: float, log_share: float, log_a: float, log_b: float) -> None:
    dtheta[0] += g_a
    dtheta[1] -= g_a * log_share
    dtheta[2] -= g_a * log_a
    dtheta[3] += g_b
    dtheta[4] -= g_b * log_share
    dtheta[5] -= g_b * log_b


@inlined
def _score(x: Floats, k: int, keys: Floats, e: int, bias: Floats) -> np.float32:
    """bias + x . key, in a fixed order."""
    width = x.shape[1]
    lanes = width - width % LANES
    total = dot(x, k * width, keys, e * width, lanes)
    for q in range(lanes, width):
        total += x[k, q] * keys[e, q]
    return bias[e] + total


@inlined
def _add_row(
    factor: np.float32, x: Floats, row: int, x_first: int, y: Floats, to: int, y_first: int, width: int
) -> None:
    """y[to, y_first ..] += factor * x[row, x_first ..], so many columns."""
    lanes = width - width % LANES
    add_scaled(factor, x, row * x.shape[1] + x_first, y, to * y.shape[1] + y_first, lanes)
    for q in range(lanes, width):
        y[to, y_first + q] += factor * x[row, x_first + q]


# -- steps -------------------------------------------------------------------------------------------------------------


@kernel
def side_entries(numbers: Ints, weights: Floats, places: Longs, side: int) -> tuple[Ints, Floats, Ints]:
    """The entries of one side: what stands there, with which weight, in which record's profile."""
    room = 0
    for k in range(len(places) // 2):
        room += places[2 * k + side + 1] - places[2 * k + side]
    entries, by, records = np.empty(room, np.int32), np.empty(room, np.float32), np.empty(room, np.int32)
    used = 0
    for k in range(len(places) // 2):
        for j in range(places[2 * k + side], places[2 * k + side + 1]):
            entries[used], by[used], records[used] = numbers[j], weights[j], k
            used += 1
    return entries, by, records


@kernel
def group(numbers: Ints, room: Ints) -> tuple[Ints, Longs, Ints]:
    """The distinct numbers, ascending, where the list of each starts, and the places of all, list by list.

    `room` has a zero for every possible number, and has it again afterwards. Rows that ascend are read and written in
    half the time of rows by first appearance.
    """
    for number in numbers:
        room[number] += 1
    found = 0
    for number in range(len(room)):
        found += room[number] > 0
    rows, indptr, total, t = np.empty(found, np.int32), np.empty(found + 1, np.int64), 0, 0
    for number in range(len(room)):
        if room[number] > 0:
            rows[t], indptr[t] = number, total
            total += room[number]
            room[number] = indptr[t]
            t += 1
    indptr[found] = total
    order = np.empty(len(numbers), np.int32)
    for place in range(len(numbers)):
        order[room[numbers[place]]] = place
        room[numbers[place]] += 1
    for t in range(found):
        room[rows[t]] = 0
    return rows, indptr, order


@kernel
def compose(rows: Ints, own: Floats, words: WordRows, vectors: Floats, out: Floats, first: int, last: int) -> None:
    """out[e] = own[e] + the weighted sum of the vectors of e's words, for rows[first:last]."""
    indptr, indices, weights = words
    for t in range(first, last):
        e = rows[t]
        for q in range(own.shape[1]):
            out[e, q] = own[e, q]
        for j in range(indptr[e], indptr[e + 1]):
            _add_row(weights[j], vectors, indices[j], 0, out, e, 0, own.shape[1])


@kernel
def step_rows(
    by: Grouped, near: Floats, column: int, far: Floats, table: AdamTable, move: AdamMove, first: int, last: int
) -> None:
    """Adam on by.rows[first:last], each by the sum of its list, from the first entry to the last, left in totals.

    An entry adds its coefficient times a row of `near`, from a column on, or of `far`: sources count on from one to the
    other. No two rows share anything, so that it does not matter who does which.
    """
    rows, indptr, order, sources, coefficients = by
    totals = table.totals
    for t in range(first, last):
        for q in range(totals.shape[1]):
            totals[t, q] = 0
        for j in range(indptr[t], indptr[t + 1]):
            source, factor = sources[order[j]], coefficients[order[j]]
            if source < len(near):
                _add_row(factor, near, source, column, totals, t, 0, totals.shape[1])
            else:
                _add_row(factor, far, source - len(near), 0, totals, t, 0, totals.shape[1])
        _move_row(table, rows[t], totals, t, 0, totals.shape[1], move)


@kernel
def step_words(
    rows: Ints, totals: Floats, words: WordRows, grads: Floats, table: AdamTable, move: AdamMove, first: int, last: int
) -> None:
    """Adam on the words of rows that moved by `totals`, in the columns of vectors first..last; `grads` stays zero.

    Columns share nothing. Adding up word by word instead would read the totals from all over memory.
    """
    indptr, indices, weights = words
    begin, end = first * LANES, min(last * LANES, table.x.shape[1])
    moved = np.zeros(len(table.x), np.uint8)
    for t in range(len(rows)):
        for j in range(indptr[rows[t]], indptr[rows[t] + 1]):
            moved[indices[j]] = 1
            _add_row(weights[j], totals, t, begin, grads, indices[j], begin, end - begin)
    for word in range(len(moved)):
        if moved[word]:
            _move_row(table, word, grads, word, begin, end, move)
            for q in range(begin, end):
                grads[word, q] = 0


@inlined
def _move_row(table: AdamTable, row: int, grads: Floats, grad_row: int, begin: int, end: int, move: AdamMove) -> None:
    rates = adam_rates(move.rate, 0.99, move.step, SMALL)
    x, m, v, _ = table
    scale, penalty = np.float32(move.scale), np.float32(move.penalty)
    for q in range(begin, end):
        slope = grads[grad_row, q] * scale + penalty * x[row, q]
        x[row, q], m[row, q], v[row, q] = adam(x[row, q], m[row, q], v[row, q], slope, rates)
