"""Erase a person from what is named: the store, models, splits, mined folders and checkpoints."""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.artifacts import REPORT, read_report, report_text
from whyrank.atomic import json_object, sole_writer, write_text
from whyrank.data.catalog import Catalog
from whyrank.data.csr import CSR
from whyrank.data.people import TEXTS, People
from whyrank.data.ratings import ANY
from whyrank.data.split import Split, is_split, read_splits, write_splits
from whyrank.data.triplets import Triplets
from whyrank.data.vocabulary import Vocabulary
from whyrank.errors import ArtifactError, DataError
from whyrank.mining.mined import Mined, is_mined
from whyrank.mining.pool import Pool, described
from whyrank.models import Model, load
from whyrank.online.erasure import erase, tombstone
from whyrank.places import refresh_folders

if TYPE_CHECKING:
    from whyrank.online.store import Store

STATE = "state.json"  # of refreshes
RECOUNTED = "evidence is counted anew without the user"
UNLINKED = (
    "counts of people still include the user, without a link; name the split it was fitted to and it is recounted"
)
LEARNED = "What a model learned from all users together stays until it is fitted again."


@dataclass(frozen=True)
class Erased:
    """What was erased from one folder, and its digest before and after."""

    folder: str
    kind: str  # model, split, mined, checkpoint, run
    found: bool
    before: str
    after: str | None  # None: removed
    removed: Mapping[str, int] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True)
class Receipt:
    """Proof of an erasure that names nobody: who knows the id can compute the hash, not back."""

    id: str
    time: int
    salt: str
    user: str  # SHA-256 of the salt and the id
    store: Mapping[str, int] | None
    folders: tuple[Erased, ...]
    note: str = LEARNED

    @classmethod
    def of(cls, user: str, store: Mapping[str, int] | None, folders: Sequence[Erased]) -> Receipt:
        salt = secrets.token_hex(16)
        hash_ = hashlib.sha256(f"{salt}\0{user}".encode()).hexdigest()
        return cls(secrets.token_hex(8), int(time.time()), salt, hash_, store, tuple(folders))

    @property
    def found(self) -> bool:
        """Whether anything was known of the user."""
        return any((self.store or {}).values()) or any(each.found for each in self.folders)

    def as_dict(self) -> dict[str, object]:
        folders = [vars(each) | {"removed": dict(each.removed)} for each in self.folders]
        return vars(self) | {"folders": folders}


def forget(
    user: str,
    *,
    store: Store | None = None,
    models: Iterable[str | Path] = (),
    data: Iterable[str | Path] = (),
) -> Receipt:
    """Erase a user; every folder is replaced in one step, or not at all.

    Args:
        user: the external id.
        store: an open store, or None.
        models: folders of saved models. The id becomes a tombstone drawn at random, factors become
            zeros (as those of somebody unknown), quotes and whatever the user said are removed.
            Where `data` names what a model was fitted to, its evidence is counted anew without the
            user. What refreshes left is erased as well, wherever they worked: the pool that the
            next one goes on with, and the model of the last run; earlier runs with the user in
            them, or that cannot be read, are removed.
        data: folders of splits, mined folders, and files of checkpoints. A checkpoint is removed,
            since it holds the user's factors and belongs to data that are no longer there.

    Returns:
        A receipt without the id.

    Raises:
        DataError, ArtifactError: something that is named is not what it should be; what came before
            it is erased.
    """
    stored = None if store is None else erase(store, user)
    named, served = [Path(each) for each in data], [Path(each) for each in models]
    work = list(dict.fromkeys(folder for each in served for folder in refresh_folders(each)))
    served = list({each.resolve(): each for each in served}.values())  # two links to one folder
    with ExitStack() as locks:
        for each in work:  # a refresh that runs would put the user in again
            locks.enter_context(sole_writer(each))
        pools = [pool for each in work for pool in _pools(each)]
        fitted_to = [*_training_data(named), *_training_data(pools, needed=False)]
        folders = [_forget_model(each, user, fitted_to) for each in served]
        folders += [erased for each in work for erased in _forget_runs(each, user)]
        folders += [_forget_data(each, user) for each in named]
    return Receipt.of(user, stored, folders)


