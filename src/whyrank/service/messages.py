"""Requests and answers of the ranking routes.

A struct is declared once: requests are decoded and checked by it, answers are made of it, and the OpenAPI document
describes it. Options of the library become members of requests by their declarations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache, lru_cache
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from whyrank.explain.evidence import Evidence
from whyrank.explain.options import Declared, ItemGoals, Options

MAX_PAIRS = 1000
MAX_REASONS = 10_000  # of one answer: about 5 MB, and a second of work
MAX_BANNED = 2000  # characters
SIMILAR = "count what people say about similar items too; slow when an item is asked for first"
NO_NUL = "^[^\\u0000]*$"

Id = Annotated[str, Meta(min_length=1, max_length=1000, pattern=NO_NUL)]
Text = Annotated[str, Meta(max_length=1000, pattern=NO_NUL)]
Word = Annotated[str, Meta(min_length=1, max_length=100, pattern=NO_NUL)]
Share = Annotated[float, Meta(ge=0, le=1)]
Boost = Annotated[float, Meta(ge=-1e6, le=1e6)]
Polarity = Literal["any", "positive", "negative"]
User = Annotated[Id, Meta(examples=["u000001"])]


class RequestBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of requests: exact types, no unknown members."""


class Message(Struct, kw_only=True):
    """Base of answers."""


class LoggedBody(RequestBody, frozen=True, kw_only=True):
    """What becomes of an answer: whether it is stored as shown, and by which experiment it is made."""

    log: Annotated[bool | None, Meta(description="store what is shown and give the answer an `exposure`")] = None
    durable: Annotated[bool, Meta(description="with log: answer when the exposure is on disk")] = False
    experiment: Annotated[
        Id | None, Meta(description="the experiment whose arm decides model and options of the user")
    ] = None


# -- options as members of requests ------------------------------------------------------------------------------------

MOST: dict[str, int] = {
    "exclude": 1000,
    "banned": 100,
    "boosts": 1000,
    "query": 20,
    "context_items": 100,
    "context_aspects": 100,
    "shares": 100,
}
NOT_HERE = ("query_by",)  # encoding texts takes too long for a request


def _member(about: Declared) -> tuple[str, Any, Any]:
    """Return an option of the library as a member of a request: its name, type and default."""
    default = () if about.kind == "texts" else about.default
    if about.kind == "numbers":
        default = msgspec.field(default_factory=dict)
    kind = _kind(about)
    kind = kind | None if about.default is None else kind
    return about.name, Annotated[kind, Meta(description=about.help)], default


def _kind(about: Declared) -> Any:
    """Return the type of an option's values."""
    if about.kind == "switch":
        return bool
    if about.kind == "choice":
        return Literal[about.choices]
    if about.kind in ("whole", "number"):
        whole = about.kind == "whole"
        return Annotated[int if whole else float, Meta(ge=_bound(about.at_least), le=_bound(about.at_most))]
    most = Meta(max_length=MOST[about.name])
    kind = {"shares": Share, "banned": Word, "boosts": Boost}.get(about.name, Id)
    if about.kind == "numbers":
        return Annotated[dict[Id, kind], most]  # type: ignore[valid-type]
    many = Annotated[tuple[kind, ...], most]  # type: ignore[valid-type]
    return Text | many if about.name == "query" else many


def _bound(value: float | None) -> float | None:
    """Return a bound, as a whole number where it is one: schemas say 1, not 1.0."""
    return int(value) if value is not None and value == int(value) else value


def _check_banned(asked: Any) -> None:
    """Bound what becomes one pattern, whose memory grows with it."""
    if sum(map(len, asked.banned)) > MAX_BANNED:
        raise ValueError(f"banned must not have more than {MAX_BANNED:,} characters together")


def _declared(
    name: str, about: str, declared: Iterable[Declared], base: type[Struct], without: Iterable[str] = ()
) -> Any:
    """Make a struct whose members are options of the library."""
    members = [_member(each) for each in declared if each.name not in without]
    namespace: dict[str, Any] = {"__doc__": about}
    if any(each[0] == "banned" for each in members):
        namespace["__post_init__"] = _check_banned
    return msgspec.defstruct(
        name,
        members,
        bases=(base,),
        namespace=namespace,
        module=__name__,
        kw_only=True,
        frozen=True,
        forbid_unknown_fields=True,
    )


