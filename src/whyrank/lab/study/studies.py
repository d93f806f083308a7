"""The blind study: made once, answered by people with a link each, counted at any time."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import sqlalchemy as sa

from whyrank.errors import ParameterError
from whyrank.lab.study.cases import Case
from whyrank.online.store import NotInStore, Store, now
from whyrank.online.tables import cases, participants, studies, study_answers

Side = Literal["left", "right", "tie"]
Document = dict[str, Any]
QUESTION = "Which list is closer in meaning to what the person really said?"
MOST = 1000  # participants of one study


class AlreadyAnswered(Exception):  # noqa: N818 - not a failure: the first answer stands
    """The case was answered otherwise before."""

    def __init__(self, side: str) -> None:
        super().__init__(f"this case was answered already ({side}); the first answer counts")
        self.side = side


class NoSuchStudy(NotInStore):
    """No study has this id, or no participant this token."""


def create(
    store: Store,
    made: Sequence[Case],
    *,
    a: str,
    b: str,
    n: int,
    title: str = "",
    question: str | None = None,
    people: int = 3,
    agreement: int = 2,
    ties: bool = False,
    seed: int = 0,
    titles: Mapping[str, str] | None = None,
) -> str:
    """Store a study with its cases and participants; returns its id."""
    if a == b:
        raise ParameterError(f"both models are called {a!r}; a study needs two that differ")
    if not 1 <= agreement <= people:
        raise ParameterError(f"agreement is {agreement}; use 1 to {people}, the number of participants")
    id_ = secrets.token_urlsafe(9)
    rows = [
        {"study": id_, "number": number, "title": (titles or {}).get(case.item), **vars(case)}
        for number, case in enumerate(made, 1)
    ]
    with store.writing() as connection:
        values = {"title": title, "question": question or QUESTION, "created": now(), "seed": seed}
        connection.execute(studies.insert().values(id=id_, a=a, b=b, n=n, agreement=agreement, ties=ties, **values))
        connection.execute(cases.insert(), rows)
        _add_participants(connection, id_, 1, people)
    return id_


def add_participants(store: Store, study: str, count: int) -> None:
    """Make more links."""
    with store.writing() as connection:
        connection.execute(sa.select(studies.c.id).where(studies.c.id == study).with_for_update())
        study_row(connection, study)
        have = connection.scalar(_count(participants.c.study == study)) or 0
        if have + count > MOST:
            raise ParameterError(f"a study has at most {MOST} participants; this one has {have}")
        _add_participants(connection, study, have + 1, count)


def _add_participants(connection: sa.Connection, study: str, first: int, count: int) -> None:
    # Seeds are drawn, not derived: who knows how a study was made must not be able to work out the sides.
    people = [
        {"study": study, "number": number, "token": secrets.token_urlsafe(18), "seed": secrets.randbits(62)}
        for number in range(first, first + count)
    ]
    connection.execute(participants.insert(), people)


def listed(store: Store) -> list[Document]:
    """All studies, the newest first, without their links."""
    with store.reading() as connection:
        rows = connection.execute(sa.select(studies).order_by(studies.c.created.desc(), studies.c.id)).mappings()
        found = [dict(row) for row in rows.all()]
        return [
            {
                **row,
                "cases": connection.scalar(_count(cases.c.study == row["id"])),
                "answers": connection.scalar(_answers_of(row["id"])),
                "participants": connection.scalar(_count(participants.c.study == row["id"])),
            }
            for row in found
        ]


def shown(store: Store, study: str) -> Document:
    """A study with the links of its participants."""
    with store.reading() as connection:
        row = study_row(connection, study)
        answered = sa.select(sa.func.count()).where(study_answers.c.participant == participants.c.id)
        query = (
            sa.select(participants.c.number, participants.c.token, answered.scalar_subquery())
            .where(participants.c.study == study)
            .order_by(participants.c.number)
        )
        people = [
            {"participant": number, "token": token, "path": f"?view=take&token={token}", "answered": done}
            for number, token, done in connection.execute(query)
        ]
        total = connection.scalar(_count(cases.c.study == study))
    return {
        **row,
        "cases": total,
        "answers": sum(each["answered"] for each in people),
        "participants": people,
    }


def view(store: Store, token: str) -> Document:
    """What a participant sees: texts only, in an order and on sides of their own."""
    with store.reading() as connection:
        person, row = _participant(connection, token)
        all_cases = case_rows(connection, row["id"])
        query = sa.select(study_answers.c.number, study_answers.c.side)
        given = connection.execute(query.where(study_answers.c.participant == person["id"]))
        done = dict(given.all())
    shown_cases = []
    for place, (number, a_is_left) in enumerate(arrangement(person["seed"], len(all_cases)), 1):
        case = all_cases[number]
        left, right = ("a", "b") if a_is_left else ("b", "a")
        shown_cases.append(
            {
                "case": place,
                "item": case["item"],
                "title": case["title"],
                "truth": case["truth"],
                "left": case[left],
                "right": case[right],
                "choice": done.get(number),
            }
        )
    head = {"question": row["question"], "ties": row["ties"], "total": len(all_cases), "answered": len(done)}
    return {**head, "cases": shown_cases}


def answer(store: Store, token: str, place: int, side: Side) -> Document:
    """Store a participant's choice for the case at this place of their order; the first counts until withdrawn."""
    try:
        return _answer(store, token, place, side)
    except sa.exc.IntegrityError:  # the same click, twice at once: the other one was first
        return _answer(store, token, place, side)


