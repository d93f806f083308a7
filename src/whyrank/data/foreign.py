"""Files of other projects: RecBole's atomic files, StaR's tables, and lines of tags as MovieLens has them.

Each is recognized by its name and its first line, and becomes a table of triplets with our column names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import polars as pl

from whyrank.data.compressed import EXPANSION, check_expansion
from whyrank.data.problems import Problems
from whyrank.data.tables import (
    COMPRESSIONS,
    Columns,
    csv_records,
    csv_rows,
    first_line,
    inside,
    line_batches,
    lines_of,
    read_table,
)
from whyrank.errors import DataError

Rows = Iterator[tuple[int, dict[str, str | None]]]  # number of the line, and its columns
TYPES = ("token", "token_seq", "float", "float_seq")
NAMED = {"user_id": "user", "item_id": "item", "rating": "rating", "timestamp": "time"}
STAR = ("user_id", "item_id", "statement_ids")
FIELDS = ("user", "item", "explanation", "time")  # of a line of MovieLens' tags
SEPARATORS = ("::", "\t", ",")
POLARITY = {"positive": "1", "neutral": "0", "negative": "-1"}


def read_foreign(
    path: Path, columns: Columns | None, problems: Problems, max_expansion: float = EXPANSION
) -> pl.DataFrame | None:
    """The triplets of a file of another project; None: it is none of these."""
    kind = _kind(path)
    plain = kind == ".csv" and columns is not None
    if kind is None or plain or not path.is_file() or path.stat().st_size == 0:
        return None
    check_expansion(path, max_expansion)
    first = next((batch[0] for batch in line_batches(path, Problems("skip"), 100) if len(batch)), None) or ""
    if kind == ".inter":
        return _atomic(path, first, columns, problems)
    if kind == ".dat":
        return _tags(path, first, columns, problems)
    header = [name.strip().strip('"') for name in first.split(",")]
    if set(STAR) <= set(header) and "user" not in header:
        return _star(path, header, problems)
    return None


def trimmed(table: pl.DataFrame) -> pl.DataFrame:
    """Ids without the blanks around them."""
    names = [name for name in ("user", "item", "explanation") if table.schema.get(name) == pl.String]
    return table.with_columns(pl.col(names).str.strip_chars())


def lowered(table: pl.DataFrame) -> pl.DataFrame:
    """Return a table with its explanations in lower case."""
    return table.with_columns(pl.col(name).str.to_lowercase() for name in ("explanation",) if name in table.columns)


def _kind(path: Path) -> str | None:
    """The suffix before that of a compression, where it is one of a foreign file."""
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() not in COMPRESSIONS]
    return suffixes[-1] if suffixes and suffixes[-1] in (".inter", ".dat", ".csv") else None


# -- RecBole -----------------------------------------------------------------------------------------------------------


def _atomic(path: Path, first: str, columns: Columns | None, problems: Problems) -> pl.DataFrame:
    """An .inter file: tab-separated, with a type after every name; explanations are a sequence of tokens."""
    names = dict(_typed(path, field) for field in first.split("\t"))
    mapping = {ours: theirs for theirs, ours in NAMED.items() if theirs in names}
    sequences = [name for name, kind in names.items() if kind == "token_seq"]
    if sequences:
        mapping["explanation"] = sequences[0]
    mapping |= {ours: str(theirs) for ours, theirs in (columns or {}).items()}
    for ours in ("user", "item", "explanation"):
        if mapping.get(ours) not in names:
            wanted = "user_id:token, item_id:token and a column of type token_seq (or columns=)"
            raise DataError(f"no column for {ours}", path=path, column=mapping.get(ours), expected=wanted)
    rows = _tabbed(path, list(names), problems)
    if names[mapping["explanation"]] == "token":
        return _table((_renamed(row, mapping), [row[mapping["explanation"]] or ""]) for _, row in rows)
    found = list(rows)
    said = [row[mapping["explanation"]] or "" for _, row in found]
    blank = any(" " in text.strip() for text in said)  # RecBole's default; some files have commas instead
    separator = None if blank or not any("," in text for text in said) else ","
    lists = (_tokens(text, separator, path, number, problems) for (number, _), text in zip(found, said, strict=True))
    return _table((_renamed(row, mapping), tokens) for (_, row), tokens in zip(found, lists, strict=True) if tokens)


def _typed(path: Path, field: str) -> tuple[str, str]:
    name, colon, kind = field.strip().rpartition(":")
    if not colon or kind not in TYPES:
        raise DataError(f"a header without a type: {field.strip()!r}"[:200], path=path, row=1, expected="name:token")
    return name, kind


def _tabbed(path: Path, header: list[str], problems: Problems) -> Rows:
    for number, line in enumerate(islice(lines_of(path, problems), 1, None), 2):
        fields = line.split("\t")
        if not line:
            continue
        if len(fields) == len(header):
            yield number, dict(zip(header, fields, strict=True))
        else:
            problem, expected = f"wrong number of columns: {len(fields)}", f"{len(header)} columns"
            problems.add(DataError(problem, path=path, row=number, expected=expected))


def _tokens(text: str, separator: str | None, path: Path, number: int, problems: Problems) -> list[str]:
    tokens = [token.strip() for token in text.split(separator)]
    tokens = [token for token in tokens if token]
    if not tokens:
        problems.add(DataError("no explanation", path=path, row=number, expected="at least one token"))
    return tokens


def _renamed(row: dict[str, str | None], mapping: dict[str, str]) -> dict[str, str | None]:
    return {ours: row[theirs] for ours, theirs in mapping.items() if ours != "explanation" and theirs in row}


# -- StaR --------------------------------------------------------------------------------------------------------------


def _star(path: Path, header: list[str], problems: Problems) -> pl.DataFrame:
    """dataset_v*.csv: a record a row, with a list of statement numbers; texts are in statements_v*.csv beside it."""
    mapping = {ours: theirs for theirs, ours in NAMED.items() if theirs in header}
    found = []
    for number, row in enumerate(csv_rows(path, "csv", False, problems), 2):
        statements = _numbers(row["statement_ids"] or "")
        if statements:
            found.append((_renamed(row, mapping), statements))
        else:
            problem = f"not a list of statements: {row['statement_ids']!r}"[:200]
            problems.add(DataError(problem, path=path, row=number, column="statement_ids", expected="[3, 17]"))
    table = _table(found)
    texts = path.with_name(path.name.replace("dataset", "statements", 1))
    return table if texts == path or not texts.is_file() else _with_texts(table, inside(path.parent, texts.name))


def _numbers(text: str) -> list[str]:
    """The numbers of a list as Python writes it; none where it is no such list."""
    inner = text.strip()
    if not (inner.startswith("[") and inner.endswith("]")):
        return []
    numbers = [number.strip() for number in inner[1:-1].split(",")]
    return numbers if all(number.isdecimal() for number in numbers) else []


def _with_texts(table: pl.DataFrame, path: Path) -> pl.DataFrame:
    """What the statements say: the text in row n is that of statement n."""
    columns = {"text": "statement", "polarity": "sentiment"}
    texts = read_table(path, ("text", "polarity"), columns, Problems("raise", may_skip=False))
    if "text" not in texts.columns:
        raise DataError("no column statement", path=path, column="statement", expected="the statements' texts")
    if "polarity" in texts.columns:
        texts = texts.with_columns(pl.col("polarity").replace_strict(POLARITY, default=None, return_dtype=pl.String))
    texts = texts.with_row_index("explanation").with_columns(pl.col("explanation").cast(pl.String))
    return table.join(texts, on="explanation", how="left", maintain_order="left")


# -- MovieLens ---------------------------------------------------------------------------------------------------------


def _tags(path: Path, first: str, columns: Columns | None, problems: Problems) -> pl.DataFrame:
    """Lines user::item::tag::time, also with tabs or commas; `columns` counts other places or names a header's."""
    separator = next((each for each in SEPARATORS if each in first), None)
    if separator is None:
        expected = "user::item::tag::time, or the same with tabs or commas"
        raise DataError("no separator in its first line", path=path, row=1, expected=expected)
    records = _records(path, separator, problems)
    places, count = _places(path, first.split(separator), columns, separator != "::"), 0
    if any(isinstance(place, str) for place in places.values()):
        _, header = next(records)
        names = [name.strip() for name in header]
        places = {ours: names.index(theirs) for ours, theirs in places.items() if theirs in names}
        count = len(names)
    rows = []
    for number, fields in records:
        count = count or len(fields)
        if len(fields) == count:
            rows.append({name: fields[int(place)] for name, place in places.items() if int(place) < count})
        else:
            problem, expected = f"wrong number of fields: {len(fields)}", f"{count} fields, as in the first line"
            problems.add(DataError(problem, path=path, row=number, expected=expected))
    said = [str(row.get("explanation", "")) for row in rows]
    if not columns and said and all(_is_number(text) for text in said):
        raise DataError(
            "its third column has numbers only: ratings, not tags",
            path=path,
            expected="tags, as in MovieLens' tags.dat",
        )
    return pl.DataFrame(rows, schema=dict.fromkeys([name for name in places if rows and name in rows[0]], pl.String))


