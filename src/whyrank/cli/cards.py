"""Cards for people: an item's title, its reasons as sentences, a short quote, and how many people say so."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

from whyrank.cli.app import safe
from whyrank.render import FittingTable

if TYPE_CHECKING:
    from whyrank.explain.options import Options
    from whyrank.explain.reasons import Reason

WIDTH = 80
GLUE = "\ue000"  # a blank where no line ends
QUOTE = 140  # characters that are shown of a quote
UNKNOWN = (
    "(unknown user: not in the data of the model, or nothing was mined from their reviews; these reasons are what "
    "people say about the item)"
)
CAPTION = "The parts add up to the score."


def card(title: str, reasons: list[Reason], *, quotes: bool = True) -> Iterator[str]:
    """The lines of a card, none wider than 80 columns where words allow it."""
    yield from textwrap.wrap(safe(title), WIDTH) or [""]
    for reason in reasons:
        yield from _wrapped(f"{reason.sentence} ({counted(reason).replace(' ', GLUE)})", "  - ", "    ")
        if quotes and reason.quote:
            short = textwrap.shorten(reason.quote, QUOTE, placeholder=" …")
            yield from _wrapped(f"“{short}”", "    ", "    ")
            quotes = False  # one is enough for a card
    if any(reason.fallback == "unknown_user" for reason in reasons):
        yield from _wrapped(UNKNOWN, "  ", "   ")


def counted(reason: Reason) -> str:
    """Who says what: clear sound: 12 say so, 2 say the opposite."""
    return f"{reason.text}: {', '.join(reason.evidence.shown())}"


def _wrapped(text: str, first: str, rest: str) -> list[str]:
    lines = textwrap.wrap(safe(text), WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)
    return [line.replace(GLUE, " ") for line in lines]


def score_table(title: str, reasons: list[Reason], options: Options | None = None) -> FittingTable:
    """Reasons with the parts of their scores and their evidence; what options add to scores is a part, too."""
    from whyrank.explain.evidence import Evidence

    parts = list(reasons[0].parts) if reasons else []
    rest = "boost" if options is not None and (options.boosts or options.specificity) else "evidence"
    names = [{"bonus": rest, "popularity": "popular"}.get(part, part) for part in parts]
    shown = [each for each in Evidence.declared() if each.name in ("supporting", "similar_items", "user_says")]
    counts = [each.label for each in shown]
    rows = [
        [
            *(reason.text, f"{reason.score:.2f}"),
            *(f"{reason.parts.get(part, 0.0):.2f}" for part in parts),
            *(str(getattr(reason.evidence, each.name)) for each in shown),
        ]
        for reason in reasons
    ]
    headers = ["because", "score", *names, *counts]
    drop = [counts[1], counts[2], counts[0], *reversed(names)]
    return FittingTable(headers, rows, title=title, caption=CAPTION, drop=drop, wrap=["because"])
