"""Answers of the routes that look around."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from whyrank.service.report import Evaluated, ModelReport
from whyrank.service.schemas import QuoteOut


class Sizes(BaseModel):
    """How much a model has seen."""

    users: int
    items: int
    explanations: int
    triplets: int
    pairs: int


class ModelOut(BaseModel):
    """A model in service."""

    id: str
    name: str
    kind: str
    summary: str
    ranks_items: bool
    mu: float | None
    average_popularity: list[float] = Field(
        description="the popularity part of a score, averaged over the pool: with mu 0 and with mu 1"
    )
    parameters: dict[str, object]
    sizes: Sizes
    sentiment: Literal["polarity", "ratings", "words", "ratings and words"] | None
    data: str
    version: str
    loaded: str
    problem: str | None = Field(description="why a newer folder was refused")
    report: ModelReport | None


class GateOut(BaseModel):
    """A new model and the one in service on the same held-out records."""

    metric: str
    records: int
    served: float
    candidate: float
    difference: float
    interval: tuple[float | None, float | None] = Field(description="95% interval of the difference")
    tolerance: float = Field(description="share of the served model's figure that may be lost")
    passed: bool


class RefreshEntry(BaseModel):
    """A line of the log of `whyrank refresh`."""

    time: str
    outcome: Literal["swapped", "refused"]
    digest: str
    kind: str
    data: str
    sizes: dict[str, int] = {}
    files: int = 0
    gate: GateOut | None = None


class VersionOut(BaseModel):
    """A version of a model."""

    outcome: Literal["served", "swapped", "refused", "not loaded"] = Field(
        description="served: loaded by this service; swapped: put in place by a refresh, but never loaded here; "
        "refused: a refresh found it worse; not loaded: its folder could not be read"
    )
    time: str
    until: str | None = Field(description="when the next version was loaded")
    digest: str | None = Field(description="as the log of exposures names the model")
    kind: str | None
    data: str | None
    sizes: dict[str, int]
    parameters: dict[str, object]
    evaluation: Evaluated | None
    gate: GateOut | None = Field(description="the comparison by which a refresh decided")
    files: int | None = Field(description="new files of reviews that a refresh took in")
    problem: str | None
    changes: list[str] = Field(description="what is different from the version served before, in words")


class HistoryAnswer(BaseModel):
    """The versions of a model, the newest first."""

    model: str
    versions: list[VersionOut]


class ServiceOut(BaseModel):
    """What this service can do."""

    version: str
    keys: bool
    scopes: list[str] = Field(description="what the key of this request may do")
    studies: bool
    test_pairs: int | None
    max_pairs: int
    groups: list[str] = Field(description="of items, for `shares` of recommendations")


class ModelsAnswer(BaseModel):
    """All models, in the order of the command line."""

    default: str
    service: ServiceOut
    models: list[ModelOut]


class UserOut(BaseModel):
    """A user, briefly."""

    id: str
    items: int
    explanations: int


class UsersAnswer(BaseModel):
    """A page of users."""

    total: int
    users: list[UserOut]


class ItemOut(BaseModel):
    """An item, briefly."""

    id: str
    title: str | None
    users: int
    explanations: int


class ItemsAnswer(BaseModel):
    """A page of items."""

    total: int
    items: list[ItemOut]


class TextOut(BaseModel):
    """An explanation's text."""

    id: str
    text: str
    sentiment: float | None


class SaidOut(TextOut):
    """An explanation and how often people say it."""

    count: int


class ExplanationOut(TextOut):
    """An explanation of the pool."""

    frequency: int
    aspect: str | None


class ExplanationsAnswer(BaseModel):
    """A page of the pool."""

    total: int
    explanations: list[ExplanationOut]


class AspectOut(BaseModel):
    """An aspect of the pool."""

    aspect: str
    explanations: int
    frequency: int
    praise: int
    criticism: int


class AspectsAnswer(BaseModel):
    """All aspects, the most frequent first."""

    aspects: list[AspectOut]


class HistoryOut(BaseModel):
    """An item of a user's past."""

    item: str
    title: str | None
    explanations: list[TextOut]


class UserAnswer(UserOut):
    """What a user said before."""

    history: list[HistoryOut]
    said: list[SaidOut]


class ItemName(BaseModel):
    """An item's id and title."""

    id: str
    title: str | None


class ItemStatement(BaseModel):
    """What people say about one aspect of an item."""

    id: str
    text: str
    polarity: int
    people: int
    quotes: list[QuoteOut]


class ItemAspect(BaseModel):
    """People for and against one aspect of an item, and of the items like it."""

    aspect: str
    mentions: int
    praising: int
    blaming: int
    similar_praising: int
    similar_blaming: int
    statements: list[ItemStatement]


class ItemAnswer(ItemOut):
    """What people say about an item."""

    aspects: list[ItemAspect]
    said: list[SaidOut]
    similar: list[ItemName]


class NearDuplicate(BaseModel):
    """An explanation that shares most words."""

    id: str
    text: str
    frequency: int
    overlap: float


class CountedUser(BaseModel):
    """A user who says it."""

    id: str
    count: int


class CountedItem(ItemName):
    """An item that people say it about."""

    count: int


class CountedUsers(BaseModel):
    """Who says it."""

    total: int
    top: list[CountedUser]


class CountedItems(BaseModel):
    """The items that people say it about."""

    total: int
    top: list[CountedItem]


class ExplanationAnswer(ExplanationOut):
    """Everything about one explanation."""

    share: float
    near_duplicates: list[NearDuplicate]
    users: CountedUsers
    items: CountedItems
