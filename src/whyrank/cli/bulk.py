"""What `explain --pairs` and `recommend --users` share: progress, interruptions, what a file shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from whyrank.cli.app import note, print_json, progress, told_if_interrupted
from whyrank.explain.options import Options

if TYPE_CHECKING:
    from whyrank.explain.bulk import BulkColumns


def shown_in_bulk(titles: Path | None, templates: Path | None, quotes: bool, sentences: bool) -> BulkColumns:
    """What files of reasons have beyond ids, scores and evidence."""
    from whyrank.data.names import read_named
    from whyrank.explain.bulk import BulkColumns
    from whyrank.wording.templates import Templates

    return BulkColumns(sentences, quotes, read_named(titles, "item", "title"), Templates.read(templates, quotes=quotes))


def explain_in_bulk(
    model: Path,
    pairs: Path,
    output: Path,
    n: int,
    options: Options,
    shown: BulkColumns,
    threads: int | None,
    ray: str | None,
    json: bool,
) -> None:
    """Reasons for a file of pairs or, on a cluster, for a folder of them."""
    from whyrank.explain.bulk import explain_file
    from whyrank.models import load

    with _watched("explaining", json) as tell:
        if ray is None:
            asked = (load(model), pairs, output, n, options, shown)
            reports = [explain_file(*asked, threads=threads, progress=tell)]
        else:
            from whyrank.lab.ray.explain import explain_files
            from whyrank.lab.ray.session import connect

            with connect(ray) as cluster:
                reports = explain_files(cluster, model, pairs, output, n, options, shown, progress=tell)
    if json:
        listed = [each.as_dict() for each in reports]
        print_json(listed[0] if ray is None else {"output": output, "files": listed})
    else:
        for each in reports:
            note(each.summary())


def recommend_in_bulk(
    model: Path,
    users: str,
    output: Path,
    n: int,
    reasons: int,
    options: Options,
    shown: BulkColumns,
    threads: int | None,
    json: bool,
) -> None:
    """Items with reasons for a file of users, or for all."""
    from whyrank.explain.bulk import recommend_file
    from whyrank.models import load

    with _watched("recommending", json) as tell:
        asked = (load(model), users, output, n, reasons, options, shown)
        report = recommend_file(*asked, threads=threads, progress=tell)
    if json:
        print_json(report.as_dict())
    else:
        note(report.summary())


@contextmanager
def _watched(label: str, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Progress of a run that the same command continues after an interruption."""
    with told_if_interrupted(lambda: "the same command goes on where it stopped"), progress(quiet) as bar:
        task = bar.add_task(label, total=None, remark="")
        yield lambda done, total: bar.update(task, completed=done, total=total)
