"""Softmax over a pool from profiles: sums of vectors over what was said, with count evidence (see models/profile.py).

A record has two profiles, one per side (for reasons: what the user said, what was said about the item). `numbers`,
`counts` and `places` are their flat lists: side `s` of the k-th record of a batch is places[2k+s] .. places[2k+s+1].
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyrank.compile import inlined, kernel
from whyrank.rng import below, draw, key_of
from whyrank.simd import LANES, add_scaled, dot, fetch_row

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
SAMPLE = key_of(15)  # keeps the random numbers of different purposes apart
AHEAD = 6  # rows are asked for so many entries before they are used


@kernel
def other_entries(
    batch: Longs,
    row_a: Ints, indptr_a: Longs, indices_a: Ints, counts_a: Ints, own_indptr_a: Longs, own_a: Ints,
    row_b: Ints, indptr_b: Longs, indices_b: Ints, counts_b: Ints, own_indptr_b: Longs, own_b: Ints,
    leave_out: bool, longest: int,
) -> tuple[Ints, Floats, Longs]:  # fmt: skip
    """Both sides' entries of every record; with `leave_out`, without the record's own; an unknown row (-1) has none.

    Of a row with more than `longest` entries so many stand for all, which the record's own entry decides: a row with
    as many records as entries would otherwise take the square of its length.
    """
    room = 0
    for r in batch:
        if row_a[r] >= 0:
            room += min(indptr_a[row_a[r] + 1] - indptr_a[row_a[r]], longest)
        if row_b[r] >= 0:
            room += min(indptr_b[row_b[r] + 1] - indptr_b[row_b[r]], longest)
    numbers = np.empty(room, np.int32)
    counts = np.empty(room, np.float32)
    places = np.zeros(2 * len(batch) + 1, np.int64)
    used = 0
    for k in range(len(batch)):
        r = batch[k]
        used = _gather(
            row_a[r], indptr_a, indices_a, counts_a, own_indptr_a, own_a, r, leave_out, longest, numbers, counts, used
        )
        places[2 * k + 1] = used
        used = _gather(
            row_b[r], indptr_b, indices_b, counts_b, own_indptr_b, own_b, r, leave_out, longest, numbers, counts, used
        )
        places[2 * k + 2] = used
    return numbers[:used], counts[:used], places


@inlined
def _gather(
    row: int, indptr: Longs, indices: Ints, amounts: Ints, own_indptr: Longs, own: Ints, record: int, leave_out: bool,
    longest: int, numbers: Ints, counts: Floats, used: int,
) -> int:  # fmt: skip
    if row < 0:
        return used
    mine, end = (own_indptr[record], own_indptr[record + 1]) if leave_out else (np.int64(0), np.int64(0))
    size = indptr[row + 1] - indptr[row]
    if size > longest:
        first = below(draw(SAMPLE, own[mine] if mine < end else 0), size)
        for j in range(longest):
            entry = indptr[row] + (first + j * size // longest) % size
            amount = amounts[entry]
            for k in range(mine, end):
                amount -= own[k] == indices[entry]
            if amount > 0:
                numbers[used] = indices[entry]
                counts[used] = np.float32(amount * size / longest)
                used += 1
        return used
    for entry in range(indptr[row], indptr[row + 1]):
        number, amount = indices[entry], amounts[entry]
        while mine < end and own[mine] < number:
            mine += 1
        if mine < end and own[mine] == number:
            amount -= 1
        if amount > 0:
            numbers[used] = number
            counts[used] = amount
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
def gather_profiles(
    numbers: Ints, weights: Floats, places: Longs, inputs_a: Floats, inputs_b: Floats, x: Floats
) -> None:
    """x[k] = [sum of weights x inputs_a over side a, the same for side b]."""
    d = inputs_a.shape[1]
    for k in range(x.shape[0]):
        for j in range(places[2 * k], places[2 * k + 1]):
            _add_row(weights[j], inputs_a, numbers[j], 0, x, k, 0, d)
        for j in range(places[2 * k + 1], places[2 * k + 2]):
            if j + AHEAD < len(numbers):
                fetch_row(inputs_b, numbers[j + AHEAD])
            _add_row(weights[j], inputs_b, numbers[j], 0, x, k, d, inputs_b.shape[1])


@kernel
def pair_profiles(
    row_a: Ints, indptr_a: Longs, indices_a: Ints, counts_a: Ints, inputs_a: Floats,
    row_b: Ints, indptr_b: Longs, indices_b: Ints, counts_b: Ints, inputs_b: Floats, longest: int,
) -> Floats:  # fmt: skip
    """Both sides' profiles of every pair, side by side, and a one behind them; an unknown row (-1) has zeros."""
    none, nothing, everyone = np.zeros(1, np.int64), np.zeros(0, np.int32), np.arange(len(row_a))
    numbers, counts, places = other_entries(
        everyone,
        row_a, indptr_a, indices_a, counts_a, none, nothing,
        row_b, indptr_b, indices_b, counts_b, none, nothing,
        False, longest,
    )  # fmt: skip
    x = np.zeros((len(row_a), inputs_a.shape[1] + inputs_b.shape[1] + 1), np.float32)
    gather_profiles(numbers, profile_weights(counts, places), places, inputs_a, inputs_b, x)
    x[:, -1] = 1
    return x


