"""Requests and answers of feedback and studies."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field, model_validator

from whyrank.service.schemas import Id, Polarity, RequestBody, Share, Text


class Event(RequestBody):
    """Something a user did with a reason."""

    event: Literal["shown", "clicked", "dismissed", "helpful", "converted"]
    exposure: Id | None = Field(None, description="of the answer that was shown; without it, name user and item")
    position: int | None = Field(None, ge=1, le=10_000, description="of the reason in its list; none: of all of it")
    value: float = Field(1.0, ge=-1e12, le=1e12, allow_inf_nan=False, description="a price, for example")
    user: Id | None = None
    item: Id | None = None
    explanation: Id | None = None
    model: Id | None = None
    rank: int | None = Field(None, ge=1, le=10_000, description="as position, in requests of version 0.1")
    id: Id | None = Field(None, description="unique to this event, so that a retry counts once")

    @model_validator(mode="after")
    def _of_something(self) -> Event:
        if self.exposure is None and (self.user is None or self.item is None):
            raise ValueError("names neither an exposure nor a user and an item")
        if self.rank is not None and self.position is not None:
            raise ValueError("has both a position and a rank; leave out rank")
        return self


class FeedbackRequest(RequestBody):
    """Up to 1,000 events."""

    events: list[Event] = Field(min_length=1, max_length=1000)


class FeedbackStored(BaseModel):
    """What became of the events."""

    stored: int
    repeated: int


class FeedbackCount(BaseModel):
    """Events of one model."""

    model: str | None
    shown: int
    clicked: int
    dismissed: int
    helpful: int
    converted: int


class FeedbackAnswer(BaseModel):
    """Events by model."""

    models: list[FeedbackCount]


class StudyRequest(RequestBody):
    """A blind study of two models."""

    a: Id = Field(description="a model's id")
    b: Id = Field(description="another model's id")
    title: Text = Field("", description="never shown to participants")
    question: Text | None = Field(None, description="shown to participants; a default one unless given")
    cases: int = Field(10, ge=1, le=1000)
    n: int = Field(5, ge=1, le=20, description="reasons in a list")
    participants: int = Field(3, ge=1, le=1000)
    agreement: int = Field(2, ge=1, le=1000, description="participants who must agree for a case to be valid")
    ties: bool = False
    seed: int = Field(0, ge=0, lt=2**62)
    grounded: bool = False
    polarity: Polarity = "any"
    diversity: Share = 0.0
    specificity: float = Field(0.0, ge=-10, le=10, allow_inf_nan=False)


class StudyHead(BaseModel):
    """A study without its people."""

    id: str
    title: str
    a: str
    b: str
    cases: int
    n: int
    agreement: int
    ties: bool
    seed: int
    question: str
    created: str
    answers: int


class StudyListed(StudyHead):
    """A study in the list."""

    participants: int


class StudiesAnswer(BaseModel):
    """All studies, the newest first."""

    studies: list[StudyListed]


class ParticipantOut(BaseModel):
    """A link; its path is relative to the page."""

    participant: int
    token: str
    path: str
    answered: int


class StudyAnswer(StudyHead):
    """A study with its links."""

    participants: list[ParticipantOut]


class MoreParticipants(RequestBody):
    """How many more links."""

    count: int = Field(ge=1, le=1000)


class Outcome(BaseModel):
    """How many of the valid cases went to an option, with an exact interval."""

    option: str
    cases: int
    share: float | None
    low: float | None
    high: float | None


class CaseResult(BaseModel):
    """The votes on one case."""

    case: int
    item: str
    title: str | None
    truth: list[str]
    a: list[str]
    b: list[str]
    votes: dict[str, int]
    valid: bool
    winner: str | None


class ResultsAnswer(BaseModel):
    """What a study says so far."""

    id: str
    title: str
    cases: int
    answered_cases: int
    valid_cases: int
    answers: int
    agreement: int
    outcomes: list[Outcome]
    confidence: float
    kappa: float | None
    left_share: float | None
    per_case: list[CaseResult]


class CaseView(BaseModel):
    """A case as a participant sees it."""

    case: int
    item: str
    title: str | None
    truth: list[str]
    left: list[str]
    right: list[str]
    choice: Literal["left", "right", "tie"] | None


class TakeView(BaseModel):
    """What a participant sees."""

    question: str
    ties: bool
    total: int
    answered: int
    cases: list[CaseView]


class TakeRequest(RequestBody):
    """A participant's choice."""

    case: int = Field(ge=1, le=1000)
    choice: Literal["left", "right", "tie"]


class TakeAnswer(BaseModel):
    """A choice as stored."""

    case: int
    choice: Literal["left", "right", "tie"]
    answered: int
    total: int


class TakeWithdrawn(BaseModel):
    """What is answered after an answer was taken back."""

    case: int
    answered: int
    total: int
