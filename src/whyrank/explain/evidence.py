"""Evidence: who says a reason about the item, who says the opposite, and who says it elsewhere.

What is counted is declared once, in the fields of `Evidence`. Columns, tables, JSON, schemas and the page follow from
them. To add a count: its field here with its line in `_count_one`, and in `data/people.py` what has to be known for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.compile import kernel
from whyrank.data.catalog import Catalog
from whyrank.data.csr import CSR
from whyrank.data.once import OncePer
from whyrank.explain._neighbours import neighbours
from whyrank.explain.topics import groups_of
from whyrank.index._lookup import count_at, place_of
from whyrank.index.form import Floats, Numbers, Rows
from whyrank.wording.templates import OFTEN, OFTEN_SHARE, VARIANTS, Told

LIKE = 20  # how many items count as "like" an item
FEW_ROWS = 64  # reasons, up to which similar items are looked at one by one
UNKNOWN = np.iinfo(np.int64).min  # in columns of what may be unknown


class Count(NamedTuple):
    """A field of `Evidence`: what it counts, what tables call it, and whether it may be unknown."""

    name: str
    help: str
    label: str
    optional: bool

    @property
    def type(self) -> Any:
        """The type of its values."""
        return int | None if self.optional else int


def count(help: str, label: str, *, optional: bool = False) -> Any:
    """Declare a count: a whole number of 64 bits."""
    return field(metadata={"help": help, "label": label, "optional": optional})


@dataclass(frozen=True, slots=True)
class Evidence:
    """The counts behind a reason, of people unless they say otherwise.

    What the opposite of a statement is follows from its aspect, sense and polarity: see `whyrank.data.statements`.

    >>> [each.name for each in Evidence.declared()][:3]
    ['supporting', 'opposing', 'mixed']
    """

    supporting: int = count("People who say it about this item, and never the opposite.", "say so")
    opposing: int = count("People who say the opposite about this item, and never this.", "say the opposite")
    mixed: int = count("People who say both this and the opposite about this item.", "say both")
    praise: int = count("People who say something good about its aspect of this item.", "praise")
    complaints: int = count("People who say something bad about its aspect of this item.", "complaints")
    mentions: int = count("People who mention its aspect of this item at all.", "mention it")
    detail: int = count(
        "Of plain praise or blame: people who say the detail that the sentence may tell beside it.", "detail"
    )
    user_says: int = count("Items about which this user says it.", "user says it")
    user_mentions: int = count("Items of which this user mentions its aspect.", "user mentions it")
    similar_items: int | None = count(
        "Records of the items most like this one that say it; null unless asked for.", "similar items", optional=True
    )
    latest: int | None = count(
        "When it was last said about this item, in seconds since 1970; null where no times are known.",
        "latest",
        optional=True,
    )

    @classmethod
    @cache
    def declared(cls) -> tuple[Count, ...]:
        """The fields, in their order."""
        return tuple(Count(each.name, **each.metadata) for each in fields(cls))

    def shown(self) -> list[str]:
        """Write how many people say it, the opposite, or both, as a card has it.

        >>> Evidence(12, 2, 0, 14, 3, 20, 0, 0, 0, None, None).shown()
        ['12 say so', '2 say the opposite']
        """
        sides = Evidence.declared()[:3]
        return [
            f"{getattr(self, side.name):,} {side.label}"
            for side in sides
            if getattr(self, side.name) or side is sides[0]
        ]

    def as_dict(self) -> dict[str, int | None]:
        """All counts by name."""
        return {name: getattr(self, name) for name in Evidence.__slots__}


DTYPE = np.dtype([(each.name, np.int64) for each in Evidence.declared()])
OPTIONAL = [each.name for each in Evidence.declared() if each.optional]
TOLD = np.dtype([(name, np.int64) for name in Told._fields])


class ReasonColumns(NamedTuple):
    """Ranked explanations of many pairs as columns, pair by pair, best first, with their evidence."""

    row: Rows  # which pair each belongs to
    rank: Numbers
    explanation: Numbers
    score: Floats
    entry: Rows  # where (item, explanation) is in its relation, -1 where nobody says it
    counts: NDArray[np.void]  # the fields of `Evidence`; UNKNOWN is what may be unknown and is
    told: NDArray[np.void]  # the fields of `Told`: what its sentence depends on

    def frame(self) -> pl.DataFrame:
        """Return the evidence as a table; null is unknown."""
        columns = {name: pl.Series(name, np.ascontiguousarray(self.counts[name])) for name in DTYPE.names or ()}
        for name in OPTIONAL:
            columns[name] = columns[name].set(columns[name] == UNKNOWN, None)
        return pl.DataFrame(columns)

    def evidence(self) -> list[Evidence]:
        """Return the evidence as objects."""
        known = {UNKNOWN: None}
        rows = self.counts.tolist()
        return [Evidence(*([known.get(each, each) for each in row] if UNKNOWN in row else row)) for row in rows]


class Counted(NamedTuple):
    """What a catalog knows of explanations, items and users, as the kernel takes it."""

    aspect: Numbers
    position: Numbers
    sense: Numbers
    said: CSR  # item -> explanations
    supporting: Numbers
    mixed: Numbers
    details: Numbers  # by entry, as the next: what else may be told of plain praise or blame
    detail_people: Numbers
    times: NDArray[np.int64]
    opposing: CSR  # item -> positions
    aspects: CSR  # item -> aspects
    praising: Numbers
    blaming: Numbers
    by_user: CSR  # user -> explanations
    aspects_by_user: CSR
    items_by_user: CSR


def _counted(catalog: Catalog) -> Counted:
    people, details = catalog.people, catalog.details
    return Counted(
        aspect=catalog.aspect,
        position=catalog.position,
        sense=np.ascontiguousarray(groups_of(catalog)[2]),
        said=catalog.item_explanations,
        supporting=people.supporting,
        mixed=people.mixed,
        details=details.explanation,
        detail_people=details.people,
        times=people.latest,
        opposing=people.opposing,
        aspects=people.item_aspects,
        praising=people.praising,
        blaming=people.blaming,
        by_user=catalog.user_explanations,
        aspects_by_user=people.user_aspects,
        items_by_user=catalog.user_items,
    )


_counted_of: OncePer[Catalog, Counted] = OncePer(_counted)


def count_reasons(
    catalog: Catalog,
    pairs: tuple[Numbers, Numbers],
    lists: tuple[Numbers, Floats],
    *,
    similar: bool = False,
) -> ReasonColumns:
    """Count the evidence of ranked explanations of pairs.

    Args:
        catalog: What the model was fitted to.
        pairs: Users and items by number; of unknown ones (-1) nothing is known.
        lists: Explanations and scores, a row for each pair, which ends with -1.
        similar: Whether to count similar items, too, which takes longest.

    Returns:
        The reasons of all pairs in columns.
    """
    numbers, scores = np.ascontiguousarray(lists[0]), np.ascontiguousarray(lists[1])
    size = numbers.size
    row, rank, explanation = np.empty(size, np.int64), np.empty(size, np.int32), np.empty(size, np.int32)
    score, entry = np.empty(size, np.float32), np.empty(size, np.int64)
    made = ReasonColumns(row, rank, explanation, score, entry, np.empty(size, DTYPE), np.empty(size, TOLD))
    size = _count(*pairs, numbers, scores, _counted_of(catalog), made)
    if size < numbers.size:
        made = ReasonColumns(*(each[:size] for each in made))  # type: ignore[arg-type]
    if similar:
        made.counts["similar_items"] = _of_similar_items(catalog, pairs[1], made.row, made.explanation)
    return made


@kernel
def _people(relation: CSR, row: int, column: int) -> int:
    return count_at(relation.indptr, relation.indices, relation.counts, row, column)


@kernel
def _count(
    users: Numbers, items: Numbers, numbers: Numbers, scores: Floats, known: Counted, made: ReasonColumns
) -> int:
    """Write the columns of all that is ranked; return how many rows they have."""
    at = 0
    for row in range(numbers.shape[0]):
        start = at
        for place in range(numbers.shape[1]):
            if numbers[row, place] >= 0:
                made.row[at], made.rank[at] = row, place + 1
                made.explanation[at], made.score[at] = numbers[row, place], scores[row, place]
                _count_one(users[row], items[row], at, known, made)
                at += 1
        for place in range(start, at):
            _tell(users[row], start, place, at, known, made)
    return at


@kernel
def _count_one(user: int, item: int, at: int, known: Counted, made: ReasonColumns) -> None:
    """Write the counts of one reason."""
    e, count, entry = made.explanation[at], made.counts[at], -1
    aspect, position = known.aspect[e], known.position[e]
    count.supporting = count.opposing = count.mixed = count.praise = count.complaints = count.mentions = 0
    count.detail = count.user_says = count.user_mentions = 0
    count.similar_items = count.latest = UNKNOWN
    if item >= 0:
        entry = place_of(known.said.indptr, known.said.indices, item, e)
        if entry >= 0:
            count.supporting, count.mixed = known.supporting[entry], known.mixed[entry]
            count.detail = known.detail_people[entry] if len(known.detail_people) else 0
            if len(known.times) and known.times[entry] != 0:
                count.latest = known.times[entry]
        if position >= 0:
            count.opposing = _people(known.opposing, item, position)
        place = place_of(known.aspects.indptr, known.aspects.indices, item, aspect) if aspect >= 0 else -1
        if place >= 0:
            count.mentions = known.aspects.counts[place]
            count.praise, count.complaints = known.praising[place], known.blaming[place]
    if user >= 0:
        visited = known.items_by_user.indptr[user + 1] - known.items_by_user.indptr[user]
        count.user_says = min(_people(known.by_user, user, e), visited)
        count.user_mentions = _people(known.aspects_by_user, user, aspect) if aspect >= 0 else 0
    made.entry[at] = entry


@kernel
def _tell(user: int, start: int, at: int, stop: int, known: Counted, made: ReasonColumns) -> None:
    """Write what the sentence of one reason of a list depends on.

    A user mentions an aspect (familiar: 1), or does so often (2). A list tells each sense once, as a reason or as a
    detail of one.
    """
    told, count, entry = made.told[at], made.counts[at], made.entry[at]
    told.explanation, told.reviewers = made.explanation[at], 0
    told.variant = (made.explanation[start] + made.rank[at] - 1) % VARIANTS
    told.supporting, told.opposing, told.mixed = count.supporting, count.opposing, count.mixed
    told.detail, told.user_says, told.familiar, told.detailed = count.detail, count.user_says, 0, -1
    if count.user_mentions:
        visited = known.items_by_user.indptr[user + 1] - known.items_by_user.indptr[user]
        told.familiar = 2 if count.user_mentions >= max(float(OFTEN), OFTEN_SHARE * visited) else 1
    detail = known.details[entry] if len(known.details) and entry >= 0 else np.int32(-1)
    fresh = detail >= 0
    for other in range(start, stop if fresh else start):
        sense, above = known.sense[detail], made.told[other].detailed if other < at else -1
        same = known.sense[made.explanation[other]] == sense or (above >= 0 and known.sense[above] == sense)
        if sense >= 0 and same:
            fresh = False
    if fresh:
        told.detailed = detail


def similar_items(catalog: Catalog, items: Numbers) -> Numbers:
    """Find the items most like each item, by Jaccard over what people say about them; -1 where there are fewer."""
    inverse, known = _said_of_items(catalog)
    fresh = np.array([item for item in items.tolist() if item >= 0 and item not in known], np.int32)
    if len(fresh):
        said = catalog.item_explanations
        found, _ = neighbours(said.indptr, said.indices, inverse.indptr, inverse.indices, fresh, LIKE)
        known.update(zip(fresh.tolist(), found, strict=True))
    nobody = np.full(LIKE, -1, np.int32)
    return np.array([known.get(item, nobody) for item in items.tolist()], np.int32).reshape(-1, LIKE)


def _inverse(catalog: Catalog) -> tuple[CSR, dict[int, Numbers]]:
    """Explanation -> items, and the similar items that were found so far."""
    said = catalog.item_explanations
    return CSR.from_pairs(said.indices, said.rows_of_entries(), len(catalog.explanations), said.rows), {}


_said_of_items: OncePer[Catalog, tuple[CSR, dict[int, Numbers]]] = OncePer(_inverse)


def _of_similar_items(catalog: Catalog, items: Numbers, row: Rows, explanations: Numbers) -> NDArray[np.int64]:
    """Count the records of similar items that say each explanation."""
    found = np.empty(len(row), np.int64)
    if len(row) <= FEW_ROWS:
        _look_up_similar(catalog.item_explanations, similar_items(catalog, items), row, explanations, found)
        return found
    distinct, groups = np.unique(items, return_inverse=True)
    like, sums = similar_items(catalog, distinct), np.zeros(len(catalog.explanations), np.int64)
    order = np.argsort(groups[row], kind="stable")
    _add_up_similar(catalog.item_explanations, like, groups[row], order, explanations, sums, found)
    return found


@kernel
def _look_up_similar(said: CSR, like: Numbers, row: Rows, explanations: Numbers, found: Rows) -> None:
    """Write for each reason how often the items that are like its own have it."""
    for at in range(len(row)):
        found[at] = 0
        for other in like[row[at]]:
            if other >= 0:
                found[at] += _people(said, other, explanations[at])


@kernel
def _add_up_similar(
    said: CSR, like: Numbers, group: Rows, order: Rows, explanations: Numbers, sums: Rows, found: Rows
) -> None:
    """Write the same, group by group of `order`: all that is said of the items like one is added up once."""
    before = -1
    for at in order:
        if group[at] != before:
            _add_items(said, like, before, -1, sums)
            _add_items(said, like, group[at], 1, sums)
            before = group[at]
        found[at] = sums[explanations[at]]


@kernel
def _add_items(said: CSR, like: Numbers, group: int, times: int, sums: Rows) -> None:
    for other in like[group] if group >= 0 else like[0, :0]:
        if other >= 0:
            for place in range(said.indptr[other], said.indptr[other + 1]):
                sums[said.indices[place]] += times * said.counts[place]
