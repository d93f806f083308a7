"""Learn the matcher and the choice of reasons from key points that were annotated review by review.

    python -m whyrank.lab.points.learn REVIEWS.jsonl.gz:FOLDER ... -o matcher.json [--leave NAME]

A folder holds K.json (an item and its reviews, numbered) and K.points.json (its key points: `point`, `aspect`,
`polarity`, the numbers of all `reviews` that say it, and in `card` the three that an editor would show). Of an
annotated item only the annotated reviews are read, beside reviews of other items, whose words are learned. `--leave`
leaves sets out, so that what is measured on them is not learned from them.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.optimize import minimize

from whyrank.data.problems import Problems
from whyrank.data.statements import ITSELF
from whyrank.mining import statements as st
from whyrank.mining.cards import CountedStatement, seen, showable
from whyrank.mining.corpus import Corpus
from whyrank.mining.counting import SMALL, Asked, Parsed, ask
from whyrank.mining.language import Language
from whyrank.mining.matcher import FEATURES, SEEN, features, gated
from whyrank.mining.mine import fill
from whyrank.mining.records import read_records
from whyrank.mining.report import MiningReport
from whyrank.mining.reviews import Reading
from whyrank.mining.rules import MiningRules
from whyrank.mining.said import Reader

Floats = NDArray[np.float64]
ROUNDS = 3  # of choosing the best clause of a review anew
SAID = 0.4  # chance from which a review counts
AGREES = 0.5  # F1 of the people of a statement and of a point from which they are the same
RIGHT = 0.2  # share of the people, or one, by which a number may be wrong


class Point(NamedTuple):
    """A key point of an item, and what its clauses look like beside it."""

    features: NDArray[np.float32]  # clauses x features
    review: NDArray[np.int64]  # of every clause: the number of its review
    says: frozenset[int]  # reviews that say it


class Item(NamedTuple):
    """An annotated item."""

    points: list[Point]
    told: list[dict[str, Any]]
    card: frozenset[int]
    proposals: list[st.Proposal]
    features: NDArray[np.float32]  # proposals x clauses x features
    review: NDArray[np.int64]
    by_rule: list[frozenset[int]]
    statements: list[int]
    aspects: list[float]
    reviews: int


def read_items(reviews: Path, folder: Path, others: int) -> tuple[list[Item], Reader]:
    """Return the annotated items of a folder, parsed among other reviews."""
    annotated = [
        (json.loads(file.with_name(file.name.replace(".points", "")).read_text()), json.loads(file.read_text()))
        for file in sorted(folder.glob("*.points.json"))
    ]
    known = {str(item["item"]): {(str(r["user"]), r["text"]): r["n"] for r in item["reviews"]} for item, _ in annotated}
    own = pl.DataFrame(
        [
            {
                "user": str(r["user"]),
                "item": str(item["item"]),
                "text": r["text"],
                "title": r.get("title"),
                "rating": _text(r.get("rating")),
                "review_id": str(r["n"]),
            }
            for item, _ in annotated
            for r in item["reviews"]
        ],
        schema=dict.fromkeys(("user", "item", "text", "title", "rating", "review_id"), pl.String),
    )
    rest = pl.read_ndjson(reviews, infer_schema_length=None)
    if "language" in rest.columns:
        rest = rest.filter(pl.col("language") == "english")
    rest = rest.filter(~pl.col("item").cast(pl.String).is_in(list(known)))
    rest = rest.sample(min(others, rest.height), seed=5)
    missing = [pl.lit(None, pl.String).alias(name) for name in ("title", "rating") if name not in rest.columns]
    rest = rest.with_columns(*missing, review_id=pl.lit("")).select(pl.col(own.columns).cast(pl.String))
    corpus, reading = Corpus(), Reading(Problems("skip"))
    fill(corpus, [own, rest], None, MiningRules(), reading, None, lambda *_: None)
    records = read_records(corpus, reading, None)
    reader = Reader(corpus, records.table, MiningRules(), {}, None, MiningReport(), lambda *_: None)
    parsed = reader.parsed()
    reader.choose(parsed)
    return [_item(reader, parsed, item, told) for item, told in annotated], reader


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _item(reader: Reader, parsed: Parsed, item: dict[str, Any], told: dict[str, Any]) -> Item:
    """Return an annotated item with the features of its points and of what mining proposes."""
    name = str(item["item"])
    records = reader.records.filter((pl.col("item") == name) & (pl.col("source") != ""))
    number = dict(records.select("review", pl.col("source").cast(pl.Int64)).iter_rows())
    picked = np.flatnonzero(np.isin(parsed.cut.review, list(number))).astype(np.int32)
    review = np.array([number[k] for k in parsed.cut.review[picked]])
    table = parsed.table.filter(pl.col("review").is_in(list(number)) & (pl.col("sign") != 0))

    def features_of(statements: Sequence[Asked]) -> NDArray[np.float32]:
        return features(*ask(statements, picked, parsed))

    asked = [_asked(point, reader) for point in told["points"]]
    points = [
        Point(each, review, frozenset(point["reviews"]))
        for each, point in zip(features_of(asked), told["points"], strict=True)
    ]
    proposals = reader.proposals(name, picked, parsed, [])
    found = table.join(reader.chosen.select("aspect", "sense", "sign", "id"), on=["aspect", "sense", "sign"])
    rules: dict[str, set[int]] = {}
    for key, row in found.select("id", "review").iter_rows():
        rules.setdefault(key, set()).add(number[row])
    people = dict(reader.chosen.select("id", "people").iter_rows())
    mentioned = dict(parsed.table.group_by("aspect").agg(n=pl.col("review").n_unique()).iter_rows())
    return Item(
        points,
        told["points"],
        frozenset(told["card"]),
        proposals,
        features_of([each.asked for each in proposals]),
        review,
        [frozenset(rules.get(each.id, set())) for each in proposals],
        [people.get(each.id, 0) for each in proposals],
        [mentioned.get(each.asked.aspect, 0) / max(reader.records.height, 1) for each in proposals],
        max(number.values()),
    )


def _asked(point: dict[str, Any], reader: Reader) -> Asked:
    """Return a key point as it is asked of clauses."""
    about = tuple(word for word in re.findall("[a-z'-]+", point["aspect"].lower()) if word not in SMALL)
    says = tuple(
        word for word in re.findall("[a-z'-]+", point["point"].lower()) if word not in SMALL and word not in about
    )
    one = reader.names.singular(about[-1]) if about else ITSELF
    aspect = reader.language.tables["aspects"].get(one, one)
    return Asked(aspect, "", 1 if point["polarity"] == "+" else -1, about, says)


def logistic(x: Floats, y: Floats, penalty: float, start: Floats | None = None) -> Floats:
    """Fit a logistic regression on standardized columns; return the columns' weights and the constant."""
    mean, spread = x.mean(axis=0), np.maximum(x.std(axis=0), 1e-6)
    z = (x - mean) / spread

    def loss(w: Floats) -> tuple[float, Floats]:
        odds = z @ w[:-1] + w[-1]
        p = 1 / (1 + np.exp(-odds))
        value = np.logaddexp(0, odds).sum() - y @ odds + penalty * w[:-1] @ w[:-1] / 2
        gradient = np.append(z.T @ (p - y) + penalty * w[:-1], (p - y).sum())
        return float(value), gradient

    first = np.zeros(x.shape[1] + 1)
    if start is not None:
        first = np.append(start[:-1] * spread, start[-1] + start[:-1] @ mean)
    w = minimize(loss, first, jac=True, method="L-BFGS-B", options={"maxiter": 100}).x
    weights = w[:-1] / spread
    return np.append(weights, w[-1] - weights @ mean)


