"""Splits of records into training, validation and test: at random, by time, each user's last ones; and their folder."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal, NotRequired, TypedDict, Unpack, get_args

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.atomic import Marker, json_object, new_file, new_folder
from whyrank.data.parquet import read_parquet
from whyrank.data.ratings import ANY, checked_range
from whyrank.data.tables import UNREADABLE, first_line, inside
from whyrank.data.triplets import Triplets
from whyrank.errors import DataError, ParameterError
from whyrank.plugins import reader_of
from whyrank.render import html_table
from whyrank.rng import hash_records, key_of

log = logging.getLogger("whyrank")
FORMAT = 1
OWN = r"split\.json|triplets\.parquet|[1-9][0-9]*/(train|validation|test)\.index"
Method = Literal["random", "time", "leave-last", "hash"]
ORDERED = ("time", "leave-last")  # methods by which test records come after those that are learned from
TEST, VALIDATION = 0.3, 0.1  # shares, the paper's
Records = NDArray[np.int64]


class Shares(TypedDict, total=False):
    """How records are divided, see `split_records`."""

    test: float | None
    validation: float | None
    method: Method
    last: int | None


class SplitInfo(TypedDict):
    """How a split was drawn."""

    method: str
    seed: int
    test: float
    validation: float
    number: int
    last: NotRequired[int]  # of leave-last: records of a user in each part; `test` and `validation` are what came out


@dataclass(frozen=True, eq=False, repr=False)
class Split:
    """Records in three parts that share vocabularies. Tune on `validation`, touch `test` once.

    `train` and `validation` together are the paper's training part: `training`.
    """

    data: Triplets
    train_records: Records
    validation_records: Records
    test_records: Records
    info: SplitInfo

    @cached_property
    def train(self) -> Triplets:
        return self.data.take(self.train_records)

    @cached_property
    def validation(self) -> Triplets:
        return self.data.take(self.validation_records)

    @cached_property
    def test(self) -> Triplets:
        return self.data.take(self.test_records)

    @cached_property
    def training(self) -> Triplets:
        """Train and validation together, for the last fit after tuning."""
        return self.data.take(np.sort(np.concatenate([self.train_records, self.validation_records])))

    def __repr__(self) -> str:
        parts = (self.train_records, self.validation_records, self.test_records)
        train, validation, test = (f"{len(part):,}" for part in parts)
        return f"Split({train} train, {validation} validation, {test} test records; seed {self.info['seed']})"

    @cached_property
    def inner(self) -> Split:
        """The same protocol one level down: `train` to learn from, `validation` to measure on, no test record."""
        nothing = np.empty(0, np.int64)
        return replace(self, validation_records=nothing, test_records=self.validation_records)

    def _repr_html_(self) -> str:
        """For notebooks."""
        parts = {"train": self.train, "validation": self.validation, "test": self.test}
        rows = [[name, f"{part.records:,}", f"{len(part):,}"] for name, part in parts.items()]
        return html_table(["part", "records", "triplets"], rows)

    def thinned(self, share: float) -> Split:
        """Training (with validation) cut down to `share` of all records, the test part untouched (sparsity experiment).

        The records that stay are the same ones for a larger share, so that shares are nested.
        """
        parts = (self.train_records, self.validation_records)
        have = sum(map(len, parts))
        wanted = round(share * self.data.records)
        if not 0 < wanted <= have:
            most = have / self.data.records
            raise ParameterError(f"share is {share}; use a number above 0 and at most {most:.2f}, the training part")
        train, validation = (self._first(part, round(len(part) * wanted / have)) for part in parts)
        return replace(self, train_records=train, validation_records=validation)

    def _first(self, records: Records, count: int) -> Records:
        """The first `count` of the records in an order that depends on the seed only."""
        rng = np.random.default_rng([self.info["seed"], self.info["number"], 1])
        return np.sort(rng.permutation(records)[:count])

    def write(self, folder: str | Path) -> Path:
        """Write a split folder with this one split."""
        return write_splits([self], folder)


def split_records(
    triplets: Triplets,
    *,
    seed: int = 0,
    test: float | None = None,
    validation: float | None = None,
    method: Method = "random",
    last: int | None = None,
    number: int = 1,
    warn: bool = True,
) -> Split:
    """Divide records into training and test, and draw a part of training for validation.

    `test` is the share of records in test (0.3 unless given), `validation` that of the others (0.1).
    `method="random"` is the paper's: every user, item and explanation keeps at least one record in training (and in
    the part of it that is not validation); where that needs more than 70%, training is larger. `method="time"` puts
    the latest records into test and the latest of the rest into validation; users, items and explanations may be cold
    there. `method="leave-last"` takes no shares: the `last` latest records of every user (1 unless given) are the
    test, and as many before them validation, which is StaR's leave-last-two. The first record of a user always stays
    in training: somebody with one record is in no other part, and validation gets what training and test leave.
    Records of the same time are put in an order drawn by the seed, those without a time come first; items and
    explanations may be cold. `method="hash"` looks at nothing but a record's own ids, so that data in many places is
    split alike; shares are met on average, and what is rare may be cold.

    Records with the same `copy_group`, whose texts are copies of each other, are in the same part, so that no test
    record was seen in training: where one must be in training all are, and by time the latest of them counts.

    Raises ParameterError for shares and methods that do not exist, DataError where times are needed and missing.

    >>> from whyrank.lab.simulate import simulate
    >>> data = simulate("small", users=20, items=9, explanations=40, records=90, triplets=120, seed=0)
    >>> data.split(method="leave-last", last=1).info["last"]
    1
    """
    if method not in get_args(Method):
        raise ParameterError(f"method is {method!r}; use one of {', '.join(get_args(Method))}")
    if method == "leave-last":
        return _leave_last(triplets, seed, test, validation, 1 if last is None else last, number, warn)
    if last is not None:
        raise ParameterError(f"last is for method='leave-last'; method is {method!r}, which takes test and validation")
    test, validation = TEST if test is None else test, VALIDATION if validation is None else validation
    for name, share in (("test", test), ("validation", validation)):
        if not 0 <= share < 1:
            raise ParameterError(f"{name} is {share}; use a share from 0 to below 1")
    info = SplitInfo(method=method, seed=seed, test=test, validation=validation, number=number)
    if method == "hash":
        return _by_part(triplets, hashed_parts(*_hashes_of_records(triplets), info), info)
    order, cover = _by_time(triplets) if method == "time" else _at_random(triplets, seed, number)
    units = _units(triplets)
    order, cover = _together(order, int(cover), units, np.maximum if method == "time" else np.minimum)
    training = _end_of_unit(units[order], max(triplets.records - round(test * triplets.records), cover))
    held = min(round(validation * training), training - cover)
    train, held_out, rest = np.split(order, [_end_of_unit(units[order], training - held), training])
    made = Split(triplets, np.sort(train), np.sort(held_out), np.sort(rest), info)
    if warn and number == 1:  # others of the same data are alike
        _warn_of_shares(made)
    return made


def _by_part(triplets: Triplets, parts: NDArray[np.uint8], info: SplitInfo) -> Split:
    """A split from the part of every record: 0 train, 1 validation, 2 test."""
    train, held_out, rest = (np.flatnonzero(parts == part) for part in range(3))
    return Split(triplets, train, held_out, rest, info)


def _leave_last(
    triplets: Triplets, seed: int, test: float | None, validation: float | None, last: int, number: int, warn: bool
) -> Split:
    """The last records of every user to test, those before them to validation."""
    if test is not None or validation is not None:
        raise ParameterError("leave-last takes last, the records of a user, instead of shares for test and validation")
    if last < 1:
        raise ParameterError(f"last is {last}; use a whole number, at least 1")
    if triplets.time is None:
        raise DataError("a split by each user's last records needs times", column="time", expected="a time column")
    drawn = np.random.default_rng([seed, number]).permutation(triplets.records)
    units = _units(triplets)
    latest, place = np.full(triplets.records, np.iinfo(np.int64).min), np.zeros(triplets.records, np.int64)
    np.maximum.at(latest, units, triplets.time)
    np.maximum.at(place, units, drawn)
    # Of copies only one is counted, the last one here; the others follow it.
    order = np.lexsort((drawn, units, place[units], latest[units], triplets.record_user))
    users = triplets.record_user[order]
    counted = np.append((np.diff(units[order]) != 0) | (np.diff(users) != 0), True)
    count = np.bincount(users[counted], minlength=len(triplets.users))
    after = np.cumsum(count)[users] - (np.cumsum(counted) - counted) - 1  # how many records of the user come later
    first = after == count[users] - 1
    parts = np.empty(triplets.records, np.uint8)
    parts[order] = np.where(first, 0, np.where(after < last, 2, np.where(after < 2 * last, 1, 0)))
    if triplets.copy_group is not None:  # several users may share one
        least = np.full(triplets.records, 2, np.uint8)
        np.minimum.at(least, units, parts)
        parts = least[units]
    shares = [float((parts == part).mean()) for part in (2, 1)]
    validation_share = shares[1] / max(1 - shares[0], 1e-9)
    info = SplitInfo(
        method="leave-last", seed=seed, test=shares[0], validation=validation_share, number=number, last=last
    )
    few, known = int(((count > 0) & (count < 2 * last + 1)).sum()), int((count > 0).sum())
    if warn and number == 1 and few:
        log.warning(
            "%s of %s users have fewer than %s records, too few for %s in test, as many in validation and one in "
            "training: %s of them are not tested at all; to leave them out, keep users with enough "
            "(--min-user-pairs %s, or filtered(user_pairs=%s))",
            *(f"{few:,}", f"{known:,}", 2 * last + 1, last, f"{int((count == 1).sum()):,}", 2 * last + 1, 2 * last + 1),
        )
    return _by_part(triplets, parts, info)


def _units(triplets: Triplets) -> Records:
    """The number of a record, or of the first one that it must stay together with."""
    alone = np.arange(triplets.records)
    if triplets.copy_group is None:
        return alone
    first = pl.DataFrame({"group": triplets.copy_group, "record": alone}).select(
        pl.when(pl.col("group").is_null()).then("record").otherwise(pl.col("record").min().over("group"))
    )
    return first.to_series().to_numpy().astype(np.int64)


def _together(order: Records, cover: int, units: Records, rank: np.ufunc) -> tuple[Records, int]:
    """An order in which the records of a unit follow each other, from the place of its first or last one."""
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    of_unit = place.copy()
    rank.at(of_unit, units, place)
    of_record = of_unit[units]
    return np.lexsort((place, of_record)), int((of_record < cover).sum())


def _end_of_unit(units: Records, place: int) -> int:
    """The first place, from the given one, at which an order can be cut without parting a unit."""
    while 0 < place < len(units) and units[place - 1] == units[place]:
        place += 1
    return place


def _hashes_of_records(triplets: Triplets) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Hashes of the user and the item of every record, or of the group that it must stay together with."""
    user, item = id_hashes(triplets.users.ids)[triplets.record_user], id_hashes(triplets.items.ids)
    item = item[triplets.record_item]
    if triplets.copy_group is not None:
        grouped, group = triplets.copy_group.is_not_null().to_numpy(), id_hashes(triplets.copy_group.fill_null(""))
        user, item = np.where(grouped, group, user), np.where(grouped, group, item)
    return user, item


