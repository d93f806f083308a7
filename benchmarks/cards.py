"""Random statements and recommendation cards of reviews, to be read and labelled one by one; and their page.

    python benchmarks/cards.py restaurants.jsonl.gz games.jsonl.gz -o labels     # writes labels/NAME-UNIT.json
    python benchmarks/cards.py --page labels -o docs/cards.md                    # the page, from labelled files

Of each file 60 statements and 25 cards are drawn; seeds come from the file's SHA-256, so nobody picks them. A card is
one of the ten best items of a random user, with up to three reasons, by Profile-J with default settings and options.
Whoever labels writes `"label": "good"` or what is wrong, by the rubric on the page; `"unit": "clauses"` is what version
0.1 gave.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
from pathlib import Path
from typing import Any

from whyrank import ProfileJ
from whyrank.mining import mine

STATEMENTS, CARDS, BEST, REASONS = 60, 25, 10, 3
RUBRIC = """A statement is good if it is **fluent** (English that a person would write), **specific** (about one aspect
of the item, not about the item as a whole or about anything at all) and a possible **reason** for or against an item. A
card is good if every sentence on it is fluent and specific, and no two of them **repeat or contradict** each other; a
card without any reason is not good. Whether a card is true to the item's reviews was not labelled.

How far to trust this: the labels were written by a language model that followed the rubric, not by people. The rules
were changed between rounds after reading these same four sets, so the figures are not held out. Between rounds with
small changes, labels differ by up to fifteen of sixty statements and nine of twenty-five cards (all rounds:
benchmarks/README.md). In the last, seventh round, the cards of version 0.1 (clauses), of the statements before this
round and of the statements now were mixed in random order, without marks, and labelled in one pass; equal cards were
labelled once. That is only half blind. Clauses can be told from statements by their form, and earlier statements from
the present ones by their templates ("praise the great views"). The reader had also changed the rules and seen some of
the cards.

| good cards of 25 | games | hotels | recipes | restaurants |
|---|--:|--:|--:|--:|
| clauses, version 0.1 | 0 | 0 | 0 | 1 |
| statements, before | 14 | 25 | 13 | 21 |
| statements, now | 22 | 23 | 18 | 24 |

Hotels gained nothing; the two cards fewer are a matter of wording. Reviews of recipes say too little: of the seven
bad cards, three have a single sentence ("13 people find it delicious"), and the other four are identical. Single
statements were labelled afterwards, by the same reader and not mixed. This reading found two faults, which were fixed
afterwards and not labelled again: a detail given by more people than the praise it belongs to, and "helpful member"."""


def draw(file: Path) -> dict[str, Any]:
    """Random statements and cards of a file of reviews, not labelled yet."""
    seed = int(hashlib.sha256(file.read_bytes()).hexdigest()[:8], 16)
    rng = random.Random(seed)
    mined = mine(file)
    table = mined.explanations.sort("id").select("text", "count", "polarity").to_dicts()
    statements = rng.sample(table, min(STATEMENTS, len(table)))
    triplets = mined.triplets
    model = ProfileJ().fit(triplets)
    cards = []
    for user in rng.sample(sorted(triplets.users.ids.to_list()), CARDS):
        best = model.recommend(user, n=BEST, reasons=REASONS)
        chosen = best[rng.randrange(len(best))]
        reasons = [
            {"sentence": each.sentence, "text": each.text, "quotes": [quote["text"] for quote in each.quotes]}
            for each in chosen.reasons
        ]
        cards.append({"item": chosen.item, "reasons": reasons})
    unlabelled = {"label": ""}
    return {
        "name": file.name.split(".")[0],
        "unit": mined.unit,
        "seed": seed,
        "statements": [each | unlabelled for each in statements],
        "cards": [each | unlabelled for each in cards],
    }


def page(folder: Path) -> str:
    """The page of all labelled files in a folder."""
    found = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("*.json"))]
    lines = ["# Statements and cards, read one by one", "", RUBRIC, ""]
    lines += ["| reviews | unit | good statements | good cards |", "|---|---|--:|--:|"]
    for each in found:
        good = [
            f"{sum(row['label'] == 'good' for row in each[kind])} of {len(each[kind])}"
            for kind in ("statements", "cards")
        ]
        lines.append(f"| {each['name']} | {each['unit']} | {good[0]} | {good[1]} |")
    for each in found:
        lines += [
            "",
            f"## {each['name']}, {each['unit']}",
            "",
            "Statements, with the label of those that are not good:",
            "",
        ]
        lines.append("; ".join(_labelled(row["text"], row["label"]) for row in each["statements"]) + ".")
        lines += ["", "Cards:", ""]
        for row in each["cards"]:
            sentences = " ".join(reason["sentence"] for reason in row["reasons"]) or "No reason."
            lines.append(f"- {_labelled(sentences, row['label'])}")
    return "\n".join(lines) + "\n"


def _labelled(text: str, label: str) -> str:
    return text if label == "good" else f"{text} *[{label or 'not labelled'}]*"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="*")
    parser.add_argument("--page", type=Path, help="a folder of labelled files, to be written as a page")
    parser.add_argument("-o", "--output", type=Path, required=True)
    arguments = parser.parse_args()
    if arguments.page:
        arguments.output.write_text(page(arguments.page), encoding="utf-8")
        return
    arguments.output.mkdir(exist_ok=True)
    for file in arguments.files:
        drawn = draw(file)
        target = arguments.output / f"{drawn['name']}-{drawn['unit']}.json"
        target.write_text(json.dumps(drawn, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(target)


if __name__ == "__main__":
    main()