def learn_matcher(points: Sequence[Point], start: Floats | None = None) -> Floats:
    """Learn which clauses say a point: of each review that says it its best clause, of the others all."""
    weights = np.zeros(len(FEATURES) + 1)
    for name, value in {"mean_telling": 1.0, "whole_rank": 0.1, "sign": 0.3, "mention_aspect": 0.3}.items():
        weights[FEATURES.index(name)] = value
    weights = weights if start is None else start
    for turn in range(ROUNDS + 1 if start is None else 1):
        rows, labels = [], []
        for point in points:
            odds = point.features @ weights[:-1]
            for review in np.unique(point.review):
                own = np.flatnonzero(point.review == review)
                if review in point.says:
                    own = own[[np.argmax(odds[own])]]
                rows.append(point.features[own])
                labels += [float(review in point.says)] * len(own)
        known = weights if turn or start is not None else None
        weights = logistic(np.concatenate(rows).astype(np.float64), np.array(labels), 1.0, known)
    return weights


def chances(of: NDArray[np.float32], review: NDArray[np.int64], weights: Floats, reviews: int) -> Floats:
    """Return the chance of each review that its best clause says a statement."""
    p = 1 / (1 + np.exp(-(of @ weights[:-1] + weights[-1])))
    p[np.array([gated(row) for row in of], np.bool_)] = 0.0
    found = np.zeros(reviews + 1)
    np.maximum.at(found, review, p)
    return found[1:]


class Judged(NamedTuple):
    """The statements of an item that may be shown: what the choice sees, and whether an editor shows them rightly."""

    facts: NDArray[np.float32]
    shown: Floats
    right: Floats