@kernel
def softmax_step(
    full: bool, evidence: bool, target_indptr: Longs, targets: Ints,
    numbers: Ints, counts: Floats, places: Longs, x: Floats, keys: Floats, bias: Floats, log_share: Doubles,
    powers: Doubles, theta: Doubles, mass: Floats, dx: Floats, coefficients: Floats, place_of: Ints, dtheta: Doubles,
) -> float:  # fmt: skip
    """Loss of a batch of records, and its gradients by theta, by profiles (dx) and by scores.

    `mass` comes in as exp of the base scores of the whole pool (full) or of a weighted sample of it, and goes out as
    the gradient by these scores. Evidence multiplies exp(base) by (1 + A_u)(1 + A_i), where on each side
    A = exp(theta0) x n x share^-theta1 x (1 + N)^-theta2; the partition function gets the difference, exactly, entry
    by entry. `powers`
    holds share^-theta1 of both sides. With a sample, `coefficients` gets the gradient by the scores of the entries of
    profiles (of an entry on both sides: at its first place), and that by a target's score is -1. `place_of` is room of
    zeros for the pool.
    """
    width, loss, longest = x.shape[1], 0.0, 0
    for k in range(x.shape[0]):
        longest = max(longest, places[2 * k + 2] - places[2 * k])
    seen, where = np.empty(longest, np.int32), np.empty(longest, np.int64)
    amount_a, amount_b, base = np.empty(longest), np.empty(longest), np.empty(longest)
    for k in range(x.shape[0]):
        n, log_a, log_b = 0, 0.0, 0.0
        if evidence:
            n, log_a, log_b = _evidence_of(
                k, numbers, counts, places, powers, theta, place_of, seen, where, amount_a, amount_b
            )
        z = 0.0
        for s in range(mass.shape[1]):
            z += mass[k, s]
        for c in range(n):
            e = seen[c]
            if not full and c + AHEAD < n:
                fetch_row(keys, seen[c + AHEAD])
            base[c] = mass[k, e] if full else np.exp(min(_score(x, k, keys, e, bias), np.float32(60)))
            z += base[c] * ((1 + amount_a[c]) * (1 + amount_b[c]) - 1)
        begin, end = target_indptr[k], target_indptr[k + 1]
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
            _theta(dtheta, scale * base[c] * a * (1 + b), scale * base[c] * b * (1 + a), log_share[e], log_a, log_b)
        for t in range(begin, end):
            e = targets[t]
            score = np.float64(_score(x, k, keys, e, bias))
            if place_of[e] > 0:
                a, b = amount_a[place_of[e] - 1], amount_b[place_of[e] - 1]
                score += np.log((1 + a) * (1 + b))
                _theta(dtheta, -a / (1 + a), -b / (1 + b), log_share[e], log_a, log_b)
            loss -= score - log_z
            if full:
                mass[k, e] -= np.float32(1)
            else:
                _add_row(np.float32(-1), keys, e, 0, dx, k, 0, width)
        for c in range(n):
            place_of[seen[c]] = 0
    return loss


