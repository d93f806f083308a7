"""What Profile learns from and looks at: records with their two sides, what users say at a time, words."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.data.catalog import Catalog
from whyrank.data.csr import CSR
from whyrank.data.people import UNKNOWN
from whyrank.data.triplets import Triplets
from whyrank.explain.rank import rank_items
from whyrank.index.form import Numbers
from whyrank.training._metrics import hits
from whyrank.training.records import ALL, Recency, RecordsInMemory, Side, side_lists
from whyrank.training.vectors import EntryWords

if TYPE_CHECKING:
    from whyrank.models.base import Model

VALIDATION_USERS = 2000  # that decide of items
ITEMS_SEEN = 256  # of a user that stand for all in a step, so that an epoch's time grows with records only
SAID = 2048  # of what a user or an item has said, likewise
LAST = 0.9  # share of validation records that come after the training records of their user, where they come last


@dataclass(frozen=True, eq=False)
class Learning:
    """What a fit learns from, what it chooses by, both together, and what it knows about time.

    `recency` is the scale of ages (0: they do not matter) and the end of the data; with `past`, records are learned
    from what their users said before them alone.
    """

    learn: Triplets
    check: Triplets
    whole: Triplets
    catalog: Catalog  # of `learn`
    recency: NDArray[np.float64]
    past: bool


class ValidationUsers(NamedTuple):
    """A fixed sample of validation users, by number, and their validation items, user by user."""

    users: Numbers
    relevant: CSR

    @classmethod
    def of(cls, relevant: CSR) -> ValidationUsers:
        users = np.flatnonzero(relevant.sizes()).astype(np.int32)
        users = np.sort(np.random.default_rng(0).permutation(users)[:VALIDATION_USERS])
        return cls(users, relevant.take(users))


def item_quality(model: Model, check: ValidationUsers, k: int = 10) -> float:
    """ndcg_paper@k of items, by which training is stopped."""
    ranked = rank_items(model, check.users, k).numbers
    found = hits(ranked, *check.relevant[:2])
    return float((found / np.log2(np.arange(2, ranked.shape[1] + 2))).sum(1).mean()) if len(check.users) else 0.0


def reason_records(learn: Triplets, scale: float = 0.0, past: bool = False) -> RecordsInMemory:
    """Records with what else their user says and what else people say about their item, of very much some.

    With a `scale` of ages, what users say counts less the longer ago it is; with `past`, what they say later does not.
    """
    own = learn.record_explanations
    user, item = (learn.record_user, learn.user_explanations), (learn.record_item, learn.item_explanations)
    recency = None
    if scale and learn.time is not None and learn.user_times is not None:
        recency = Recency(mention_starts(learn.user_explanations), learn.user_times, learn.time, scale, past)
    return RecordsInMemory(own, (Side(*user, own), Side(*item, own)), SAID, recency)


def item_records(learn: Triplets) -> RecordsInMemory:
    """Records with the user's items (what the user says was tried and did not help), of very many some."""
    alone = np.arange(learn.records + 1, dtype=np.int64)
    item = CSR(alone, learn.record_item, np.ones(learn.records, np.int32))
    return RecordsInMemory(
        item, (Side(learn.record_user, learn.user_items, item), Side.none(learn.records)), ITEMS_SEEN
    )


def mention_starts(relation: CSR) -> NDArray[np.int64]:
    """Where the mentions that each entry counts begin in a list of all of them, and the end."""
    return np.concatenate([[0], np.cumsum(relation.counts, dtype=np.int64)])


def recent_counts(catalog: Catalog, users: Numbers, times: NDArray[np.integer], scale: float) -> CSR:
    """A row for each of some users at a time: what the user says, less of it the longer ago it is."""
    assert catalog.user_times is not None
    relation, moments = catalog.user_explanations, np.ascontiguousarray(times, np.int64)
    recency = Recency(mention_starts(relation), catalog.user_times, moments, scale)
    nobody = Side.none(len(users))
    sides = (Side(np.ascontiguousarray(users, np.int32), relation, nobody.own), nobody)
    numbers, counts, places = side_lists(np.arange(len(users)), sides, False, ALL, recency)
    return CSR(places[::2].copy(), numbers, counts)  # type: ignore[arg-type]


def usual_gap(learn: Triplets) -> float:
    """The median time between two records of a user that are next to each other and not of the same time; 0: none."""
    assert learn.time is not None
    order = np.lexsort((learn.time, learn.record_user))
    order = order[learn.time[order] != UNKNOWN]
    user, time = learn.record_user[order], learn.time[order].astype(np.float64)
    gaps = np.diff(time)[(user[1:] == user[:-1]) & (time[1:] > time[:-1])]
    return float(np.median(gaps)) if len(gaps) else 0.0


def comes_last(check: Triplets, learn: Triplets) -> bool:
    """Whether records come after the records of their users in `learn`, nearly all of them that have a time."""
    if check.time is None or learn.time is None:
        return False
    last, known = np.full(len(learn.users), np.iinfo(np.int64).min), check.time != UNKNOWN
    np.maximum.at(last, learn.record_user, learn.time)
    after = check.time[known] >= last[check.record_user[known]]
    return bool(len(after)) and float(after.mean()) >= LAST


def word_rows(texts: pl.Series, least: int = 2) -> EntryWords | None:
    """The words of every text that stand in at least `least` of them; None where there are none."""
    tokens = [sorted(set(re.findall(r"\w+", text.lower()))) for text in texts]
    seen = Counter(word for each in tokens for word in each)
    numbers = {word: number for number, word in enumerate(sorted(word for word in seen if seen[word] >= least))}
    if not numbers:
        return None
    known = [[numbers[word] for word in each if word in numbers] for each in tokens]
    rows = np.repeat(np.arange(len(known)), [len(each) for each in known])
    columns = np.array([word for each in known for word in each], np.int64)
    return EntryWords(CSR.from_pairs(rows, columns, len(known), len(numbers)), len(numbers))
