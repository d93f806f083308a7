"""The EXTRA folder: records with explanation ids, in pickled or in text form."""

from __future__ import annotations

import io
import json
import pickle
from pathlib import Path
from typing import ClassVar, Literal, NoReturn

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.atomic import Marker, new_folder
from whyrank.data.problems import Problems
from whyrank.data.ratings import Range
from whyrank.data.tables import first_line
from whyrank.data.triplets import Triplets
from whyrank.errors import ArtifactError, DataError

RECORD = {"user": pl.String, "item": pl.String, "rating": pl.String, "time": pl.String}
TEXTS = {"explanation": pl.String, "text": pl.String}
LISTS = {"explanations": pl.List(pl.String), "sentences": pl.List(pl.String)}


def _holds_records(folder: Path) -> bool:
    """Tell whether the records of an EXTRA folder begin as such records do."""
    for name in ("IDs.pickle", "IDs.txt"):
        if (folder / name).is_file():
            with (folder / name).open("rb") as file:
                start = file.read(1 << 16)
            return b"exp_idx" in start if name == "IDs.pickle" else start.split(b"\n")[0].count(b"::") in (4, 5)
    return False


MARKER = Marker("IDs.pickle or IDs.txt", r"IDs\.(pickle|txt)|id2exp\.(json|txt)", _holds_records)


def read_extra(folder: str | Path, problems: Problems | None = None, rating_range: Range | None = None) -> Triplets:
    """Read an EXTRA folder; records keep their order, so that its index files stay valid."""
    folder, problems = Path(folder), problems or Problems()
    pickled = (folder / "IDs.pickle").is_file()
    records = _read_pickle(folder / "IDs.pickle", problems) if pickled else _read_text(folder / "IDs.txt", problems)
    records = records.with_row_index("record")
    frame = records.explode("explanations", "sentences").rename({"explanations": "explanation"})
    texts = _read_texts(folder)
    sentences = frame.select("sentences").join(
        texts.rename({"explanation": "sentences"}), on="sentences", how="left", maintain_order="left"
    )
    frame = frame.drop("sentences").with_columns(sentence=sentences["text"])
    frame = frame.drop(name for name in ("rating", "time", "sentence") if frame[name].null_count() == len(frame))
    try:
        return Triplets.from_frame(frame, texts=texts, record="record", rating_range=rating_range)
    except DataError as error:
        raise DataError(error.problem, path=folder, column=error.column, expected=error.expected) from error


def write_extra(triplets: Triplets, folder: str | Path, form: Literal["pickle", "text", "both"] = "both") -> Path:
    """Write an EXTRA folder that the published code can read.

    Its ids are digit strings: explanations 0, 1, ... in the order of the vocabulary, then the users' own sentences
    where the triplets have them.
    """
    folder = Path(folder)
    if any(folder.glob("*/train.index")):
        raise ArtifactError(f"{folder}: holds splits of other records, which would be wrong; name a new folder")
    frame, texts = _numbered(triplets)
    with new_folder(folder, MARKER) as aside:
        if form in ("pickle", "both"):
            (aside / "IDs.pickle").write_bytes(pickle.dumps(frame.to_dicts(), protocol=4))
            document = json.dumps(dict(enumerate(texts)), indent=1, ensure_ascii=False)
            (aside / "id2exp.json").write_text(document, encoding="utf-8")
        if form in ("text", "both"):
            (aside / "IDs.txt").write_text("\n".join(_lines(frame, folder)) + "\n", encoding="utf-8")
            cleaned = (text.replace("\n", " ") for text in texts)
            lines = "".join(f"{number}::{text}\n" for number, text in enumerate(cleaned))
            (aside / "id2exp.txt").write_text(lines, encoding="utf-8")
    return folder


