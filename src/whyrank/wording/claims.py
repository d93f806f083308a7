"""What may be claimed of reasons, and whether a text claims no more: for those who let a language model write."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from whyrank.wording.phrases import singular_of
from whyrank.wording.templates import OFTEN, default_templates

Verdict = Literal["backed", "not backed", "not recognized"]
LARGEST = 20_000  # characters of a text that are looked at
WORD = re.compile(r"[a-z]+(?:['’-][a-z]+)*|\d[\d,]*(?:\.\d+)?%?")
CLAUSES = re.compile(r"(?<=[.!?;:\n])\s+|[;:\n]|,\s*(?:and|but|while|although|though|yet)\s+|\bbut\b")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


NOT = _words(
    "no not never none nobody nothing neither nor without hardly barely cannot lack isn't aren't wasn't weren't don't "
    "doesn't didn't can't couldn't won't wouldn't hasn't haven't hadn't shouldn't"
)
FOR = _words("praise praised praises love loved loves like liked likes enjoy enjoyed enjoys appreciate appreciated")
AGAINST = _words(
    "complain complained complains criticize criticized criticizes criticise criticised dislike disliked dislikes hate "
    "hated hates disagree disagrees"
)
CAUSES = _words("because since therefore hence thus why reason")
ALL = _words("all everyone everybody always every each unanimously")
MOST = _words("most mostly majority usually")
SEVERAL = {"several": 3, "many": 5, "numerous": 5, "lot": 5, "couple": 2, "some": 2, "dozen": 12}
YOU = _words("you your yours yourself")
PEOPLE = _words(
    "person people guest customer visitor user reviewer reader traveler traveller diner viewer buyer listener patient "
    "student player"
)
MENTIONS = _words("mention mentions mentioned mentioning of")
# Words that claim nothing. No modal verbs and no intensifiers: "could be quiet" and "very quiet" say something else.
PLAIN = _words(
    "a an the this that these those it its they them their there here is are was were be been being ha has have had do "
    "does did in on at to for from by with about as and so who which what we our us i also often review hotel place "
    "item product film movie book restaurant album game say says said found find finds think thinks thought describe "
    "describes described call calls called report reports reported tag tagged"
)
PLAIN |= PEOPLE | YOU | MENTIONS


class PeopleCounts(Protocol):
    """The evidence of a reason, as far as claims go by it."""

    @property
    def supporting(self) -> int: ...
    @property
    def opposing(self) -> int: ...
    @property
    def mixed(self) -> int: ...
    @property
    def praise(self) -> int: ...
    @property
    def complaints(self) -> int: ...
    @property
    def mentions(self) -> int: ...
    @property
    def user_says(self) -> int: ...
    @property
    def user_mentions(self) -> int: ...
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
    """What may be claimed: a compact list for a prompt, which JSON can hold.

    PeopleCounts have the names and the meaning that they have in the evidence.

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
    """Every claim of a text with a verdict: backed, not backed, or not recognized.

    A claim is backed only if its words are those of a reason, with the same polarity, and every number and quantity
    in it follows from the evidence. What has words that no reason accounts for is not recognized. Nothing is backed by
    default.

    Args:
        text: What a person or a language model wrote.
        reasons: Reasons as `model.explain` returns them.

    Returns:
        The claims in the order of the text, each with its verdict and why.

    Examples:
        >>> import whyrank as wr
        >>> data = wr.Triplets.from_frame({"user": ["a", "b"], "item": ["inn"] * 2, "explanation": ["quiet room"] * 2})
        >>> reasons = wr.COUNTS().fit(data).explain("a", "inn", grounded=False)
        >>> [claim.verdict for claim in supported("The pool is heated.", reasons)]
        ['not recognized']
    """
    listed = list(reasons)
    known, found, rest = [_Known(each) for each in listed], [], text[:LARGEST]
    for each in listed:  # a reason's own sentence is true as a whole
        whole = re.compile(rf"(?:^|(?<=[.!?\n])\s*){re.escape(each.sentence.rstrip('.'))}(?=[.!?\n]|$)")
        if whole.search(rest):
            rest = whole.sub("\n", rest)
            found.append(Claim(each.sentence, "backed", "it is the sentence of a reason", each.explanation))
    for part in CLAUSES.split(rest):
        claim = part.strip(" ,.;:!?\n“”\"'")
        if claim and part.rstrip().endswith("?"):
            found.append(Claim(claim, "not recognized", "it is a question"))
        elif claim:
            found.append(_judged(claim, known))
    return found


