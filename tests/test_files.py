from __future__ import annotations

import contextlib
import gzip
import io
import json
import pickle
import tracemalloc
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whyrank.data import Triplets, read, write
from whyrank.data.columns import seconds
from whyrank.data.compressed import _zstd_size
from whyrank.data.parquet import _value_size, check_parquet
from whyrank.data.problems import Problems
from whyrank.data.tables import table_batches
from whyrank.errors import DataError, ParameterError
from whyrank.lab.extra import read_extra, write_extra

HEAD = "user,item,explanation\n"


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.jsonl", "t.parquet", "t.csv.gz", "t.tsv.zst", "t.jsonl.gz"])
def test_every_form_reads_back_what_was_written(data: Triplets, tmp_path: Path, name: str) -> None:
    assert read(write(data, tmp_path / name)).digest() == data.digest()


@pytest.mark.parametrize("form", ["pickle", "text", "both"])
def test_an_extra_folder_reads_back_with_its_records_in_order(data: Triplets, tmp_path: Path, form: str) -> None:
    back = read(write_extra(data, tmp_path / "extra", form))
    assert back.users == data.users
    assert back.record_user.tolist() == data.record_user.tolist()
    assert back.record_item.tolist() == data.record_item.tolist()
    ours, theirs = (each.frame(record=True).select("record", "text").rows() for each in (data, back))
    assert sorted(ours) == sorted(theirs)


def test_the_published_code_could_read_what_we_write(tiny: Triplets, tmp_path: Path) -> None:
    folder = write_extra(tiny, tmp_path)
    records = pickle.loads((folder / "IDs.pickle").read_bytes())
    texts = json.loads((folder / "id2exp.json").read_text())
    assert records[0] == {
        "user": "ann",
        "item": "inn",
        "rating": 5.0,
        "time": 1577836800,
        "exp_idx": ["0", "1"],
        "oexp_idx": ["0", "1"],
    }
    assert texts == {"0": "Clean", "1": "Quiet rooms", "2": "Rude staff", "3": "Warm water"}
    assert (folder / "IDs.txt").read_text().splitlines()[3] == "cat::spa::1.0::1585699200::2::2"


def test_extra_without_time_has_five_fields(tmp_path: Path) -> None:
    (tmp_path / "IDs.txt").write_text("u::h::4::7:7:9::8:7:9\nv::h::2::9::9\n")
    (tmp_path / "id2exp.txt").write_text("7::Great location\n9::Bad service\n8::Great location!\n")
    triplets = read(tmp_path)
    assert (triplets.records, len(triplets)) == (2, 3)  # an explanation said twice in a record counts once
    assert triplets.time is None
    assert triplets.text_of(triplets.explanation).to_list() == ["Great location", "Bad service", "Bad service"]


