"""What came of a study: cases won, intervals, agreement; as a document, as CSV and as the paper's bar chart."""

from __future__ import annotations

from html import escape

import sqlalchemy as sa

from whyrank.lab.study.statistics import exact_interval, fleiss_kappa, winner
from whyrank.lab.study.studies import Document, case_rows, study_row
from whyrank.online.store import Store
from whyrank.online.tables import participants, study_answers
from whyrank.render import csv_table

CONFIDENCE = 0.95
FILLS = ("#2f6fb0", "#c8702a", "#8a8f98")  # models a and b, ties


def results(store: Store, study: str) -> Document:
    """Who won how many of the valid cases, with exact intervals, and how far participants agree."""
    with store.reading() as connection:
        row = study_row(connection, study)
        all_cases = case_rows(connection, study)
        given = _answers(connection, study)
    options = {"a": row["a"], "b": row["b"]} | ({"tie": "tie"} if row["ties"] else {})
    votes = {number: dict.fromkeys(options, 0) for number in all_cases}
    for each in given:
        votes[each["number"]][each["choice"]] += 1
    per_case, won = [], dict.fromkeys(options, 0)
    for number, case in all_cases.items():
        best = winner(list(votes[number].values()), row["agreement"])
        chosen = None if best is None else list(options)[best]
        if chosen is not None:
            won[chosen] += 1
        per_case.append(
            {
                "case": number,
                **{name: case[name] for name in ("item", "title", "truth", "a", "b")},
                "votes": {options[option]: count for option, count in votes[number].items()},
                "valid": chosen is not None,
                "winner": None if chosen is None else options[chosen],
            }
        )
    valid, sided = sum(won.values()), [each["side"] for each in given if each["side"] != "tie"]
    return {
        **{name: row[name] for name in ("id", "title", "agreement")},
        "cases": len(all_cases),
        "answered_cases": sum(any(each.values()) for each in votes.values()),
        "valid_cases": valid,
        "answers": len(given),
        "outcomes": [_outcome(options[option], count, valid) for option, count in won.items()],
        "confidence": CONFIDENCE,
        "kappa": fleiss_kappa([list(each.values()) for each in votes.values()]),
        "left_share": sided.count("left") / len(sided) if sided else None,
        "per_case": per_case,
    }


def answers_csv(store: Store, study: str) -> str:
    """One row per answer."""
    with store.reading() as connection:
        row, all_cases, given = (
            study_row(connection, study),
            case_rows(connection, study),
            _answers(connection, study),
        )
    names = {"a": row["a"], "b": row["b"], "tie": "tie"}
    rows = []
    for each in given:
        case = all_cases[each["number"]]
        chosen = (names[each["choice"]], each["side"], each["at"])
        rows.append([study, each["number"], case["user"], case["item"], each["person"], *chosen])
    return csv_table(["study", "case", "user", "item", "participant", "choice", "side", "at"], rows)


def _outcome(option: str, won: int, valid: int) -> Document:
    low, high = exact_interval(won, valid, CONFIDENCE) if valid else (None, None)
    return {"option": option, "cases": won, "share": won / valid if valid else None, "low": low, "high": high}


def chart(result: Document) -> str:
    """The share of valid cases that each model won, with its interval, as an SVG that stands alone."""
    outcomes, left, top, height, step = result["outcomes"], 56, 40, 220, 130
    width = left + step * len(outcomes) + 24
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height + 110}" role="img" '
        f'font-family="sans-serif" font-size="13" fill="#333">',
        f'<rect width="{width}" height="{height + 110}" fill="#fff"/>',
        f"<title>{escape(_sentence(result))}</title>",
    ]
    for share in (0, 25, 50, 75, 100):
        y = top + height * (1 - share / 100)
        parts.append(f'<path d="M{left} {y:g}H{width - 24}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 8}" y="{y + 4:g}" text-anchor="end">{share}%</text>')
    for place, outcome in enumerate(outcomes):
        parts += _bar(outcome, FILLS[place], left + step * place + step / 2, top, height)
    note = f"{result['valid_cases']} of {result['cases']} cases valid"
    parts.append(f'<text x="{left}" y="{top + height + 54}" fill="#666">{note}</text>')
    return "".join([*parts, "</svg>"])


def _bar(outcome: Document, fill: str, x: float, top: int, height: int) -> list[str]:
    def y(share: float) -> float:
        return round(top + height * (1 - share), 2)

    base = top + height
    parts = [f'<text x="{x:g}" y="{base + 22}" text-anchor="middle">{escape(outcome["option"])}</text>']
    if outcome["share"] is not None:
        at, low, high = y(outcome["share"]), y(outcome["low"]), y(outcome["high"])
        parts.append(f'<rect x="{x - 32:g}" y="{at:g}" width="64" height="{base - at:g}" fill="{fill}"/>')
        ends = f"M{x - 7:g} {high:g}H{x + 7:g}M{x - 7:g} {low:g}H{x + 7:g}"
        parts.append(f'<path d="M{x:g} {high:g}V{low:g}{ends}" stroke="#333" fill="none"/>')
        label = f"{outcome['share']:.1%} ({outcome['cases']})"
        parts.append(f'<text x="{x + 12:g}" y="{at - 6:g}" font-weight="bold">{label}</text>')
    return parts


def _sentence(result: Document) -> str:
    won = ", ".join(f"{each['option']} {each['cases']}" for each in result["outcomes"])
    return f"cases won, of {result['valid_cases']} valid ones: {won}"


def _answers(connection: sa.Connection, study: str) -> list[Document]:
    person = participants.c.number.label("person")
    columns = (
        study_answers.c.number,
        person,
        study_answers.c.choice,
        study_answers.c.side,
        study_answers.c.at,
    )
    query = sa.select(*columns).join(participants, participants.c.id == study_answers.c.participant)
    query = query.where(participants.c.study == study).order_by(study_answers.c.number, person)
    return [dict(row) for row in connection.execute(query).mappings()]