def held_by_model(model: Model, user: str) -> dict[str, object]:
    """Return what a model holds of a user, for an export: items, explanations, quotes."""
    catalog, number = model.catalog_, _number(model.catalog_, user)
    if number < 0:
        return {"model": model.id, "known": False}
    said = catalog.user_explanations.row(number)
    return {
        "model": model.id,
        "known": True,
        "items": catalog.items.terms(catalog.user_items.row(number)).to_list(),
        "explanations": catalog.explanations.terms(said).to_list(),
        "quotes": catalog.people.quotes.filter(pl.col("user") == number)["text"].to_list(),
        "factors": [name for name in model.fitted if name in model.of_users],
    }


def _number(known: Catalog | Triplets, user: str) -> int:
    """Return the number of a user; -1: unknown."""
    return int(known.users.numbers([user], missing="negative")[0])


# -- models ----------------------------------------------------------------------------------------


def _forget_model(folder: Path, user: str, fitted_to: Sequence[Triplets]) -> Erased:
    """Erase a user from a saved model; `fitted_to` are data that it may have been fitted to."""
    with sole_writer(folder):
        model = load(folder)
        before, catalog, number = model.digest(), model.catalog_, _number(model.catalog_, user)
        beside = (each.parent / f"{each.name}.{REPORT}" for each in (folder, folder.resolve()))
        for file in (folder / REPORT, *beside):
            _forget_in_report(file, user)
        if number < 0:
            return Erased(str(folder), "model", False, before, before)
        removed = {
            "records": int(catalog.user_items.sizes()[number]),
            "quotes": int((catalog.people.quotes["user"] == number).sum()),
        }
        recounted = next(filter(None, (_recounted(catalog, number, each) for each in fitted_to)), None)
        note = UNLINKED if recounted is None else RECOUNTED
        left = _without_bytes(_unlinked(catalog, number) if recounted is None else recounted)
        left = _without_words(left, _only_said_by(user, catalog, fitted_to))
        model.catalog_ = replace(left, users=_renamed(catalog.users, [number]))
        model.data_digest_ = hashlib.sha256(f"{model.data_digest_} without somebody".encode()).hexdigest()
        for name in set(model.fitted) & set(model.of_users):
            array: NDArray[np.float32] = np.array(getattr(model, f"{name}_"))
            array[number] = 0
            setattr(model, f"{name}_", array)
        model.save(folder, read_report(folder / REPORT) if (folder / REPORT).is_file() else None)
        return Erased(str(folder), "model", True, before, load(folder).digest(), removed, note)


def _forget_in_report(file: Path, user: str) -> None:
    """Take the user's pairs out of what was measured of a model; figures name nobody and stay."""
    if not file.is_file():
        return
    try:
        report = read_report(file)
    except ArtifactError:  # nobody can tell whom it names, and nothing shows it
        file.unlink()
        return
    missed = report.get("missed")
    if not isinstance(missed, list):
        return
    left = [each for each in missed if not (isinstance(each, dict) and each.get("user") == user)]
    if len(left) < len(missed):
        write_text(file, report_text(report | {"missed": left}))


def _training_data(paths: Iterable[Path], needed: bool = True) -> list[Triplets]:
    """Read what models may have been fitted to; what cannot be read raises where it is needed."""
    found = []
    for path in paths:
        try:
            if path.is_dir() and is_split(path):
                found.append(read_splits(path)[0].data)
            elif path.is_dir() and is_mined(path):
                found.append(Mined.read(path).triplets)
        except DataError:
            if needed:
                raise
    return found


def _recounted(catalog: Catalog, user: int, data: Triplets) -> Catalog | None:
    """The catalog counted anew without a user; None where it was not counted from these data.

    The pairs that a catalog knows tell which records it was counted from. Counted again they must give what it has.
    """
    named = catalog.tables()["explanations"]
    nobody, nothing = np.empty(0, np.int32), CSR(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.int32))
    like = Triplets(
        *(catalog.users, catalog.items, catalog.explanations, nobody, nobody, nothing),
        texts=catalog.texts,
        aspects=named["aspect"] if "aspect" in named.columns else None,
        polarity=catalog.polarity,
        senses=catalog.senses,
        opposites=catalog.opposite_senses,
    )
    known = replace(data.renumbered(like), rating_range=catalog.rating_range)
    known = known.take(np.flatnonzero(catalog.knows(known.record_user, known.record_item)))
    for name in ("user_items", "item_explanations"):
        counted, have = getattr(known, name), getattr(catalog, name)
        if not all(np.array_equal(one, two) for one, two in zip(counted, have, strict=True)):
            return None
    left = Catalog.of(known.take(np.flatnonzero(known.record_user != user)))
    return replace(left, worth_weight=catalog.worth_weight)


