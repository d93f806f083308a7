"""Requests and answers of the ranking routes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from operator import attrgetter
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag, create_model, model_validator

from whyrank.explain.evidence import Evidence
from whyrank.explain.options import Declared, ItemGoals, Options

MAX_PAIRS = 1000
MAX_BANNED = 2000  # characters
SIMILAR = "count what people say about similar items too; slow when an item is asked for first"


def _printable(text: str) -> str:
    if "\0" in text:
        raise ValueError("must not hold a NUL character")
    return text


def _bounded(words: list[str]) -> list[str]:
    if sum(map(len, words)) > MAX_BANNED:  # they become one pattern, whose memory grows with them
        raise ValueError(f"must not have more than {MAX_BANNED:,} characters together")
    return words


Id = Annotated[str, Field(min_length=1, max_length=1000), AfterValidator(_printable)]
Text = Annotated[str, Field(max_length=1000), AfterValidator(_printable)]
Word = Annotated[str, Field(min_length=1, max_length=100), AfterValidator(_printable)]
Words = Annotated[list[Word], AfterValidator(_bounded)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Polarity = Literal["any", "positive", "negative"]


class RequestBody(BaseModel):
    """Base of requests: exact types, no unknown members."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _few_members(cls, value: object) -> object:
        """One error for a hundred thousand unknown members, which would take a second to list."""
        if isinstance(value, dict) and len(value) > len(cls.model_fields) + 3:
            raise ValueError(f"has {len(value):,} members; there are {', '.join(cls.model_fields)}")
        return value


class LoggedBody(RequestBody):
    """What becomes of an answer: whether it is stored as shown, and by which experiment it is made."""

    log: bool | None = Field(None, description="store what is shown and give the answer an `exposure`")
    durable: bool = Field(False, description="with log: answer when the exposure is on disk")
    experiment: Id | None = Field(None, description="the experiment whose arm decides model and options of the user")


def _field(about: Declared) -> tuple[Any, Any]:
    """An option of the library as a field of a request."""
    kinds: dict[str, Any] = {"switch": bool, "whole": int, "number": float, "texts": list[Id], "numbers": Boosts}
    kinds["choice"] = Literal[about.choices] if about.choices else str
    rules: dict[str, Any] = {"ge": about.at_least, "le": about.at_most}
    if about.kind == "number":
        rules["allow_inf_nan"] = False
    if about.kind in ("texts", "numbers"):
        rules["max_length"] = MOST[about.name]
    special: dict[str, Any] = {"banned": Words, "shares": Shares}
    kind = special.get(about.name, kinds[about.kind])
    bounded: Any = Annotated[kind, Field(**{name: rule for name, rule in rules.items() if rule is not None})]
    default = [] if about.kind == "texts" else about.default
    return bounded | None if about.default is None else bounded, Field(default, description=about.help)


Shares = dict[Id, Share]


def _fields(declared: Iterable[Declared], without: tuple[str, ...] = ()) -> dict[str, Any]:
    return {each.name: _field(each) for each in declared if each.name not in without}


MOST = {
    "exclude": 1000,
    "banned": 100,
    "boosts": 1000,
    "query": 20,
    "context_items": 100,
    "context_aspects": 100,
    "shares": 100,
}
NOT_HERE = ("query_by",)  # encoding texts takes too long for a request
Boosts = dict[Id, Annotated[float, Field(ge=-1e6, le=1e6, allow_inf_nan=False)]]
ShownOptions: type[RequestBody] = create_model(
    "ShownOptions",
    __base__=LoggedBody,
    __doc__="Which reasons may be shown, and what their scores become, as in the library.",
    **_fields(Options.declared(), without=("diversity", *NOT_HERE)),
)
ListOptions: type[RequestBody] = create_model(
    "ListOptions",
    __base__=LoggedBody,
    __doc__="How the reasons of a list are chosen, as in the library.",
    **_fields(Options.declared(), NOT_HERE),
)


def options_of(asked: object) -> Options:
    """The library's options of a request, which are checked once for all requests that have the same ones."""
    names, values = _option_members(asked)
    given = values(asked)
    try:
        hash(given)
    except TypeError:  # lists, or numbers by id
        given = tuple(tuple(each) if isinstance(each, list) else each for each in given)
        if any(isinstance(each, dict) for each in given):
            return Options(**dict(zip(names, given, strict=True)))
    return _equal_options(names, given)


def _option_members(asked: object) -> tuple[tuple[str, ...], Callable[[object], tuple[Any, ...]]]:
    """Which options requests of a kind have, and what reads them."""
    kind = type(asked)
    if kind not in _members:
        names = tuple(each.name for each in Options.declared() if hasattr(asked, each.name))
        _members[kind] = names, attrgetter(*names)
    return _members[kind]


_members: dict[type, tuple[tuple[str, ...], Callable[[object], tuple[Any, ...]]]] = {}


@lru_cache(1024)
def _equal_options(names: tuple[str, ...], given: tuple[Any, ...]) -> Options:
    return Options(**dict(zip(names, given, strict=True)))


class RankOptions(ListOptions):  # type: ignore[valid-type,misc]
    """Which models, and what is counted."""

    model: Id | None = Field(None, description="a model's id; the default model unless given")
    compare: Id | None = Field(None, description="a second model for the same pairs")
    similar: bool = Field(False, description=SIMILAR)


