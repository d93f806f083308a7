"""Tokens, sentences and the parse of review texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whyrank.mining.tokens import LONGEST_SENTENCE, Tokens, chain, tokenize

# -- tokens ----------------------------------------------------------------------------------------

PIECES = st.sampled_from(
    [
        *"ab1.!?,:;-'’&/\\*_@#)(\" \n\t…é½😀",
        "n't",
        "dont",
        "...",
        "Mr",
        ":)",
        "www.",
        ".com",
        " The ",
        "and ",
    ]
)
TEXTS = st.one_of(st.text(), st.lists(PIECES, max_size=200).map("".join))


@given(TEXTS)
def test_offsets_give_the_words_back_and_sentences_cover_them(text: str) -> None:
    tokens = tokenize(text)
    assert [text[a:b] for a, b in zip(tokens.starts, tokens.ends, strict=True)] == tokens.words
    assert "".join(tokens.words) == "".join(text.split())
    lengths = tokens.sentences[1:] - tokens.sentences[:-1]
    assert all((lengths > 0) & (lengths <= LONGEST_SENTENCE))
    assert (tokens.sentences[0], tokens.sentences[-1]) == (0, len(tokens.words))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("I can't, won’t, dont", "I|ca|n't|,|wo|n’t|,|do|nt"),
        ("cannot it's they'll GUESTS' Don'T", "can|not|it|'s|they|'ll|GUESTS|'|Do|n'T"),
        ("a 5-star wi-fi, B&B; mp3", "a|5-star|wi-fi|,|B&B|;|mp3"),
        ("10:30am on the 2nd, $1,000.50 for 4/5", "10:30|am|on|the|2nd|,|$|1,000.50|for|4/5"),
        (
            "see https://a.b/c?d=1. or x@y.com, booking.com",
            "see|https://a.b/c?d=1|.|or|x@y.com|,|booking.com",
        ),
        ("great:) w/o U.S. wait....!!", "great|:)|w/o|U.S.|wait|....|!!"),
        ("want front", "want|front"),
    ],
)
def test_words(text: str, words: str) -> None:
    assert tokenize(text).words == words.split("|")


@pytest.mark.parametrize(
    "text",
    [
        "It was great.|The bed was soft.|but short !!|ok",
        'He said "very nice."|We agree (mostly!)|Fine.',
        "It was nice (very!) and clean.|Good",
        "Mr. Smith met J. Doe at approx. 5 p.m. and left at 6 p.m.|We stayed",
        "Great place :)|will return. :)|Thanks",
        "So...not bad...|The end",
        "1. Clean\n|2. Quiet\n|no end here",
        "We paid $5.50 at booking.com.|Next",
        "What?|Why?!|Yes.",
    ],
)
def test_sentences(text: str) -> None:
    parts = text.split("|")
    whole = parts[0] + ("" if parts[0].endswith("great.") else " ") + " ".join(parts[1:])
    tokens = tokenize(whole)
    bounds = zip(tokens.sentences[:-1], tokens.sentences[1:], strict=True)
    assert ["".join(tokens.words[a:b]) for a, b in bounds] == [
        "".join(part.split()) for part in parts
    ]


def test_long_sentences_are_cut_at_their_joints() -> None:
    tokens = tokenize("word " * 60 + "; " + "word " * 60 + "and " + "word " * 100)
    assert tokens.sentences.tolist() == [0, 61, 121, 201, 222]


def test_texts_are_chained() -> None:
    one, two = tokenize("A bed. It"), tokenize("is soft")
    both = chain([one, tokenize(""), two])
    assert both.words == one.words + two.words
    assert both.sentences.tolist() == [0, 3, 4, 6]
    assert both.starts.tolist() == [*one.starts, *two.starts]
    assert (
        chain([]).sentences.tolist()
        == Tokens([], one.starts, one.ends, both.sentences[:1]).sentences.tolist()
    )