# What a pickle may ask for: lists, dicts, tuples, texts and numbers; nothing that would import or call something.
PLAIN = """PROTO FRAME STOP MARK POP POP_MARK DUP PUT BINPUT LONG_BINPUT MEMOIZE GET BINGET LONG_BINGET
NONE NEWTRUE NEWFALSE INT BININT BININT1 BININT2 LONG LONG1 LONG4 FLOAT BINFLOAT
STRING BINSTRING SHORT_BINSTRING UNICODE BINUNICODE SHORT_BINUNICODE BINUNICODE8
EMPTY_LIST LIST APPEND APPENDS EMPTY_DICT DICT SETITEM SETITEMS EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3"""


def _refuse(_: object) -> NoReturn:
    raise pickle.UnpicklingError("it asks for more than plain containers and scalars")


class _PlainUnpickler(pickle._Unpickler):
    """The unpickler that is written in Python: the one in C makes room for as many objects as a file announces."""

    dispatch: ClassVar = dict.fromkeys(range(256), _refuse) | {
        code: pickle._Unpickler.dispatch[code] for code in (getattr(pickle, name)[0] for name in PLAIN.split())
    }


def _read_pickle(path: Path, problems: Problems) -> pl.DataFrame:
    try:
        documents = _PlainUnpickler(io.BytesIO(path.read_bytes())).load()
    except Exception as error:  # a hostile pickle may raise nearly anything
        raise DataError(
            f"not a readable pickle: {first_line(error)}", path=path, expected="a list of records"
        ) from error
    if not isinstance(documents, list) or not documents:
        raise DataError("no records", path=path, expected="a non-empty list of dicts")
    rows = []
    for number, document in enumerate(documents, 1):
        try:
            rows.append(_checked(document))
        except (KeyError, TypeError, ValueError) as error:
            problems.add(
                DataError(
                    f"broken record: {first_line(error)}",
                    path=path,
                    row=number,
                    expected="user, item, exp_idx",
                )
            )
    return pl.DataFrame(rows, schema={**RECORD, **LISTS}, orient="row")


def _checked(document: object) -> tuple[object, ...]:
    """Check a pickled record and make a row of it; raises on anything that is not as EXTRA writes it."""
    if not isinstance(document, dict):
        raise TypeError("not a dict")
    explanations = [_id(each) for each in document["exp_idx"]]
    sentences = [_id(each) for each in document.get("oexp_idx", explanations)]
    if not explanations or len(sentences) != len(explanations):
        raise ValueError("exp_idx and oexp_idx must be non-empty and of one length")
    texts = (None if document.get(name) is None else _text(document[name]) for name in ("rating", "time"))
    return _id(document["user"]), _id(document["item"]), *texts, explanations, sentences


def _id(value: object) -> str:
    if isinstance(value, float) or value == "":
        raise ValueError(f"not an id: {value!r}")
    return _text(value)


def _text(value: object) -> str:
    """Never of a container: few bytes can hold one that is endless to write down."""
    if not isinstance(value, str | int | float):
        raise TypeError(f"a {type(value).__name__} where a text or a number should be")
    return str(value)