def _warn_of_shares(made: Split) -> None:
    """Say what a split gives instead of the shares that were asked for."""
    test, held, records = len(made.test_records), len(made.validation_records), made.data.records
    wanted = round(made.info["test"] * records)
    wanted_held = round(made.info["validation"] * (records - wanted))
    if test < wanted or held < wanted_held:
        log.warning(
            "the split has %s test and %s validation records, not %s and %s: every user, item and explanation keeps a "
            "record in training, so that at most %.1f%% can be in test and validation; filter rare ones "
            "(split --min-user-pairs, --min-item-pairs, --min-uses), or split by time, leave-last or hash",
            *(f"{count:,}" for count in (test, held, wanted, wanted_held)),
            100 * (test + held) / max(records, 1),
        )


def id_hashes(ids: pl.Series) -> NDArray[np.uint64]:
    """64 bits of each id that are the same everywhere and forever."""
    digests = b"".join(hashlib.blake2b(text.encode(), digest_size=8).digest() for text in ids.to_list())
    return np.frombuffer(digests, "<u8").astype(np.uint64)


def hashed_parts(user: NDArray[np.uint64], item: NDArray[np.uint64], info: SplitInfo) -> NDArray[np.uint8]:
    """The part of every record, from hashes of its ids: 0 train, 1 validation, 2 test."""
    drawn = hash_records(user, item, key_of(info["seed"], info["number"]))
    test, held = drawn[0] < info["test"], drawn[1] < info["validation"]
    return np.where(test, 2, np.where(held, 1, 0)).astype(np.uint8)


