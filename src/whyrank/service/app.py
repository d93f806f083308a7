"""The application: routes, limits and the life of a worker."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial

import anyio
from fastapi import Depends, FastAPI, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from whyrank.data.names import read_groups, read_named
from whyrank.online.erasure import retain
from whyrank.online.store import Store, first_line
from whyrank.online.writer import Writer
from whyrank.parent import end_with_parent
from whyrank.service import routes, routes_online, routes_study
from whyrank.service.exposing import Exposing
from whyrank.service.guard import Guard
from whyrank.service.history import record
from whyrank.service.measures import Measures
from whyrank.service.pages import add_page
from whyrank.service.problems import STORE_FAILED, ProblemDocument, add_handlers, documented, known_parameters
from whyrank.service.routes import answer
from whyrank.service.settings import Settings, named_folders
from whyrank.service.shelf import Shelf
from whyrank.service.state import State, state_of
from whyrank.service.study_cases import Cases
from whyrank.service.thin import short_ways
from whyrank.version import __version__

EXPERIMENTS = 2.0  # seconds after which a worker notices what was changed elsewhere
RETAINED = 3600.0  # seconds between two erasures of what is too old
THREADS = 2  # larger requests that are ranked at the same time in one worker
READERS = 4  # of the store, in one worker
log = logging.getLogger("uvicorn.error")
ABOUT = "Ranked, grounded reasons for recommendations. Ids are those of your data. Errors are application/problem+json."


class Status(BaseModel):
    """Whether the service is up."""

    status: str
    models: list[str] = []
    problems: list[str] = Field([], description="models whose newer folder is not served; /v1/models says why")


def from_environment() -> Guard:
    """What a worker of uvicorn runs."""
    end_with_parent()
    return create_app(Settings.from_environment())


def create_app(settings: Settings) -> Guard:
    """The whole service as one ASGI application; models are loaded when it starts up."""
    measures = Measures()
    app = FastAPI(
        title="whyrank",
        version=__version__,
        description=ABOUT,
        docs_url=None,  # FastAPI's documentation pages load scripts from another host
        redoc_url=None,
        lifespan=lambda app: _life(app, settings, measures),
    )
    add_handlers(app)
    _add_operations(app)
    checked = [Depends(known_parameters)]
    app.include_router(routes_study.take_router, tags=["participants"], dependencies=checked)
    if not settings.study_only:
        # Experiments come before those that take any path.
        app.include_router(routes_online.router, tags=["experiments and people"], dependencies=checked)
        app.include_router(routes.router, tags=["reasons"], dependencies=checked)
        app.include_router(routes_study.router, tags=["feedback and studies"], dependencies=checked)
        app.get("/metrics", tags=["operations"], responses={200: {"content": {"text/plain": {}}}})(measures.response)
    add_page(app)
    _describe_problems(app)
    return Guard(app, settings, measures, {} if settings.study_only else short_ways())


@contextlib.asynccontextmanager
async def _life(app: FastAPI, settings: Settings, measures: Measures) -> AsyncIterator[None]:
    """Open the store, load the models, look after their folders, and close everything in the end."""
    store = Store(settings.store).create()
    threads, readers, writers = (anyio.CapacityLimiter(count) for count in (THREADS, READERS, store.writers))
    state = State(settings, measures, store, threads, readers, writers)
    app.state.whyrank = state
    tasks: list[asyncio.Task[None]] = []
    writer: Writer | None = None
    try:
        if not settings.study_only:
            writer = Writer(store, measures, lambda problem: log.error(STORE_FAILED, problem))
            state.exposing = Exposing(settings, store, writer)
            await _refresh_experiments(state)
            state.models = await asyncio.to_thread(_shelf, settings, partial(_reloaded, state))
            for each in state.shelf.models.values():
                with _told():
                    await state.writing(partial(record, store, each))
            measures.models.set(len(state.shelf.models))
            state.cases = Cases(settings.split, settings.split_number) if settings.split else None
            if settings.reload_seconds:
                tasks.append(asyncio.create_task(_watch(state.shelf, settings.reload_seconds)))
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


async def _watch(shelf: Shelf, seconds: float) -> None:
    while True:
        await asyncio.sleep(seconds)
        try:
            await asyncio.to_thread(shelf.refresh)
        except Exception as error:  # no thread is left, for example: the next look may find one
            shelf.not_watched(error)


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
        await state.reading(state.exposing.refresh)


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
        problem = state.shelf.problems.get(id_) if outcome == "refused" else None
        with _told():
            record(state.store, state.shelf.models[id_], problem)


def _shelf(settings: Settings, reloaded: Callable[[str, str], None]) -> Shelf:
    titles = read_named(settings.titles, "item", "title")
    aspects = read_named(settings.aspects, "id", "aspect")
    groups = read_groups(settings.groups)
    return Shelf(named_folders(settings.models), titles, aspects, reloaded, groups)


def _add_operations(app: FastAPI) -> None:
    @app.get("/healthz", tags=["operations"], response_model=Status)
    async def healthz(request: Request) -> Response:
        """Whether the process answers."""
        models = state_of(request).models
        return answer({"status": "ok", "models": list(models.models) if models else []})

    @app.get("/readyz", tags=["operations"], response_model=Status, responses=documented())
    async def readyz(request: Request) -> Response:
        """Whether models are loaded and the store can be used."""
        state = state_of(request)
        await state.check_store()
        models, problems = (state.models.models, state.models.problems) if state.models else ({}, {})
        return answer({"status": "ready", "models": list(models), "problems": list(problems)})


def _describe_problems(app: FastAPI) -> None:
    """Add the shape of problems to the OpenAPI document, which names it in every route."""
    plain = app.openapi

    def openapi() -> dict[str, object]:
        document = plain()
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        schemas["ProblemDocument"] = ProblemDocument.model_json_schema()
        for unused in ("HTTPValidationError", "ValidationError"):
            schemas.pop(unused, None)
        return document

    app.openapi = openapi  # type: ignore[method-assign]
