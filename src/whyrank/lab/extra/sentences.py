"""Explanations as EXTRA makes them of reviews: sentences that come back nearly word for word.

A sentence ends at . , : ? ! or a new line, has two words or more, none in the first person, a noun and an adjective.
Two are nearly equal if the Jaccard index of their word pairs is at least 0.9. EXTRA finds such pairs by hashing; here
all are found: similar sets share one of their rarest word pairs.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import NamedTuple

import polars as pl

from whyrank.data.problems import OnError, Problems
from whyrank.data.ratings import Range, checked_range, warn_outside
from whyrank.data.triplets import Triplets
from whyrank.errors import DataError, ParameterError
from whyrank.mining.clean import clean_texts
from whyrank.mining.parse import TAGS, load
from whyrank.mining.pool import unique_triplets
from whyrank.mining.reviews import Reading, Sources, read_reviews

PIECE = r"(?:\d(?:[.,:?!]\d)+|[^.,:?!\n])+"  # 3.5 and 7:30 stay whole
WORD = r"&|[\p{L}\p{N}%$]+(?:['&.,:][\p{L}\p{N}%$]+)*"
ENDS = r"^[^\p{L}\p{N}%$&]+|[^\p{L}\p{N}%$&]+$"
FIRST_PERSON = r"(?:^| )(?:i|me|my|mine|myself|we|us|our|ours|ourselves)(?: |'|$)"
KEPT = ("rating", "time", "sentence", "source")
ROUNDING = 1e-9  # a share that is 0.9 on paper must not fall below it


class ExtraFound(NamedTuple):
    """What was found in reviews, and how many sentences went where."""

    triplets: Triplets
    reviews: int
    sentences: int  # with two words or more
    personal: int  # of these, in the first person
    wordings: int  # different sets of word pairs among the others


def find_extra(
    sources: Sources,
    *,
    min_count: int = 5,
    similarity: float = 0.9,
    columns: Mapping[str, str] | None = None,
    on_error: OnError = "raise",
    rating_range: Range | None = None,
    trim: bool = False,
) -> ExtraFound:
    """Make triplets of reviews by EXTRA's rules.

    Args:
        sources: One or several files or tables of reviews, as for `whyrank.mine`.
        min_count: In how many records (pairs of user and item) an explanation must stand.
        similarity: From which Jaccard index on sentences are one explanation.
        columns: Which of the source's fields is which of ours.
        on_error: "skip" leaves out broken rows.
        rating_range: The lowest and the highest rating; others are unknown.
        trim: Whether to remove blanks around ids.

    Returns:
        The triplets with texts and sentences, and counts of sentences.

    Raises:
        DataError: The reviews cannot be read, or no sentence comes back often enough.

    Examples:
        >>> said = ["Great location!", "great location", "The room was tiny.", "A great location, we thought"]
        >>> reviews = pl.DataFrame({"user": list("abcd"), "item": list("xyxy"), "text": said})
        >>> find_extra(reviews, min_count=2).triplets.texts.to_list()
        ['Great location']
    """
    if min_count < 1 or not 0 < similarity <= 1:
        raise ParameterError("min_count is at least 1, similarity above 0 and at most 1")
    reading = Reading(Problems(on_error), checked_range(rating_range), trim=trim)
    reviews = pl.concat(read_reviews(sources, columns, reading))
    pieces = cut(reviews)
    personal = pieces["normalized"].str.contains(FIRST_PERSON)
    mentions = pieces.filter(~personal).unique(("review", "normalized"), keep="first", maintain_order=True)
    mentions, sets = with_wordings(mentions)
    wordings = mentions.group_by("wording").agg(
        count=pl.struct("user", "item").n_unique(),
        text=pl.col("sentence").mode().min(),
        normalized=pl.col("normalized").min(),
    )
    pairs = near_pairs(sets, similarity)
    near = pl.concat([pairs["left"], pairs["right"]]).unique().implode()
    usable = wordings.filter((pl.col("count") >= min_count) | pl.col("wording").is_in(near)).filter(
        pl.col("normalized").map_batches(have_noun_and_adjective, return_dtype=pl.Boolean)
    )
    groups = grouped(usable.sort("count", "normalized", descending=[True, False]), pairs)
    table = unique_triplets(mentions.join(groups, on="wording").select("user", "item", "explanation", *KEPT))
    table = table.filter(pl.len().over("explanation") >= min_count)
    if not table.height:
        raise DataError("no sentence comes back often enough", expected=f"more reviews, or min_count below {min_count}")
    texts = groups.group_by("explanation").agg(pl.first("text"))
    table = table.join(texts, on="explanation", how="left", maintain_order="left")
    known = table.drop([name for name in ("rating", "time") if table[name].null_count() == table.height])
    warn_outside(reading.odd_ratings, reading.rating_range, reading.rating_range)
    triplets = Triplets.from_frame(known, rating_range=reading.rating_range)
    return ExtraFound(triplets, reading.reviews, pieces.height, int(personal.sum()), wordings.height)


def cut(reviews: pl.DataFrame) -> pl.DataFrame:
    """Cut reviews and their titles into sentences, each with its words in lower case."""
    texts = clean_texts(reviews["title"] + "\n" + reviews["text"])
    table = reviews.select("user", "item", "rating", "time", "source").with_row_index("review")
    table = table.with_columns(sentence=texts.str.extract_all(PIECE)).explode("sentence").drop_nulls("sentence")
    words = pl.col("sentence").str.to_lowercase().str.extract_all(WORD)
    table = table.with_columns(pl.col("sentence").str.replace_all(ENDS, ""), normalized=words.list.join(" "))
    table = table.with_columns(pl.col("normalized").str.replace_all(r"(^| )&( |$)", "${1}and${2}"))
    return table.filter(pl.col("normalized").str.contains(" ") & ~pl.col("sentence").str.contains("\ufffd"))


def with_wordings(mentions: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Number the different sets of word pairs: mentions with `wording`, and rows of wording and pair."""
    texts = mentions.select("normalized").unique(maintain_order=True)
    words = texts.with_columns(word=pl.col("normalized").str.split(" ")).explode("word")
    second = pl.col("word").shift(-1).over("normalized")
    pairs = words.select("normalized", pair=pl.col("word") + " " + second).drop_nulls("pair").unique()
    keys = pairs.group_by("normalized").agg(key=pl.col("pair").sort().str.join("|"))
    keys = keys.with_columns(wording=pl.col("key").rank("dense")).drop("key")
    sets = pairs.join(keys, on="normalized").select("wording", "pair").unique()
    return mentions.join(keys, on="normalized", maintain_order="left"), sets


