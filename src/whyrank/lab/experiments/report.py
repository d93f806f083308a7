"""Reports that open anywhere: one HTML file without outside parts, and the same as Markdown."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from whyrank.atomic import new_file
from whyrank.render import csv_table, html_table, latex_table, markdown_table
from whyrank.version import __version__

STYLE = Path(__file__).parent / "report.css"


@dataclass
class ExperimentReport:
    """Sections in order; every method adds one and returns the report."""

    title: str
    lead: str = ""
    summaries: list[str] = field(default_factory=list)  # what was found, before everything else
    page: list[str] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)  # what lies beside the page, by relative path
    headings: list[str] = field(default_factory=list)

    def summary(self, words: str) -> ExperimentReport:
        """Add a sentence that says what was found."""
        self.summaries.append(words)
        return self

    def heading(self, words: str) -> ExperimentReport:
        self.headings.append(words)
        self.page.append(f"<h2 id='part{len(self.headings)}'>{html.escape(words)}</h2>")
        self.text.append(f"## {words}\n")
        return self

    def paragraph(self, words: str, *, note: bool = False) -> ExperimentReport:
        opening = '<p class="note">' if note else "<p>"
        self.page.append(f"{opening}{html.escape(words)}</p>")
        self.text.append(f"{words}\n")
        return self

    def table(
        self,
        headers: Sequence[str],
        rows: Sequence[Sequence[str]],
        best: Sequence[Sequence[bool]] | None = None,
        name: str | None = None,
    ) -> ExperimentReport:
        """Add a table of texts; `best` marks cells. Cells that are not numbers are set to the left.

        A table with a name is written as tables/name.csv and tables/name.tex, too.
        """
        self.page.append(f"<div class='scroll'>{html_table(headers, rows, best)}</div>")
        self.text.append(markdown_table(headers, rows, best))
        if name:
            self.files[f"tables/{name}.csv"] = csv_table(headers, rows).encode()
            self.files[f"tables/{name}.tex"] = latex_table(headers, rows, best).encode()
        return self

    def picture(self, name: str, svg: str, png: bytes, caption: str) -> ExperimentReport:
        """Add a picture that is also written as figures/name.svg and figures/name.png."""
        self.files[f"figures/{name}.svg"], self.files[f"figures/{name}.png"] = svg.encode(), png
        return self.figure(svg, caption, f"figures/{name}.png")

    def figure(self, svg: str, caption: str, file: str | None = None) -> ExperimentReport:
        """Add a picture as SVG; Markdown shows `file` if the picture lies beside it."""
        start = svg.find("<svg")
        picture = f'<div class="figure" role="img" aria-label="{html.escape(caption)}">{svg[start:]}</div>'
        self.page.append(f"<figure>{picture}<figcaption>{html.escape(caption)}</figcaption></figure>")
        self.text.append(f"![{caption}]({file})\n\n{caption}\n" if file else f"{caption}\n")
        return self

    def html(self) -> str:
        head = f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{html.escape(self.title)}</title>"
        head += "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        lead = f"<p class='note'>{html.escape(self.lead)}</p>" if self.lead else ""
        foot = f"<p class='note'>Made by whyrank {__version__}.</p>"
        links = (f"<a href='#part{at}'>{html.escape(words)}</a>" for at, words in enumerate(self.headings, 1))
        contents = f"<nav>{' '.join(links)}</nav>" if len(self.headings) > 3 else ""
        found = "".join(f"<p class='summary'>{html.escape(words)}</p>" for words in self.summaries)
        body = f"<h1>{html.escape(self.title)}</h1>{lead}{found}{contents}{''.join(self.page)}{foot}"
        style = STYLE.read_text(encoding="utf-8")
        return f"{head}<style>\n{style}</style>{body}</html>\n"

    def markdown(self) -> str:
        return "\n".join(
            [f"# {self.title}\n", *(f"{words}\n" for words in (self.lead, *self.summaries) if words), *self.text]
        )

    def write(self, folder: str | Path, name: str = "report") -> Path:
        """Write name.html, name.md and what belongs to them; answers the path of the page."""
        folder = Path(folder)
        page = {f"{name}.md": self.markdown().encode(), f"{name}.html": self.html().encode()}
        for place, content in (self.files | page).items():
            with new_file(folder / place) as aside:
                aside.write_bytes(content)
        return folder / f"{name}.html"
