"""Files of other projects: RecBole's, StaR's and MovieLens', as small samples of their forms."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from whyrank.data import read
from whyrank.errors import DataError

INTER = "user_id:token\titem_id:token\ttag:token_seq\trating:float\ttimestamp:float\n"


def rows(path: Path, **options: object) -> list[tuple[str, str, str]]:
    return sorted(read(path, **options).frame().select("user", "item", "explanation").rows())  # type: ignore[arg-type]


@pytest.mark.parametrize("separator", [" ", ","])
def test_an_atomic_file_of_recbole(tmp_path: Path, separator: str) -> None:
    file = tmp_path / "hotels.inter"
    file.write_text(f"{INTER}7\t3\t12{separator}4\t4.0\t1400000000.0\n8\t3\t4\t2\t1.400000001e+09\n")
    found = read(file)
    assert rows(file) == [("7", "3", "12"), ("7", "3", "4"), ("8", "3", "4")]
    assert found.time is not None
    assert found.time.tolist() == [1400000000, 1400000001]
    assert found.rating is not None
    assert found.rating.tolist() == [4, 2]
    packed = tmp_path / "hotels.inter.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    assert read(packed).digest() == found.digest()


def test_columns_name_those_of_an_atomic_file_without_their_types(tmp_path: Path) -> None:
    file = tmp_path / "a.inter"
    file.write_text("who:token\titem_id:token\twords:token_seq\ttag:token\nann\tinn\ta b c\tquiet rooms\n")
    assert rows(file, columns={"user": "who", "explanation": "tag"}) == [("ann", "inn", "quiet rooms")]
    assert rows(file, columns={"user": "who"}) == [("ann", "inn", word) for word in "abc"]


@pytest.mark.parametrize(
    ("text", "problem", "row"),
    [
        ("user_id\titem_id\ttag\nu\ti\te\n", "a header without a type: 'user_id'", 1),
        ("user_id:token\titem_id:token\tn:float\nu\ti\t1\n", "no column for explanation", None),
        (f"{INTER}u\ti\te\n", "wrong number of columns: 3", 2),
        (f"{INTER}u\ti\t\t1\t1\n", "no explanation", 2),
    ],
)
def test_a_broken_atomic_file_is_named(tmp_path: Path, text: str, problem: str, row: int | None) -> None:
    file = tmp_path / "a.inter"
    file.write_text(text)
    with pytest.raises(DataError, match=problem) as error:
        read(file)
    assert error.value.row == row
    assert error.value.path == file


def test_bad_rows_of_an_atomic_file_can_be_skipped(tmp_path: Path) -> None:
    file = tmp_path / "a.inter"
    file.write_text(f"{INTER}u\ti\t\t1\t1\nu\tj\te f\t1\t1\n")
    assert rows(file, on_error="skip") == [("u", "j", "e"), ("u", "j", "f")]


STAR = """,user_id,item_id,rating,timestamp,statements,statement_ids
0,A1,B7,5.0,1400000000,"[{'statement': 'soft, warm', 'sentiment': 'positive'}]","[1, 0]"
5,A2,B7,2.0,1400000009,"[{'statement': 'thin', 'sentiment': 'negative'}]",[2]
"""
TEXTS = ',statement,sentiment,frequency\n0,"soft, warm",positive,1\n1,fits well,positive,1\n2,thin,negative,1\n'


def test_the_tables_of_star_with_their_texts(tmp_path: Path) -> None:
    (tmp_path / "dataset_vC.csv").write_text(STAR)
    alone = read(tmp_path / "dataset_vC.csv")
    assert alone.texts is None
    (tmp_path / "statements_vC.csv").write_text(TEXTS)
    for place in (tmp_path, tmp_path / "dataset_vC.csv"):
        found = read(place)
        said = found.frame().select("user", "item", "text", "polarity").rows()
        assert sorted(said) == [("A1", "B7", "fits well", 1), ("A1", "B7", "soft, warm", 1), ("A2", "B7", "thin", -1)]
    assert found.time is not None
    assert found.time.tolist() == [1400000000, 1400000009]


def test_a_table_of_star_with_a_broken_list_is_named(tmp_path: Path) -> None:
    file = tmp_path / "dataset_vC.csv"
    file.write_text(STAR + "6,A3,B7,2.0,1400000009,x,__import__('os')\n")
    with pytest.raises(DataError, match="not a list of statements") as error:
        read(file)
    assert (error.value.row, error.value.column) == (4, "statement_ids")
    assert len(read(file, on_error="skip")) == 3


def test_a_link_to_texts_elsewhere_is_not_followed(tmp_path: Path) -> None:
    folder = tmp_path / "star"
    folder.mkdir()
    (folder / "dataset_vC.csv").write_text(STAR)
    (tmp_path / "secret.csv").write_text(TEXTS)
    (folder / "statements_vC.csv").symlink_to(tmp_path / "secret.csv")
    with pytest.raises(DataError, match="leads elsewhere"):
        read(folder)


def test_the_tags_of_movielens_and_blanks_around_ids(tmp_path: Path) -> None:
    file = tmp_path / "tags.dat"
    file.write_text("15::4973::excellent!::1215184630\n 20 ::  1747::so, funny ::1188263867\n")
    assert rows(file) == [(" 20 ", "  1747", "so, funny "), ("15", "4973", "excellent!")]
    assert rows(file, trim=True) == [("15", "4973", "excellent!"), ("20", "1747", "so, funny")]
    places = {"user": 1, "item": 0, "explanation": 2}
    assert rows(file, columns=places, trim=True)[0] == ("1747", "20", "so, funny")
    found = read(file, trim=True)
    assert found.time is not None
    assert sorted(found.time.tolist()) == [1188263867, 1215184630]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("1::2::tag::3\n1::2::3\n", "wrong number of fields: 3"),
        ("1::1193::5::978300760\n", "ratings, not tags"),
        ("1 2 tag\n", "no separator in its first line"),
        ("1,2,tag\n1,2,'a', 3\n", "row 2: wrong number of fields: 4"),
        ('1,2,tag\n1,2,"a\n', "row 2: broken row"),
    ],
)
def test_a_broken_file_of_double_colons_is_named(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "tags.dat"
    file.write_text(text)
    with pytest.raises(DataError, match=problem):
        read(file)


@pytest.mark.parametrize("separator", [",", "\t"])
def test_tags_with_commas_or_tabs_and_maybe_a_header(tmp_path: Path, separator: str) -> None:
    file = tmp_path / "tags.dat"
    lines = [["15", "4973", "excellent!", "1215184630"], ["20", "1747", "so funny", "1188263867"]]
    file.write_text("".join(f"{separator.join(line)}\n" for line in lines))
    assert rows(file) == [("15", "4973", "excellent!"), ("20", "1747", "so funny")]
    assert rows(file, columns={"user": 1, "item": 0, "explanation": 2})[0] == ("1747", "20", "so funny")
    for names, columns in {
        ("user", "item", "explanation", "time"): None,
        ("userID", "artistID", "tag", "when"): {"user": "userID", "item": "artistID", "explanation": "tag"},
    }.items():
        file.write_text("".join(f"{separator.join(line)}\n" for line in (names, *lines)))
        assert rows(file, columns=columns) == [("15", "4973", "excellent!"), ("20", "1747", "so funny")]
    with pytest.raises(DataError, match="missing column"):
        read(file, columns={"user": "who", "item": "artistID", "explanation": "tag"})


def test_a_quoted_tag_may_hold_commas(tmp_path: Path) -> None:
    file = tmp_path / "tags.dat"
    file.write_text('15,4973,"so, funny" ,1215184630\n')
    assert rows(file) == [("15", "4973", "so, funny")]


def test_explanations_in_lower_case_are_one_and_ids_stay(tmp_path: Path) -> None:
    file = tmp_path / "tags.dat"
    file.write_text("Ann::X::Rock::1\nann::X::rock::2\nann::X::ROCK::3\n")
    assert rows(file, lower=True) == [("Ann", "X", "rock"), ("ann", "X", "rock")]


def test_the_command_line_reads_them_and_trims(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from whyrank.cli import main

    file = tmp_path / "tags.dat"
    file.write_text("1 ::a::good::1\n1::b::good::2\n1::c::bad::3\n")
    with pytest.raises(SystemExit) as end:
        main(["split", str(file), "--trim", "--method", "leave-last", "-o", str(tmp_path / "split"), "--json"])
    assert end.value.code == 0
    assert json.loads(capsys.readouterr().out)["records"] == {"train": [1], "validation": [1], "test": [1]}
    file.write_text("1::a::good::1\n1::b\n")
    with pytest.raises(SystemExit) as end:
        main(["describe", str(file)])
    assert end.value.code == 2
    assert "row 2" in capsys.readouterr().err


def test_every_command_that_reads_columns_can_trim_ids() -> None:
    import typer

    from whyrank.cli import commands  # noqa: F401 - registers them
    from whyrank.cli.app import app

    listed = typer.main.get_command(app).commands.items()
    options = {name: {each.name for each in command.params} for name, command in listed}
    reading = {name for name, names in options.items() if "columns" in names}
    assert {"mine", "refresh", "fold-in", "experiment", "tune", "fit", "split", "convert", "describe", "add"} <= reading
    assert {name for name in reading if "trim" not in options[name]} == set()
    assert {name for name in reading if "lower" not in options[name]} == {"mine", "refresh"}  # reviews have none


def test_reviews_are_trimmed_when_asked_for(tmp_path: Path) -> None:
    from whyrank.cli import main

    lines = [f"u{n}{' ' * (n % 2)},{' ' * (n % 3)}cafe{n % 2},The staff was friendly." for n in range(8)]
    lines += [f"u{n}{' ' * (1 - n % 2)},cafe{1 - n % 2},Friendly staff." for n in range(8)]
    (tmp_path / "reviews.csv").write_text("\n".join(["user,item,text", *lines]))
    for trim, users, items in ((["--trim"], 8, 2), ([], 16, 6)):
        with pytest.raises(SystemExit) as end:
            main(["mine", str(tmp_path / "reviews.csv"), "-o", str(tmp_path / "mined"), *trim])
        assert end.value.code == 0
        found = read(tmp_path / "mined")
        assert (len(found.users), len(found.items)) == (users, items)
