"""Requests and answers of the routes that look around."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from whyrank.service.messages import Id, Message, Polarity, QuoteOut
from whyrank.service.report import Evaluated, ModelReport


class Parameters(Struct, kw_only=True):
    """What a path and a query name."""


class OfModel(Parameters, kw_only=True):
    """A route about one of the models."""

    model: Annotated[Annotated[str, Meta(max_length=1000)] | None, Meta(description="a model's id")] = None


class SearchParameters(OfModel, kw_only=True):
    """A page of what is found."""

    query: Annotated[str, Meta(max_length=200, description="part of an id or a text, in any case")] = ""
    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    offset: Annotated[int, Meta(ge=0, le=10**9)] = 0


class PoolParameters(SearchParameters, kw_only=True):
    """A page of the pool."""

    sort: Literal["frequency", "positive", "negative", "text"] = "frequency"
    polarity: Polarity = "any"
    aspect: Annotated[str, Meta(max_length=1000, description="only explanations about this aspect")] = ""


class OneParameters(OfModel, kw_only=True):
    """One item, or one explanation."""

    id: Id


class StatementParameters(OneParameters, kw_only=True):
    """One explanation of an item."""

    item: Id


class UserParameters(OneParameters, kw_only=True):
    """One user, and a page of their past."""

    limit: Annotated[int, Meta(ge=1, le=100)] = 50
    offset: Annotated[int, Meta(ge=0, le=10**9)] = 0


class HistoryParameters(Parameters, kw_only=True):
    """The latest versions of a model."""

    id: Id
    limit: Annotated[int, Meta(ge=1, le=100)] = 50


class Sizes(Message, kw_only=True):
    """How much a model has seen."""

    users: int
    items: int
    explanations: int
    triplets: int
    pairs: int


class ModelOut(Message, kw_only=True):
    """A model in service."""

    id: str
    name: str
    kind: str
    summary: str
    ranks_items: bool
    mu: float | None
    average_popularity: Annotated[
        list[float], Meta(description="the popularity part of a score, averaged over the pool: with mu 0 and with mu 1")
    ]
    parameters: dict[str, Any]
    sizes: Sizes
    sentiment: Literal["polarity", "ratings", "words", "ratings and words"] | None
    data: str
    version: str
    loaded: str
    problem: Annotated[str | None, Meta(description="why a newer folder was refused")]
    report: ModelReport | None


class GateOut(Message, kw_only=True):
    """A new model and the one in service on the same held-out records."""

    metric: str
    records: int
    served: float
    candidate: float
    difference: float
    interval: Annotated[tuple[float | None, float | None], Meta(description="95% interval of the difference")]
    tolerance: Annotated[float, Meta(description="share of the served model's figure that may be lost")]
    passed: bool


class RefreshEntry(Message, kw_only=True):
    """A line of the log of `whyrank refresh`."""

    time: str
    outcome: Literal["swapped", "refused"]
    digest: str
    kind: str
    data: str
    sizes: dict[str, int] = msgspec.field(default_factory=dict)
    files: int = 0
    gate: GateOut | None = None


class VersionOut(Message, kw_only=True):
    """A version of a model."""

    outcome: Annotated[
        Literal["served", "swapped", "refused", "not loaded"],
        Meta(
            description="served: loaded by this service; swapped: put in place by a refresh, but never loaded here; "
            "refused: a refresh found it worse; not loaded: its folder could not be read"
        ),
    ]
    time: str
    until: Annotated[str | None, Meta(description="when the next version was loaded")]
    digest: Annotated[str | None, Meta(description="as the log of exposures names the model")]
    kind: str | None
    data: str | None
    sizes: dict[str, int]
    parameters: dict[str, Any]
    evaluation: Evaluated | None
    gate: Annotated[GateOut | None, Meta(description="the comparison by which a refresh decided")]
    files: Annotated[int | None, Meta(description="new files of reviews that a refresh took in")]
    problem: str | None
    changes: Annotated[list[str], Meta(description="what is different from the version served before, in words")]


class HistoryAnswer(Message, kw_only=True):
    """The versions of a model, the newest first."""

    model: str
    versions: list[VersionOut]


class ServiceOut(Message, kw_only=True):
    """What this service can do."""

    version: str
    keys: bool
    scopes: Annotated[list[str], Meta(description="what the key of this request may do")]
    studies: bool
    max_pairs: int
    max_reasons: Annotated[int, Meta(description="of one answer")]
    groups: Annotated[list[str], Meta(description="of items, for `shares` of recommendations")]


class ModelsAnswer(Message, kw_only=True):
    """All models, in the order of the command line."""

    default: str
    service: ServiceOut
    models: list[ModelOut]


class UserOut(Message, kw_only=True):
    """A user, briefly."""

    id: str
    items: int
    explanations: int


class UsersAnswer(Message, kw_only=True):
    """A page of users."""

    total: int
    users: list[UserOut]


class ItemOut(Message, kw_only=True):
    """An item, briefly."""

    id: str
    title: str | None
    users: int
    explanations: int


class ItemsAnswer(Message, kw_only=True):
    """A page of items."""

    total: int
    items: list[ItemOut]


class TextOut(Message, kw_only=True):
    """An explanation's text."""

    id: str
    text: str
    sentiment: float | None