def _unlinked(catalog: Catalog, user: int) -> Catalog:
    """A catalog without what leads to a user: their rows and their quotes; sums over all people stay."""
    people = catalog.people
    mine = (people.quotes["user"] == user).to_numpy()
    entry = np.repeat(np.arange(len(people.quote_starts) - 1), np.diff(people.quote_starts))[~mine]
    starts = np.zeros(len(people.quote_starts), np.int64)
    np.cumsum(np.bincount(entry, minlength=len(starts) - 1), out=starts[1:])
    left: People = replace(
        people,
        user_aspects=_without_row(people.user_aspects, user),
        quotes=people.quotes.filter(pl.Series(~mine)),
        quote_starts=starts,
    )
    return replace(
        catalog,
        user_explanations=_without_row(catalog.user_explanations, user),
        user_items=_without_row(catalog.user_items, user),
        people=left,
    )


def _without_bytes(catalog: Catalog) -> Catalog:
    """Copy the quotes: a column that was filtered still holds all of its bytes, and saves them."""
    people = catalog.people
    quotes = pl.DataFrame({column.name: column.to_list() for column in people.quotes}, TEXTS)
    return replace(catalog, people=replace(people, quotes=quotes))


def _only_said_by(user: str, catalog: Catalog, fitted_to: Sequence[Triplets]) -> list[int]:
    """Find explanations that nobody else gave, also in data from which the model did not learn."""
    found = set[int]()
    holders: list[Catalog | Triplets] = [catalog, *fitted_to]
    for known in holders:
        if (number := _number(known, user)) >= 0:
            people = np.bincount(known.user_explanations.indices, minlength=len(known.explanations))
            said = known.user_explanations.row(number)
            own = known.explanations.terms(said[people[said] == 1])
            found.update(catalog.explanations.numbers(own, missing="negative").tolist())
    return sorted(found - {-1})


def _without_words(catalog: Catalog, erased: list[int]) -> Catalog:
    """A catalog in which some explanations, and aspects that only they have, are tombstones."""
    rest = set(np.delete(catalog.aspect, erased).tolist())
    aspects = sorted({*catalog.aspect[erased].tolist()} - rest - {-1})
    explanations, texts = _renamed(catalog.explanations, erased), catalog.texts
    if texts is not None:
        words = texts.to_list()
        for number in erased:
            words[number] = explanations.ids[number]
        texts = pl.Series(texts.name, words, pl.String)
    return replace(catalog, explanations=explanations, texts=texts, aspects=_renamed(catalog.aspects, aspects))


def _renamed(ids: Vocabulary, erased: Sequence[int]) -> Vocabulary:
    """A vocabulary in which tombstones stand for some ids; their bytes are nowhere in it."""
    names = ids.ids.to_list()
    for number in erased:
        names[number] = tombstone()
    return Vocabulary(pl.Series(ids.ids.name, names, pl.String), ids.kind)


def _without_row(relation: CSR, row: int) -> CSR:
    """A relation whose row is empty."""
    stays = relation.rows_of_entries() != row
    indptr = relation.indptr.copy()
    indptr[row + 1 :] -= indptr[row + 1] - indptr[row]
    return CSR(indptr, relation.indices[stays], relation.counts[stays])


# -- data ------------------------------------------------------------------------------------------


def _forget_data(path: Path, user: str) -> Erased:
    """Erase a user from a split, a mined folder or a checkpoint."""
    for is_one, erase_from in ((is_split, _forget_split), (is_mined, _forget_mined)):
        if path.is_dir() and is_one(path):
            with sole_writer(path):
                return erase_from(path, user)
    if path.is_file() and _is_checkpoint(path):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        path.unlink()
        return Erased(str(path), "checkpoint", True, digest, None, note="removed")
    expected = "a split folder, a mined folder or a checkpoint; others' files are never changed"
    raise DataError("cannot be erased from", path=path, expected=expected)


