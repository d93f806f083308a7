"""Requests and answers of feedback, of experiments and of what is stored of people."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from whyrank.online.assignment import PLANNED
from whyrank.service.messages import Id, Message, RequestBody, Share
from whyrank.service.messages_catalog import Parameters

ShortName = Annotated[str, Meta(min_length=1, max_length=64)]
OptionValue = bool | int | float | str
ArmName = Annotated[Annotated[str, Meta(max_length=64)] | None, Meta(description="only lists of this arm")]
Events = Literal["clicked", "dismissed", "helpful", "converted"]


class ExperimentParameters(Parameters, kw_only=True):
    """One experiment."""

    name: ShortName


class ResultsParameters(ExperimentParameters, kw_only=True):
    """How the results of an experiment are shown."""

    level: Annotated[float, Meta(ge=0.5, le=0.999, description="of all intervals of a metric together")] = 0.95
    points: Annotated[int, Meta(ge=0, le=100, description="times at which the comparisons are given as they were")] = 0


class ExposuresParameters(ExperimentParameters, kw_only=True):
    """Which lists of an experiment are shown."""

    arm: ArmName = None
    event: Annotated[Annotated[str, Meta(max_length=20)] | None, Meta(description="only lists with such an event")] = (
        None
    )
    explanation: Annotated[
        Annotated[str, Meta(max_length=1000)] | None, Meta(description="only lists that show this one")
    ] = None
    before: Annotated[
        Annotated[str, Meta(max_length=64)] | None, Meta(description="an exposure: only earlier ones")
    ] = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 50


class WorkingParameters(Parameters, kw_only=True):
    """Which reasons or aspects are counted, and how they are ordered."""

    by: Literal["explanation", "aspect"] = "aspect"
    event: Events = "clicked"
    experiment: Annotated[str, Meta(max_length=64)] | None = None
    arm: ArmName = None
    order: Literal["best", "worst", "shown"] = "best"
    minimum: Annotated[int, Meta(ge=1, le=10**9, description="how often something must have been shown")] = 20
    limit: Annotated[int, Meta(ge=1, le=1000)] = 50


class PersonParameters(Parameters, kw_only=True):
    """A user of whom data are stored."""

    id: Id


class Event(RequestBody, frozen=True, kw_only=True):
    """Something a user did with a reason."""

    event: Literal["shown", "clicked", "dismissed", "helpful", "converted"]
    exposure: Annotated[Id | None, Meta(description="of the answer that was shown; without it, name user and item")] = (
        None
    )
    position: Annotated[
        Annotated[int, Meta(ge=1, le=10_000)] | None,
        Meta(description="of the reason in its list; none: of all of it"),
    ] = None
    value: Annotated[float, Meta(ge=-1e12, le=1e12, description="a price, for example")] = 1.0
    user: Id | None = None
    item: Id | None = None
    explanation: Id | None = None
    model: Id | None = None
    id: Annotated[Id | None, Meta(description="unique to this event, so that a retry counts once")] = None

    def __post_init__(self) -> None:
        if self.exposure is None and (self.user is None or self.item is None):
            raise ValueError("names neither an exposure nor a user and an item")


class FeedbackRequest(RequestBody, frozen=True, kw_only=True):
    """Up to 1,000 events."""

    events: Annotated[list[Event], Meta(min_length=1, max_length=1000)]


class FeedbackStored(Message, kw_only=True):
    """What became of the events."""

    stored: int
    repeated: int


class FeedbackCount(Message, kw_only=True):
    """Events of one model."""

    model: str | None
    shown: int
    clicked: int
    dismissed: int
    helpful: int
    converted: int


class FeedbackAnswer(Message, kw_only=True):
    """Events by model."""

    models: list[FeedbackCount]


class ArmRequest(RequestBody, frozen=True, kw_only=True):
    """An arm of a new experiment."""

    name: ShortName
    model: Annotated[Id, Meta(description="a model's id, or none: lists without reasons")]
    share: Annotated[float, Meta(gt=0, le=1e6, description="relative to the other arms")] = 1.0
    options: Annotated[dict[ShortName, OptionValue], Meta(max_length=50, description="as in requests")] = msgspec.field(
        default_factory=dict
    )


class ExperimentRequest(RequestBody, frozen=True, kw_only=True):
    """A new experiment; the first arm is what the others are compared with."""

    name: ShortName
    arms: Annotated[list[ArmRequest], Meta(min_length=2, max_length=20)]
    ramp: Annotated[Share, Meta(description="share of users who take part")] = 1.0
    metric: Events = "clicked"
    planned: Annotated[int, Meta(ge=1, le=10**12, description="lists for which the intervals are narrowest")] = PLANNED


class RampRequest(RequestBody, frozen=True, kw_only=True):
    """A new share of users."""

    ramp: Share


class ArmOut(Message, kw_only=True):
    """An arm."""

    name: str
    model: str
    share: float
    options: dict[str, Any]


class ExperimentOut(Message, kw_only=True):
    """An experiment; times are seconds since 1970."""

    name: str
    created: int
    stopped: int | None
    ramp: float
    metric: str
    planned: int
    arms: list[ArmOut]


class ExperimentsAnswer(Message, kw_only=True):
    """All experiments, the newest first."""

    experiments: list[ExperimentOut]


class ArmResultOut(Message, kw_only=True):
    """What users of an arm did."""

    arm: str
    users: int
    active: int
    lists: int
    events: float
    rate: float | None
    low: float | None
    high: float | None


class ComparisonOut(Message, kw_only=True):
    """An arm against the first one."""

    arm: str
    against: str
    event: str
    difference: float | None
    low: float | None
    high: float | None
    uplift: float | None
    uplift_low: float | None
    uplift_high: float | None
    decided: bool


class RatioOut(Message, kw_only=True):
    """Whether arms got as many users as they should."""

    expected: list[float]
    evidence: float
    alarm: bool


class TrendOut(Message, kw_only=True):
    """The comparisons as they were at a time."""

    time: int
    users: list[int]
    comparisons: list[ComparisonOut]


class ExperimentResultsAnswer(Message, kw_only=True):
    """What came of an experiment so far."""

    experiment: str
    metric: str
    level: float
    verdict: str
    arms: list[ArmResultOut]
    comparisons: list[ComparisonOut]
    guardrails: list[ComparisonOut]
    others: list[ComparisonOut]
    ratio: RatioOut
    adjusted: float
    mixed: int
    trend: list[TrendOut]


class SlateOut(Message, kw_only=True):
    """A reason of a list; a list without reasons has one place without an explanation."""

    item: str
    title: Annotated[str | None, Meta(description="of the item; none where no title is known")]
    explanation: str | None
    text: Annotated[str | None, Meta(description="none where no model in service knows the explanation")]
    propensity: float


class EventOut(Message, kw_only=True):
    """What was done with a list, or with the reason at a position of it."""

    event: str
    position: int | None
    value: float
    time: int


class ExposureOut(Message, kw_only=True):
    """A list as it was shown, and what was done with it."""

    exposure: str
    time: int
    user: str
    arm: str | None
    served: Annotated[str, Meta(description="the model's id in the service")]
    model: Annotated[str, Meta(description="the model's digest")]
    route: str
    slate: list[SlateOut]
    events: list[EventOut]


class ExposuresAnswer(Message, kw_only=True):
    """The latest lists first."""

    exposures: list[ExposureOut]


class RateOut(Message, kw_only=True):
    """How often something was shown and reacted to."""

    shown: int
    users: int
    events: int
    rate: float
    low: Annotated[
        float, Meta(description="of a 95% interval that takes users as units; for one look, one row at a time")
    ]
    high: float
    expected: Annotated[float, Meta(description="the rate of all reasons at the same places of lists")]


class ArmRateOut(RateOut, kw_only=True):
    """The same in one arm of an experiment."""

    arm: str


class WorkingOut(RateOut, kw_only=True):
    """How often an explanation, or an aspect, was reacted to."""

    key: Annotated[str, Meta(description="the explanation's id, or the aspect")]
    text: str
    aspect: str | None
    model: Annotated[str | None, Meta(description="a model in service that knows the explanation")]
    arms: Annotated[
        list[ArmRateOut], Meta(description="of an experiment, in the order of its arms; none where one is chosen")
    ]


class WorkingAnswer(Message, kw_only=True):
    """Which reasons work, from the latest lists."""

    by: str
    event: str
    experiment: str | None
    arm: str | None
    minimum: int
    lists: Annotated[int, Meta(description="that the figures come from")]
    more: Annotated[bool, Meta(description="there are older lists")]
    shown: Annotated[int, Meta(description="reasons on these lists")]
    events: int
    total: Annotated[int, Meta(description="rows that were shown often enough")]
    rows: list[WorkingOut]


class ExportAnswer(Message, kw_only=True):
    """Everything that is stored of a user."""

    user: str
    exposures: list[dict[str, Any]]
    events: list[dict[str, Any]]
    study_cases: list[dict[str, Any]]


class ErasedOut(Message, kw_only=True):
    """What was erased from one folder."""

    folder: str
    kind: str
    found: bool
    before: str
    after: str | None
    removed: dict[str, int]
    note: str


class ReceiptAnswer(Message, kw_only=True):
    """Proof of an erasure that names nobody."""

    id: str
    time: int
    salt: str
    user: Annotated[str, Meta(description="SHA-256 of the salt, a NUL character and the id")]
    store: dict[str, int] | None
    folders: list[ErasedOut]
    note: str
