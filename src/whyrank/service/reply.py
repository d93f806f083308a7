"""From a request to the bytes of its answer: the arm and the log, which thread does the work, and JSON in the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

import anyio.to_thread

from whyrank.explain.options import Options
from whyrank.service import answers, answers_pairs
from whyrank.service.answers import Answer
from whyrank.service.exposing import LoggedRequest, Route, written
from whyrank.service.problems import json_of
from whyrank.service.schemas import ExplainMany, ExplainOne, PairsRequest, RecommendRequest
from whyrank.service.settings import SCOPES
from whyrank.service.state import State

INLINE = 8  # pairs that are ranked sooner than a thread is handed the work
Make = Callable[[answers.Models, Any, Options], Answer]


async def explain(state: State, asked: ExplainOne | ExplainMany, scopes: Sequence[str] = SCOPES) -> bytes:
    """The answer of POST /v1/explain; `scopes` are those of the key that asks."""
    return await _reply(state, "explain", asked, answers.explain, scopes)


async def recommend(state: State, asked: RecommendRequest, scopes: Sequence[str] = SCOPES) -> bytes:
    """The answer of POST /v1/recommend."""
    return await _reply(state, "recommend", asked, answers.recommend, scopes)


async def pairs(state: State, asked: PairsRequest, scopes: Sequence[str] = SCOPES) -> bytes:
    """The answer of POST /v1/pairs."""
    return await _reply(state, "pairs", asked, answers_pairs.pairs, scopes)


async def _reply(state: State, route: Route, body: Any, make: Make, scopes: Sequence[str]) -> bytes:
    """Rank at once or in one of a few threads, by the arm of an experiment, and log it, where that is asked for."""
    asked = state.exposing.asked(scopes, route, body, state.shelf.models)
    work = partial(_made, state, asked, make)
    if route == "explain" and _is_light(asked):
        reply, waiting = work()
    else:
        reply, waiting = await anyio.to_thread.run_sync(work, limiter=state.threads)
    if waiting is not None:
        await written(waiting)
    return reply


def _made(state: State, asked: LoggedRequest, make: Make) -> tuple[bytes, Future[None] | None]:
    """The bytes of an answer, and what says that its exposures are on disk, if somebody waits for it."""
    answer = make(asked.models, asked.body, asked.options)
    document = answer.document
    if asked.route == "explain":
        state.measures.pairs_of(document["model"]).inc(len(document["results"]))
    waiting = state.exposing.shown(asked, answer)
    return json_of(document), waiting


def _is_light(asked: LoggedRequest) -> bool:
    """Whether few pairs are asked for, with nothing that goes through all explanations, or all ids for the nearest."""
    options, body = asked.options, asked.body
    if body.similar or options.diversity or options.banned or options.exclude or options.boosts or options.query:
        return False
    if options.context_items or options.context_aspects:
        return False
    items = [item for _, item in answers.pairs_of(body)]
    if len(items) * (2 if body.compare else 1) > INLINE:
        return False
    known = answers.find(asked.models, body.model).model.catalog_.items
    return all(item in known for item in items)