def near_pairs(sets: pl.DataFrame, similarity: float) -> pl.DataFrame:
    """Find all pairs of wordings (`left` < `right`) whose sets have at least this Jaccard index.

    Different sets of at most n pairs have an index of at most n / (n + 1), so that short ones are never near. Two sets
    that are near share one of the first few pairs of each, from rare to frequent (a prefix filter).
    """
    shortest = math.ceil(similarity / (1 - similarity) - ROUNDING) if similarity < 1 else math.inf
    size, often = pl.len().over("wording"), pl.len().over("pair")
    sets = sets.with_columns(size=size, often=often).filter(pl.col("size") >= shortest).sort("often", "pair")
    prefix = pl.col("size") - (similarity * pl.col("size") - ROUNDING).ceil() + 1
    first = sets.filter(pl.int_range(pl.len()).over("wording") < prefix)
    both = first.select("pair", left="wording").join(first.select("pair", right="wording"), on="pair")
    candidates = both.filter(pl.col("left") < pl.col("right")).select("left", "right").unique()
    shared = (
        candidates.join(sets.select("pair", left="wording", left_size="size"), on="left")
        .join(sets.select("pair", right="wording", right_size="size"), on=["right", "pair"])
        .group_by("left", "right", "left_size", "right_size")
        .agg(common=pl.len())
    )
    union = pl.col("left_size") + pl.col("right_size") - pl.col("common")
    return shared.filter(pl.col("common") >= similarity * union - ROUNDING).select("left", "right")


def grouped(wordings: pl.DataFrame, pairs: pl.DataFrame) -> pl.DataFrame:
    """Give each wording the explanation of its group, with its text; wordings come from the most frequent on.

    The most frequent one takes all that are near it, then the most frequent of the rest, so that there are no chains.
    """
    near: dict[int, list[int]] = {}
    for left, right in pairs.iter_rows():
        near.setdefault(left, []).append(right)
        near.setdefault(right, []).append(left)
    known = set(wordings["wording"].to_list())
    center: dict[int, tuple[str, str]] = {}
    for wording, text, normalized in wordings.select("wording", "text", "normalized").iter_rows():
        if wording in center:
            continue
        named = explanation_id(normalized), text
        center[wording] = named
        for other in near.get(wording, ()):
            if other in known:
                center.setdefault(other, named)
    ids, texts = zip(*center.values(), strict=True) if center else ((), ())
    columns = {"wording": list(center), "explanation": ids, "text": texts}
    return pl.DataFrame(columns, {"wording": wordings.schema["wording"], "explanation": pl.String, "text": pl.String})


def explanation_id(normalized: str) -> str:
    """Return 16 hexadecimal digits that depend on the words alone, so that the same sentence has one id in all data."""
    return hashlib.blake2b(normalized.encode(), digest_size=8).hexdigest()


def have_noun_and_adjective(texts: pl.Series) -> pl.Series:
    """Tell which texts have both, by the parser's tags."""
    parsed = load().parse_texts(texts.to_list())
    kinds = [{TAGS[tag][:2] for tag in parse.tags} for _, parse in parsed]
    return pl.Series([{"NN", "JJ"} <= each for each in kinds], dtype=pl.Boolean)