def splits(triplets: Triplets, repeats: int = 5, *, seed: int = 0, **shares: Unpack[Shares]) -> list[Split]:
    """The protocol repeated: splits 1 to `repeats`, each with randomness of its own derived from `seed`.

    Raises ParameterError where nothing is random, as in a split by time: repeats would all be the same.
    """
    found = [split_records(triplets, seed=seed, number=number, **shares) for number in range(1, repeats + 1)]
    if repeats > 1 and np.array_equal(found[0].test_records, found[1].test_records) and len(found[0].test_records):
        raise ParameterError(
            f"repeats is {repeats}, but method={found[0].info['method']!r} gives the same split every time; use 1"
        )
    return found


def is_split(folder: Path) -> bool:
    return (folder / MARKER.file).is_file()


def _is_ours(folder: Path) -> bool:
    """Whether a split.json is one that `write_splits` wrote."""
    document = json_object(folder / MARKER.file)
    kinds = {"format": int, "data": str, "records": int, "splits": list}
    return all(isinstance(document.get(name), kind) for name, kind in kinds.items())


MARKER = Marker("split.json", OWN, _is_ours)


def write_splits(parts: list[Split], folder: str | Path) -> Path:
    """Write a folder that travels alone: the triplets, numbered folders of index files, and how it was drawn."""
    data = parts[0].data
    with new_folder(folder, MARKER) as aside:
        data.frame(record=True).write_parquet(aside / "triplets.parquet")
        for number, part in enumerate(parts, 1):
            (aside / str(number)).mkdir()
            for name in ("train", "validation", "test"):
                write_index(aside / str(number) / f"{name}.index", getattr(part, f"{name}_records"))
        document = {
            "format": FORMAT,
            "data": data.digest(),
            "records": data.records,
            "rating_range": data.rating_range,
            "splits": [part.info for part in parts],
        }
        (aside / MARKER.file).write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return Path(folder)


