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

from whyrank.mining.corpus import TO_LABELS
from whyrank.mining.language import Language, language_of
from whyrank.mining.mentions import Sentences, bits_of, find_mentions, program_of
from whyrank.mining.parse import TAGS, load
from whyrank.mining.said import marks_of
from whyrank.mining.tokens import Tokens

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
    language = language_of("en")
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


def opinions(language: Language, sentences: Sequence[Sequence[str]]) -> list[list[Triplet]]:
    """What is found in each sentence, in places of its own tokens; the item itself is no aspect: it was great."""
    words = [token for sentence in sentences for token in sentence]
    ends = np.cumsum([0] + [len(sentence) for sentence in sentences]).astype(np.int32)
    empty = np.zeros(len(words), np.int32)
    parse = load().parse(Tokens(words, empty, empty, ends))
    vocabulary = list(dict.fromkeys(word.lower() for word in words))
    number = {word: place for place, word in enumerate(vocabulary)}
    word = np.array([number[each.lower()] for each in words], np.int32)
    capital = np.array([each[:1].isupper() for each in words], np.bool_)
    reviews = np.arange(len(sentences) + 1, dtype=np.int64)  # each is a review of its own
    given = Sentences(word, capital, parse.tags, TO_LABELS[parse.labels], parse.heads, ends, reviews)
    spelled, tagged = bits_of(language, vocabulary, TAGS)
    bits = spelled[given.word] | tagged[given.tag]
    marks = marks_of(vocabulary)
    found, _ = find_mentions(given, bits, program_of(language), language, vocabulary, marks)
    triplets: list[list[Triplet]] = [[] for _ in sentences]
    for k in np.flatnonzero((found.matter == 0) & (found.aspect >= 0)).tolist():
        rule, head, said = language.rules[found.rule[k]], int(found.aspect[k]), int(found.property[k])
        if rule.kind not in ("opinion", "comparison") or head == said:
            continue
        base = rule.sign or language.sign(vocabulary[given.word[said]])
        excess = -1 if found.excess[k] else 1
        sign = int(np.sign(base)) * (1 if found.strong[k] else int(found.turned[k]))
        place = int(np.searchsorted(ends, said, side="right")) - 1
        start = int(ends[place])
        aspect = (int(found.first[k]) - start, head - start)
        triplet = Triplet(aspect, (said - start, said - start), SIGNS[-abs(sign) if excess < 0 else sign])
        if triplet not in triplets[place]:
            triplets[place].append(triplet)
    return triplets


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
