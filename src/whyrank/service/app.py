"""The application: routes, limits and the life of a worker."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator

import anyio
import sqlalchemy as sa
from fastapi import FastAPI, Request
from pydantic import BaseModel
from starlette.responses import Response

from whyrank.data.names import read_named
from whyrank.parent import end_with_parent
from whyrank.service import routes, routes_study
from whyrank.service.guard import Guard
from whyrank.service.measures import Measures
from whyrank.service.pages import add_page
from whyrank.service.problems import ProblemDocument, add_handlers, documented
from whyrank.service.routes import answer
from whyrank.service.settings import Settings, named_folders
from whyrank.service.shelf import Shelf
from whyrank.service.state import State, state_of
from whyrank.service.store import Store
from whyrank.service.study_cases import Cases
from whyrank.version import __version__

THREADS = 2  # larger requests that are ranked at the same time in one worker
ABOUT = "Ranked, grounded reasons for recommendations. Ids are those of your data. Errors are application/problem+json."


class Status(BaseModel):
    """Whether the service is up."""

    status: str
    models: list[str] = []


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
    app.include_router(routes_study.take_router, tags=["participants"])
    if not settings.study_only:
        app.include_router(routes.router, tags=["reasons"])
        app.include_router(routes_study.router, tags=["feedback and studies"])
        app.get("/metrics", tags=["operations"], responses={200: {"content": {"text/plain": {}}}})(measures.response)
    add_page(app)
    _describe_problems(app)
    return Guard(app, settings, measures)


@contextlib.asynccontextmanager
async def _life(app: FastAPI, settings: Settings, measures: Measures) -> AsyncIterator[None]:
    """Open the store, load the models, look after their folders, and close everything in the end."""
    store = Store(settings.store).create()
    state = State(settings, measures, store, anyio.CapacityLimiter(THREADS))
    app.state.whyrank = state
    watch: asyncio.Task[None] | None = None
    try:
        if not settings.study_only:
            state.models = await asyncio.to_thread(_shelf, settings, measures)
            measures.models.set(len(state.shelf.models))
            state.cases = Cases(settings.split, settings.split_number) if settings.split else None
            if settings.reload_seconds:
                watch = asyncio.create_task(_watch(state.shelf, settings.reload_seconds))
        gc.collect()
        gc.freeze()  # models and modules stay; walking through them again and again takes a twentieth of a request
        yield
    finally:
        if watch is not None:
            watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watch
        store.close()


async def _watch(shelf: Shelf, seconds: float) -> None:
    while True:
        await asyncio.sleep(seconds)
        await asyncio.to_thread(shelf.refresh)


def _shelf(settings: Settings, measures: Measures) -> Shelf:
    titles = read_named(settings.titles, "item", "title")
    aspects = read_named(settings.aspects, "id", "aspect")
    count = measures.reloads
    return Shelf(
        named_folders(settings.models),
        titles,
        aspects,
        lambda model, outcome: count.labels(model, outcome).inc(),
    )


def _add_operations(app: FastAPI) -> None:
    @app.get("/healthz", tags=["operations"], response_model=Status)
    async def healthz(request: Request) -> Response:
        """Whether the process answers."""
        models = state_of(request).models
        return answer({"status": "ok", "models": list(models.models) if models else []})

    @app.get("/readyz", tags=["operations"], response_model=Status, responses=documented())
    def readyz(request: Request) -> Response:
        """Whether models are loaded and the store can be reached."""
        state = state_of(request)
        with state.store.reading() as connection:
            connection.execute(sa.select(1))
        return answer({"status": "ready", "models": list(state.models.models) if state.models else []})


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