def _is_checkpoint(path: Path) -> bool:
    """Whether a file is one that a training wrote."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "np") as file:
            facts = file.metadata() or {}
    except (OSError, SafetensorError):
        return False
    return "training" in facts or str(facts.get("format", "")).startswith("whyrank")


def _forget_split(folder: Path, user: str) -> Erased:
    splits = read_splits(folder)
    data = splits[0].data
    number = int(data.users.numbers([user], missing="negative")[0])
    before = data.digest()
    if number < 0:
        return Erased(str(folder), "split", False, before, before)
    stays = data.record_user != number
    if not stays.any():
        raise DataError("nobody else is in it; remove the folder", path=folder)
    place = np.cumsum(stays) - 1
    rest = data.take(np.flatnonzero(stays)).frame(record=True)
    left = replace(Triplets.from_frame(rest, record="record", rating_range=ANY), rating_range=data.rating_range)

    def moved(records: NDArray[np.int64]) -> NDArray[np.int64]:
        return place[records[stays[records]]]

    fresh = [
        Split(left, moved(each.train_records), moved(each.validation_records), moved(each.test_records), each.info)
        for each in splits
    ]
    write_splits(fresh, folder)
    after = read_splits(folder)[0].data.digest()
    return Erased(str(folder), "split", True, before, after, {"records": int((~stays).sum())})


def _forget_mined(folder: Path, user: str) -> Erased:
    """Triplets and quotes of the user, wordings that only they used, and examples in the account, whose writers are
    not known."""
    mined = Mined.read(folder)
    before = _account_digest(folder)
    theirs = mined.pool.triplets.filter(pl.col("user") == user)
    if not theirs.height and mined.learned is None:
        return Erased(str(folder), "mined", False, before, before)
    triplets = mined.pool.triplets.filter(pl.col("user") != user)
    own = set(theirs["sentence"].drop_nulls()) - set(triplets["sentence"].drop_nulls())
    said = triplets["explanation"].unique().implode()
    wordings = mined.wordings.filter(~pl.col("text").is_in(sorted(own)))
    wordings = wordings.filter(pl.col("explanation").is_null() | pl.col("explanation").is_in(said))
    pool = described(Pool(triplets, wordings, mined.explanations.filter(pl.col("id").is_in(said))))
    report = replace(mined.report, examples={name: [] for name in mined.report.examples})
    replace(mined, pool=pool, report=report, problems={}, learned=None).write(folder)  # it is learned anew
    return Erased(str(folder), "mined", True, before, _account_digest(folder), {"triplets": theirs.height})


def _account_digest(folder: Path) -> str:
    """A digest of a mined folder: of the checksums of its tables."""
    account = json.loads((folder / "mining.json").read_text(encoding="utf-8"))
    return hashlib.sha256(json.dumps(account["sha256"], sort_keys=True).encode()).hexdigest()


# -- refreshes -------------------------------------------------------------------------------------


def _pools(work: Path) -> list[Path]:
    """Find the pools that a refresh may go on with: that of the last run, and one it was told of."""
    state = json_object(work / STATE)
    found = [work / "runs" / str(state["run"]) / "pool"] if "run" in state else []
    found += [Path(str(state["pool"]))] if "pool" in state else []
    return [each for each in found if is_mined(each)]


def _forget_runs(work: Path, user: str) -> list[Erased]:
    """Erase a user from the run that the next refresh goes on with; remove others that name them."""
    state, found = json_object(work / STATE), list[Erased]()
    for run in sorted(each.parent for each in work.glob("runs/*/pool") if is_mined(each)):
        if run.name == state.get("run"):
            found += _forget_run(run, user)
        elif _may_name(run / "pool", user):
            before = _account_digest(run / "pool")
            shutil.rmtree(run)
            note = "removed: nothing goes on with it"
            found.append(Erased(str(run), "run", True, before, None, note=note))
    if "pool" in state:
        remembered = Path(str(state["pool"]))
        if is_mined(remembered):
            found.append(_forget_data(remembered, user))
        else:  # it may come back as it was, and must then be named again
            del state["pool"]
            write_text(work / STATE, json.dumps(state, indent=1, ensure_ascii=False) + "\n")
    return found


def _may_name(pool: Path, user: str) -> bool:
    """Whether a pool names a user, or cannot be read."""
    try:
        return user in Mined.read(pool).pool.triplets["user"]
    except DataError:
        return True


def _forget_run(run: Path, user: str) -> list[Erased]:
    triplets = Mined.read(run / "pool").triplets
    if _number(triplets, user) < 0:
        return []
    found = [_forget_model(run / "model", user, [triplets])] if (run / "model").is_dir() else []
    # The pool comes last: it tells that there is something to erase.
    left = [each for each in (run / "checkpoint", run / "pool") if each.exists()]
    for report in (run / "drift.json", run / "drift.md"):  # what new reviews say, the user's too
        report.unlink(missing_ok=True)
    return found + [_forget_data(each, user) for each in left]
