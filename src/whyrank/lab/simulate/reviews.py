"""Simulated reviews: the explanations of simulated records in varied wording, amid other sentences."""

from __future__ import annotations

import re

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.data.triplets import Triplets
from whyrank.lab.simulate.phrases import Phrasebook, expand, phrases
from whyrank.lab.simulate.triplets import PRESETS, simulate, stage

VERB = re.compile(r"\b(was|were|is|are) ")
MODIFIED = re.compile(r"\b(very|really|extremely|quite|so|a bit|rather|absolutely|truly|simply|just|not)\b")
# The shapes of a sentence and how often each is used; the canonical wording comes first and most often.
SHAPES = ("{}.", "{}!", "{}!!", "{}...", "{} :)", "lower", "dropped", "reworded", "led")
SHAPE_SHARES = (0.56, 0.10, 0.04, 0.03, 0.02, 0.10, 0.05, 0.05, 0.05)
LEADS = ("Also, ", "But ", "And ", "Overall, ")
EXPLANATION_TITLE = 0.75


def simulate_reviews(
    preset: str = "small",
    *,
    users: int | None = None,
    items: int | None = None,
    explanations: int | None = None,
    records: int | None = None,
    triplets: int | None = None,
    seed: int = 0,
) -> pl.DataFrame:
    """Simulate the reviews behind `simulate` with the same arguments: user, item, rating, time, title, text.

    Each review holds the explanations of its record, mostly word for word, and others that explain nothing.

    >>> simulate_reviews("small", users=10, items=5, explanations=20, records=30).columns
    ['user', 'item', 'rating', 'time', 'title', 'text']
    """
    data = simulate(
        preset,
        users=users,
        items=items,
        explanations=explanations,
        records=records,
        triplets=triplets,
        seed=seed,
    )
    rng = stage(seed, 8)
    domain = PRESETS[preset].domain
    assert data.rating is not None
    assert data.time is not None
    return pl.DataFrame(
        {
            "user": data.users.terms(data.record_user),
            "item": data.items.terms(data.record_item),
            "rating": data.rating.astype(np.int8),
            "time": pl.from_epoch(pl.Series(data.time), time_unit="s").dt.to_string("%Y-%m-%d"),
            "title": _titles(data, domain, rng),
            "text": _bodies(data, domain, rng),
        }
    )


def _titles(data: Triplets, domain: str, rng: np.random.Generator) -> pl.Series:
    """Draw one of the record's explanations, or a title that explains nothing."""
    assert data.texts is not None
    others = expand(phrases()[domain]["titles"])
    csr = data.record_explanations
    chosen = csr.indices[csr.indptr[:-1] + rng.integers(csr.sizes())].astype(np.int64)
    other = np.flatnonzero(rng.random(data.records) >= EXPLANATION_TITLE)
    chosen[other] = len(data.texts) + _draw(others, len(other), rng)
    return pl.concat([data.texts, pl.Series(others.texts)]).gather(chosen)


def _bodies(data: Triplets, domain: str, rng: np.random.Generator) -> pl.Series:
    """Join an opener, the explanations among other sentences, and a closer: one gather, then one join a review."""
    assert data.texts is not None
    pool = [shaped for text in data.texts.to_list() for shaped in shapes(text)]
    edges = np.cumsum(SHAPE_SHARES)[:-1]
    line = [data.explanation.astype(np.int64) * len(SHAPES) + np.searchsorted(edges, rng.random(len(data)))]
    record = [data.record_explanations.rows_of_entries().astype(np.int64)]
    place = [rng.random(len(data))]
    about = phrases()[domain]
    others = (
        (about["openers"], 0.7, 0),
        (about["middles"], 0.5, 0),
        (about["middles"], 0.3, 0),
        (phrases()["closers"], 0.4, 1),
    )
    for turn, (templates, share, after) in enumerate(others):
        book = expand(templates)
        where = np.flatnonzero(rng.random(data.records) < share)
        record.append(where)
        line.append(len(pool) + _draw(book, len(where), rng))
        place.append(np.zeros(len(where)) if turn == 0 else after + rng.random(len(where)))
        pool += [f"{text}." for text in book.texts]
    order = np.argsort(np.concatenate(record) + np.concatenate(place) / 2, kind="stable")
    lines = pl.Series(pool).gather(np.concatenate(line)[order])
    table = pl.DataFrame({"record": np.concatenate(record)[order], "text": lines})
    return table.group_by("record", maintain_order=True).agg(pl.col("text").str.join(" "))["text"]


def _draw(book: Phrasebook, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    return rng.choice(len(book.texts), size=size, p=book.weights / book.weights.sum())


def shapes(text: str) -> list[str]:
    """Write a sentence in each of the SHAPES; where one does not apply, the canonical one stands in."""
    lowered = text[0].lower() + text[1:]
    bare = text.removeprefix("The ")
    special = {
        "lower": f"{lowered}.",
        "dropped": f"{bare[0].upper()}{bare[1:]}.",
        "reworded": f"{_reworded(text)}.",
        "led": f"{LEADS[len(text) % len(LEADS)]}{lowered}.",
    }
    return [special.get(shape) or shape.format(text) for shape in SHAPES]


def _reworded(text: str) -> str:
    """Contract a negation, or else add one more "very" or "really" where it fits."""
    if " not " in text:
        return re.sub(r" (was|were|is|are) not ", r" \1n't ", text)
    if MODIFIED.search(text):
        return MODIFIED.sub("really" if "very" in text.lower() else "very", text, count=1)
    return VERB.sub(r"\1 very ", text, count=1)
