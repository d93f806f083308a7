"""What a ranking weighs and why, in plain words, from the model itself."""

from __future__ import annotations

import html
from dataclasses import asdict, dataclass

import numpy as np

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
RULES = {  # what an option does by default; options that are off are not mentioned
    "grounded": "Only what people have said about this item is shown.",
    "backing": "More than {:g} times as many people must say it as say the opposite.",
    "support": "At least {} people must say it; one is enough for items that few people talk about.",
    "distinctive": "A reason is shown only for the {:.0%} of items for which people give it most.",
    "polarity": "Reasons that speak for the item are shown ({}).",
    "per_aspect": "At most {} reason about the same aspect is shown in a list.",
    "consistent": "No reason contradicts another one in the same list.",
    "vague": "Praise and blame that do not say why are moved down (by {:g} points of score).",
}
NO_RULES = ("exclude", "banned", "boosts", "mu")  # options that say nothing unless they are given
PLAIN = {"None": "not set", "True": "yes", "False": "no"}
RIGHTS = (
    "You can ask for reasons that use nothing about you (`personal: false`): "
    "they are ranked by the item and by how often something is said.",
    "You can ask for what is stored about you (`GET /v1/users/{id}/export`) "
    "and have it erased (`DELETE /v1/users/{id}`).",
)


@dataclass(frozen=True)
class Rule:
    """An option of `explain`: its default, and what it does."""

    name: str
    default: object
    help: str


@dataclass(frozen=True)
class About:
    """The main parameters of a ranking. `markdown` and `html` are pages for people."""

    title: str
    summary: str
    counts: dict[str, int]
    weights: dict[str, float]  # share of what makes one reason rank above another
    parameters: dict[str, object]
    options: list[Rule]

    def as_dict(self) -> dict[str, object]:
        return asdict(self)

    def sections(self) -> dict[str, list[str]]:
        """Return sentences by heading."""
        counts, most_first = self.counts, sorted(self.weights.items(), key=lambda each: -each[1])
        weights = [f"{PARTS.get(name, name)} ({name}): {share:.0%}" for name, share in most_first]
        rules = [RULES[each.name].format(each.default) for each in self.options if each.name in RULES and each.default]
        values = self.parameters.items()
        return {
            "What is ranked": [
                f"For a person and an item, {counts['explanations']:,} reasons that people gave "
                "in reviews are put in an order; the first few are shown.",
                f"The order was learned from {counts['records']:,} reviews of {counts['items']:,} "
                f"items by {counts['users']:,} people. Method: {self.summary}.",
            ],
            "What decides the order, and how much": weights or ["The order does not differ between people or items."],
            "Which reasons may be shown, unless a request asks for something else": [
                *rules,
                "No other rule applies unless it is asked for. A request can change these rules, "
                "leave reasons out, or raise some of them.",
            ],
            "Settings of the method": [f"`{name}`: {PLAIN.get(str(value), value)}" for name, value in values],
            "What you can change": list(RIGHTS),
        }

    def markdown(self) -> str:
        parts = [f"# {self.title}"]
        for heading, sentences in self.sections().items():
            parts.append(f"## {heading}\n\n" + "\n".join(f"- {each}" for each in sentences))
        return "\n\n".join(parts) + "\n"

    def html(self) -> str:
        """Return a page of its own, without scripts."""
        title = html.escape(self.title)
        head = f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>{title}</title>'
        body = [f"<h1>{title}</h1>"]
        for heading, sentences in self.sections().items():
            listed = "".join(f"<li>{html.escape(each).replace('`', '')}</li>" for each in sentences)
            body.append(f"<h2>{html.escape(heading)}</h2>\n<ul>{listed}</ul>")
        return "\n".join([head, *body, "</html>"]) + "\n"


def about(model: Model, *, seed: int = 0) -> About:
    """Say what a fitted model weighs.

    The weights are measured: pairs of the training data are ranked, and the share of a part is how
    much it spreads the scores of the reasons of a pair, relative to all parts.

    Args:
        model: a fitted model.
        seed: of the sample of pairs.

    Raises:
        ParameterError: the model has seen no pair.
    """
    catalog, seen = model.catalog_, model.catalog_.user_items
    if not len(seen.indices):
        raise ParameterError("the model knows no pair of a user and an item; fit it to data")
    drawn = np.random.default_rng(seed).permutation(len(seen.indices))[:SAMPLE]
    users = catalog.users.terms(seen.rows_of_entries()[drawn]).to_list()
    items = catalog.items.terms(seen.indices[drawn]).to_list()
    anything = Options.plain(grounded=True, backing=0.0, support=1)
    found = explain(model, list(zip(users, items, strict=True)), anything, 50)
    reasons = np.maximum(np.bincount(found.row), 1)
    spread = {}
    for name, values in found.parts.items():  # the mean deviation from the mean of the pair
        away = np.abs(values - (np.bincount(found.row, values) / reasons)[found.row])
        spread[name] = float(away.mean()) if len(away) else 0.0
    total = sum(spread.values())
    sizes = {name: len(getattr(catalog, name)) for name in ("users", "items", "explanations")}
    declared = [each for each in Options.declared() if each.name not in NO_RULES]
    return About(
        title=f"How reasons are ranked ({model.title})",
        summary=model.summary,
        counts=sizes | {"records": len(seen.indices)},
        weights={name: value / total for name, value in spread.items() if value > 0},
        parameters=parameters.values(model),
        options=[Rule(each.name, each.default, each.help) for each in declared],
    )