def _answer(store: Store, token: str, place: int, side: Side) -> Document:
    with store.writing() as connection:
        person, row = _participant(connection, token)
        total = connection.scalar(_count(cases.c.study == row["id"])) or 0
        if not 1 <= place <= total:
            raise ParameterError(f"there is no case {place}; use 1 to {total}")
        if side == "tie" and not row["ties"]:
            raise ParameterError("this study does not take ties; choose left or right")
        number, a_is_left = arrangement(person["seed"], total)[place - 1]
        own = study_answers.c.participant == person["id"]
        before = connection.scalar(sa.select(study_answers.c.side).where(own, study_answers.c.number == number))
        if before is None:
            choice = "tie" if side == "tie" else "a" if (side == "left") == a_is_left else "b"
            values = {
                "participant": person["id"],
                "number": number,
                "choice": choice,
                "side": side,
                "at": now(),
            }
            connection.execute(study_answers.insert().values(**values))
        elif before != side:
            raise AlreadyAnswered(before)
        done = connection.scalar(sa.select(sa.func.count()).select_from(study_answers).where(own))
    return {"case": place, "choice": side, "answered": done, "total": total}


def withdraw(store: Store, token: str, place: int) -> Document:
    """Take a participant's own answer back, so that another one can be given; nothing happens where there is none."""
    with store.writing() as connection:
        person, row = _participant(connection, token)
        total = connection.scalar(_count(cases.c.study == row["id"])) or 0
        if not 1 <= place <= total:
            raise ParameterError(f"there is no case {place}; use 1 to {total}")
        number, _ = arrangement(person["seed"], total)[place - 1]
        own = study_answers.c.participant == person["id"]
        connection.execute(study_answers.delete().where(own, study_answers.c.number == number))
        done = connection.scalar(sa.select(sa.func.count()).select_from(study_answers).where(own))
    return {"case": place, "answered": done, "total": total}


def arrangement(seed: int, count: int) -> list[tuple[int, bool]]:
    """Case numbers in a participant's order, and whether model a is on the left; it is on half of them."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(count) + 1
    left = rng.permutation((np.arange(count) + rng.integers(2)) % 2 == 0)
    return list(zip(order.tolist(), left.tolist(), strict=True))


def study_row(connection: sa.Connection, study: str) -> Document:
    """One study, as it is stored."""
    row = connection.execute(sa.select(studies).where(studies.c.id == study)).mappings().first()
    if row is None:
        raise NoSuchStudy(f"there is no study {study!r} in this store")
    return dict(row)


def _participant(connection: sa.Connection, token: str) -> tuple[Document, Document]:
    person = connection.execute(sa.select(participants).where(participants.c.token == token)).mappings().first()
    if person is None:
        raise NoSuchStudy("this link is not known here; ask for a new one")
    return dict(person), study_row(connection, person["study"])


def case_rows(connection: sa.Connection, study: str) -> dict[int, Document]:
    """The cases of a study by number."""
    query = sa.select(cases).where(cases.c.study == study).order_by(cases.c.number)
    return {row["number"]: dict(row) for row in connection.execute(query).mappings()}


def _count(condition: sa.ColumnElement[bool]) -> sa.Select[Any]:
    return sa.select(sa.func.count()).where(condition)


def _answers_of(study: str) -> sa.Select[Any]:
    query = sa.select(sa.func.count()).select_from(study_answers)
    return query.join(participants, participants.c.id == study_answers.c.participant).where(
        participants.c.study == study
    )