@inlined
def _evidence_of(
    k: int, numbers: Ints, counts: Floats, places: Longs, powers: Doubles, theta: Doubles,
    place_of: Ints, seen: Ints, where: Longs, amount_a: Doubles, amount_b: Doubles,
) -> tuple[int, float, float]:  # fmt: skip
    """Both sides' evidence of the k-th record, merged by explanation; answers how many, and log(1 + N) of the sides."""
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
def _theta(dtheta: Doubles, g_a: float, g_b: float, log_share: float, log_a: float, log_b: float) -> None:
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
def compose(
    rows: Ints, ids: Floats, indptr: Longs, indices: Ints, weights: Floats, words: Floats, out: Floats,
    first: int, last: int,
) -> None:  # fmt: skip
    """out[e] = ids[e] + the weighted sum of the vectors of e's words, for rows[first:last]."""
    for t in range(first, last):
        e = rows[t]
        for q in range(ids.shape[1]):
            out[e, q] = ids[e, q]
        for j in range(indptr[e], indptr[e + 1]):
            _add_row(weights[j], words, indices[j], 0, out, e, 0, ids.shape[1])


@kernel
def step_rows(
    rows: Ints, indptr: Longs, order: Ints, sources: Ints, coefficients: Floats, near: Floats, column: int, far: Floats,
    totals: Floats, x: Floats, m: Floats, v: Floats, rate: float, penalty: float, step: int, scale: float,
    first: int, last: int,
) -> None:  # fmt: skip
    """Adam on rows[first:last], each by the sum of its list, from the first entry to the last; sums are left in totals.

    An entry adds its coefficient times a row of `near`, from a column on, or of `far`: sources count on from one to the
    other. No two rows share anything, so that it does not matter who does which.
    """
    c1, c2, width = np.float32(rate / (1 - 0.9**step)), np.float32(1 / (1 - 0.99**step)), x.shape[1]
    for t in range(first, last):
        for q in range(width):
            totals[t, q] = 0
        for j in range(indptr[t], indptr[t + 1]):
            source, by = sources[order[j]], coefficients[order[j]]
            if source < len(near):
                _add_row(by, near, source, column, totals, t, 0, width)
            else:
                _add_row(by, far, source - len(near), 0, totals, t, 0, width)
        _adam(x, m, v, rows[t], totals, t, 0, width, c1, c2, np.float32(scale), np.float32(penalty))


@kernel
def step_words(
    rows: Ints, totals: Floats, indptr: Longs, indices: Ints, weights: Floats, grads: Floats, x: Floats, m: Floats,
    v: Floats, rate: float, penalty: float, step: int, scale: float, first: int, last: int,
) -> None:  # fmt: skip
    """Adam on the words of rows that moved by `totals`, in the columns of vectors first..last; `grads` stays zero.

    Columns share nothing. Adding up word by word instead would read the totals from all over memory.
    """
    begin, end = first * LANES, min(last * LANES, x.shape[1])
    c1, c2 = np.float32(rate / (1 - 0.9**step)), np.float32(1 / (1 - 0.99**step))
    moved = np.zeros(len(x), np.uint8)
    for t in range(len(rows)):
        for j in range(indptr[rows[t]], indptr[rows[t] + 1]):
            moved[indices[j]] = 1
            _add_row(weights[j], totals, t, begin, grads, indices[j], begin, end - begin)
    for word in range(len(x)):
        if moved[word]:
            _adam(x, m, v, word, grads, word, begin, end, c1, c2, np.float32(scale), np.float32(penalty))
            for q in range(begin, end):
                grads[word, q] = 0


@inlined
def _adam(
    x: Floats, m: Floats, v: Floats, row: int, grads: Floats, grad_row: int, begin: int, end: int,
    c1: np.float32, c2: np.float32, scale: np.float32, penalty: np.float32,
) -> None:  # fmt: skip
    first, second, small = np.float32(0.1), np.float32(0.01), np.float32(1e-8)  # 1 - beta of the moments
    for q in range(begin, end):
        g = grads[grad_row, q] * scale + penalty * x[row, q]
        m[row, q] += first * (g - m[row, q])
        v[row, q] += second * (g * g - v[row, q])
        x[row, q] -= c1 * m[row, q] / (np.sqrt(v[row, q] * c2) + small)
