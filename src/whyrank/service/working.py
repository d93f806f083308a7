"""What the log calls by ids, with the texts and aspects of the models in service."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from whyrank.online.working import ShownReasons, ordered, working
from whyrank.service.registry import ServedModel

NAMES = {"served": pl.String, "explanation": pl.String, "text": pl.String, "aspect": pl.String, "model": pl.String}


def described(
    shown: ShownReasons,
    models: Mapping[str, ServedModel],
    by: str,
    order: str,
    minimum: int,
    limit: int,
    arms: Sequence[str] = (),
) -> dict[str, Any]:
    """Which explanations or aspects work, as the answer of the route; with `arms`, each of them in every arm, too."""
    pairs = shown.rows.select("served", "explanation").unique()
    rows = shown.rows.join(names(pairs.iter_rows(), models), on=["served", "explanation"], how="left")
    table = ordered(working(rows, by, minimum=minimum), order)
    known = rows.select("explanation", "text", "aspect", "model").unique()
    firsts = known.sort(pl.all(), nulls_last=True).unique("explanation", keep="first")  # where models share an id
    if by == "aspect":
        firsts = rows.select(pl.col("aspect"), text="aspect", model=pl.lit(None, pl.String)).unique()
    cut = table.head(limit).join(firsts, on=by, how="left", maintain_order="left")
    if by == "explanation":
        cut = cut.with_columns(pl.col("text").fill_null(pl.col("explanation")))
    cut = cut.with_columns(pl.col(by).alias("key"))
    columns = ("key", "text", "aspect", "model", *table.columns[1:])
    told = cut.select(*columns).to_dicts()
    for each in told:
        each["arms"] = []
    for arm in arms:
        inside = working(rows.filter(pl.col("arm") == arm), by, minimum=1)
        figures = {row.pop(by): row for row in inside.to_dicts()}
        for each in told:
            if each["key"] in figures:
                each["arms"].append({"arm": arm, **figures[each["key"]]})
    return {
        "lists": shown.lists,
        "more": shown.more,
        "shown": len(rows),
        "events": int(rows["hit"].sum()),
        "total": len(table),
        "rows": told,
    }


def names(pairs: Iterable[tuple[str, str]], models: Mapping[str, ServedModel]) -> pl.DataFrame:
    """Text, aspect and model of explanations, by the model that showed them; nothing of what is not in service now."""
    asked: dict[str, list[str]] = {}
    for served, explanation in pairs:
        if served in models:
            asked.setdefault(served, []).append(explanation)
    rows = []
    for served, ids in sorted(asked.items()):
        found, catalog = models[served], models[served].model.catalog_
        for id_, number in zip(ids, catalog.explanations.numbers(ids, missing="negative").tolist(), strict=True):
            if number >= 0:
                aspect = None if found.aspects is None else found.aspects[number]
                rows.append((served, id_, catalog.texts_listed[number], aspect, served))
    return pl.DataFrame(rows, NAMES, orient="row")


def with_texts(lists: list[dict[str, Any]], models: Mapping[str, ServedModel]) -> list[dict[str, Any]]:
    """Logged lists with the texts of their reasons and the titles of their items."""
    pairs = {(each["served"], one["explanation"]) for each in lists for one in each["slate"] if one["explanation"]}
    texts = {(served, id_): text for served, id_, text, *_ in names(sorted(pairs), models).iter_rows()}
    for each in lists:
        found = models.get(each["served"])
        for one in each["slate"]:
            one["text"] = texts.get((each["served"], one["explanation"]))
            one["title"] = None if found is None else found.title(one["item"])
    return lists