ShownOptions: Any = _declared(
    "ShownOptions",
    "Which reasons may be shown, and what their scores become, as in the library.",
    Options.declared(),
    LoggedBody,
    without=("diversity", *NOT_HERE),
)
ListOptions: Any = _declared(
    "ListOptions", "How the reasons of a list are chosen, as in the library.", Options.declared(), LoggedBody, NOT_HERE
)


def options_of(asked: Any) -> Options:
    """Return the library's options of a request, which are checked once for all requests that have the same ones."""
    names = _option_names(type(asked))  # type: ignore[arg-type]
    given = tuple([getattr(asked, name) for name in names])
    return replace(_equal_options(names, given), boosts=asked.boosts) if asked.boosts else _equal_options(names, given)


@cache
def _option_names(kind: type[Struct]) -> tuple[str, ...]:
    """Return the options that requests of a kind have, but for numbers by id, which are no key of a cache."""
    return tuple(
        each.name for each in Options.declared() if each.name in kind.__struct_fields__ and each.name != "boosts"
    )


@lru_cache(1024)
def _equal_options(names: tuple[str, ...], given: tuple[Any, ...]) -> Options:
    return Options(**dict(zip(names, given, strict=True)))


def goals_of(asked: Struct, groups: Mapping[str, str]) -> ItemGoals | None:
    """Return the goals of a request; None: none."""
    given = {each.name: value for each in ItemGoals.declared() if (value := getattr(asked, each.name))}
    return ItemGoals(**given, groups=groups) if given else None


# -- requests ----------------------------------------------------------------------------------------------------------


class RankOptions(ListOptions, frozen=True, kw_only=True):  # type: ignore[call-arg]
    """Which models, and what is counted."""

    model: Annotated[Id | None, Meta(description="a model's id; the default model unless given")] = None
    compare: Annotated[Id | None, Meta(description="a second model for the same pairs")] = None
    similar: Annotated[bool, Meta(description=SIMILAR)] = False

    @property
    def models(self) -> int:
        """How many models answer."""
        return 2 if self.compare else 1


class Pair(RequestBody, frozen=True, kw_only=True):
    """A user and an item."""

    user: Id
    item: Id


class ExplainRequest(RankOptions, frozen=True, kw_only=True):  # type: ignore[call-arg]
    """Reasons of one pair (`user` and `item`), or of up to 1,000 (`pairs`)."""

    user: User | None = None
    item: Annotated[Id | None, Meta(examples=["i00001"])] = None
    pairs: Annotated[tuple[Pair, ...], Meta(min_length=1, max_length=MAX_PAIRS)] | None = None
    n: Annotated[int, Meta(ge=1, le=100)] = 5

    def __post_init__(self) -> None:
        _check_banned(self)
        named = (self.user is not None, self.item is not None, self.pairs is not None)
        if named not in ((True, True, False), (False, False, True)):
            raise ValueError("give user and item, or pairs")
        if self.pairs is not None and (asked := len(self.pairs) * self.n * self.models) > MAX_REASONS:
            raise ValueError(
                f"asks for {asked:,} reasons, and an answer has at most {MAX_REASONS:,}: ask for fewer pairs at once"
            )

    def all_pairs(self) -> list[tuple[str, str]]:
        """Return the users and items of a request in either form."""
        if self.pairs is not None:
            return [(pair.user, pair.item) for pair in self.pairs]
        return [(self.user or "", self.item or "")]


ItemOptions: Any = _declared(
    "ItemOptions", "What lists of items are for, beside the best scores.", ItemGoals.declared(), RankOptions
)


