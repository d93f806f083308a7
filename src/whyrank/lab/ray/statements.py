"""Mining statements file by file: reviews are parsed on all machines, and counted where the run was started."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from whyrank.atomic import Marker, new_folder
from whyrank.data.problems import SHOWN, OnError, Problems
from whyrank.lab.ray.session import Cluster
from whyrank.mining.corpus import Corpus
from whyrank.mining.mine import fill, mined_of
from whyrank.mining.mined import Mined
from whyrank.mining.reviews import Reading
from whyrank.mining.rules import MiningRules

ORIGIN = Marker("origin.json")


def mine_statement_files(
    cluster: Cluster,
    files: Sequence[Path],
    output: Path,
    folder: Path,
    *,
    columns: dict[str, str] | None = None,
    rules: MiningRules | None = None,
    titles: Mapping[str, str] | None = None,
    on_error: OnError = "raise",
    trim: bool = False,
    tell: Callable[[str, int, int | None], None] | None = None,
) -> Mined:
    """Write the folder that `mine(files, ...)` and `write` would write; `folder` is one that all machines see.

    A file that was parsed is not read again after an interruption.
    """
    started = time.perf_counter()
    rules, tell, folder = rules or MiningRules(), tell or (lambda stage, done, total: None), folder.resolve()
    parts = [folder / f"found-{number:05d}" for number in range(len(files))]
    tasks = [
        cluster.submit(find_file, file.resolve(), part, columns, rules, on_error, len(files) > 1, trim)
        for file, part in zip(files, parts, strict=True)
    ]
    cluster.gather_telling(tasks, lambda done, total: tell("reading files", done, total))
    corpus, reading = Corpus(), Reading(Problems("skip"))
    for part in parts:
        _add_counts(reading, part)
        if (part / "reviews.arrow").is_file():
            corpus.append(part)
    mined = mined_of(corpus, rules, titles or {}, None, reading, started, None, tell)
    mined.write(output)
    shutil.rmtree(folder, ignore_errors=True)
    return mined


def find_file(
    file: Path,
    folder: Path,
    columns: dict[str, str] | None,
    rules: MiningRules,
    on_error: OnError,
    several: bool,
    trim: bool,
) -> None:
    """Parse one file of reviews into a folder."""
    stat = file.stat() if file.is_file() else None
    origin = json.dumps(
        [str(file), stat and [stat.st_size, stat.st_mtime_ns], columns, rules.as_dict(), on_error, several, trim]
    )
    mark = folder / ORIGIN.file
    if mark.is_file() and mark.read_text(encoding="utf-8") == origin:
        return
    with new_folder(folder, ORIGIN) as aside:
        reading = Reading(Problems(on_error), trim=trim)
        corpus = Corpus()
        fill(corpus, file, columns, rules, reading, 1, lambda stage, done, total: None, several=several)
        if corpus.size:
            corpus.write(aside)
        counts = {"reviews": reading.reviews, "rejected": reading.rejected, "problems": reading.problems.examples}
        (aside / "counts.json").write_text(json.dumps(counts), encoding="utf-8")
        (aside / ORIGIN.file).write_text(origin, encoding="utf-8")


def _add_counts(reading: Reading, part: Path) -> None:
    """Add what was counted while one file was read."""
    counts = json.loads((part / "counts.json").read_text(encoding="utf-8"))
    reading.reviews += counts["reviews"]
    for cause, count in counts["rejected"].items():
        reading.reject(cause, count)
    for problem, shown in counts["problems"].items():
        have = reading.problems.examples.setdefault(problem, [])
        have += shown[: max(0, SHOWN - len(have))]
