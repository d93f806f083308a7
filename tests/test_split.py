from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whyrank.data import Split, Triplets, read, read_split, read_splits, splits, write_splits
from whyrank.data.describe import describe
from whyrank.data.split import write_index
from whyrank.errors import DataError, ParameterError
from whyrank.lab.extra import write_extra

rows = st.lists(
    st.tuples(st.sampled_from("abcdefgh"), st.sampled_from("uvwxyz"), st.sampled_from("123456789")),
    min_size=1,
    max_size=120,
)


@given(rows, st.integers(0, 9))
def test_parts_are_disjoint_complete_and_cover_everything(triplets: list[tuple[str, str, str]], seed: int) -> None:
    made = Triplets.from_frame(pl.DataFrame(triplets, schema=["user", "item", "explanation"], orient="row"))
    split = made.split(seed=seed)
    everything = np.concatenate([split.train_records, split.validation_records, split.test_records])
    assert sorted(everything.tolist()) == list(range(made.records))
    assert len(np.unique(split.train.user)) == len(made.users)
    assert len(np.unique(split.train.item)) == len(made.items)
    assert len(np.unique(split.train.explanation)) == len(made.explanations)


def test_shares_are_the_papers(data: Triplets) -> None:
    split = data.split(seed=0)
    assert len(split.test_records) == round(0.3 * data.records)
    training = data.records - len(split.test_records)
    assert len(split.validation_records) == round(0.1 * training)
    assert split.training.records == training


def test_a_seed_gives_the_same_split_and_another_seed_another(data: Triplets) -> None:
    again = data.split(seed=0)
    assert np.array_equal(data.split(seed=0).test_records, again.test_records)
    assert not np.array_equal(data.split(seed=1).test_records, again.test_records)
    first, second = splits(data, 2, seed=0)
    assert np.array_equal(first.test_records, again.test_records)
    assert not np.array_equal(first.test_records, second.test_records)


def test_thinned_training_is_nested_and_leaves_the_test_alone(data: Triplets) -> None:
    split = data.split(seed=0)
    thin, thicker = split.thinned(0.3), split.thinned(0.5)
    assert np.array_equal(thin.test_records, split.test_records)
    assert set(thin.train_records) < set(thicker.train_records) < set(split.train_records)
    assert thin.training.records == round(0.3 * data.records)
    with pytest.raises(ParameterError):
        split.thinned(0.9)


def test_a_split_by_time_puts_the_latest_last(data: Triplets) -> None:
    split = data.split(method="time")
    times = [part.time for part in (split.train, split.validation, split.test)]
    assert times[0] is not None
    assert times[1] is not None
    assert times[2] is not None
    assert times[0].max() <= times[1].min() <= times[1].max() <= times[2].min()


def test_a_split_by_time_needs_times(data: Triplets) -> None:
    without = Triplets.from_frame(data.frame().drop("time"))
    with pytest.raises(DataError, match="needs times"):
        without.split(method="time")


def test_a_split_folder_travels_alone(data: Triplets, tmp_path: Path) -> None:
    parts = splits(data, 3, seed=4)
    folder = write_splits(parts, tmp_path / "split").rename(tmp_path / "elsewhere")
    back = read_splits(folder)
    assert len(back) == 3
    for one, other in zip(parts, back, strict=True):
        assert one.info == other.info
        assert np.array_equal(one.train_records, other.train_records)
        assert np.array_equal(one.validation_records, other.validation_records)
        assert one.test.digest() == other.test.digest()
    assert read(folder, number=2).digest() == parts[1].train.digest()


def damage(folder: Path, how: str) -> None:
    if how == "other data":
        frame = pl.read_parquet(folder / "triplets.parquet")
        frame.head(len(frame) - 1).write_parquet(folder / "triplets.parquet")
    elif how == "out of range":
        (folder / "1" / "test.index").write_text("0 99999")
    elif how == "overlap":
        (folder / "1" / "test.index").write_text((folder / "1" / "train.index").read_text())
    elif how == "words":
        (folder / "1" / "train.index").write_text("one two")
    elif how == "json":
        (folder / "split.json").write_text("{")


@pytest.mark.parametrize(
    ("how", "problem"),
    [
        ("other data", "not those that were split"),
        ("out of range", "record 99999 does not exist"),
        ("overlap", "a record is in two parts"),
        ("words", "not an index file"),
        ("json", "not a split description"),
    ],
)
def test_a_damaged_split_folder_is_refused(split: Split, tmp_path: Path, how: str, problem: str) -> None:
    folder = split.write(tmp_path / "split")
    damage(folder, how)
    with pytest.raises(DataError, match=problem):
        read_split(folder)


