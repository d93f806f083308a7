"""What may be claimed of reasons, and whether a text claims no more: for those who let a language model write."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from whyrank.wording.phrases import singular_of
from whyrank.wording.templates import OFTEN, default_templates

Verdict = Literal["backed", "not backed", "not recognized"]
LARGEST = 20_000  # characters of a text that are looked at
OPENING, CLOSING = frozenset('“"«'), frozenset('”"»')
WORD = re.compile(r"[a-z]+(?:['’-][a-z]+)*|\d[\d,]*(?:\.\d+)?%?")
CLAUSES = re.compile(r"(?<=[.!?;:\n])\s+|[;:\n]|,\s*(?:and|but|while|although|though|yet)\s+|\bbut\b")


LISTS: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
SEVERAL: dict[str, int] = LISTS["several"]
NAMES = ("not", "for", "against", "causes", "all", "most", "you", "people", "mentions", "plain")
NOT, FOR, AGAINST, CAUSES, ALL, MOST, YOU, PEOPLE, MENTIONS, PLAIN = (
    frozenset(" ".join(LISTS[name]).split()) for name in NAMES
)
PLAIN |= PEOPLE | YOU | MENTIONS
QUANTITIES = ALL | MOST | frozenset(SEVERAL)


class PeopleCounts(Protocol):
    """The evidence of a reason: counts of people by name, such as `supporting`."""

    def as_dict(self) -> dict[str, int | None]: ...


class Claimable(Protocol):
    """A reason of `model.explain`."""

    @property
    def explanation(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def sentence(self) -> str: ...
    @property
    def aspect(self) -> str | None: ...
    @property
    def polarity(self) -> int: ...
    @property
    def evidence(self) -> PeopleCounts: ...
    @property
    def quotes(self) -> Sequence[Mapping[str, object]]: ...


@dataclass(frozen=True)
class Claim:
    """A part of a text, and whether the reasons back it."""

    text: str
    verdict: Verdict
    why: str
    explanation: str | None = None  # the reason that it is about

    def as_dict(self) -> dict[str, object]:
        return dict(vars(self))


def claims(reasons: Iterable[Claimable]) -> list[dict[str, object]]:
    """List what may be claimed: for a prompt, as JSON can hold it.

    Counts have the names and the meaning that they have in the evidence.

    Args:
        reasons: Reasons as `model.explain` returns them.

    Returns:
        One dictionary per reason: what is claimed, and the counts behind it.

    Examples:
        >>> import whyrank as wr
        >>> data = wr.Triplets.from_frame({"user": ["a", "b"], "item": ["inn"] * 2, "explanation": ["quiet room"] * 2})
        >>> reasons = wr.COUNTS().fit(data).explain("a", "inn", grounded=False)
        >>> claims(reasons)[0]["statement"]
        'quiet room'
    """
    return [
        {
            "id": each.explanation,
            "statement": each.text,
            "about": each.aspect,
            "polarity": {1: "positive", -1: "negative"}.get(each.polarity, "neutral"),
            **each.evidence.as_dict(),
            "sentence": each.sentence,
            "quotes": [quote["text"] for quote in each.quotes],
        }
        for each in reasons
    ]


def supported(text: str, reasons: Iterable[Claimable]) -> list[Claim]:
    """Judge every claim of a text: backed, not backed, or not recognized.

    A claim is backed only if its words are those of a reason, with the same polarity, and every number and quantity
    in it follows from the evidence; or if it is a quote of a reason, in quotation marks. What has words that no reason
    accounts for is not recognized. Nothing is backed by default.

    Args:
        text: What a person or a language model wrote.
        reasons: Reasons as `model.explain` returns them.

    Returns:
        The claims in the order of the text, each with its verdict and why; sentences and quotes of reasons come first.

    Examples:
        >>> import whyrank as wr
        >>> data = wr.Triplets.from_frame({"user": ["a", "b"], "item": ["inn"] * 2, "explanation": ["quiet room"] * 2})
        >>> reasons = wr.COUNTS().fit(data).explain("a", "inn", grounded=False)
        >>> [claim.verdict for claim in supported("The pool is heated.", reasons)]
        ['not recognized']
    """
    listed = list(reasons)
    found, rest = _verbatim(text[:LARGEST], listed)
    known = [_Known(each) for each in listed]
    for part in CLAUSES.split(rest):
        claim = part.strip(" ,.;:!?\n“”\"'")
        if claim and part.rstrip().endswith("?"):
            found.append(Claim(claim, "not recognized", "it is a question"))
        elif claim:
            found.append(_judged(claim, known))
    return found


def _verbatim(text: str, reasons: list[Claimable]) -> tuple[list[Claim], str]:
    """Find sentences and quotes of reasons, which are true as a whole, and what is left of the text."""
    found = []
    for each in reasons:
        quotes = sorted((str(quote["text"]).rstrip(".") for quote in each.quotes), key=len, reverse=True)
        for body in (each.sentence.rstrip("."), *quotes):
            what = "quote" if body in quotes else "sentence"
            start = text.find(body) if body else -1
            while start >= 0:
                before, after = text[:start], text[start + len(body) :]
                if _is_sentence(before, after, body) if what == "sentence" else _is_quoted(before, after):
                    found.append(Claim(body, "backed", f"it is the {what} of a reason", each.explanation))
                    text, start = f"{before}\n{after}", start - len(body)
                start = text.find(body, start + len(body))
    return found, text


def _is_sentence(before: str, after: str, body: str) -> bool:
    """Whether what stands between the two begins and ends a sentence."""
    ended = not after or after[0] in ".!?\n" or (body[-1] in "!?…”" and after[0].isspace())
    return ended and (not before.strip(" ") or before.rstrip(" ")[-1] in ".!?…”\n")


def _is_quoted(before: str, after: str) -> bool:
    """Whether what stands between the two is in quotation marks."""
    return before[-1:] in OPENING and after.removeprefix(".")[:1] in CLOSING


class _Known:
    """A reason with the words that speak of it."""

    def __init__(self, reason: Claimable) -> None:
        self.reason, self.evidence = reason, reason.evidence.as_dict()
        self.all_words = _lemmas(reason.text)
        words = set(self.all_words) - PLAIN
        self.negated = bool(words & NOT)
        self.words = words - NOT
        self.aspect = set(_lemmas(reason.aspect or "")) - PLAIN - NOT

    def count(self, name: str) -> int:
        """Return a count of the evidence; what is unknown counts for nothing."""
        return self.evidence.get(name) or 0

    def span(self, words: list[str]) -> set[str]:
        """The words from the first to the last of its own."""
        places = [place for place, word in enumerate(words) if word in self.words | self.aspect]
        return set(words[min(places) : max(places) + 1])


def _judged(part: str, known: list[_Known]) -> Claim:
    words = _lemmas(part)
    content = set(words) - PLAIN - NOT - FOR - AGAINST - CAUSES - QUANTITIES
    content = {word for word in content if _count(word) is None and "%" not in word}
    about = [each for each in known if each.words and each.words <= set(words)]
    if not about:
        touched = [each for each in known if each.aspect and each.aspect <= set(words)]
        if not touched:
            return Claim(part, "not recognized", "no reason has these words")
        about = [each for each in touched if set(words) & (FOR | AGAINST | YOU) and not content - each.aspect]
        if not about:
            return Claim(part, "not backed", "people do not say this about it", touched[0].reason.explanation)
    first = about[0].reason.explanation
    left = content.difference(*(each.words | each.aspect for each in about))
    if left:
        return Claim(part, "not recognized", f"no reason accounts for {', '.join(sorted(left))}", first)
    # of "friendly staff" and "large rooms": friendly rooms and large staff
    if any((other.words - one.words - one.aspect) & one.span(words) for one in about for other in about):
        return Claim(part, "not recognized", "it is not clear what is said about what", first)
    for each in about:
        problem = _problem(words, each)
        if problem:
            return Claim(part, "not backed", problem, each.reason.explanation)
    return Claim(part, "backed", "its words and numbers are those of the evidence", first)


def _problem(words: list[str], known: _Known) -> str | None:
    """What a claim about a reason says beyond its evidence."""
    polarity, given, count = known.reason.polarity, set(words), known.count
    if not count("supporting"):
        return "nobody says this about the item"
    whole, blames, praises = known.words <= given, bool(given & AGAINST), bool(given & FOR)
    if bool(given & NOT) != (known.negated and whole):
        return "it says the opposite"
    others = blames and not whole and polarity > 0 and count("complaints") > 0  # "two complain about the staff"
    if (praises and polarity <= 0 and not given & YOU) or (blames and polarity >= 0 and not others):
        return "the people who say it do not mean that"
    counts = {count("complaints" if others else "supporting")}
    if (praises or blames) and not whole and not others:  # of the aspect, whatever they say about it
        counts.add(count("praise" if praises else "complaints"))
    people = max(counts)
    if whole:
        words = _without(words, known.all_words)
        given = set(words)
    return _wrong_number(words, known, counts) or _wrong_quantity(given, known, people)


def _wrong_number(words: list[str], known: _Known, people: set[int]) -> str | None:
    given, allowed = set(words), set(people)
    if given & MENTIONS:
        allowed.add(known.count("mentions"))
    if "of" in given:
        allowed.add(known.count("reviewers"))
    if given & YOU:
        allowed |= {known.count("user_says"), known.count("user_mentions")}
    # "one" is a number of people only
    following = zip(words, [*words[1:], ""], strict=False)
    found = [_count(word) for word, after in following if word != "one" or after in PEOPLE]
    wrong = [number for number in found if number is not None and number not in allowed]
    if wrong:
        return f"{wrong[0]:,} is no count of the evidence"
    return "the evidence has no shares" if any("%" in word for word in words) else None


def _wrong_quantity(given: set[str], known: _Known, people: int) -> str | None:
    count = known.count
    if given & ALL and (people != count("mentions") or count("opposing") or count("mixed")):
        return "not everybody says so"
    if given & MOST and 2 * people <= count("mentions"):
        return "most do not say so"
    if any(people < least for word, least in SEVERAL.items() if word in given):
        return "so many do not say so"
    if given & (YOU | CAUSES) and not (count("user_says") or count("user_mentions")):
        return "the user has not said so"
    if "often" in given and count("user_mentions") < OFTEN:
        return "the user does not say so often"
    return None


def _without(words: list[str], others: list[str]) -> list[str]:
    """The words without the last one of each of the others."""
    left = words[::-1]
    for word in others:
        if word in left:
            left.remove(word)
    return left[::-1]


def _lemmas(text: str) -> list[str]:
    """Words in lower case, nouns in the singular; numbers as they are."""
    irregular = default_templates().words.irregular
    found = WORD.findall(text.lower().replace("’", "'"))
    return [word if word in NOT else singular_of(word, irregular) if word.isalpha() else word for word in found]


def _count(word: str) -> int | None:
    """The number that a word is."""
    numbers = default_templates().settings["numbers"]
    if word in numbers[1:]:
        return int(numbers.index(word))
    digits = word.replace(",", "")
    return int(digits) if digits.isdigit() else None