def test_columns_can_be_renamed_or_numbered(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("who,what,why\nann,inn,quiet\n")
    (tmp_path / "b.tsv").write_text('ann\tinn\t"quiet\n')
    renamed = read(tmp_path / "a.csv", columns={"user": "who", "item": "what", "explanation": "why"})
    numbered = read(tmp_path / "b.tsv", columns={"user": 0, "item": 1, "explanation": 2})
    assert renamed.explanations.ids.to_list() == ["quiet"]
    assert numbered.explanations.ids.to_list() == ['"quiet']


BAD = {
    "missing.csv": (b"user,item\na,b\n", "column 'explanation': missing column"),
    "empty.csv": (b"", "the file is empty"),
    "header.csv": (HEAD.encode(), "no triplets"),
    "blank.csv": (HEAD.encode() + b"a,b,c\na,,c\n", r"row 2, column 'item': empty id"),
    "ragged.csv": (HEAD.encode() + b"a,b,c\na,b,c,d\n", r"row 3: wrong number of columns: 4 \(expected 3 columns\)"),
    "bytes.csv": (HEAD.encode() + b"a,b,c\na,\xff\xfe,c\n", "row 3: undecodable bytes"),
    "broken.jsonl": (b'{"user":"a","item":"b","explanation":"c"}\n{"user": \n', "row 2: broken JSON"),
    "list.jsonl": (b'{"user":"a","item":"b","explanation":"c"}\n[1]\n', "row 2: not a JSON object"),
    "bytes.jsonl": (b'{"user":"a","item":"b","explanation":"c"}\n{"user":"\xff"}\n', "row 2: undecodable bytes"),
    "torn.parquet": (b"PAR1 and then nothing", "not a readable Parquet file"),
    "torn.csv.gz": (gzip.compress(HEAD.encode() + b"a,b,c\n" * 99)[:40], "row 45: cut short or damaged"),
    "what.xyz": (b"?", "unknown kind of file"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_refused_with_file_row_and_expectation(tmp_path: Path, name: str) -> None:
    content, problem = BAD[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=problem) as caught:
        read(tmp_path / name)
    assert name in str(caught.value)


@pytest.mark.parametrize("name", ["blank.csv", "ragged.csv", "bytes.csv", "broken.jsonl", "list.jsonl"])
def test_bad_rows_are_skipped_and_counted_when_asked(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(BAD[name][0])
    problems = Problems("skip")
    assert len(read(tmp_path / name, on_error=problems)) == 1
    assert problems.skipped == 1
    assert "skipped 1 row" in problems.summary()


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("u::h::4::1", "wrong number of fields: 4"),
        ("u::h::4::5::6::7::8", "wrong number of fields: 7"),
        ("::h::4::1::1", "empty id"),
        ("u::h::4::1:2::1", "explanations and sentences differ"),
    ],
)
def test_bad_lines_of_an_extra_folder_are_named(tmp_path: Path, line: str, problem: str) -> None:
    (tmp_path / "IDs.txt").write_text(f"u::h::4::1::1\n{line}\n")
    with pytest.raises(DataError, match=f"row 2: {problem}"):
        read_extra(tmp_path)
    problems = Problems("skip")
    assert read_extra(tmp_path, problems).records == 1
    assert problems.skipped == 1


class Malicious:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return exec, ("raise SystemExit('a pickle was executed')",)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_malicious_pickle_is_refused_and_runs_nothing(tmp_path: Path, protocol: int) -> None:
    records = [{"user": "u", "item": "i", "exp_idx": ["1"], "more": Malicious()}]
    (tmp_path / "IDs.pickle").write_bytes(pickle.dumps(records, protocol))
    with pytest.raises(DataError, match="more than plain containers and scalars"):
        read(tmp_path)


def doubled(times: int) -> list[object]:
    """Few bytes, and as many entries as 2 to that power when it is written down."""
    return [*[doubled(times - 1)] * 2] if times else ["1"]


GREEDY = {
    "announces many objects": b"\x80\x03]r" + (20_000_000).to_bytes(4, "little") + b".",
    "announces many bytes": b"\x80\x05\x96" + (20_000_000).to_bytes(8, "little") + b"abc.",
    "an endless id": pickle.dumps([{"user": doubled(18), "item": "i", "exp_idx": ["1"]}]),
    "an endless rating": pickle.dumps([{"user": "u", "item": "i", "rating": doubled(18), "exp_idx": ["1"]}]),
}


@pytest.mark.parametrize("content", GREEDY.values(), ids=GREEDY)
def test_a_pickle_gets_no_more_memory_than_it_has_bytes_for(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "IDs.pickle").write_bytes(content)
    assert len(content) < 1000
    tracemalloc.start()
    try:
        with pytest.raises(DataError):
            read(tmp_path)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@given(st.binary(max_size=200))
def test_any_bytes_as_a_pickle_give_a_typed_error(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    folder = tmp_path_factory.mktemp("pickle")
    (folder / "IDs.pickle").write_bytes(content)
    with pytest.raises(DataError):
        read(folder)


WRONG_COUNTS = [
    (b",\x15\n", b",\x15\t", "a page with impossible counts"),  # a page of -5 values: polars would ask for 2 EiB
    (b",\x15\n", b",\x15\x0c", "its pages do not hold its rows"),  # a page of 6
    (b"\x16\n\x19", b"\x16\x0c\x19", "its rows are not those of its groups"),  # a file of 6
    (b"PAR1\x15", b"PAR1\xff", "a damaged header"),
]


@pytest.mark.parametrize(("right", "wrong", "problem"), WRONG_COUNTS)
def test_wrong_counts_in_a_parquet_file_do_not_reach_polars(
    tmp_path: Path, right: bytes, wrong: bytes, problem: str
) -> None:
    path = tmp_path / "t.parquet"
    pl.DataFrame({"user": list("abcde"), "item": list("fghij"), "explanation": list("klmno")}).write_parquet(path)
    assert len(read(check_parquet(path))) == 5
    path.write_bytes(path.read_bytes().replace(right, wrong))
    with pytest.raises(DataError, match=problem):
        check_parquet(path)
    with pytest.raises(DataError, match=problem):
        read(path)


@given(st.binary(max_size=300), st.sampled_from(["f.csv", "f.tsv", "f.jsonl", "f.parquet", "f.csv.gz"]))
def test_any_bytes_in_a_file_give_triplets_or_a_typed_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, name: str
) -> None:
    path = tmp_path_factory.mktemp("bytes") / name
    path.write_bytes(content)
    for columns in (None, {"user": 0, "item": 1, "explanation": 2}):
        with contextlib.suppress(DataError):
            assert len(read(path, columns=columns)) > 0


def test_a_folder_without_data_says_what_was_expected(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no data in this folder"):
        read(tmp_path)
    with pytest.raises(DataError, match="no such file or folder"):
        read(tmp_path / "nowhere")


def test_input_files_are_never_changed(tmp_path: Path, tiny: Triplets) -> None:
    path = write(tiny, tmp_path / "t.parquet")
    before = path.read_bytes()
    pl.read_parquet(path)
    read(path)
    assert path.read_bytes() == before


ROWS = "".join(f"u{row},i{row % 7},e{row % 5}\n" for row in range(3000))


def test_a_column_named_record_counts_only_when_it_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("record,user,item,explanation\n1,ann,inn,quiet\n1,bob,spa,warm\n2,ann,inn,clean\n")
    assert read(path).frame().rows() == [("ann", "inn", "clean"), ("ann", "inn", "quiet"), ("bob", "spa", "warm")]
    with pytest.raises(DataError, match=r"row 2, column 'record': record 1 has another user or item"):
        read(path, columns={"record": "record"})
    path.write_text("visit,user,item,explanation\n2,ann,inn,quiet\n1,ann,inn,warm\n2,ann,inn,clean\n")
    assert read(path, columns={"record": "visit"}).records == 2
    with pytest.raises(DataError, match="column 'nowhere': missing column"):
        read(path, columns={"record": "nowhere"})
    frame = pl.DataFrame({"user": ["a", "b"], "item": ["x", "y"], "explanation": ["e", "f"], "record": [1, 1]})
    assert Triplets.from_frame(frame).records == 2
    with pytest.raises(DataError, match="record 1 has another user"):
        Triplets.from_frame(frame, record="record")


@pytest.mark.parametrize("values", [["1", "one"], [1, None], [1.5, 2.0], [[1], [2]]], ids=str)
def test_records_are_whole_numbers(values: list[object]) -> None:
    frame = pl.DataFrame({"user": ["a", "a"], "item": ["x", "x"], "explanation": ["e", "f"], "record": values})
    with pytest.raises(DataError, match="a whole number in every row"):
        Triplets.from_frame(frame, record="record")


ODD_COLUMNS = {
    "list": [["a"], ["b"]],
    "array": pl.Series([["a"], ["b"]], dtype=pl.Array(pl.String, 1)),
    "struct": [{"a": 1}, {"a": 2}],
    "duration": [timedelta(1), timedelta(2)],
    "binary": [b"\xff", b"\xfe"],
}


@pytest.mark.parametrize("kind", ODD_COLUMNS)
@pytest.mark.parametrize("name", ["user", "explanation", "text", "rating", "time", "sentence", "record"])
def test_columns_of_odd_types_are_named(tmp_path: Path, kind: str, name: str) -> None:
    plain = {"user": ["a", "b"], "item": ["x", "y"], "explanation": ["e", "f"]}
    path = tmp_path / "t.parquet"
    pl.DataFrame(plain | {name: ODD_COLUMNS[kind]}).write_parquet(path)
    columns = {"record": "record"} if name == "record" else None
    for on_error in ("raise", "skip"):
        with pytest.raises(DataError, match=rf"t.parquet, column '{name}': a column of type"):
            read(path, columns=columns, on_error=on_error)


def test_texts_as_bytes_are_texts(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pl.DataFrame({"user": [b"a"], "item": ["x"], "explanation": ["e"]}).write_parquet(path)
    assert read(path).users.ids.to_list() == ["a"]


@pytest.mark.parametrize(
    ("opened", "swallowed"), [('u,i,"e\n', ""), ('u,"i,e\n', ""), ('u,i,"e\n', 'v,j,"f\n'), ('u,i,"e" f\n', "")]
)
def test_a_quote_that_is_not_closed_costs_its_own_row_alone(tmp_path: Path, opened: str, swallowed: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"{HEAD}a,b,c\n{opened}{ROWS}{swallowed}")
    with pytest.raises(DataError, match=r"row 3: broken row: .*quotes that close"):
        read(path)
    problems = Problems("skip")
    assert len(read(path, on_error=problems)) == 3001
    assert problems.counts == {"broken row": 1 + bool(swallowed)}


def test_rows_of_several_lines_and_quotes_inside_of_words_are_read_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(HEAD + 'a,b,"two\nlines ""said"""\na,b,5" pipe\na,b,c,d\n')
    problems = Problems("skip")
    assert read(path, on_error=problems).explanations.ids.to_list() == ['5" pipe', 'two\nlines "said"']
    assert problems.counts == {"wrong number of columns": 1}


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.jsonl"])
def test_what_stands_behind_a_nul_is_kept(tmp_path: Path, name: str) -> None:
    row = '{"user":"a","item":"b","explanation":"c\\u0000d"}\n{\n' if "json" in name else HEAD + "a,b,c\0d\na,b\n"
    (tmp_path / name).write_bytes(gzip.compress(row.encode()) if name.endswith("gz") else row.encode())
    assert read(tmp_path / name, on_error="skip").explanations.ids.to_list() == ["c\0d"]


@pytest.mark.parametrize("other", ["", "{broken\n"])
@pytest.mark.parametrize(
    ("number", "text"), [("1.0", "1"), ("1", "1"), ("1.10", "1.1"), ("1e30", "1" + "0" * 30), ("1e-7", "0.0000001")]
)
def test_a_number_as_an_id_reads_the_same_whatever_stands_in_other_lines(
    tmp_path: Path, number: str, text: str, other: str
) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(f'{{"user":{number},"item":"b","explanation":"c"}}\n{other}')
    assert read(path, on_error="skip").users.ids.to_list() == [text]


@pytest.mark.parametrize("half", ["\\ud800", "a\\ud800b", "\\udc00"])
def test_half_a_character_is_undecodable(tmp_path: Path, half: str) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(f'{{"user":"a","item":"b","explanation":"c"}}\n{{"user":"{half}","item":"b","explanation":"c"}}\n')
    with pytest.raises(DataError, match="row 2: undecodable"):
        read(path)
    assert read(path, on_error="skip").users.ids.to_list() == ["a"]


def test_time_zones_count() -> None:
    texts = ["2020-01-01T00:00:00", "2020-01-01 00:00:00Z", "2020-01-01T02:00:00+02:00", "2019-12-31 18:30:00.5-0530"]
    texts += ["2020-01-01", "1577836800", "2020-01-01 00:00 UTC", "2020-01-01T01:00+01:00"]
    assert set(seconds(pl.Series("time", texts)).tolist()) == {1577836800}
    with pytest.raises(DataError, match="row 1, column 'time': not a time"):
        seconds(pl.Series("time", ["2020-01-01T00:00:00 Mars"]))


def test_whole_rows_of_a_gzip_file_that_was_cut_short_can_be_kept(tmp_path: Path) -> None:
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress((HEAD + ROWS).encode())[:-2000])
    with pytest.raises(DataError, match="cut short or damaged"):
        read(path)
    problems = Problems("skip")
    taken = read(path, on_error=problems)
    assert 1000 < taken.records < 3000
    assert set(taken.frame().rows()) <= {tuple(row.split(",")) for row in ROWS.split()}  # no half of a row
    assert problems.counts == {"cut short or damaged": 1}


def test_blanks_after_quoted_fields_are_no_part_of_them(tmp_path: Path) -> None:
    lines = ['"a" ,"b, ""c"" ,"\t,"d\ne"  ', 'a2,b2,"f" ,', '"a3","b3",g ', '"a4" x,b4,h', '"a5","b5" ,i']
    path = tmp_path / "t.csv"
    path.write_text("\n".join([HEAD.strip(), *lines]) + "\n")
    with pytest.raises(DataError, match="row 4: wrong number of columns: 4"):
        read(path)
    found = read(path, on_error="skip").frame().select("user", "item", "explanation").rows()
    assert found == [("a", 'b, "c" ,', "d\ne"), ("a3", "b3", "g "), ("a5", "b5", "i")]


def a_bomb(name: str, megabytes: int) -> bytes:
    """A header and one endless row; few bytes when compressed."""
    content = HEAD.encode() + b"a,b," + b"c" * (megabytes << 20)
    if name.endswith(".gz"):
        return gzip.compress(content, 9)
    buffer = io.BytesIO()
    pl.DataFrame({"user,item,explanation": [content.decode()[len(HEAD) :]]}).write_csv(
        buffer, quote_style="never", compression="zstd", check_extension=False
    )
    return buffer.getvalue()


@pytest.mark.parametrize("name", ["t.csv.gz", "t.csv.zst"])
def test_a_file_that_grows_too_much_is_refused_before_it_is_read(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / name).write_bytes(a_bomb(name, 3))
    monkeypatch.setattr("whyrank.data.compressed.SMALL", 1 << 20)
    with pytest.raises(DataError, match=r"grows to more than 1 MB when decompressed .*--max-expansion"):
        read(tmp_path / name)
    assert len(read(tmp_path / name, max_expansion=100_000)) == 1
    with pytest.raises(ParameterError, match="max_expansion"):
        read(tmp_path / name, max_expansion=0)


BOMBS = {
    "equal rows": ["quiet"] * 200_000,
    "one long text": ["q" * 3_000_000],
    "a long text in many rows": [*map(str, range(2000)), *["q" * 20_000] * 400],
}


@pytest.mark.parametrize("said", BOMBS.values(), ids=BOMBS.keys())
def test_a_parquet_file_that_grows_too_much_is_refused(
    tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pl.DataFrame({"user": ["ann"], "item": ["inn"], "explanation": [said]}).explode("explanation")
    rows.write_parquet(tmp_path / "t.parquet")
    monkeypatch.setattr("whyrank.data.compressed.SMALL", 1 << 20)
    with pytest.raises(DataError, match=r"grows to more than 1 MB when decompressed .*--max-expansion"):
        read(tmp_path / "t.parquet")
    assert read(tmp_path / "t.parquet", max_expansion=100_000).records == 1


def test_a_parquet_file_that_grows_too_much_is_refused_in_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pl.DataFrame({"user": BOMBS["a long text in many rows"]}).write_parquet(tmp_path / "t.parquet")
    monkeypatch.setattr("whyrank.data.compressed.SMALL", 1 << 20)
    with pytest.raises(DataError, match="grows to more than 1 MB"):
        list(table_batches(tmp_path / "t.parquet", lambda names: names, Problems(), 500))


def test_the_size_of_values_with_shared_prefixes_is_not_underestimated(tmp_path: Path) -> None:
    """Each may begin with all of the page's texts; no writer here makes such pages."""
    assert _value_size(encoding=7, kind=6, page=1000, entry=0) == 1016


@given(st.binary(max_size=100))
def test_any_bytes_have_a_size_when_decompressed(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("zst") / "t.csv.zst"
    path.write_bytes(b"\x28\xb5\x2f\xfd" + content)
    assert _zstd_size(path, 1 << 30) >= 0


@pytest.mark.parametrize("more", ["", "\xff"])
@pytest.mark.parametrize("name", ["t.csv", "t.jsonl", "t.csv.gz"])
def test_a_mark_before_utf_8_is_no_part_of_the_first_line(tmp_path: Path, name: str, more: str) -> None:
    row = '{"user":"a","item":"b","explanation":"c"}\n' if "json" in name else HEAD + "a,b,c\n"
    content = f"\ufeff{row}".encode() + more.encode("latin-1")
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    assert read(tmp_path / name, on_error="skip").users.ids.to_list() == ["a"]


def test_rows_with_ratings_times_and_records_that_are_none_are_skipped_and_counted(tmp_path: Path) -> None:
    rows = [
        "a,b,c,5,2020-01-01,1",
        "a,b,d,good,2020-01-01,1",
        "a,b,e,,soon,1",
        "a,b,f,3,,1",
        "a,b,g,3,,one",
        ",b,h,bad,,1",
    ]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["user,item,explanation,rating,time,visit", *rows, ""]))
    problems = Problems("skip")
    taken = read(path, columns={"record": "visit"}, on_error=problems)
    assert taken.explanations.ids.to_list() == ["c", "f"]
    assert problems.counts == {"not a number": 1, "not a time": 1, "not the number of a record": 1, "empty id": 1}
    path.write_text("\n".join(["user,item,explanation,rating", *(row[: row.index(",", 6)] for row in rows[:2]), ""]))
    with pytest.raises(DataError, match="row 2, column 'rating': not a number: 'good'"):
        read(path)


@pytest.mark.parametrize("name", ["said.csv", "said.tsv", "said.csv.gz"])
def test_what_is_written_for_spreadsheets_holds_no_formula_and_reads_as_it_was(tmp_path: Path, name: str) -> None:
    rows = {
        "user": ["@ann", "'=b"],
        "item": ["-inn", "+spa"],
        "explanation": ["=1+1", "-5"],
        "sentence": ["=cmd()", "x"],
    }
    said = Triplets.from_frame(pl.DataFrame(rows))
    said.write(tmp_path / name)
    table = pl.read_csv(tmp_path / name, separator="\t" if "tsv" in name else ",", infer_schema=False)
    assert sorted(table["user"]) == ["''=b", "'@ann"]
    assert sorted(table["explanation"]) == ["'=1+1", "-5"]
    assert read(tmp_path / name).frame().equals(said.frame())
