"""Review texts made ready for cutting: entities and tags resolved, odd encodings repaired, emoji as full stops."""

from __future__ import annotations

import html
from hashlib import blake2b

import polars as pl

ENTITY = r"&(?:[a-zA-Z]{2,8}|#\d{2,6}|#[xX][0-9a-fA-F]{2,6});"
# What people type for marks that ASCII has.
TYPED = {
    "'": "’‘´ʼ`",
    '"': "“”„«»",
    "-": "\u2010\u2011–",
    " - ": "—―",
    "...": "…",
    " ": "\u00a0\u2009\u202f\u3000",
    "\n": "•·●▪\u2028\u2029\u0085",
    "": "\u200b\ufeff\u00ad¡¿",
}
MARKS = {mark: plain for plain, marks in TYPED.items() for mark in marks}
MARKS |= dict(zip("。、，！？：；（）", ".,,!?:;()", strict=True))
# UTF-8 that was once read as Windows-1252; a closing quote has lost its last byte on the way.
MISREAD = {mark.encode().decode("cp1252"): MARKS.get(mark, mark) for mark in "’‘“–—…éèáóñöüäçôê"}
MISREAD |= {"â€\x9d": '"', "â€\ufffd": '"', "â€": '"', "Â ": " "}
SPELLINGS = {**MISREAD, **MARKS}
LOST_APOSTROPHE = r"([A-Za-z])\x{fffd}(s|t|m|d|re|ve|ll)\b"
PICTURES = r"[\p{So}\p{Sk}\p{Extended_Pictographic}\p{Emoji_Modifier}\x{200d}\x{fe0f}\x{20e3}--[0-9#*^©®™°\x{fffd}]]+"


def clean_texts(texts: pl.Series) -> pl.Series:
    """Texts whose punctuation is ASCII, as people meant it. Plain ASCII texts, the most, pass untouched.

    >>> clean_texts(pl.Series(["Fish &amp; chips<br/>The hotel’s pool 😀 is great"])).to_list()
    ["Fish & chips\\nThe hotel's pool \\n is great"]
    """
    markup = texts.str.contains("&", literal=True) | texts.str.contains("<", literal=True)
    odd = (texts.str.len_bytes() != texts.str.len_chars()) | markup | texts.str.contains("`", literal=True)
    places = odd.arg_true()
    if not len(places):
        return texts
    return texts.scatter(places, _clean(texts.gather(places)))


def _clean(texts: pl.Series) -> pl.Series:
    entities = texts.str.contains(ENTITY).arg_true()
    if len(entities):
        plain = [html.unescape(text) for text in texts.gather(entities)]
        texts = texts.scatter(entities, pl.Series(plain, dtype=pl.String))
    breaks = texts.str.replace_all(r"(?i)<\s*/?\s*(?:br|p|div|li|ul|ol|h\d)\b[^<>]{0,200}>", "\n")
    texts = breaks.str.replace_all(r"</?[a-zA-Z][^<>]{0,200}>", " ")
    texts = texts.str.replace_many(list(SPELLINGS), list(SPELLINGS.values()), leftmost=True)
    return texts.str.replace_all(LOST_APOSTROPHE, "$1'$2").str.replace_all(PICTURES, "\n")


def digests(texts: pl.Series) -> pl.Series:
    """A number for every text that is the same on every machine and in every version."""
    found = [int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little") for text in texts.to_list()]
    return pl.Series(found, dtype=pl.UInt64)
