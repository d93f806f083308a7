"""The application: its routes, and the life of a worker."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from starlette.routing import Router

from whyrank import plugins
from whyrank.data.names import read_groups, read_named
from whyrank.online.erasure import retain
from whyrank.online.store import Store, first_line
from whyrank.online.writer import Writer
from whyrank.parent import end_with_parent
from whyrank.service import experiments, openapi
from whyrank.service import routes as reasons
from whyrank.service.arms import Arms
from whyrank.service.calls import ApiCall, Operation, Operations, Raw
from whyrank.service.guard import Guard
from whyrank.service.history import record
from whyrank.service.measures import Measures
from whyrank.service.messages import Message
from whyrank.service.pages import page_route
from whyrank.service.problems import STORE_FAILED, json_of
from whyrank.service.registry import ModelRegistry
from whyrank.service.settings import Settings, named_folders
from whyrank.service.state import State

EXPERIMENTS = 2.0  # seconds after which a worker notices what was changed elsewhere
RETAINED = 3600.0  # seconds between two erasures of what is too old
log = logging.getLogger("uvicorn.error")
operations = Operations("operations")


class Status(Message, kw_only=True):
    """Whether the service is up."""

    status: str
    models: list[str] = msgspec.field(default_factory=list)
    problems: Annotated[list[str], Meta(description="models whose newer folder is not served; /v1/models says why")] = (
        msgspec.field(default_factory=list)
    )


@operations.add("GET", "/healthz", None, answer=Status)
async def healthz(call: ApiCall, asked: None) -> Status:
    """Whether the process answers."""
    models = call.state.models
    return Status(status="ok", models=list(models.models) if models else [])


@operations.add("GET", "/readyz", None, answer=Status)
async def readyz(call: ApiCall, asked: None) -> Status:
    """Whether models are loaded and the store can be used."""
    await call.state.check_store()
    registry = call.state.models
    models, problems = (registry.models, registry.problems) if registry else ({}, {})
    return Status(status="ready", models=list(models), problems=list(problems))


metrics_routes = Operations("operations")


@metrics_routes.add("GET", "/metrics", "metrics", media="text/plain")
async def metrics(call: ApiCall, asked: None) -> Raw:
    """Counts for Prometheus."""
    return call.state.measures.exposition()


def create_app(settings: Settings) -> Guard:
    """Make the whole service as one ASGI application; models are loaded when it starts up."""
    return make_app(settings, declared(settings))


def declared(settings: Settings) -> list[Operation]:
    """Return the routes of a service; experiments come before those that take any path."""
    study = plugins.study_routes()
    if settings.study_only:
        return [*operations, *study.take_routes]
    own = [*reasons.ranking, *operations, *metrics_routes, *experiments.routes, *reasons.routes]
    return [*own, *study.take_routes, *study.routes]


def from_environment() -> Guard:
    """What a worker of uvicorn runs."""
    end_with_parent()
    return create_app(Settings.from_environment())


def make_app(settings: Settings, routes: Sequence[Operation]) -> Guard:
    """Make an application of these routes and the page."""
    measures = Measures()
    described = json_of(openapi.document(routes, settings.prefix))
    own = Operations("operations")

    @own.add("GET", "/openapi.json", None)
    async def openapi_document(call: ApiCall, asked: None) -> Raw:
        """This document."""
        return Raw(described)

    listed = [*(each.route() for each in (*routes, *own)), page_route()]
    router = Router(listed, redirect_slashes=False, lifespan=lambda guard: _life(guard, settings, measures))
    return Guard(router, settings, measures)


@contextlib.asynccontextmanager
async def _life(guard: Any, settings: Settings, measures: Measures) -> AsyncIterator[None]:
    """Open the store, load the models, look after their folders, and close everything in the end."""
    store = Store(settings.store).create()
    state = guard.state = State(settings, measures, store)
    tasks: list[asyncio.Task[None]] = []
    writer: Writer | None = None
    try:
        if not settings.study_only:
            writer = Writer(store, measures, lambda problem: log.error(STORE_FAILED, problem))
            state.arms = Arms(settings, store, writer)
            await _refresh_experiments(state)
            state.models = await asyncio.to_thread(_registry, settings, partial(_reloaded, state))
            for each in state.registry.models.values():
                with _told():
                    await state.writing(partial(record, store, each))
            measures.models.set(len(state.registry.models))
            if settings.reload_seconds:
                tasks.append(asyncio.create_task(_watch(state.registry, settings.reload_seconds)))
            tasks.append(asyncio.create_task(_look_after_store(state)))
        gc.collect()
        gc.freeze()  # models and modules stay; walking through them again and again takes a twentieth of a request
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if writer is not None:
            await asyncio.to_thread(writer.close)
        store.close()


async def _watch(registry: ModelRegistry, seconds: float) -> None:
    while True:
        await asyncio.sleep(seconds)
        try:
            await asyncio.to_thread(registry.refresh)
        except Exception as error:  # no thread is left, for example: the next look may find one
            registry.not_watched(error)


async def _look_after_store(state: State) -> None:
    """Notice experiments that others changed, and erase what is older than it may get, from SQLite's log as well."""
    erased, days = -RETAINED, state.settings.retain_days
    while True:
        await asyncio.sleep(EXPERIMENTS)
        await _refresh_experiments(state)
        if state.store.untidy:
            with _told():
                await state.writing(state.store.tidy)
        if days is not None and time.monotonic() - erased >= RETAINED:
            erased = time.monotonic()
            with _told():
                await state.writing(partial(retain, state.store, days))


async def _refresh_experiments(state: State) -> None:
    with _told():
        await state.reading(state.arms.refresh)


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """A store that does not answer is a line in the log: the next look may find it, and reasons need none."""
    try:
        yield
    except Exception as error:
        log.error(STORE_FAILED, first_line(getattr(error, "orig", None) or error))


def _reloaded(state: State, id_: str, outcome: str) -> None:
    """Count what came of a look at a model's folder, and put it into the history of the model."""
    state.measures.reloaded(id_, outcome)
    if outcome in ("loaded", "refused"):
        problem = state.registry.problems.get(id_) if outcome == "refused" else None
        with _told():
            record(state.store, state.registry.models[id_], problem)


def _registry(settings: Settings, reloaded: Callable[[str, str], None]) -> ModelRegistry:
    titles = read_named(settings.titles, "item", "title")
    aspects = read_named(settings.aspects, "id", "aspect")
    groups = read_groups(settings.groups)
    return ModelRegistry(named_folders(settings.models), titles, aspects, reloaded, groups)
