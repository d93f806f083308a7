"""Requests and answers of experiments and of what is stored of people."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from whyrank.online.assignment import PLANNED
from whyrank.service.schemas import Id, RequestBody, Share

ShortName = Annotated[str, Field(min_length=1, max_length=64)]
OptionValue = bool | int | float | str


class ArmRequest(RequestBody):
    """An arm of a new experiment."""

    name: ShortName
    model: Id = Field(description="a model's id, or none: lists without reasons")
    share: float = Field(1.0, gt=0, le=1e6, allow_inf_nan=False, description="relative to the other arms")
    options: dict[ShortName, OptionValue] = Field({}, max_length=50, description="as in requests")


class ExperimentRequest(RequestBody):
    """A new experiment; the first arm is what the others are compared with."""

    name: ShortName
    arms: list[ArmRequest] = Field(min_length=2, max_length=20)
    ramp: Share = Field(1.0, description="share of users who take part")
    metric: Literal["clicked", "dismissed", "helpful", "converted"] = "clicked"
    planned: int = Field(PLANNED, ge=1, le=10**12, description="lists for which the intervals are narrowest")


class RampRequest(RequestBody):
    """A new share of users."""

    ramp: Share


class ArmOut(BaseModel):
    """An arm."""

    name: str
    model: str
    share: float
    options: dict[str, object]


class ExperimentOut(BaseModel):
    """An experiment; times are seconds since 1970."""

    name: str
    created: int
    stopped: int | None
    ramp: float
    metric: str
    planned: int
    arms: list[ArmOut]


class ExperimentsAnswer(BaseModel):
    """All experiments, the newest first."""

    experiments: list[ExperimentOut]


class ArmResultOut(BaseModel):
    """What users of an arm did."""

    arm: str
    users: int
    active: int
    lists: int
    events: float
    rate: float | None
    low: float | None
    high: float | None


class ComparisonOut(BaseModel):
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


class RatioOut(BaseModel):
    """Whether arms got as many users as they should."""

    expected: list[float]
    evidence: float
    alarm: bool


class TrendOut(BaseModel):
    """The comparisons as they were at a time."""

    time: int
    users: list[int]
    comparisons: list[ComparisonOut]


class ExperimentResultsAnswer(BaseModel):
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


class SlateOut(BaseModel):
    """A reason of a list; a list without reasons has one place without an explanation."""

    item: str
    title: str | None = Field(description="of the item; none where no title is known")
    explanation: str | None
    text: str | None = Field(description="none where no model in service knows the explanation")
    propensity: float


class EventOut(BaseModel):
    """What was done with a list, or with the reason at a position of it."""

    event: str
    position: int | None
    value: float
    time: int


class ExposureOut(BaseModel):
    """A list as it was shown, and what was done with it."""

    exposure: str
    time: int
    user: str
    arm: str | None
    served: str = Field(description="the model's id in the service")
    model: str = Field(description="the model's digest")
    route: str
    slate: list[SlateOut]
    events: list[EventOut]


class ExposuresAnswer(BaseModel):
    """The latest lists first."""

    exposures: list[ExposureOut]


class RateOut(BaseModel):
    """How often something was shown and reacted to."""

    shown: int
    users: int
    events: int
    rate: float
    low: float = Field(description="of a 95% interval that takes users as units; for one look, one row at a time")
    high: float
    expected: float = Field(description="the rate of all reasons at the same places of lists")


class ArmRateOut(RateOut):
    """The same in one arm of an experiment."""

    arm: str


class WorkingOut(RateOut):
    """How often an explanation, or an aspect, was reacted to."""

    key: str = Field(description="the explanation's id, or the aspect")
    text: str
    aspect: str | None
    model: str | None = Field(description="a model in service that knows the explanation")
    arms: list[ArmRateOut] = Field(description="of an experiment, in the order of its arms; none where one is chosen")


class WorkingAnswer(BaseModel):
    """Which reasons work, from the latest lists."""

    by: str
    event: str
    experiment: str | None
    arm: str | None
    minimum: int
    lists: int = Field(description="that the figures come from")
    more: bool = Field(description="there are older lists")
    shown: int = Field(description="reasons on these lists")
    events: int
    total: int = Field(description="rows that were shown often enough")
    rows: list[WorkingOut]


class ExportAnswer(BaseModel):
    """Everything that is stored of a user."""

    user: str
    exposures: list[dict[str, object]]
    events: list[dict[str, object]]
    study_cases: list[dict[str, object]]


class ErasedOut(BaseModel):
    """What was erased from one folder."""

    folder: str
    kind: str
    found: bool
    before: str
    after: str | None
    removed: dict[str, int]
    note: str


class ReceiptAnswer(BaseModel):
    """Proof of an erasure that names nobody."""

    id: str
    time: int
    salt: str
    user: str = Field(description="SHA-256 of the salt, a NUL character and the id")
    store: dict[str, int] | None
    folders: list[ErasedOut]
    note: str