class Pair(RequestBody):
    """A user and an item."""

    user: Id
    item: Id


class ExplainOne(RankOptions):
    """Reasons of one pair."""

    user: Id = Field(examples=["u000001"])
    item: Id = Field(examples=["i00001"])
    n: int = Field(5, ge=1, le=100)


class ExplainMany(RankOptions):
    """Reasons of up to 1,000 pairs."""

    pairs: list[Pair] = Field(min_length=1, max_length=MAX_PAIRS)
    n: int = Field(5, ge=1, le=100)


def _form(body: object) -> str:
    has_pairs = "pairs" in body if isinstance(body, dict) else isinstance(body, ExplainMany)
    return "many" if has_pairs else "one"


ExplainRequest = Annotated[
    Annotated[ExplainOne, Tag("one")] | Annotated[ExplainMany, Tag("many")], Discriminator(_form)
]


ItemOptions: type[RankOptions] = create_model(
    "ItemOptions",
    __base__=RankOptions,
    __doc__="What lists of items are for, beside the best scores, as in the library.",
    **_fields(ItemGoals.declared()),
)


def goals_of(asked: object, groups: Mapping[str, str]) -> ItemGoals | None:
    """The goals of a request; None: none."""
    given = {each.name: value for each in ItemGoals.declared() if (value := getattr(asked, each.name, each.default))}
    return ItemGoals(**given, groups=groups) if given else None


class RecommendRequest(ItemOptions):  # type: ignore[valid-type,misc]
    """Items with reasons for a user."""

    user: Id = Field(examples=["u000001"])
    n: int = Field(10, ge=1, le=100)
    reasons: int = Field(3, ge=0, le=20)
    items_by: Id | None = Field(None, description="the model that ranks the items")


class PairsRequest(ShownOptions):  # type: ignore[valid-type,misc]
    """Items and reasons ranked together."""

    user: Id = Field(examples=["u000001"])
    n: int = Field(10, ge=1, le=100)
    weight: float = Field(1.0, ge=0.001, le=1000, allow_inf_nan=False, description="of the explanation's score")
    model: Id | None = None
    similar: bool = Field(False, description=SIMILAR)


Fallback = Annotated[
    Literal["unknown_user", "not_personal"] | None,
    Field(description="unknown_user, or not_personal as asked for: ranked by item and popularity only"),
]
Exposed = Annotated[str | None, Field(description="where it was logged: what feedback names")]


class InArm(BaseModel):
    """Which experiment an answer belongs to."""

    experiment: str | None = None
    arm: str | None = None


EvidenceOut: type[BaseModel] = create_model(
    "EvidenceOut",
    __doc__=Evidence.__doc__,
    **{each.name: (each.type, Field(description=each.help)) for each in Evidence.declared()},  # type: ignore[call-overload]
)


class QuoteOut(BaseModel):
    """What somebody wrote."""

    text: str
    source: str | None = Field(description="the review it is from")
    time: int | None


class ReasonOut(BaseModel):
    """An explanation as ranked for a pair."""

    rank: int
    explanation: str
    text: str
    sentence: str = Field(description="what can be shown to people; all of it follows from the evidence")
    score: float
    parts: dict[str, float] = Field(description="parts of the score; they add up to it")
    evidence: EvidenceOut  # type: ignore[valid-type]
    aspect: str | None = Field(description="what it is about, where that is known")
    polarity: int = Field(description="1: speaks for the item, -1: against it, 0: neither, or unknown")
    quotes: list[QuoteOut]
    fallback: Fallback
    sentiment: float | None
    propensity: float | None = Field(None, description="of a drawn list: the chance of this reason at its rank")
    other_rank: int | None = Field(None, description="with compare: its rank in the other list, null when not in it")


class PairReasons(BaseModel):
    """The reasons of one pair."""

    user: str
    item: str
    status: Literal["ok", "no_reason", "unknown_item"]
    fallback: Fallback
    reasons: list[ReasonOut]
    exposure: Exposed = None


class ModelReasons(BaseModel):
    """One model's reasons for all pairs asked for."""

    model: str
    mu: float | None
    results: list[PairReasons]


class ExplainAnswer(ModelReasons, InArm):
    """Reasons pair by pair."""

    compare: ModelReasons | None


class Recommended(BaseModel):
    """An item with its reasons."""

    rank: int
    item: str
    title: str | None
    score: float
    users: int
    reasons: list[ReasonOut]
    exposure: Exposed = None


class OtherReasons(BaseModel):
    """Reasons of a second model for the same items."""

    model: str
    mu: float | None
    reasons: list[list[ReasonOut]]


class RecommendAnswer(InArm):
    """Items, best first."""

    model: str
    mu: float | None
    items_by: str
    user: str
    fallback: Fallback
    recommendations: list[Recommended]
    ndcg: float | None = Field(None, description="with goals: what they leave of the NDCG of the list by score alone")
    compare: OtherReasons | None


class RankedPair(BaseModel):
    """An item and one reason."""

    rank: int
    item: str
    title: str | None
    score: float
    item_score: float
    reason: ReasonOut


class PairsAnswer(InArm):
    """Items and reasons ranked together, best first."""

    model: str
    mu: float | None
    user: str
    fallback: Fallback
    weight: float
    pairs: list[RankedPair]
    exposure: Exposed = None
