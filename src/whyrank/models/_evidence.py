"""What a user has said and what was said about an item, as additions to scores."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyrank.compile import inlined, kernel
from whyrank.data.csr import CSR
from whyrank.index._lookup import place_of

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Doubles = NDArray[np.float64]
PlainMentions = tuple[tuple[Longs, Ints, Ints], tuple[Doubles, float, float, float], bool]
RowEvidence = tuple[Longs, Ints, Doubles]  # where each row starts, its explanations, what they add


class Strength(NamedTuple):
    """What n of N mentions add: n x of_explanation[e] x weight / (shift + N)^activity."""

    of_explanation: Doubles
    weight: float = 1.0
    shift: float = 0.0
    activity: float = 0.0


class SideMentions(NamedTuple):
    """Who or what has which explanations how often, and how much a mention adds; with `logs`, log(1 + amount)."""

    relation: CSR
    strength: Strength
    logs: bool

    def plain(self) -> PlainMentions:
        """The same without names, which cost a call from Python a microsecond each."""
        return self.relation[:], self.strength[:], self.logs


@inlined
def _row_scale(row: int, mentions: SideMentions) -> float:
    indptr, _, counts = mentions.relation
    total = mentions.strength.shift
    for at in range(indptr[row], indptr[row + 1]):
        total += counts[at]
    return mentions.strength.weight * total**-mentions.strength.activity


@inlined
def _amount(place: int, row_scale: float, mentions: SideMentions) -> float:
    """What the entry at a place of the relation adds."""
    relation = mentions.relation
    value = relation.counts[place] * mentions.strength.of_explanation[relation.indices[place]] * row_scale
    return math.log1p(value) if mentions.logs else value


@kernel
def evidence_of_rows(rows: Ints, mentions: SideMentions) -> RowEvidence:
    """What the mentions of each row (-1: none) add."""
    indptr = mentions.relation.indptr
    ends = np.zeros(len(rows) + 1, np.int64)
    for at in range(len(rows)):
        ends[at + 1] = ends[at] + (indptr[rows[at] + 1] - indptr[rows[at]] if rows[at] >= 0 else 0)
    explanations, values = np.empty(ends[-1], np.int32), np.empty(ends[-1])
    for at in range(len(rows)):
        if ends[at] < ends[at + 1]:
            first, scale = indptr[rows[at]], _row_scale(rows[at], mentions)
            for place in range(ends[at + 1] - ends[at]):
                explanations[ends[at] + place] = mentions.relation.indices[first + place]
                values[ends[at] + place] = _amount(first + place, scale, mentions)
    return ends, explanations, values


@kernel
def merged(
    of_users: RowEvidence, user_of: Longs, of_items: RowEvidence, item_of: Longs
) -> tuple[Longs, Ints, NDArray[np.float32]]:
    """A sparse matrix with a line for each pair, explanations rising: what its user's and its item's mentions add.

    Pair k has rows user_of[k] and item_of[k] of the two: what a user or an item adds is made once for all their pairs.
    """
    (user_ends, mine, of_mine), (item_ends, theirs, of_theirs) = of_users, of_items
    room = 0
    for at in range(len(user_of)):
        u, i = user_of[at], item_of[at]
        room += user_ends[u + 1] - user_ends[u] + item_ends[i + 1] - item_ends[i]
    indptr, used = np.zeros(len(user_of) + 1, np.int64), 0
    explanations, values = np.empty(room, np.int32), np.empty(room, np.float32)
    for at in range(len(user_of)):
        a, a_end = user_ends[user_of[at]], user_ends[user_of[at] + 1]
        b, b_end = item_ends[item_of[at]], item_ends[item_of[at] + 1]
        while a < a_end:  # what the item has before the user's next one is copied at once: items have far more
            until = b + np.searchsorted(theirs[b:b_end], mine[a])
            explanations[used : used + until - b], values[used : used + until - b] = theirs[b:until], of_theirs[b:until]
            used, b, value = used + until - b, until, of_mine[a]
            if b < b_end and theirs[b] == mine[a]:
                value += of_theirs[b]
                b += 1
            explanations[used], values[used] = mine[a], value
            a, used = a + 1, used + 1
        explanations[used : used + b_end - b], values[used : used + b_end - b] = theirs[b:b_end], of_theirs[b:b_end]
        used += b_end - b
        indptr[at + 1] = used
    return indptr, explanations[:used], values[:used]


@kernel
def evidence_of_pairs(
    users: Ints, user_of: Longs, said: PlainMentions, items: Ints, item_of: Longs, about: PlainMentions
) -> tuple[Longs, Ints, NDArray[np.float32]]:
    """What the mentions of both sides of pairs add, `merged`."""
    user = SideMentions(CSR(*said[0]), Strength(*said[1]), said[2])
    item = SideMentions(CSR(*about[0]), Strength(*about[1]), about[2])
    return merged(evidence_of_rows(users, user), user_of, evidence_of_rows(items, item), item_of)


@kernel
def evidence_at(rows: Ints, pair: Longs, explanations: Ints, mentions: SideMentions) -> NDArray[np.float32]:
    """What the mentions of rows add to some explanations; `pair` says to which row each belongs, -1 is no row."""
    values, before, scale = np.zeros(len(pair), np.float32), -1, 0.0
    indptr, indices, _ = mentions.relation
    for at in range(len(pair)):
        row = rows[pair[at]]
        if row < 0:
            continue
        if pair[at] != before:
            before, scale = pair[at], _row_scale(row, mentions)
        place = place_of(indptr, indices, row, explanations[at])
        if place >= 0:
            values[at] = _amount(place, scale, mentions)
    return values