def read_split(folder: str | Path, number: int = 1) -> Split:
    """Read and verify one split of a split folder or of an EXTRA folder with numbered index folders.

    An EXTRA folder has no validation part: a tenth of its training records is drawn for it, by the number as the seed.

    Args:
        folder: The folder.
        number: Which of its splits, from 1.

    Returns:
        The split.

    Raises:
        DataError: There is no such split, or its files do not fit together.

    Examples:
        >>> import tempfile
        >>> import whyrank as wr
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = wr.simulate("small", users=60, items=9, records=300, seed=0).split(seed=0).write(f"{folder}/split")
        ...     read_split(f"{folder}/split").training
        Triplets(60 users, 9 items, 300 explanations, 210 records, 400 triplets)
    """
    folder = Path(folder)
    if is_split(folder):
        return read_splits(folder)[_checked_number(folder, number) - 1]
    data = _extra_data(folder)
    _checked_number(folder, number)
    return _extra_split(folder, data, number)


def read_splits(folder: str | Path) -> list[Split]:
    """All splits of a folder, over one copy of the data."""
    folder = Path(folder)
    numbers = split_numbers(folder)
    if not is_split(folder):
        data = _extra_data(folder)
        return [_extra_split(folder, data, number) for number in numbers]
    try:
        document = json.loads((folder / MARKER.file).read_text(encoding="utf-8"))
        expected, infos = document["data"], [_info(info) for info in document["splits"]]
        scale = checked_range(document.get("rating_range"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, ParameterError) as error:
        raise DataError(f"not a split description: {first_line(error)}", path=folder / MARKER.file) from error
    data = replace(_read_triplets(folder), rating_range=scale)
    if data.digest() != expected:
        raise DataError("the triplets are not those that were split", path=folder / "triplets.parquet")
    return [_indexed(folder, data, number, info) for number, info in zip(numbers, infos, strict=False)]


def split_numbers(folder: Path) -> list[int]:
    """The numbered folders that hold index files: 1, 2, ..."""
    if not folder.is_dir():
        raise DataError("no such folder", path=folder)
    numbers = [int(each.name) for each in folder.iterdir() if re.fullmatch(r"[1-9][0-9]{0,4}", each.name)]
    found = sorted(number for number in numbers if (folder / str(number) / "train.index").is_file())
    if not found:
        raise DataError("no numbered folder with train.index", path=folder, expected="1/train.index, 1/test.index")
    return found


def _checked_number(folder: Path, number: int) -> int:
    numbers = split_numbers(folder)
    if number not in numbers:
        raise DataError(f"no split {number}", path=folder, expected=f"one of {', '.join(map(str, numbers))}")
    return number


def _read_triplets(folder: Path) -> Triplets:
    path = inside(folder, "triplets.parquet")
    try:
        return Triplets.from_frame(read_parquet(path), record="record", rating_range=ANY)
    except (*UNREADABLE, pl.exceptions.ColumnNotFoundError) as error:
        raise DataError(f"cannot be read: {first_line(error)}", path=path) from error


def _index(folder: Path, number: int, name: str, records: int) -> Records:
    return read_index(inside(folder, f"{number}/{name}.index"), records)


def _indexed(folder: Path, data: Triplets, number: int, info: SplitInfo) -> Split:
    parts = [_index(folder, number, name, data.records) for name in ("train", "validation", "test")]
    if len(np.unique(np.concatenate(parts))) != sum(map(len, parts)):
        raise DataError("a record is in two parts", path=folder / str(number))
    return Split(data, parts[0], parts[1], parts[2], info)


def _info(document: dict[str, object]) -> SplitInfo:
    """What a split.json says of one split, checked."""
    info = SplitInfo(
        method=str(document["method"]),
        seed=int(str(document["seed"])),
        test=float(str(document["test"])),
        validation=float(str(document["validation"])),
        number=int(str(document["number"])),
    )
    if "last" in document:
        info["last"] = int(str(document["last"]))
    return info


def read_index(path: Path, records: int) -> NDArray[np.int64]:
    """Record numbers separated by white space, each below `records`."""
    try:
        numbers = np.array([int(word) for word in path.read_text(encoding="utf-8").split()], np.int64)
    except (OSError, UnicodeDecodeError, ValueError, OverflowError) as error:
        raise DataError(f"not an index file: {first_line(error)}", path=path, expected="record numbers") from error
    if len(numbers) and (numbers.min() < 0 or numbers.max() >= records):
        bad = int(numbers[(numbers < 0) | (numbers >= records)][0])
        raise DataError(f"record {bad} does not exist", path=path, expected=f"numbers from 0 to {records - 1}")
    if len(np.unique(numbers)) != len(numbers):
        raise DataError("a record is listed twice", path=path)
    return numbers


def write_index(path: Path, numbers: NDArray[np.integer]) -> None:
    """Write record numbers as `read_index` reads them."""
    with new_file(path) as aside:
        aside.write_text(" ".join(map(str, numbers.tolist())), encoding="utf-8")


def _extra_data(folder: Path) -> Triplets:
    """Read the records of an EXTRA folder, to which its index files refer."""
    reader = reader_of(folder)
    if reader is None:
        raise DataError("not a split folder", path=folder, expected="split.json, or an EXTRA folder")
    data: Triplets = reader.read_extra(folder)
    return data


def _extra_split(folder: Path, data: Triplets, number: int) -> Split:
    training, test = (np.sort(_index(folder, number, name, data.records)) for name in ("train", "test"))
    if len(np.intersect1d(training, test)):
        raise DataError("a record is in two parts", path=folder / str(number))
    inner = split_records(data.take(training), seed=number, test=0.0)
    info = SplitInfo(method="extra", seed=number, test=len(test) / data.records, validation=0.1, number=number)
    return Split(data, training[inner.train_records], training[inner.validation_records], test, info)


def _at_random(triplets: Triplets, seed: int, number: int) -> tuple[Records, int]:
    """A random order of records whose first `cover` hold every user, item and explanation that occurs."""
    shuffled = np.random.default_rng([seed, number]).permutation(triplets.records)
    place = np.empty(triplets.records, np.int64)
    place[shuffled] = np.arange(triplets.records)
    said_in = np.repeat(np.arange(triplets.records), triplets.record_explanations.sizes())
    needed = np.zeros(triplets.records, bool)
    needed[_earliest(triplets.record_user, place)] = True
    needed[_earliest(triplets.record_item, place)] = True
    needed[said_in[_earliest(triplets.explanation, place[said_in])]] = True
    first = needed[shuffled]
    return np.concatenate([shuffled[first], shuffled[~first]]), int(needed.sum())


def _earliest(groups: NDArray[np.int32], place: Records) -> Records:
    """For each group that occurs, the entry with the smallest place."""
    order = np.argsort(place, kind="stable")
    _, first = np.unique(groups[order], return_index=True)
    return order[first]


def _by_time(triplets: Triplets) -> tuple[Records, int]:
    if triplets.time is None:
        raise DataError("a split by time needs times", column="time", expected="a time column")
    return np.argsort(triplets.time, kind="stable"), 0