def _read_text(path: Path, problems: Problems) -> pl.DataFrame:
    """Lines user::item::rating[::time]::explanations::sentences, the last two with `:` inside."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot be read: {first_line(error)}", path=path) from error
    if not data.strip():
        raise DataError("the file is empty", path=path)
    rows = []
    for number, line in enumerate(data.splitlines(), 1):
        try:
            fields = line.decode().split("::")
        except UnicodeDecodeError:
            problems.add(DataError("undecodable bytes", path=path, row=number, expected="UTF-8"))
            continue
        if len(fields) not in (5, 6):
            expected = "user::item::rating[::time]::explanations::sentences"
            problems.add(DataError(f"wrong number of fields: {len(fields)}", path=path, row=number, expected=expected))
            continue
        time = fields[3] if len(fields) == 6 else None
        explanations, sentences = fields[-2].split(":"), fields[-1].split(":")
        if not (fields[0] and fields[1] and all(explanations)):
            problems.add(DataError("empty id", path=path, row=number))
        elif len(explanations) != len(sentences):
            problems.add(DataError("explanations and sentences differ in number", path=path, row=number))
        else:
            rows.append((fields[0], fields[1], fields[2] or None, time, explanations, sentences))
    return pl.DataFrame(rows, schema={**RECORD, **LISTS}, orient="row")


def _read_texts(folder: Path) -> pl.DataFrame:
    """id -> text, of explanations and of original sentences."""
    json_path, text_path = folder / "id2exp.json", folder / "id2exp.txt"
    try:
        if json_path.is_file():
            mapping = json.loads(json_path.read_text(encoding="utf-8"))
            if not isinstance(mapping, dict) or not all(isinstance(text, str) for text in mapping.values()):
                raise ValueError("not an object of texts")
        elif text_path.is_file():
            lines = text_path.read_text(encoding="utf-8").split("\n")
            if any("::" not in line for line in lines if line):
                raise ValueError("a line without ::")
            mapping = dict(line.split("::", 1) for line in lines if line)
        else:
            mapping = {}
    except (OSError, ValueError, RecursionError) as error:
        path = json_path if json_path.is_file() else text_path
        raise DataError(
            f"not a table of texts: {first_line(error)}", path=path, expected="explanation id -> text"
        ) from error
    return pl.DataFrame({"explanation": list(mapping), "text": list(mapping.values())}, schema=TEXTS)


def _numbered(triplets: Triplets) -> tuple[pl.DataFrame, list[str]]:
    """Records as EXTRA has them, and the texts of its ids in order."""
    texts = triplets.text_of(np.arange(len(triplets.explanations))).to_list()
    said = triplets.explanation.astype(np.int64)
    if triplets.sentences is not None:
        own = triplets.sentences.fill_null("").unique(maintain_order=True)
        said = len(texts) + triplets.sentences.fill_null("").cast(pl.Enum(own)).to_physical().to_numpy()
        texts = texts + own.to_list()
    indptr = triplets.record_explanations.indptr
    columns: dict[str, object] = {
        "user": triplets.users.terms(triplets.record_user),
        "item": triplets.items.terms(triplets.record_item),
    }
    if triplets.rating is not None:
        columns["rating"] = pl.Series(triplets.rating, dtype=pl.Float64).fill_nan(None)
    if triplets.time is not None:
        columns["time"] = pl.Series(triplets.time)
    columns["exp_idx"] = _lists(triplets.explanation, indptr)
    columns["oexp_idx"] = _lists(said, indptr)
    return pl.DataFrame(columns), texts


def _lines(records: pl.DataFrame, folder: Path) -> list[str]:
    """Records as lines of IDs.txt; a missing rating is an empty field, a missing time no field."""
    for name in ("user", "item"):
        unfit = records[name].str.contains(r"::|[\r\n]|^:|:$")
        if unfit.any():
            bad = records[name].filter(unfit)[0]
            raise DataError(
                f"the id {bad!r} cannot stand in IDs.txt",
                path=folder,
                column=name,
                expected="no '::' or line break",
            )
    rating = pl.col("rating").cast(pl.String).fill_null("") if "rating" in records.columns else pl.lit("")
    time = [pl.col("time").cast(pl.String)] if "time" in records.columns else []
    lists = [pl.col(name).list.join(":") for name in ("exp_idx", "oexp_idx")]
    return records.select(pl.concat_str("user", "item", rating, *time, *lists, separator="::")).to_series().to_list()


def _lists(numbers: NDArray[np.integer], indptr: NDArray[np.int64]) -> pl.Series:
    """Digit strings, grouped by record."""
    record = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    table = pl.DataFrame({"record": record, "number": numbers})
    grouped = table.group_by("record", maintain_order=True).agg(pl.col("number").cast(pl.String))
    return grouped["number"]
