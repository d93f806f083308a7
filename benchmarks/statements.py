"""What mining finds in reviews and what is shown of it: coverage, time, duplicates, and whether others say it again.

    python benchmarks/statements.py reviews.jsonl.gz more.jsonl.gz

Held-out agreement: a third of each item's reviewers is hidden; Profile learns from the others and gives up to three
reasons for the item to somebody unknown, with default options. How many of the hidden reviewers say a reason again,
against as many statements drawn from the pool by popularity (the mean of 20 draws). Items need six reviewers with a
statement.
"""

from __future__ import annotations

import argparse
import resource
import time
from pathlib import Path

import numpy as np
import polars as pl

from whyrank import Profile
from whyrank.data import Triplets
from whyrank.mining import Mined, mine

SHOWN, LEAST, DRAWS = 3, 6, 20


def hidden_records(triplets: Triplets, seed: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """A third of each item's records, at random; none of items with too few."""
    rng = np.random.default_rng(seed)
    table = pl.DataFrame({"item": triplets.record_item, "draw": rng.random(triplets.records)})
    place, size = pl.col("draw").rank("ordinal").over("item"), pl.len().over("item")
    return table.select((place <= size // 3) & (size >= LEAST)).to_series().to_numpy()


def agreement(mined: Mined, seed: int) -> dict[str, float]:
    """How often hidden reviewers say again what is shown, and what is drawn by popularity."""
    triplets = mined.triplets
    hidden = hidden_records(triplets, seed)
    model = Profile(seed=seed).fit(triplets.take(np.flatnonzero(~hidden)))
    rest = triplets.take(np.flatnonzero(hidden)).frame().select("user", "item", "explanation")
    readers = rest.group_by("item").agg(readers=pl.col("user").n_unique())
    said = rest.group_by("item", "explanation").agg(again=pl.col("user").n_unique())
    items = readers["item"].sort().to_list()
    shown = model.explain_many([("", item) for item in items], SHOWN).drop_nulls("explanation")
    shown = shown.select("item", "explanation")
    rng = np.random.default_rng(seed)
    pool = mined.explanations.filter(pl.col("polarity") > 0)
    weights = pool["count"].to_numpy() / pool["count"].sum()
    draws = [pool["id"].gather(rng.choice(len(weights), shown.height, p=weights)) for _ in range(DRAWS)]
    drawn = pl.concat(shown.with_columns(explanation=each) for each in draws)

    def rate(table: pl.DataFrame) -> float:
        joined = table.join(said, on=["item", "explanation"], how="left").join(readers, on="item")
        return float(joined.select((pl.col("again").fill_null(0) / pl.col("readers")).mean()).item())

    most = shown.group_by("explanation").len()["len"].max()
    return {
        "items": len(items),
        "reasons an item": shown.height / max(len(items), 1),
        "said again, %": 100 * rate(shown),
        "drawn by popularity, %": 100 * rate(drawn),
        "ratio": rate(shown) / rate(drawn),
        "largest share of items, %": 100 * float(most or 0) / max(len(items), 1),  # type: ignore[arg-type]
    }


def duplicates(mined: Mined) -> int:
    """Statements that have the words and the polarity of another one."""
    table = mined.explanations
    words = table["text"].str.to_lowercase().str.split(" ").list.sort().list.join(" ")
    return table.height - pl.DataFrame({"words": words, "polarity": table["polarity"]}).unique().height


def measure(file: Path, seed: int) -> dict[str, object]:
    started = time.perf_counter()
    mined = mine(file)
    seconds = time.perf_counter() - started
    covered = mined.coverage
    return {
        "reviews": file.name.split(".")[0],
        "read": mined.reviews,
        "statements": mined.explanations.height,
        "triplets": mined.frame().height,
        "seconds": seconds,
        "covered, %": 100 * covered["reviews"],
        "of 15 words, %": 100 * covered["reviews_of_15_words"],
        "items of 5 reviews with 3, %": 100 * covered["items_of_5_reviews_with_3"],
        "judgements, %": 100 * covered["judgements"],
        "duplicates": duplicates(mined),
        **agreement(mined, seed),
        "memory, MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rows = [measure(file, arguments.seed) for file in arguments.files]
    for name in rows[0]:
        cells = (f"{row[name]:,.1f}" if isinstance(row[name], float) else str(row[name]) for row in rows)
        print(f"| {name} | {' | '.join(cells)} |")
        if name == "reviews":
            print("|---|" + "--:|" * len(rows))


if __name__ == "__main__":
    main()
