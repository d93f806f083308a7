"""Tables for people: at every width whole cells, and text to the left of numbers."""

from __future__ import annotations

import io
import re

import polars as pl
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from whyrank.data.columns import for_spreadsheets, from_spreadsheets
from whyrank.render import (
    FittingTable,
    csv_table,
    html_table,
    is_numeric,
    latex_table,
    markdown_table,
    spreadsheet_cell,
)

HEADERS = ["model", "ndcg_paper @10 %", "recall @10 %", "training"]
ROWS = [["profile-j", "13.964*", "66.989*", "6.9 s"], ["pop", "5.382*", "31.051", "-"]]


def printed(table: FittingTable, width: int) -> str:
    out = io.StringIO()
    Console(file=out, width=width, color_system=None).print(table)
    return out.getvalue()


@given(st.integers(34, 120))
def test_a_narrow_terminal_loses_columns_but_no_digit_name_or_star(width: int) -> None:
    shown = printed(FittingTable(HEADERS, ROWS, drop=["training", "recall @10 %"]), width)
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= width
    for text in ("profile-j", "13.964*", "5.382*"):
        assert text in shown
    gone = [name for name, text in (("training", "6.9 s"), ("recall @10 %", "66.989*")) if text not in shown]
    assert ("not shown at this width" in shown) == bool(gone)
    assert all(name in re.sub(r"\s+", " ", shown) for name in gone)


def test_columns_go_in_the_order_that_is_asked_for() -> None:
    shown = printed(FittingTable(HEADERS, ROWS, drop=["training", "recall @10 %"]), 45)
    assert "66.989*" in shown
    assert "6.9 s" not in shown


def test_texts_wrap_where_they_may() -> None:
    rows = [["professional front desk staff who speak five languages", "1.00"]]
    shown = printed(FittingTable(["because", "score"], rows, wrap=["because"]), 40)
    assert "1.00" in shown
    words = re.findall(r"[a-z]+", shown)
    assert [word for word in words if word in rows[0][0].split()] == rows[0][0].split()


def test_headers_stand_over_their_columns() -> None:
    rows = [["bper", "good beds", "12.5"], ["pop", "", "-"]]
    assert markdown_table(["model", "says", "score"], rows).splitlines()[1] == "|---|---|--:|"
    assert latex_table(["model", "says", "score"], rows).startswith(r"\begin{tabular}{llr}")
    page = html_table(["model", "says", "score"], rows, [[False, False, True], [False] * 3])
    assert "<th class=text>says</th><th>score</th>" in page
    assert "<td class='best'>12.5</td>" in page


def test_a_column_is_numeric_if_every_known_cell_is() -> None:
    assert is_numeric(["1.5", "", "-", "+7.0%"])
    assert not is_numeric(["1.5", "good"])
    assert not is_numeric(["", "-"])


@given(st.integers(40, 120))
def test_of_two_columns_with_one_header_the_last_goes_and_no_digit_is_lost(width: int) -> None:
    headers = ["arm", "uplift", "interval", "per 100 lists", "interval"]
    row = ["b", "+90.4%", "+40.8% to +170.3%", "+19.29", "+10.38 to +28.20"]
    shown = printed(FittingTable(headers, [row], drop=headers[:1:-1]), width)
    assert max(map(len, shown.splitlines())) <= width
    assert "+40.8% to +170.3%" in shown or "interval" not in shown.splitlines()[1]
    assert ("+10.38 to +28.20" in shown) == ("not shown at this width" not in shown)


@given(st.text(alphabet="=+-@\t\r'1.,%e a", max_size=6))
def test_no_cell_is_a_formula_and_every_text_comes_back(text: str) -> None:
    cell = spreadsheet_cell(text)
    if cell.startswith(("=", "+", "-", "@", "\t", "\r")):  # a number, or a lonely sign
        assert not cell.strip("+-0123456789.,eE %*")
    frame = pl.DataFrame({"text": [text], "count": [1]})
    written = frame.with_columns(for_spreadsheets())
    assert written["text"].to_list() == [cell]
    assert written.with_columns(from_spreadsheets()).equals(frame)


def test_figures_of_a_csv_table_stay_numbers() -> None:
    cells = ["-0.5", "+8.2%", "-1.5e-07", "-", "13.964*"]
    assert csv_table(["=1+1", *"abcd"], [cells]) == "'=1+1,a,b,c,d\n" + ",".join(cells) + "\n"