def test_an_extra_folder_with_index_files_is_a_split(data: Triplets, tmp_path: Path) -> None:
    folder = write_extra(data, tmp_path / "extra")
    whole = data.split(seed=0, validation=0.0)
    (folder / "1").mkdir()
    write_index(folder / "1" / "train.index", whole.train_records)
    write_index(folder / "1" / "test.index", whole.test_records)
    split = read_split(folder)
    assert np.array_equal(split.test_records, whole.test_records)
    assert np.array_equal(np.sort(np.r_[split.train_records, split.validation_records]), whole.train_records)
    with pytest.raises(DataError, match="no split 2"):
        read_split(folder, 2)


@pytest.mark.parametrize("options", [{"test": 1.0}, {"validation": -0.1}, {"method": "odd"}])
def test_bad_options_are_refused(data: Triplets, options: dict[str, object]) -> None:
    with pytest.raises(ParameterError):
        data.split(**options)


def test_a_split_that_cannot_keep_its_shares_says_what_it_gives(
    data: Triplets, caplog: pytest.LogCaptureFixture
) -> None:
    rows = {"user": [f"u{n}" for n in range(40)], "item": [f"i{n % 9}" for n in range(40)], "explanation": ["e"] * 40}
    sparse = Triplets.from_frame(pl.DataFrame(rows))
    for part in splits(sparse, 3):
        assert len(part.test_records) == 0
    assert caplog.text.count("the split has 0 test and 0 validation records, not 12 and 3") == 1
    caplog.clear()
    sparse.split(method="hash")
    data.split()
    assert not caplog.text


copied = st.lists(
    st.tuples(
        *(st.sampled_from("abcd"), st.sampled_from("uvwxyz"), st.sampled_from("12345")),
        *(st.integers(1, 9), st.sampled_from([None, "g", "h", "i"])),
    ),
    min_size=1,
    max_size=60,
)


def with_groups(rows: list[tuple[object, ...]]) -> Triplets:
    names = ["user", "item", "explanation", "time", "copy_group"]
    return Triplets.from_frame(pl.DataFrame(rows, names, orient="row"))


@given(copied, st.sampled_from(["random", "time", "leave-last", "hash"]), st.integers(0, 9))
def test_copies_are_in_the_same_part(rows: list[tuple[object, ...]], method: str, seed: int) -> None:
    made = with_groups(rows)
    split = made.split(seed=seed, method=method)  # type: ignore[arg-type]
    parts = (split.train_records, split.validation_records, split.test_records)
    assert sorted(np.concatenate(parts).tolist()) == list(range(made.records))
    groups = [set(made.copy_group.gather(part).drop_nulls()) for part in parts]
    assert not groups[0] & groups[1] | groups[0] & groups[2] | groups[1] & groups[2]
    if method == "random":
        assert len(np.unique(split.train.explanation)) == len(made.explanations)


def test_groups_of_one_record_change_no_split(data: Triplets) -> None:
    alone = replace(data, copy_group=pl.Series([str(number) for number in range(data.records)]))
    for method in ("random", "time", "leave-last"):
        one, other = (each.split(seed=3, method=method) for each in (data, alone))
        assert np.array_equal(one.test_records, other.test_records)
        assert np.array_equal(one.validation_records, other.validation_records)


def test_the_last_of_a_user_are_counted_without_copies() -> None:
    rows = [("a", item, "1", at, group) for at, (item, group) in enumerate(zip("uvwxyz", "ghgiig", strict=True), 1)]
    split = with_groups(rows).split(method="leave-last", last=1)  # by the last of each: h, then i, then g
    parts = (split.train, split.validation, split.test)
    assert [part.items.terms(part.record_item).to_list() for part in parts] == [["v"], ["x", "y"], ["u", "w", "z"]]


def test_groups_of_copies_are_written_read_and_described(tmp_path: Path) -> None:
    made = with_groups([("a", "u", "1", 1, "g"), ("a", "v", "1", 2, "g"), ("a", "w", "1", 3, None)])
    for name in ("t.parquet", "t.csv", "t.jsonl"):
        assert read(made.write(tmp_path / name)).digest() == made.digest()
    assert read_split(made.split(seed=0).write(tmp_path / "split")).data.copy_group.to_list() == ["g", "g", None]
    assert describe(made).copied == 2
