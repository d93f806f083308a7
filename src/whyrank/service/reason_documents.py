"""Reasons as JSON: what depends on the facts of a reason alone is written once, and joined with its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise, repeat

import msgspec
import numpy as np
from numpy.typing import NDArray

from whyrank.data.catalog import Catalog
from whyrank.explain.facts import Facts, Shown
from whyrank.explain.result import Explained, quotes_of
from whyrank.service.problems import json_of

Pieces = tuple[bytes, bytes, bytes]  # of `schemas.ReasonOut`: up to the score, from the evidence on, and the sentiment
MOST = 64 << 20  # bytes of pieces in memory
ENTRY = 400  # bytes that they take beside their texts
OF_SENTENCE = 4 * len(Facts._fields)  # bytes of a row of facts


class ReasonDocuments:
    """The reasons of one model; `sentiments` by explanation number, None where there are none."""

    def __init__(self, catalog: Catalog, sentiments: NDArray[np.float64] | None) -> None:
        self._catalog, self._sentiments = catalog, sentiments
        self._known: dict[bytes, Pieces] = {}
        self._size = 0

    def lists(self, found: Explained, others: Sequence[int | None] | None = None) -> list[msgspec.Raw]:
        """The reasons of each pair; `others` are the ranks of reasons in another list."""
        made = self.each(found, others=others)
        if len(found.users) == 1:
            return [_array(made)]
        starts = found.starts.tolist()
        return [_array(made[start:stop]) for start, stop in pairwise(starts)]

    def each(
        self, found: Explained, ranks: Sequence[int] | None = None, others: Sequence[int | None] | None = None
    ) -> list[bytes]:
        """Reason by reason, with their own ranks unless others are given."""
        facts, known = found.facts, self._known
        width, buffer = facts.shape[1] * facts.itemsize, facts.tobytes()
        keys = [buffer[at : at + width] for at in range(0, len(buffer), width)]
        if not keys:
            return []
        pieces = [known.get(key) or self._made(found, key) for key in keys]
        heads, tails, ends = zip(*pieces, strict=True)
        numbers = [found.score.tolist(), *(part.tolist() for part in found.parts.values())]
        texts = [column.split(b",") for column in json_of(numbers)[2:-2].split(b"],[")]
        fallbacks = [json_of(each) for each in found.fallbacks()]
        rows = zip(
            found.rank.tolist() if ranks is None else ranks,
            heads,
            *texts,
            tails,
            [fallbacks[row] for row in found.row.tolist()],
            *(() if found.chances is None else ([json_of(each) for each in found.propensity.tolist()],)),
            ends,
            repeat(b"null") if others is None else [json_of(each) for each in others],
            strict=False,
        )
        form = _form(tuple(found.parts), found.chances is not None)
        return [form % row for row in rows]

    def _made(self, found: Explained, key: bytes) -> Pieces:
        """What the facts of a reason say."""
        row = np.frombuffer(key, np.int32).tolist()
        facts, shown = Facts(*row[: len(Facts._fields)]), Shown(*row[len(Facts._fields) :])
        id_, text, aspect, polarity = self._catalog.shown[facts.explanation]
        sentence = found.templates.cached_sentence(self._catalog, key[:OF_SENTENCE])
        entry, asker = np.array([shown.entry], np.int64), np.array([shown.asker], np.int32)
        counts = {
            "item": shown.item,
            "similar_items": None if shown.similar < 0 else shown.similar,
            "user": shown.user,
            "supporting": facts.supporting,
            "opposing": facts.opposing,
            "agreeing": facts.agreeing,
            "mentions": facts.mentions,
            "user_aspect": facts.user_aspect,
            "latest": shown.latest or None,
        }
        (quotes,) = quotes_of(self._catalog.people, entry, asker)
        about = {"evidence": counts, "aspect": aspect, "polarity": polarity, "quotes": quotes}
        sentiment = None if self._sentiments is None else float(self._sentiments[facts.explanation])
        told = ({"explanation": id_, "text": text, "sentence": sentence}, about, {"sentiment": sentiment})
        head, tail, end = (json_of(each)[1:-1] for each in told)
        self._size += len(key) + len(head) + len(tail) + len(end) + ENTRY
        if self._size > MOST:
            self._known.clear()
            self._size = 0
        pieces = self._known[key] = head, tail, end
        return pieces


@cache
def _form(names: tuple[str, ...], drawn: bool) -> bytes:
    """A reason with places for what differs."""
    parts = b",".join(json_of(name).replace(b"%", b"%%") + b":%b" for name in names)
    chance = b',"propensity":%b' if drawn else b""
    return b'{"rank":%d,%b,"score":%b,"parts":{' + parts + b'},%b,"fallback":%b' + chance + b',%b,"other_rank":%b}'


def _array(made: Sequence[bytes]) -> msgspec.Raw:
    return msgspec.Raw(b"[" + b",".join(made) + b"]")
