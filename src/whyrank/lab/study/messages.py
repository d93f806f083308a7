"""Requests and answers of studies."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from whyrank.service.messages import Id, Message, Polarity, RequestBody, Share, Text
from whyrank.service.messages_catalog import Parameters


class StudyParameters(Parameters, kw_only=True):
    """One study."""

    id: Annotated[str, Meta(min_length=1, max_length=100)]


class TakeParameters(Parameters, kw_only=True):
    """One participant."""

    token: Annotated[str, Meta(min_length=1, max_length=100)]


class CaseParameters(TakeParameters, kw_only=True):
    """One case of a participant."""

    case: Annotated[int, Meta(ge=1, le=1000)]


class StudyRequest(RequestBody, frozen=True, kw_only=True):
    """A blind study of two models."""

    a: Annotated[Id, Meta(description="a model's id")]
    b: Annotated[Id, Meta(description="another model's id")]
    title: Annotated[Text, Meta(description="never shown to participants")] = ""
    question: Annotated[Text | None, Meta(description="shown to participants; a default one unless given")] = None
    cases: Annotated[int, Meta(ge=1, le=1000)] = 10
    n: Annotated[int, Meta(ge=1, le=20, description="reasons in a list")] = 5
    participants: Annotated[int, Meta(ge=1, le=1000)] = 3
    agreement: Annotated[int, Meta(ge=1, le=1000, description="participants who must agree for a case to be valid")] = 2
    ties: bool = False
    seed: Annotated[int, Meta(ge=0, le=2**62 - 1)] = 0
    grounded: bool = False
    polarity: Polarity = "any"
    diversity: Share = 0.0
    specificity: Annotated[float, Meta(ge=-10, le=10)] = 0.0


class StudyHead(Message, kw_only=True):
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


class StudyListed(StudyHead, kw_only=True):
    """A study in the list."""

    participants: int


class StudiesAnswer(Message, kw_only=True):
    """All studies, the newest first."""

    studies: list[StudyListed]


class ParticipantOut(Message, kw_only=True):
    """A link; its path is relative to the page."""

    participant: int
    token: str
    path: str
    answered: int


class StudyAnswer(StudyHead, kw_only=True):
    """A study with its links."""

    participants: list[ParticipantOut]


class MoreParticipants(RequestBody, frozen=True, kw_only=True):
    """How many more links."""

    count: Annotated[int, Meta(ge=1, le=1000)]


class Outcome(Message, kw_only=True):
    """How many of the valid cases went to an option, with an exact interval."""

    option: str
    cases: int
    share: float | None
    low: float | None
    high: float | None


class CaseResult(Message, kw_only=True):
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


class ResultsAnswer(Message, kw_only=True):
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


class CaseView(Message, kw_only=True):
    """A case as a participant sees it."""

    case: int
    item: str
    title: str | None
    truth: list[str]
    left: list[str]
    right: list[str]
    choice: Literal["left", "right", "tie"] | None


class TakeView(Message, kw_only=True):
    """What a participant sees."""

    question: str
    ties: bool
    total: int
    answered: int
    cases: list[CaseView]


class TakeRequest(RequestBody, frozen=True, kw_only=True):
    """A participant's choice."""

    case: Annotated[int, Meta(ge=1, le=1000)]
    choice: Literal["left", "right", "tie"]


class TakeAnswer(Message, kw_only=True):
    """A choice as stored."""

    case: int
    choice: Literal["left", "right", "tie"]
    answered: int
    total: int


class TakeWithdrawn(Message, kw_only=True):
    """What is answered after an answer was taken back."""

    case: int
    answered: int
    total: int
