"""The versions of a model: which were served and since when, with which figures, and which were refused and why.

What a service loads is in its store; what `whyrank refresh` decided is in a file beside the model's folder. Both are
put together when they are asked for.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
import sqlalchemy as sa

from whyrank.models import parameters
from whyrank.online.store import Store, now
from whyrank.online.tables import versions
from whyrank.service.messages_catalog import RefreshEntry
from whyrank.service.refresh_log import read_refreshes
from whyrank.service.registry import ServedModel

AGAIN = 3  # tries where several workers record at once


def plain(values: dict[str, object]) -> dict[str, object]:
    """Parameters that JSON can say."""
    return {name: value for name, value in values.items() if isinstance(value, str | int | float | bool | None)}


def sizes(served: ServedModel) -> dict[str, int]:
    """How much a model has seen."""
    catalog = served.model.catalog_
    return {
        "users": len(catalog.users),
        "items": len(catalog.items),
        "explanations": len(catalog.explanations),
        "triplets": int(catalog.popularity.sum()),
        "pairs": len(catalog.user_items.indices),
    }


def record(store: Store, served: ServedModel, problem: str | None = None) -> None:
    """Store that a model is served from now on, or that a newer folder of it could not be loaded.

    A version that is the last one already is not stored again; its figures are brought up to date.
    """
    evaluation = None if served.report is None else served.report.evaluation
    about = {
        "kind": served.model.id,
        "data": served.model.data_digest_,
        "sizes": sizes(served),
        "parameters": plain(parameters.values(served.model)),
        "evaluation": None if evaluation is None else msgspec.to_builtins(evaluation),
    }
    row = {"served": served.id, "digest": served.digest if problem is None else "", "problem": problem}
    for _ in range(AGAIN):
        try:
            _record(store, row, json.dumps(about) if problem is None else "{}")
            break
        except sa.exc.IntegrityError:  # another worker was quicker: the last version is looked at again
            continue


def _record(store: Store, row: dict[str, Any], about: str) -> None:
    own = versions.c.served == row["served"]
    newest = sa.select(versions).where(own).order_by(versions.c.number.desc()).limit(1)
    with store.writing() as connection:
        last = connection.execute(newest).first()
        number = 1 if last is None else last.number + 1
        if row["problem"] is None:  # what could not be loaded in between changed nothing
            last = connection.execute(newest.where(versions.c.problem.is_(None))).first()
        if last is not None and (last.digest, last.problem) == (row["digest"], row["problem"]):
            same = own & (versions.c.number == last.number)
            connection.execute(versions.update().where(same).values(about=about))
        else:
            connection.execute(versions.insert(), {**row, "number": number, "time": now(), "about": about})


def history(store: Store, served: ServedModel, limit: int) -> list[dict[str, Any]]:
    """The versions of a model, the newest first."""
    chosen = sa.select(versions).where(versions.c.served == served.id).order_by(versions.c.number.desc()).limit(limit)
    with store.reading() as connection:
        rows = [row._asdict() for row in connection.execute(chosen)]
    entries = [_served(row) if row["problem"] is None else _not_loaded(row) for row in reversed(rows)]
    _add_refreshes(entries, _refreshes(served))
    entries.sort(key=lambda entry: entry["time"])
    before: dict[str, Any] | None = None
    for entry in entries:
        if entry["outcome"] == "served":
            if before is not None:
                before["until"], entry["changes"] = entry["time"], changes(before, entry)
            before = entry
    return entries[::-1][:limit]


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """What is different in a later version, in words.

    >>> changes({"kind": "bper", "sizes": {"users": 10}, "parameters": {"epochs": 5}, "data": "a"},
    ...         {"kind": "bper", "sizes": {"users": 12}, "parameters": {"epochs": 9}, "data": "b"})
    ['2 more users', 'epochs 5 → 9']
    """
    found = [] if before["kind"] == after["kind"] else [f"model {before['kind']} → {after['kind']}"]
    for name, size in after["sizes"].items():
        gained = size - before["sizes"].get(name, size)
        if gained:
            what = name if abs(gained) > 1 else name.removesuffix("s")
            found.append(f"{abs(gained):,} {'more' if gained > 0 else 'fewer'} {what}")
    if not found and before["data"] != after["data"]:
        found.append("other data of the same size")
    if before["kind"] == after["kind"]:
        old, new = before["parameters"], after["parameters"]
        found += [f"{name} {old.get(name)} → {new[name]}" for name in new if old.get(name) != new[name]]
    return found or ["the same data and settings, fitted again"]


def _served(row: dict[str, Any]) -> dict[str, Any]:
    nothing: dict[str, Any] = {"until": None, "gate": None, "files": None, "problem": None, "changes": []}
    return {"outcome": "served", "time": row["time"], "digest": row["digest"], **nothing, **json.loads(row["about"])}


def _other(outcome: str, time: str, **known: object) -> dict[str, Any]:
    """A version that is not served here."""
    names = ("digest", "until", "gate", "files", "problem", "kind", "data", "evaluation")
    nothing = dict.fromkeys(names) | {"changes": [], "sizes": {}, "parameters": {}}
    return {"outcome": outcome, "time": time, **nothing, **known}


def _not_loaded(row: dict[str, Any]) -> dict[str, Any]:
    return _other("not loaded", row["time"], problem=row["problem"])


def _refreshes(served: ServedModel) -> list[RefreshEntry]:
    """What `whyrank refresh` decided; entries that cannot be understood are left out."""
    found = []
    for entry in read_refreshes(served.folder):
        try:
            found.append(msgspec.convert(entry, RefreshEntry))
        except msgspec.ValidationError:
            continue
    return found


def _add_refreshes(entries: list[dict[str, Any]], refreshes: list[RefreshEntry]) -> None:
    """Give served versions the comparison that let them in, and add those that were refused or never loaded here."""
    served = {entry["digest"]: entry for entry in reversed(entries)}
    for each in refreshes:
        gate = None if each.gate is None else msgspec.to_builtins(each.gate)
        if each.outcome == "swapped" and each.digest in served:
            served[each.digest] |= {"gate": gate, "files": each.files}
        else:
            about = {"digest": each.digest, "gate": gate, "files": each.files, "kind": each.kind, "data": each.data}
            entries.append(_other(each.outcome, each.time, **about, sizes=each.sizes))
