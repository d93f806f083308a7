"""What a ranking weighs and why, in plain words, from the model itself."""

from __future__ import annotations

import html
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whyrank.errors import ParameterError
from whyrank.explain.options import Options
from whyrank.explain.result import explain
from whyrank.models import Model, parameters

SAMPLE = 200  # pairs that are ranked to see what decides
PARTS = {
    "user": "what the person said before about other items",
    "item": "what people say about the item",
    "popularity": "how often something is said at all",
    "bonus": "words that the person or the item's reviewers used themselves",
    "text": "how alike the wordings of reasons are",
    "pair": "how the person and the item fit together",
}


RULES = {  # what an option does unless a request says otherwise; options that are off are not mentioned
    "grounded": "Only what people have said about this item is shown.",
    "backing": "More than {:g} times as many people must say it as say the opposite.",
    "support": "At least {} people must say it; one is enough for items that few people talk about.",
    "distinctive": "A reason is shown only for the {:.0%} of items for which people give it most.",
    "polarity": "Reasons that speak for the item are shown ({}).",
    "per_aspect": "At most {} reason about the same aspect is shown in a list.",
    "consistent": "No reason contradicts another one in the same list.",
    "vague": "Praise and blame that do not say why are moved down (by {:g} points of score).",
}


@dataclass(frozen=True)
class About:
    """The main parameters of a ranking. `markdown` and `html` are pages for people."""

    title: str
    summary: str
    counts: dict[str, int]
    weights: dict[str, float]  # share of what makes one reason rank above another
    parameters: dict[str, object]
    options: list[tuple[str, object, str]]  # name, default, what it does

    def as_dict(self) -> dict[str, object]:
        rules = [{"name": name, "default": value, "help": text} for name, value, text in self.options]
        return vars(self) | {"options": rules}

    def lines(self) -> list[tuple[str, list[str]]]:
        """Sections with their sentences."""
        counts = self.counts
        weighs = [
            f"{PARTS.get(name, name)} ({name}): {share:.0%}"
            for name, share in sorted(self.weights.items(), key=lambda each: -each[1])
        ]
        return [
            (
                "What is ranked",
                [
                    f"For a person and an item, {counts['explanations']:,} reasons that people gave in reviews are "
                    "put in an order; the first few are shown.",
                    f"The order was learned from {counts['records']:,} reviews of {counts['items']:,} items by "
                    f"{counts['users']:,} people. Method: {self.summary}.",
                ],
            ),
            ("What decides the order, and how much", weighs or ["The order does not differ between people or items."]),
            (
                "Which reasons may be shown, unless a request asks for something else",
                [
                    *(RULES[name].format(value) for name, value, _ in self.options if name in RULES and value),
                    "No other rule applies unless it is asked for. A request can change these rules, leave reasons "
                    "out, or raise some of them.",
                ],
            ),
            ("Settings of the method", [f"`{name}`: {_in_words(value)}" for name, value in self.parameters.items()]),
            (
                "What you can change",
                [
                    "You can ask for reasons that use nothing about you (`personal: false`): they are ranked by the "
                    "item and by how often something is said.",
                    "You can ask for what is stored about you (`GET /v1/users/{id}/export`) and have it erased "
                    "(`DELETE /v1/users/{id}`).",
                ],
            ),
        ]

    def markdown(self) -> str:
        parts = [f"# {self.title}"]
        for heading, sentences in self.lines():
            parts.append(f"## {heading}\n\n" + "\n".join(f"- {each}" for each in sentences))
        return "\n\n".join(parts) + "\n"

    def html(self) -> str:
        """A page of its own, without scripts."""
        body = [f"<h1>{html.escape(self.title)}</h1>"]
        for heading, sentences in self.lines():
            listed = "".join(f"<li>{html.escape(each).replace('`', '')}</li>" for each in sentences)
            body.append(f"<h2>{html.escape(heading)}</h2>\n<ul>{listed}</ul>")
        head = f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>{html.escape(self.title)}</title>'
        return "\n".join([head, *body, "</html>"]) + "\n"


def _in_words(value: object) -> str:
    return {"None": "not set", "True": "yes", "False": "no"}.get(str(value), str(value))


def about(model: Model, *, seed: int = 0) -> About:
    """What a fitted model weighs.

    The weights are measured: pairs of the training data are ranked, and the share of a part is how much it spreads the
    scores of the reasons of a pair, relative to all parts.

    Args:
        model: a fitted model.
        seed: of the sample of pairs.

    Raises:
        ParameterError: the model has seen no pair.
    """
    catalog = model.catalog_
    known = catalog.user_items
    if not len(known.indices):
        raise ParameterError("the model knows no pair of a user and an item; fit it to data")
    drawn = np.random.default_rng(seed).permutation(len(known.indices))[:SAMPLE]
    users = catalog.users.terms(known.rows_of_entries()[drawn]).to_list()
    items = catalog.items.terms(known.indices[drawn]).to_list()
    pairs = list(zip(users, items, strict=True))
    found = explain(model, pairs, Options.plain(grounded=True, backing=0.0, support=1), 50)
    spread = {name: _spread(found.row, values) for name, values in found.parts.items()}
    total = sum(spread.values())
    chosen = [(each.name, each.default, each.help) for each in Options.declared() if each.name not in NOT_RULES]
    counts = {
        "users": len(catalog.users),
        "items": len(catalog.items),
        "explanations": len(catalog.explanations),
        "records": len(known.indices),
    }
    weights = {name: value / total for name, value in spread.items() if total > 0 and value > 0}
    title = f"How reasons are ranked ({model.title})"
    return About(title, model.summary, counts, weights, parameters.values(model), chosen)


NOT_RULES = ("exclude", "banned", "boosts", "mu")


def _spread(row: NDArray[np.int64], values: NDArray[np.float32]) -> float:
    """The mean absolute deviation of values from the mean of their pair."""
    counts = np.maximum(np.bincount(row), 1)
    means = np.bincount(row, values) / counts
    return float(np.abs(values - means[row]).mean()) if len(values) else 0.0
