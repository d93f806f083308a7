"""What is private is decided in one place: its table of cases."""

from __future__ import annotations

import polars as pl
import pytest

import whyrank as wr
from whyrank.data import Triplets
from whyrank.data.private import PATTERNS, is_private

PRIVATE = {
    "address of mail, handle": ["Write to ann@example.org about it", "Ask @ann_b for the view", "More at #annstravels"],
    "address of mail in words": [
        "john [at] example [dot] com knows",
        "john(at)example",
        "mail john at example dot com",
    ],
    "address of a site": ["See www.example.com for more", "http://x", "The pool is great, see bit.ly/abc for more"],
    "seven digits and more: phones, cards, accounts": [
        *("Ring 5551234 for the pool", "Call +44 20 7946 0958 now", "555/123/4567 is the host", "(555) 123-4567"),
        *("My card 4111 1111 1111 1111 was charged", "5\u200b5\u200b5\u200b1\u200b2\u200b3\u200b4 is hers"),
        "Ask ５５５１２３４",
    ],
    "digits in words": ["Ring five five five one two three four", "five-five-five, one-two-three-four"],
    "street": ["We stayed at 221B Baker Street", "It is 12 Old Mill Road, behind the church"],
    "box, apartment": ["Write to PO Box 117", "Ours was apartment 12 upstairs"],
    "password, said": ["The wifi password is sunshine", "Password: sunshine", "The passcode was easy: sunshine"],
    "code of digits": [
        "The door code 4711 works",
        "Use code #0815 at the gate",
        "4711 is the code of the gate",
        "PIN 123",
    ],
    "network and its password": ["wifi: sunshine", "WiFi = sunshine"],
    "passport, licence, booking": ["My passport C01X00T47", "Passport number AB 12345", "booking no. 88123 was lost"],
    "number with letters before it, bank account": ["He showed X123456 to us", "Pay to DE89 3704 0044 0532 0130 00"],
}
PUBLIC = [
    "A lovely pool of 25 metres",
    "We were 2 adults and 3 children for 10 nights",
    "The rooms were clean and the staff were friendly",
    "Worth every cent of the 1,200 we paid",
    "It opened in 1999 and still looks new",
    "Breakfast at 7 is great",
    "We ate at Dot's cafe",
    "Order the fish, it is the best in town",
    "The street was quiet at night",
    "The coding of the keys was quick",
]


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in PRIVATE.items() for text in texts])
def test_what_is_private_is_found(kind: str, text: str) -> None:
    assert is_private(pl.Series([text])).to_list() == [True], kind


def test_every_pattern_has_cases_and_is_needed_by_one() -> None:
    assert PATTERNS.keys() == PRIVATE.keys()
    for kind, texts in PRIVATE.items():
        others = "(?i)" + "|".join(f"(?:{pattern})" for name, pattern in PATTERNS.items() if name != kind)
        assert not pl.Series(texts).str.replace_all(r"\p{Cf}", "").str.contains(others).all(), kind


def test_what_is_not_private_may_be_shown() -> None:
    assert [text for text, hit in zip(PUBLIC, is_private(pl.Series(PUBLIC)), strict=True) if hit] == []


def test_nothing_private_becomes_a_quote_whatever_file_it_came_from() -> None:
    frame = pl.DataFrame(
        {
            "user": ["ann", "bob"],
            "item": ["inn", "inn"],
            "explanation": ["pool", "pool"],
            "sentence": ["The pool is lovely, ring 5551234", "The pool is lovely and warm all year"],
        }
    )
    model = wr.POP().fit(Triplets.from_frame(frame))
    found = model.explain("cat", "inn", support=1)
    assert [quote["text"] for reason in found for quote in reason.quotes] == ["The pool is lovely and warm all year"]