class SaidOut(TextOut, kw_only=True):
    """An explanation and how often people say it."""

    count: int


class ExplanationOut(TextOut, kw_only=True):
    """An explanation of the pool."""

    frequency: int
    aspect: str | None


class ExplanationsAnswer(Message, kw_only=True):
    """A page of the pool."""

    total: int
    explanations: list[ExplanationOut]


class AspectOut(Message, kw_only=True):
    """An aspect of the pool."""

    aspect: str
    explanations: int
    frequency: int
    praise: int
    criticism: int


class AspectsAnswer(Message, kw_only=True):
    """All aspects, the most frequent first."""

    aspects: list[AspectOut]


class HistoryOut(Message, kw_only=True):
    """An item of a user's past."""

    item: str
    title: str | None
    explanations: list[TextOut]


class UserAnswer(UserOut, kw_only=True):
    """What a user said before."""

    history: list[HistoryOut]
    said: list[SaidOut]


class ItemName(Message, kw_only=True):
    """An item's id and title."""

    id: str
    title: str | None


class ItemStatement(Message, kw_only=True):
    """What people say about one aspect of an item."""

    id: str
    text: str
    polarity: int
    people: int
    quotes: list[QuoteOut]


class StatementAnswer(ItemStatement, kw_only=True):
    """What is behind a statement about an item: who says it, who says the opposite or both, and in which words."""

    item: str
    title: str | None
    opposing: int
    mixed: int


class ItemAspect(Message, kw_only=True):
    """People for and against one aspect of an item, and of the items like it."""

    aspect: str
    mentions: int
    praising: int
    blaming: int
    similar_praising: int
    similar_blaming: int
    statements: list[ItemStatement]


class ItemAnswer(ItemOut, kw_only=True):
    """What people say about an item."""

    aspects: list[ItemAspect]
    said: list[SaidOut]
    similar: list[ItemName]


class NearDuplicate(Message, kw_only=True):
    """An explanation that shares most words."""

    id: str
    text: str
    frequency: int
    overlap: float


class CountedUser(Message, kw_only=True):
    """A user who says it."""

    id: str
    count: int


class CountedItem(ItemName, kw_only=True):
    """An item that people say it about."""

    count: int


class CountedUsers(Message, kw_only=True):
    """Who says it."""

    total: int
    top: list[CountedUser]


class CountedItems(Message, kw_only=True):
    """The items that people say it about."""

    total: int
    top: list[CountedItem]


class ExplanationAnswer(ExplanationOut, kw_only=True):
    """Everything about one explanation."""

    share: float
    near_duplicates: list[NearDuplicate]
    users: CountedUsers
    items: CountedItems
