"""What simulated reviews say around the explanations: sentences in the first person, and fillers."""

from __future__ import annotations

from itertools import product
from string import Formatter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

SLOTS = {
    "n": ("two", "three", "four", "five"),
    "month": ("March", "May", "June", "August", "October", "December"),
    "who": ("wife", "husband", "sister", "parents", "kids", "best friend", "colleagues"),
    "day": ("Monday", "Thursday", "Friday", "Saturday", "Sunday"),
    "event": ("birthday", "anniversary", "graduation"),
}
OPENERS = {
    "hotel": """
We stayed {n} nights in {month}
I booked {n} rooms for my {who} and me
We arrived on a {day} with our {who}
I travelled with my {who} for {n} days
My {who} and I needed a break in {month}
I stay here when my work brings me to town
We went there for my {event} in {month}
This was our visit number {n}
""",
    "movie": """
I watched it with my {who} on a {day}
I bought this for my {who} in {month}
We saw it in the cinema {n} years ago
My {who} wanted it for our {event}
I have watched it {n} times now
I had read about it before we bought it in {month}
""",
    "restaurant": """
We went there on a {day} with my {who}
My {who} wanted to try something new
I stopped by after work on a {day}
We have been regulars for {n} years
We came for my {event} in {month}
I called ahead and they had a table for {n} of us
We walked in without a booking on a {day}
""",
}
MIDDLES = {
    "hotel": """
Our flight was delayed so we got there after midnight
I asked for an extra key and got it
We spent most of our time in the city anyway
My {who} had read about it before
We did not expect that
As I said, my {who} picked it
""",
    "movie": """
My {who} fell asleep after {n} minutes
We laughed, we cried, we argued about it afterwards
I had to think about it for {n} days
My {who} told me so
I did not expect that
""",
    "restaurant": """
I ordered for {n} and we shared everything
We sat down and waited for {n} minutes
My {who} paid so I should not complain
My {who} told me so
We did not expect that
""",
}
CLOSERS = """
I would come back to it with my {who}
I am not sure I would do it again
I told my {who} about it
I would give it {n} stars
My {who} agreed with me
Not much more to say
Hope this helps
Make of that what you will
What else is there to say
"""
TITLES = {
    "hotel": "Our stay in {month}\n{n} nights in {month}\nWeekend with my {who}\nWe will be back",
    "movie": "A gift for my {who}\nI watched it twice\nSeen on a {day}\nMy thoughts",
    "restaurant": "Dinner with my {who}\nOur {event} meal\nCame in on a {day}\nWe will be back",
}


class Phrasebook(NamedTuple):
    texts: list[str]
    weights: NDArray[np.float64]  # every template weighs the same, however many fillings it has


def expand(templates: str) -> Phrasebook:
    """One template per line, with every filling of its slots."""
    texts: list[str] = []
    weights: list[float] = []
    for template in templates.strip().splitlines():
        names = [name for _, name, _, _ in Formatter().parse(template) if name]
        filled = [
            template.format(**dict(zip(names, values, strict=True)))
            for values in product(*(SLOTS[name] for name in names))
        ]
        texts += [text[0].upper() + text[1:] for text in filled]
        weights += [1 / len(filled)] * len(filled)
    return Phrasebook(texts, np.array(weights))
