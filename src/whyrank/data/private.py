"""What is private in a sentence: the one place that decides which words of people are never shown."""

from __future__ import annotations

import polars as pl

DIGIT_WORD = "(?:zero|oh|one|two|three|four|five|six|seven|eight|nine)"
SECRET = r"(?:pass\s?words?|pass\s?codes?|pass\s?phrases?|pwd|pin|codes?|combination|(?:network|wi-?fi|security)\s+key)"

# What each pattern finds stands beside it; tests/test_private.py has the table of cases.
PATTERNS = {
    "address of mail, handle": r"\S+@\S+|@\w+|#\w+",
    "address of mail in words": r"[\[({<]\s*(?:at|dot|punkt)\s*[\])}>]|\w\s+at\s+[\w-]+\s+dot\s+\w",
    "address of a site": r"https?:|www\.|\w\.[a-z]{2,}(?:/|\b)",
    "seven digits and more: phones, cards, accounts": r"\d(?:[\s()./\\_–—-]*\d){6,}",
    "digits in words": rf"(?:\b{DIGIT_WORD}\b\W*){{6,}}",
    "street": r"\b\d+[a-z]?\s+(?:\w+\s+){1,2}"
    r"(?:street|st|road|rd|avenue|ave|boulevard|blvd|lane|drive|terrace|square|court|way)\b",
    "box, apartment": r"\bp\.?\s?o\.?\s?box\s+\d|\b(?:apt|apartment|flat)\.?\s*(?:no\.?|number|#)?\s*\d+",
    "password, said": rf"\b{SECRET}\s*(?:\W?\s*\b(?:is|was|are|were|being)\b|[:=]|[\"“'‘])",
    "code of digits": rf"\b{SECRET}\b[^.!?]{{0,30}}\d{{3,}}|\d{{3,}}\b[^.!?]{{0,30}}\b{SECRET}\b",
    "network and its password": r"\bwi-?fi\b\s*[:=]",
    "passport, licence, booking": r"\b(?:passport|licen[cs]e|visa|identity\s+card|id\s+card|booking|confirmation|"
    r"reservation|order|account|ticket|member(?:ship)?|policy)\b[^!?]{0,30}\b(?:[a-z]{0,3}-?\d{4}|[a-z]\d[a-z0-9]{5})",
    "number with letters before it, bank account": r"\b[a-z]{1,3}\d{6,}\b|\b[a-z]{2}\d{2}(?:\s?[a-z0-9]{4}){3,}",
}
PRIVATE = "(?i)" + "|".join(f"(?:{pattern})" for pattern in PATTERNS.values())
INVISIBLE = r"[\p{Cf}]"  # characters of no width, which would hide what stands around them


def is_private(texts: pl.Series) -> pl.Series:
    """Mark texts that hold an address, a number of a person, a password or a code; null counts as none.

    Names are not looked for: whether a word is one depends on the language, which mining knows.

    >>> is_private(pl.Series(["Ring 555 12 34 for the pool", "A lovely pool of 25 metres"])).to_list()
    [True, False]
    """
    return texts.str.replace_all(INVISIBLE, "").str.contains(PRIVATE).fill_null(False)