def judged(item: Item, weights: Floats, general: frozenset[str], agree: Callable[..., float]) -> Judged:
    """Compare what mining counts with what was annotated."""
    facts, shown, right = [], [], []
    against: dict[tuple[str, int], set[int]] = {}
    counted = []
    for row, proposal in enumerate(item.proposals):
        p = chances(item.features[row], item.review, weights, item.reviews)
        people = frozenset((np.flatnonzero(p > SAID) + 1).tolist())
        counted.append((p, people))
        if proposal.asked.sense in st.VERDICTS:
            against.setdefault((proposal.asked.aspect, proposal.asked.sign), set()).update(people)
    for row, (proposal, (p, people)) in enumerate(zip(item.proposals, counted, strict=True)):
        opposite = against.get((proposal.asked.aspect, -proposal.asked.sign), set())
        each = CountedStatement(
            proposal.asked,
            proposal.kind,
            p.astype(np.float32),
            frozenset(map(str, people)),
            len(item.by_rule[row] & people),
            item.statements[row],
            item.aspects[row],
            len(opposite - people),
        )
        if not showable(each, general):
            continue
        scores = [agree(people, proposal, point) if point["polarity"] == "+" else 0.0 for point in item.told]
        best = int(np.argmax(scores))
        same = scores[best] >= AGREES
        truth = len(item.told[best]["reviews"])
        facts.append(seen(each, item.reviews, SAID, general))
        shown.append(float(same and best in item.card))
        right.append(float(same and abs(len(people) - truth) <= max(1, RIGHT * truth)))
    return Judged(np.array(facts).reshape(-1, len(SEEN)), np.array(shown), np.array(right))


def agreement(language: Language) -> Callable[..., float]:
    """Return a function that tells how well the people of a statement are those of a point about the same thing."""
    small = SMALL | language.has("general")
    alike = language.tables["alike"]

    def words(text: str) -> set[str]:
        return {alike.get(word, word)[:5] for word in re.findall("[a-z]+", text.lower()) if word not in small}

    def agree(people: frozenset[int], proposal: st.Proposal, point: dict[str, Any]) -> float:
        says = frozenset(point["reviews"])
        score = 2 * len(people & says) / max(len(people) + len(says), 1)
        own = words(" ".join((*proposal.asked.about, *proposal.asked.says, proposal.asked.aspect)))
        shared = own & words(f"{point['point']} {point['aspect']} {point.get('quote') or ''}")
        return score if shared else 0.0

    return agree


def learn(sets: dict[str, list[Item]], readers: dict[str, Reader], leave: Sequence[str]) -> dict[str, Any]:
    """Learn from the sets that are not left out; the choice sees counts that each set was not learned for."""
    taken = {name: items for name, items in sets.items() if name not in leave}
    weights = learn_matcher([point for items in taken.values() for item in items for point in item.points])
    facts: list[Judged] = []
    for name, items in taken.items():
        others = [point for each, own in taken.items() if each != name for item in own for point in item.points]
        unseen = learn_matcher(others, weights) if len(taken) > 1 else weights
        reader = readers[name]
        facts += [judged(item, unseen, reader.general, agreement(reader.language)) for item in items]
    x = np.concatenate([each.facts for each in facts]).astype(np.float64)
    shown = logistic(x, np.concatenate([each.shown for each in facts]), 10.0)
    right = logistic(x, np.concatenate([each.right for each in facts]), 10.0)
    return {
        "learned_from": "key points of reviews: " + ", ".join(taken),
        "said": round(float(np.log(SAID / (1 - SAID))), 4),
        "matcher": _named(FEATURES, weights),
        "shown": _named(SEEN, shown),
        "right": _named(SEEN, right),
    }


def _named(names: Sequence[str], weights: Floats) -> dict[str, float]:
    return {name: round(float(w), 5) for name, w in zip((*names, "constant"), weights, strict=True)}


def main() -> None:
    """Read the sets, learn, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+", help="REVIEWS:FOLDER, named by the folder")
    parser.add_argument("-o", "--output", required=True, type=Path)
    parser.add_argument("--leave", action="append", default=[], help="a set that is left out")
    parser.add_argument("--each", action="store_true", help="also write a file without each set, named for it")
    parser.add_argument("--others", type=int, default=1500, help="reviews of other items that are read beside")
    options = parser.parse_args()
    sets, readers = {}, {}
    for each in options.sets:
        reviews, _, folder = each.partition(":")
        name = Path(folder).name
        sets[name], readers[name] = read_items(Path(reviews), Path(folder), options.others)
        print(f"{name}: {len(sets[name])} items, {sum(len(item.points) for item in sets[name])} points", flush=True)
    wanted = [(options.output, options.leave)]
    if options.each:
        wanted += [(options.output.with_name(f"{options.output.stem}-{name}.json"), [name]) for name in sets]
    for file, leave in wanted:
        file.write_text(json.dumps(learn(sets, readers, leave), indent=1) + "\n", encoding="utf-8")
        print(f"wrote {file.name}", flush=True)


if __name__ == "__main__":
    main()
