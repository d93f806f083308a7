"""What the routes of one worker share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from whyrank.service.settings import Settings

if TYPE_CHECKING:
    import anyio
    from fastapi import Request

    from whyrank.service.measures import Measures
    from whyrank.service.shelf import Shelf
    from whyrank.service.store import Store
    from whyrank.service.study_cases import Cases


@dataclass
class State:
    """Made when a worker starts; only the shelf's contents change afterwards."""

    settings: Settings
    measures: Measures
    store: Store
    threads: anyio.CapacityLimiter
    models: Shelf | None = None  # none where only a study is served
    cases: Cases | None = None  # none without a split

    @property
    def shelf(self) -> Shelf:
        assert self.models is not None
        return self.models


def state_of(request: Request) -> State:
    state: State = request.app.state.whyrank
    return state
