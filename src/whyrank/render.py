"""Tables for people: one description, shown in a terminal, in Markdown, LaTeX, HTML or CSV."""

from __future__ import annotations

import csv
import html
import io
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType

Headers = Sequence[str]
Rows = Sequence[Sequence[str]]
Marks = Sequence[Sequence[bool]] | None
LONG = 28  # characters; a longer text in a cell may be broken
FRAME = 3  # characters that a column of a terminal's table takes besides its text
NARROW = 24  # characters that a column keeps whose texts may be wrapped
FORMULA = re.compile(r"'*[=+\-@\t\r\n＝＋－＠]")  # as in data/columns.py, which writes whole tables
NUMBER = re.compile(r"[+-]?(\d[\d.,]*(e[+-]?\d+)?)?[ %‰*]*", re.IGNORECASE)


@dataclass
class FittingTable:
    """A table for a terminal that fits by leaving out whole columns, never digits, names or marks.

    The first column is the name of the row. `drop` names columns that may go, the first one first; `wrap` names
    columns whose texts may take several lines. What was left out is said below the table.
    """

    headers: Headers
    rows: Rows
    marks: Marks = None
    title: str | None = None
    caption: str | None = None
    drop: Sequence[str] = ()
    wrap: Sequence[str] = ()
    head: bool = True

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        from rich.table import Table
        from rich.text import Text

        places = self._places(options.max_width)
        gone = [name for at, name in enumerate(self.headers) if at not in places]
        told = [self.caption or "", f"not shown at this width: {', '.join(gone)}" if gone else ""]
        table = Table(
            title=self.title,
            title_justify="left",
            caption="\n".join(filter(None, told)) or None,
            caption_justify="left",
            show_header=self.head,
        )
        for at in places:
            header, right = self.headers[at], at > 0 and is_numeric([row[at] for row in self.rows])
            wraps = header in self.wrap
            title = header if wraps else "\n".join(textwrap.wrap(header, self._width(at), break_long_words=False))
            table.add_column(title, justify="right" if right else "left", no_wrap=not wraps, overflow="fold")
        for number, row in enumerate(self.rows):
            marks = self.marks[number] if self.marks else [False] * len(row)
            table.add_row(*(Text(row[at], "bold") if marks[at] else row[at] for at in places))
        yield table

    def _width(self, at: int) -> int:
        """What a column needs: its longest text, and the longest word of its header."""
        words = max((len(word) for word in self.headers[at].split()), default=0) if self.head else 0
        texts = max((len(row[at]) for row in self.rows), default=0)
        return max(words, min(texts, NARROW) if self.headers[at] in self.wrap else texts, 1)

    def _places(self, width: int) -> list[int]:
        """The columns that fit; of two with the same header, the last one goes first."""
        places = list(range(len(self.headers)))
        for name in self.drop:
            if sum(self._width(at) + FRAME for at in places) + 1 <= width:
                break
            last = max((at for at in places if self.headers[at] == name), default=None)
            if last is not None:
                places.remove(last)
        return places


def number_of(count: int, noun: str) -> str:
    """How many there are, in words.

    >>> number_of(1, "answer"), number_of(1200, "answer")
    ('1 answer', '1,200 answers')
    """
    return f"{count:,} {noun}{'s' * (count != 1)}"


def is_number(text: str) -> bool:
    """Whether a cell reads as a number, maybe with a sign, a mark or a unit."""
    return any(mark.isdigit() for mark in text[:3]) and len(text) <= LONG


def is_numeric(texts: Sequence[str]) -> bool:
    """Whether a column holds numbers; empty cells and dashes do not count."""
    known = [text for text in texts if text.strip(" -–")]
    return bool(known) and all(map(is_number, known))


def markdown_table(headers: Headers, rows: Rows, marks: Marks = None) -> str:
    """A table in Markdown: text to the left, numbers to the right, marked cells in bold."""
    right = [is_numeric([row[at] for row in rows]) for at in range(len(headers))]
    lines = ["| " + " | ".join(headers) + " |", "|" + "|".join("--:" if each else "---" for each in right) + "|"]
    for at, row in enumerate(rows):
        bold = marks[at] if marks else [False] * len(row)
        cells = (f"**{text}**" if mark else text.replace("|", "\\|") for text, mark in zip(row, bold, strict=True))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def csv_table(headers: Headers, rows: Rows) -> str:
    """Write a table for spreadsheets: comma-separated, quoted where needed, and no cell a formula."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows(
        [spreadsheet_cell(cell) if isinstance(cell, str) else cell for cell in row] for row in (headers, *rows)
    )
    return text.getvalue()


def spreadsheet_cell(text: str) -> str:
    """Put an apostrophe before a text that a spreadsheet would compute; numbers stay numbers.

    >>> spreadsheet_cell("=1+1"), spreadsheet_cell("-0.5%")
    ("'=1+1", '-0.5%')
    """
    return f"'{text}" if FORMULA.match(text) and not NUMBER.fullmatch(text) else text


def latex_table(headers: Headers, rows: Rows, marks: Marks = None) -> str:
    """A tabular; marked cells are bold."""
    kinds = "".join("r" if is_numeric([row[at] for row in rows]) else "l" for at in range(len(headers)))
    lines = [rf"\begin{{tabular}}{{{kinds}}}", r"\hline"]
    lines.append(" & ".join(map(latex_text, headers)) + r" \\ \hline")
    for at, row in enumerate(rows):
        bold = marks[at] if marks else [False] * len(row)
        cells = (rf"\textbf{{{latex_text(t)}}}" if mark else latex_text(t) for t, mark in zip(row, bold, strict=True))
        lines.append(" & ".join(cells) + r" \\")
    return "\n".join([*lines, r"\hline", r"\end{tabular}"]) + "\n"


def html_table(headers: Headers, rows: Rows, marks: Marks = None) -> str:
    """A table in HTML; headers stand over their columns: text to the left, numbers to the right."""
    right = [is_numeric([row[at] for row in rows]) for at in range(len(headers))]
    head = "".join(
        f"<th{'' if each else ' class=text'}>{html.escape(header)}</th>"
        for header, each in zip(headers, right, strict=True)
    )
    body = []
    for at, row in enumerate(rows):
        bold = marks[at] if marks else [False] * len(row)
        cells = (_cell(text, mark, each) for text, mark, each in zip(row, bold, right, strict=True))
        body.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"


def _cell(text: str, best: bool, right: bool) -> str:
    kinds = ["best"] if best else []
    if not right:
        kinds.append("long" if len(text) > LONG else "text")
    attribute = f" class='{' '.join(kinds)}'" if kinds else ""
    return f"<td{attribute}>{html.escape(text)}</td>"


LATEX = {"\\": r"\textbackslash{}", "±": r"$\pm$", "↑": r"$\uparrow$", "↓": r"$\downarrow$", "↕": r"$\updownarrow$"}
LATEX |= {"‰": r"\textperthousand{}", "^": r"\^{}", "~": r"\~{}", "<": "$<$", ">": "$>$"}
LATEX |= {mark: "\\" + mark for mark in "%_&#${}"}


def latex_text(text: str) -> str:
    """A text with LaTeX's own marks escaped."""
    return "".join(LATEX.get(mark, mark) for mark in text)