def _records(path: Path, separator: str, problems: Problems) -> Iterator[tuple[int, list[str]]]:
    """The fields of every line that is not blank, and its number."""
    lines = lines_of(path, problems)
    if separator == "::":
        yield from ((number, line.split(separator)) for number, line in enumerate(lines, 1) if line.strip())
        return
    for number, fields in csv_records(lines, "tsv" if separator == "\t" else "csv"):
        if isinstance(fields, list):
            yield number, fields
        else:
            error = DataError(f"broken row: {first_line(fields)}", path=path, row=number, expected="quotes that close")
            problems.add(error)


def _places(path: Path, first: list[str], columns: Columns | None, may_name: bool) -> dict[str, str | int]:
    """Where each of our columns is: its number, or its name in a header."""
    if may_name and set(FIELDS[:3]) <= {name.strip().strip('"') for name in first}:
        return {name: (columns or {}).get(name, name) for name in FIELDS}
    places: dict[str, str | int] = dict(columns) if columns else {name: place for place, name in enumerate(FIELDS)}
    kinds = {type(place) for place in places.values()}
    if len(kinds) > 1 or (str in kinds and not may_name):
        raise DataError(
            "a file without a header", path=path, expected="numbers of columns: user=0,item=1,explanation=2"
        )
    return places


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _table(rows: Iterable[tuple[dict[str, str | None], list[str]]]) -> pl.DataFrame:
    """One row for every explanation of every record."""
    found = list(rows)
    names = list(found[0][0]) if found else ["user", "item"]
    columns = {name: [row[name] for row, _ in found] for name in names}
    schema: dict[str, pl.DataType] = {name: pl.String() for name in names}
    schema["explanation"] = pl.List(pl.String)
    return pl.DataFrame({**columns, "explanation": [said for _, said in found]}, schema=schema).explode("explanation")