class _Known:
    """A reason with the words that speak of it."""

    def __init__(self, reason: Claimable) -> None:
        self.reason = reason
        words = set(_lemmas(reason.text)) - PLAIN
        self.negated = bool(words & NOT)
        self.words = words - NOT
        self.aspect = set(_lemmas(reason.aspect or "")) - PLAIN - NOT
        self.opinion = self.words - self.aspect or self.words

    def span(self, words: list[str]) -> range:
        """From the first to the last of its words."""
        places = [place for place, word in enumerate(words) if word in self.words | self.aspect]
        return range(min(places), max(places) + 1)


def _judged(part: str, known: list[_Known]) -> Claim:
    words = _lemmas(part)
    content = set(words) - PLAIN - NOT - FOR - AGAINST - CAUSES - ALL - MOST - set(SEVERAL)
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
    if _mixed(words, about):
        return Claim(part, "not recognized", "it is not clear what is said about what", first)
    for each in about:
        problem = _problem(words, each)
        if problem:
            return Claim(part, "not backed", problem, each.reason.explanation)
    return Claim(part, "backed", "its words and numbers are those of the evidence", first)


def _mixed(words: list[str], about: list[_Known]) -> bool:
    """Whether the words of one reason stand between those of another: "friendly rooms and large staff"."""
    for one in about:
        span = {words[place] for place in one.span(words)}
        if any((other.words - one.words - one.aspect) & span for other in about if other is not one):
            return True
    return False


def _problem(words: list[str], known: _Known) -> str | None:
    """What a claim about a reason says beyond its evidence."""
    reason, said, given = known.reason, known.reason.evidence, set(words)
    if not said.supporting:
        return "nobody says this about the item"
    whole, blames, praises = known.words <= given, bool(given & AGAINST), bool(given & FOR)
    if bool(given & NOT) != (known.negated and whole):
        return "it says the opposite"
    others = blames and not whole and reason.polarity > 0 and said.complaints > 0  # "two complain about the staff"
    if (praises and reason.polarity <= 0 and not given & YOU) or (blames and reason.polarity >= 0 and not others):
        return "the people who say it do not mean that"
    counts = {said.complaints} if others else {said.supporting}
    if (praises or blames) and not whole and not others:  # of the aspect, whatever they say about it
        counts.add(said.praise if praises else said.complaints)
    people = max(counts)
    counts |= {said.mentions} if given & MENTIONS else set()
    counts |= {said.user_says, said.user_mentions} if given & YOU else set()
    wrong = [number for number in _numbers(words) if number not in counts]
    if wrong:
        return f"{wrong[0]:,} is no count of the evidence"
    if any("%" in word for word in words):
        return "the evidence has no shares"
    if given & ALL and (people != said.mentions or said.opposing or said.mixed):
        return "not everybody says so"
    if given & MOST and 2 * people <= said.mentions:
        return "most do not say so"
    if any(people < least for word, least in SEVERAL.items() if word in given):
        return "so many do not say so"
    if given & (YOU | CAUSES) and not (said.user_says or said.user_mentions):
        return "the user has not said so"
    if "often" in given and said.user_mentions < OFTEN:
        return "the user does not say so often"
    return None


def _numbers(words: list[str]) -> list[int]:
    """The numbers of a claim; "one" is one only of people."""
    following = [*words[1:], ""]
    pairs = zip(words, following, strict=True)
    found = [_count(word) for word, after in pairs if word != "one" or after in PEOPLE]
    return [number for number in found if number is not None]


def _lemmas(text: str) -> list[str]:
    """Words in lower case, nouns in the singular; numbers as they are."""
    english = default_templates().words
    found = WORD.findall(text.lower().replace("’", "'"))
    return [word if word in NOT else singular_of(word, english) if word.isalpha() else word for word in found]


def _count(word: str) -> int | None:
    """The number that a word is."""
    numbers = default_templates().settings["numbers"]
    if word in numbers[1:]:
        return int(numbers.index(word))
    digits = word.replace(",", "")
    return int(digits) if digits.isdigit() else None
