"""Cards for people: an item's title, its reasons as sentences, a short quote, and how many people say so."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

from whyrank.cli.app import safe

if TYPE_CHECKING:
    from rich.table import Table

    from whyrank.ranking.options import Options
    from whyrank.ranking.reasons import Reason

WIDTH = 80
GLUE = "\ue000"  # a blank where no line ends
QUOTE = 140  # characters that are shown of a quote
CAPTION = "score and its parts; records that hold it: of this item, of similar items and of this user"


def card(title: str, reasons: list[Reason], *, quotes: bool = True) -> Iterator[str]:
    """The lines of a card, none wider than 80 columns where words allow it."""
    yield from textwrap.wrap(safe(title), WIDTH) or [""]
    for reason in reasons:
        yield from _wrapped(f"{reason.sentence} ({counted(reason).replace(' ', GLUE)})", "  - ", "    ")
    quoted = next((reason.quotes[0]["text"] for reason in reasons if reason.quotes), None) if quotes else None
    if quoted is not None:
        short = textwrap.shorten(str(quoted), QUOTE, placeholder=" …")
        yield from _wrapped(f"“{short}”", "    ", "    ")
    if any(reason.fallback == "unknown_user" for reason in reasons):
        yield "  (the user is unknown: these come from what people say about the item)"


def counted(reason: Reason) -> str:
    """Who says so: 12 for, 2 against."""
    said = reason.evidence
    against = f", {said.opposing:,} against" if said.opposing else ""
    return f"{said.supporting:,} for{against}"


def _wrapped(text: str, first: str, rest: str) -> list[str]:
    lines = textwrap.wrap(safe(text), WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)
    return [line.replace(GLUE, " ") for line in lines]


def score_table(title: str, reasons: list[Reason], options: Options | None = None) -> Table:
    """Reasons with the parts of their scores and their evidence; what options add to scores is a part, too."""
    from rich.table import Table

    table = Table(title=title, title_justify="left", caption=CAPTION, caption_justify="left")
    parts = list(reasons[0].parts) if reasons else []
    rest = "boost" if options is not None and (options.boosts or options.specificity) else "evidence"
    names = [{"bonus": rest, "popularity": "popular"}.get(part, part) for part in parts]
    table.add_column("because", overflow="fold")
    for header in ("score", *names, "of item", "of similar", "by user"):
        table.add_column(header, justify="right", no_wrap=True, min_width=len(header))
    for reason in reasons:
        said = reason.evidence
        shares = (f"{reason.parts.get(part, 0.0):.2f}" for part in parts)
        counts = (str(said.item), str(said.similar_items), str(said.user))
        table.add_row(reason.text, f"{reason.score:.2f}", *shares, *counts)
    return table
