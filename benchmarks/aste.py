"""How well are opinions about aspects found? Against sentences annotated by people.

    python benchmarks/aste.py FILES...

A file has one sentence a line: its tokens with spaces between, `####`, and a list of triplets of (tokens of the aspect,
tokens of the opinion, 'POS', 'NEG' or 'NEU'). Prints one line per file: precision, recall and F1 of the triplets, by
exact spans and by heads (the last token of the aspect, the last of the opinion, and the polarity), and the share of
matched positive and negative pairs that have the right sign. The last line counts what is found in sentences without
opinion. Polarity is that of words alone, for there are no ratings here.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from whyrank.mining._opinions import GLUE, find_opinions
from whyrank.mining._wordclasses import T_J, T_O
from whyrank.mining.language import English

SIGNS = {1: "POS", -1: "NEG", 0: "NEU"}
Span = tuple[int, int]  # first and last token

# Facts, plans, questions, wishes and other items: nothing is judged.
PLAIN = """
We arrived on a Tuesday in the afternoon .
I ordered the soup and my wife had the fish .
The hotel has 120 rooms on six floors .
Breakfast is served from seven to ten .
I bought this phone in March for my daughter .
The book has 300 pages .
It comes with a charger and a cable .
The film was released in 1999 .
We stayed for three nights .
The bus stops in front of the house .
Is the pool heated ?
Does the battery last a whole day ?
Are the rooms quiet at night ?
Was the food any good ?
I would stay here if the rooms were clean .
It would be better with air conditioning .
I wish the screen was brighter .
I hope the service is faster next time .
If you want a quiet room , ask for one .
You should expect a long queue in summer .
The hotel next door is noisy .
The restaurant across the street is terrible .
My previous phone was slow .
Their former manager was rude .
The menu changes every month .
They opened a second shop last year .
The author lives in Berlin with her two children .
The album has twelve songs .
I read the first chapter on the train .
My brother plays the game on his console .
The bottle holds 50 ml of lotion .
Apply the cream twice a day .
The app asks for a password .
I paid with my credit card at the counter .
Parking is on the street .
The room has a desk , a chair and a lamp .
There are two beds and a sofa in the room .
We took the elevator to the fifth floor .
The waiter brought the menu and took our order .
The laptop runs Windows .
The screen measures 15 inches .
I charge it every night .
The package arrived on Monday .
She gave me the key and a map .
The museum is closed on Mondays .
Check-in starts at three .
He wrote the novel in six weeks .
The story takes place in Paris .
The band recorded the song in London .
You can rent bikes at the desk .
We asked for a table near the window .
The actor plays a doctor .
I have used this shampoo for two months .
The kit contains three brushes .
My husband works in the city .
The update was installed yesterday .
They deliver on weekdays only .
The game has ten levels .
We booked the tickets through the website .
The store sells shoes and bags .
"""


class Triplet(NamedTuple):
    aspect: Span
    opinion: Span
    polarity: str

    def heads(self) -> tuple[int, int, str]:
        return self.aspect[1], self.opinion[1], self.polarity


class Scores(NamedTuple):
    found: int
    annotated: int
    matched: int

    def __str__(self) -> str:
        precision, recall = self.matched / max(self.found, 1), self.matched / max(self.annotated, 1)
        f1 = 2 * precision * recall / max(precision + recall, 1e-12)
        return f"P {precision:.3f} R {recall:.3f} F1 {f1:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    language = English()
    for file in parser.parse_args().files:
        sentences, annotated = read(file)
        found = opinions(language, sentences)
        exact = score([set(each) for each in found], [set(each) for each in annotated])
        heads = score([{t.heads() for t in each} for each in found], [{t.heads() for t in each} for each in annotated])
        right, pairs = signs(found, annotated)
        print(f"{file.name}: exact {exact} | heads {heads} | sign {right / max(pairs, 1):.3f} of {pairs:,} pairs")
    plain = [line.split() for line in PLAIN.strip().splitlines()]
    count = sum(map(len, opinions(language, plain)))
    print(f"sentences without opinion: {count} found in {len(plain)}")


def read(file: Path) -> tuple[list[list[str]], list[list[Triplet]]]:
    """Sentences as tokens, and their annotated triplets."""
    sentences, annotated = [], []
    for line in file.read_text(encoding="utf-8").splitlines():
        text, labels = line.split("####")
        sentences.append(text.split(" "))
        triplets = ast.literal_eval(labels)
        annotated.append([Triplet((min(a), max(a)), (min(o), max(o)), sign) for a, o, sign in triplets])
    return sentences, annotated


def opinions(language: English, sentences: Sequence[Sequence[str]]) -> list[list[Triplet]]:
    """What is found in each sentence, in places of its own tokens; phrases that were taken as one word are unfolded."""
    ends = np.cumsum([0] + [len(sentence) for sentence in sentences])
    tokens = language.code_tokens([token for sentence in sentences for token in sentence], ends)
    rows, tags = find_opinions(tokens.bits, tokens.sense, tokens.ends)
    rows = rows[~np.isin(tags[rows[:, 2]], (T_O, T_J))]  # the item itself is no aspect: it was great
    found: list[list[Triplet]] = [[] for _ in sentences]
    for _, a0, a1, o0, o1, sign, _ in rows.tolist():
        adverb = tokens.texts[o0] if o0 < o1 else ""
        polarity = SIGNS[language.polarity(tokens.texts[o1], adverb, sign, tokens.texts[a1])]
        while a0 > 0 and tokens.bits[a0 - 1] & GLUE:
            a0 -= 1
        while o0 > 0 and tokens.bits[o0 - 1] & GLUE:
            o0 -= 1
        number = int(np.searchsorted(ends, a1, side="right")) - 1
        start = int(ends[number])
        found[number].append(Triplet((a0 - start, a1 - start), (o0 - start, o1 - start), polarity))
    return found


def score(found: Sequence[set[object]], annotated: Sequence[set[object]]) -> Scores:
    """Counts over all sentences."""
    matched = sum(len(ours & theirs) for ours, theirs in zip(found, annotated, strict=True))
    return Scores(sum(map(len, found)), sum(map(len, annotated)), matched)


def signs(found: Sequence[Sequence[Triplet]], annotated: Sequence[Sequence[Triplet]]) -> tuple[int, int]:
    """Of the pairs matched by heads that are annotated as positive or negative: how many have that sign, how many."""
    right = pairs = 0
    for ours, theirs in zip(found, annotated, strict=True):
        known = {t.heads()[:2]: t.polarity for t in theirs if t.polarity != "NEU"}
        for t in ours:
            sign = known.get(t.heads()[:2])
            pairs += sign is not None
            right += sign == t.polarity
    return right, pairs


if __name__ == "__main__":
    main()
