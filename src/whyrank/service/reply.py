"""From a request to the bytes of its answer: which thread does the work, what is counted, and JSON in the end."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import anyio.to_thread

from whyrank.ranking.options import Options
from whyrank.service import answers, answers_pairs
from whyrank.service.answers import Answer
from whyrank.service.problems import json_of
from whyrank.service.schemas import ExplainMany, ExplainOne, PairsRequest, RecommendRequest, options_of
from whyrank.service.state import State

INLINE = 8  # pairs that are ranked sooner than a thread is handed the work


async def explain(state: State, asked: ExplainOne | ExplainMany) -> bytes:
    """The answer of POST /v1/explain."""
    options = options_of(asked)
    made = partial(answers.explain, state.shelf.models, asked, options)
    reply = await _reply(state, made, _is_light(state, asked, options))
    state.measures.pairs_of(asked.model or state.shelf.default.id).inc(len(answers.pairs_of(asked)))
    return reply


async def recommend(state: State, asked: RecommendRequest) -> bytes:
    """The answer of POST /v1/recommend."""
    return await _reply(state, partial(answers.recommend, state.shelf.models, asked, options_of(asked)))


async def pairs(state: State, asked: PairsRequest) -> bytes:
    """The answer of POST /v1/pairs."""
    return await _reply(state, partial(answers_pairs.pairs, state.shelf.models, asked, options_of(asked)))


async def _reply(state: State, made: Callable[[], Answer], at_once: bool = False) -> bytes:
    """Rank at once or in one of a few threads. Every answer passes here, with the columns that it shows."""
    if at_once:
        return _bytes(made)
    return await anyio.to_thread.run_sync(_bytes, made, limiter=state.threads)


def _bytes(made: Callable[[], Answer]) -> bytes:
    return json_of(made().document)


def _is_light(state: State, asked: ExplainOne | ExplainMany, options: Options) -> bool:
    """Whether few pairs are asked for, with nothing that goes through all explanations, or all ids for the nearest."""
    if asked.similar or options.diversity or options.banned or options.exclude or options.boosts or options.query:
        return False
    if options.context_items or options.context_aspects:
        return False
    items = [item for _, item in answers.pairs_of(asked)]
    if len(items) * (2 if asked.compare else 1) > INLINE:
        return False
    found = answers.find(state.shelf.models, asked.model).model.catalog_.items
    return bool((found.numbers(items, missing="negative") >= 0).all())
