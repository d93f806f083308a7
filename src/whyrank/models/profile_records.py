"""What Profile learns from and looks at: records with their two sides, what users say at a time, words."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from whyrank.data.csr import CSR
from whyrank.data.triplets import Triplets
from whyrank.explain.rank import rank_items
from whyrank.index.form import Numbers
from whyrank.training._metrics import hits
from whyrank.training._softmax import Side
from whyrank.training.records import SoftmaxRecords
from whyrank.training.vectors import EntryWords

if TYPE_CHECKING:
    from whyrank.models.base import Model

VALIDATION_USERS = 2000  # that decide of items
ITEMS_SEEN = 256  # of a user that stand for all in a step, so that an epoch's time grows with records only
SAID = 2048  # of what a user or an item has said, likewise


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
    gains = 1 / np.log2(np.arange(2, k + 2))
    return float((found @ gains[: ranked.shape[1]]).mean() / gains.sum()) if len(check.users) else 0.0


def reason_records(learn: Triplets) -> SoftmaxRecords:
    """SoftmaxRecords with what else their user says and what else people say about their item, of very much some."""
    own = learn.record_explanations
    user, item = (learn.record_user, learn.user_explanations), (learn.record_item, learn.item_explanations)
    return SoftmaxRecords(own, (Side(*user, own), Side(*item, own)), SAID)


def item_records(learn: Triplets) -> SoftmaxRecords:
    """SoftmaxRecords with the user's items (what the user says was tried and did not help), of very many some."""
    alone = np.arange(learn.records + 1, dtype=np.int64)
    item = CSR(alone, learn.record_item, np.ones(learn.records, np.int32))
    return SoftmaxRecords(item, (Side(learn.record_user, learn.user_items, item), Side.none(learn.records)), ITEMS_SEEN)


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