class RecommendRequest(ItemOptions, frozen=True, kw_only=True):  # type: ignore[call-arg]
    """Items with reasons for a user."""

    user: User
    n: Annotated[int, Meta(ge=1, le=100)] = 10
    reasons: Annotated[int, Meta(ge=0, le=20)] = 3
    items_by: Annotated[Id | None, Meta(description="the model that ranks the items")] = None


class PairsRequest(ShownOptions, frozen=True, kw_only=True):  # type: ignore[call-arg]
    """Items and reasons ranked together."""

    user: User
    n: Annotated[int, Meta(ge=1, le=100)] = 10
    weight: Annotated[float, Meta(ge=0.001, le=1000, description="of the explanation's score")] = 1.0
    model: Id | None = None
    similar: Annotated[bool, Meta(description=SIMILAR)] = False


# -- answers -----------------------------------------------------------------------------------------------------------

Fallback = Annotated[
    Literal["unknown_user", "not_personal"] | None,
    Meta(description="unknown_user, or not_personal as asked for: ranked by item and popularity only"),
]
Exposed = Annotated[str | UnsetType, Meta(description="where it was logged: what feedback names")]


class InArm(Message, kw_only=True):
    """Which experiment an answer belongs to."""

    experiment: str | UnsetType = UNSET
    arm: str | UnsetType = UNSET


class QuoteOut(Message, kw_only=True):
    """What somebody wrote."""

    text: str
    source: Annotated[str | None, Meta(description="the review it is from")]
    time: int | None


class ReasonOut(Message, kw_only=True):
    """An explanation as ranked for a pair."""

    rank: int
    explanation: str
    text: str
    sentence: Annotated[str, Meta(description="what can be shown to people; all of it follows from the evidence")]
    score: float
    parts: Annotated[dict[str, float], Meta(description="parts of the score; they add up to it")]
    evidence: Evidence
    aspect: Annotated[str | None, Meta(description="what it is about, where that is known")]
    polarity: Annotated[int, Meta(description="1: speaks for the item, -1: against it, 0: neither, or unknown")]
    quotes: list[QuoteOut]
    fallback: Fallback
    sentiment: float | None
    propensity: Annotated[
        float | UnsetType, Meta(description="of a drawn list: the chance of this reason at its rank")
    ] = UNSET
    other_rank: Annotated[
        int | None, Meta(description="with compare: its rank in the other list, null when not in it")
    ] = None


class PairReasons(Message, kw_only=True):
    """The reasons of one pair."""

    user: str
    item: str
    status: Literal["ok", "no_reason", "unknown_item"]
    fallback: Fallback
    reasons: list[ReasonOut]
    exposure: Exposed = UNSET


class ModelReasons(Message, kw_only=True):
    """One model's reasons for all pairs asked for."""

    model: str
    mu: float | None
    results: list[PairReasons]


class ExplainAnswer(InArm, kw_only=True):
    """Reasons pair by pair."""

    model: str
    mu: float | None
    results: list[PairReasons]
    compare: ModelReasons | None


class Recommended(Message, kw_only=True):
    """An item with its reasons."""

    rank: int
    item: str
    title: str | None
    score: float
    users: int
    reasons: list[ReasonOut]
    exposure: Exposed = UNSET


class OtherReasons(Message, kw_only=True):
    """Reasons of a second model for the same items."""

    model: str
    mu: float | None
    reasons: list[list[ReasonOut]]


class RecommendAnswer(InArm, kw_only=True):
    """Items, best first."""

    model: str
    mu: float | None
    items_by: str
    user: str
    fallback: Fallback
    recommendations: list[Recommended]
    ndcg: Annotated[
        float | UnsetType, Meta(description="with goals: what they leave of the NDCG of the list by score alone")
    ] = UNSET
    compare: OtherReasons | None


class RankedPair(Message, kw_only=True):
    """An item and one reason."""

    rank: int
    item: str
    title: str | None
    score: float
    item_score: float
    reason: ReasonOut


class PairsAnswer(InArm, kw_only=True):
    """Items and reasons ranked together, best first."""

    model: str
    mu: float | None
    user: str
    fallback: Fallback
    weight: float
    pairs: list[RankedPair]
    exposure: Exposed = UNSET
