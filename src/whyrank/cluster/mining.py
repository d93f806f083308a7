"""Mining in stages of files, with the output of the local miner.

Every file of reviews is cut and counted on its own. Counts meet by ranges of keys, long sentences are joined with their
near-duplicates band by band, and what can never be said often enough is known. Every file then gives only the rest, a
few percent, and the local miner does with that what it does with all reviews.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import polars as pl

from whyrank.atomic import Marker, new_file, new_folder
from whyrank.cluster import near_duplicates as near
from whyrank.cluster.session import Cluster
from whyrank.data.problems import SHOWN as PROBLEMS
from whyrank.data.problems import OnError, Problems
from whyrank.errors import DataError
from whyrank.kernels import sentences as kernel
from whyrank.mining.groups import Wordings, can_be_near, count_wordings, merge_wordings
from whyrank.mining.mined import Mined
from whyrank.mining.pipeline import Before, cut_reviews, find_wordings
from whyrank.mining.pool import build
from whyrank.mining.report import SHOWN, Rare, Report
from whyrank.mining.reviews import Reading, read_reviews
from whyrank.mining.rules import MiningRules
from whyrank.mining.sentences import CAUSES, KEPT, Cut, Cutter, Spool, as_bytes

NOTES = "notes.json"
ORIGIN = Marker("origin.json")
SENTENCES = Marker("sentences.npz")


@dataclass
class Notes:
    """What was counted while one file was cut."""

    text_bytes: int = 0
    reviews: int = 0  # that were cut
    read: int = 0
    foreign: int = 0
    counts: list[int] = field(default_factory=list)
    examples: dict[int, list[str]] = field(default_factory=dict)
    rejected: dict[str, int] = field(default_factory=dict)
    problems: dict[str, list[str]] = field(default_factory=dict)


def mine_files(
    cluster: Cluster,
    files: Sequence[Path],
    output: Path,
    folder: Path,
    *,
    columns: dict[str, str] | None = None,
    rules: MiningRules | None = None,
    on_error: OnError = "raise",
    tell: Callable[[str, int, int | None], None] | None = None,
) -> Path:
    """Write the folder that `mine(files, ...)` and `write` would write; stages are kept in `folder`, which all see.

    A file that is cut is not cut again after an interruption.
    """
    rules, tell = rules or MiningRules(), tell or (lambda stage, done, total: None)
    folder = folder.resolve()
    waiting = [
        cluster.submit(cut_file, file.resolve(), folder / f"cut-{number:05d}", columns, rules, on_error)
        for number, file in enumerate(files)
    ]
    while waiting:
        done, waiting = cluster.first(waiting)
        cluster.gather(done)
        tell("cutting files", len(files) - len(waiting), len(files))
    ranges = min(64, max(1, cluster.cpus))
    tell("counting sentences", 0, None)
    cluster.gather([cluster.submit(count_range, folder, len(files), place, ranges) for place in range(ranges)])
    similarity, places = float(rules.similarity), range(ranges)
    tell("finding near-duplicates", 0, None)
    cluster.gather([cluster.submit(sign_range, folder, len(files), place, rules) for place in places])
    cluster.gather([cluster.submit(near.send_to_bands, folder, place, ranges, similarity) for place in places])
    cluster.gather([cluster.submit(near.join_band, folder, place, ranges, similarity) for place in places])
    cluster.gather([cluster.submit(near.unite, folder, ranges, rules.min_count)])
    cluster.gather([cluster.submit(keep_range, folder, len(files), place, rules) for place in places])
    cluster.gather([cluster.submit(take_file, folder, number, ranges) for number in range(len(files))])
    tell("grouping", 0, None)
    cluster.gather([cluster.submit(finish, folder, len(files), ranges, rules, output.resolve())])
    shutil.rmtree(folder, ignore_errors=True)
    return output


# -- what machines do --------------------------------------------------------------------------------------------------


def cut_file(file: Path, folder: Path, columns: dict[str, str] | None, rules: MiningRules, on_error: OnError) -> None:
    """Cut and count one file of reviews into a folder."""
    stat = file.stat() if file.is_file() else None
    origin = json.dumps([str(file), stat and [stat.st_size, stat.st_mtime_ns], columns, rules.as_dict(), on_error])
    mark = folder / ORIGIN.file
    if mark.is_file() and mark.read_text(encoding="utf-8") == origin:
        return
    with new_folder(folder, ORIGIN) as aside:
        reading, spool, cutter = Reading(Problems(on_error)), Spool(aside), Cutter.of(rules)
        cut_reviews(read_reviews(file, columns, reading), cutter, spool, 1, lambda stage, done, total: None)
        notes = Notes(
            spool.text_bytes, spool.reviews, reading.reviews, spool.foreign, spool.counts.tolist(), spool.examples,
            reading.rejected, reading.problems.examples,
        )  # fmt: skip
        (aside / NOTES).write_text(json.dumps(asdict(notes)), encoding="utf-8")
        near.write_arrays(aside / "wordings.npz", count_wordings(spool)._asdict())
        (aside / ORIGIN.file).write_text(origin, encoding="utf-8")


def count_range(folder: Path, files: int, place: int, ranges: int) -> None:
    """Count the wordings of a range of keys over all files; the first sentence is that of the first file."""
    low, high = (np.uint64(min((1 << 64) * edge // ranges, (1 << 64) - 1)) for edge in (place, place + 1))
    merged: Wordings | None = None
    for number in range(files):
        part = _read_wordings(folder / f"cut-{number:05d}" / "wordings.npz")
        inside = part.take((part.keys >= low) & ((part.keys < high) | (place == ranges - 1)))
        inside = inside._replace(first=inside.first + _first_sentences(folder, number))
        merged = inside if merged is None else merge_wordings(merged, inside)
    assert merged is not None
    near.write_arrays(folder / f"counts-{place:05d}.npz", merged._asdict())


def sign_range(folder: Path, files: int, place: int, rules: MiningRules) -> None:
    """Write the shingles of those wordings of a range that others can come near to."""
    wordings = _read_wordings(folder / f"counts-{place:05d}.npz")
    wordings = wordings.take(can_be_near(wordings, rules.similarity))
    texts = _texts(folder, files, wordings.first)
    near.write_signatures(folder, place, wordings, *Cutter.of(rules).shingles(*as_bytes(texts)))


def keep_range(folder: Path, files: int, place: int, rules: MiningRules) -> None:
    """Which keys of a range can be part of a group that is said often enough; what is to be reported of the others."""
    wordings = _read_wordings(folder / f"counts-{place:05d}.npz")
    kept = near.kept_of(folder, wordings, rules.min_count)
    most = int(wordings.counts[~kept].max(initial=0))
    often = np.flatnonzero(~kept & (wordings.counts == most))[:SHOWN]
    shown = _texts(folder, files, wordings.first[often]).to_list()
    examples = list(zip(wordings.keys[often].tolist(), shown, strict=True))
    rare = Rare(int(wordings.counts[~kept].sum()), int((~kept).sum()), most, examples)
    with new_file(folder / f"rare-{place:05d}.json") as aside:
        aside.write_text(json.dumps(rare), encoding="utf-8")
    with new_file(folder / f"kept-{place:05d}.npy") as aside, aside.open("wb") as handle:
        np.save(handle, wordings.keys[kept])


def take_file(folder: Path, number: int, ranges: int) -> None:
    """The sentences of one file that say a promising wording, with the reviews they are from."""
    kept = np.concatenate([np.load(folder / f"kept-{place:05d}.npy", allow_pickle=False) for place in range(ranges)])
    source = folder / f"cut-{number:05d}"
    spool = _spool(source)
    keys = np.asarray(spool.keys)
    place = np.minimum(np.searchsorted(kept, keys), max(len(kept) - 1, 0))
    chosen = np.flatnonzero(kept[place] == keys) if len(kept) else np.empty(0, np.int64)
    reviews, review = np.unique(spool.review_numbers[chosen], return_inverse=True)
    who = spool.who(reviews).drop("review")
    with new_folder(folder / f"taken-{number:05d}", SENTENCES) as aside:
        who.write_ipc(aside / "who.arrow")
        pl.DataFrame({"text": spool.texts(chosen)}).write_ipc(aside / "text.arrow")
        np.savez(aside / SENTENCES.file, keys=keys[chosen], reviews=review, sizes=spool.sizes[chosen])


def finish(folder: Path, files: int, ranges: int, rules: MiningRules, output: Path) -> None:
    """What the local miner does after cutting, on what is left."""
    started = time.time()
    cutter, report, reading = Cutter.of(rules), Report(), Reading(Problems("skip"))
    aside = folder / "spool"
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir()
    spool, counts, foreign, examples = Spool(aside), np.zeros(kernel.CAUSES, np.int64), 0, _no_examples()
    for number in range(files):
        notes = _notes(folder / f"cut-{number:05d}")
        counts += np.array(notes.counts)
        foreign += notes.foreign
        reading.reviews += notes.read
        for cause, count in notes.rejected.items():
            reading.reject(cause, count)
        for problem, shown in notes.problems.items():
            have = reading.problems.examples.setdefault(problem, [])
            have += shown[: max(0, PROBLEMS - len(have))]
        for code, shown in notes.examples.items():
            examples[int(code)] += shown[: max(0, kernel.EXAMPLES - len(examples[int(code)]))]
        _add(spool, folder / f"taken-{number:05d}")
    if not sum(_notes(folder / f"cut-{number:05d}").reviews for number in range(files)):
        raise DataError("no reviews", expected="at least one review with user, item and text")
    report.add_cut({CAUSES[code]: int(counts[code]) for code in CAUSES}, int(counts[KEPT]))
    report.add_examples({CAUSES[code]: shown for code, shown in examples.items()})
    before = Before([_rare(folder / f"rare-{place:05d}.json") for place in range(ranges)], *near.near_keys(folder))
    silent: Callable[[str, int, int | None], None] = lambda stage, done, total: None  # noqa: E731
    mentions, wordings = find_wordings(spool, cutter, None, report, silent, before)
    reading.reject("not English", foreign)
    found = build(mentions, wordings, None, rules, report, silent)
    Mined.of(found, rules, report, reading, time.time() - started).write(output)


def _add(spool: Spool, taken: Path) -> None:
    """Append what was taken of one file, as if only that had been cut."""
    who, stored = (
        pl.scan_ipc(taken / "who.arrow", glob=False).collect(),
        np.load(taken / SENTENCES.file, allow_pickle=False),
    )
    text, starts, lengths = as_bytes(pl.scan_ipc(taken / "text.arrow", glob=False).collect()["text"])
    counts = np.zeros(kernel.CAUSES, np.int64)
    counts[KEPT] = len(starts)
    none, examples = np.zeros(0, np.bool_), np.zeros((kernel.CAUSES, 0, 2), np.int64)
    reviews, sizes = stored["reviews"].astype(np.int32), stored["sizes"].astype(np.int32)
    spool.add(who, Cut(text, stored["keys"], starts, lengths, reviews, sizes, counts, examples, none))


def _no_examples() -> dict[int, list[str]]:
    return {code: [] for code in CAUSES}


def _rare(file: Path) -> Rare:
    sentences, wordings, most, shown = json.loads(file.read_text(encoding="utf-8"))
    return Rare(sentences, wordings, most, [(int(key), text) for key, text in shown])


def _notes(folder: Path) -> Notes:
    return Notes(**json.loads((folder / NOTES).read_text(encoding="utf-8")))


def _spool(folder: Path) -> Spool:
    notes = _notes(folder)
    return Spool(folder, notes.text_bytes, notes.reviews, 0, np.array(notes.counts))


def _first_sentences(folder: Path, number: int) -> int:
    """How many sentences the files before this one have."""
    return sum(_notes(folder / f"cut-{before:05d}").counts[KEPT] for before in range(number))


def _texts(folder: Path, files: int, sentences: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pl.Series:
    """Sentences by their number among all files."""
    limits = [_first_sentences(folder, number) for number in range(files + 1)]
    file = np.searchsorted(limits, sentences, "right") - 1
    texts = np.empty(len(sentences), object)
    for number in np.unique(file).tolist():
        mine = np.flatnonzero(file == number)
        spool = _spool(folder / f"cut-{number:05d}")
        texts[mine] = spool.texts(sentences[mine] - limits[number]).to_list()
    return pl.Series(texts.tolist(), dtype=pl.String)


def _read_wordings(path: Path) -> Wordings:
    return Wordings(**near.read_arrays(path))
