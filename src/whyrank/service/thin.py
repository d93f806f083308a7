"""A short way for the routes that are asked most: compiled decoding instead of the framework's router and checks.

What is asked is decoded into structs that are derived from the request models of `schemas`. They hold the simple
members only and are never laxer than the models. Whatever does not fit one, because it is wrong or because it has a
list of words, takes the way through FastAPI, which answers it or says what is wrong: there is one form of errors.
"""

from __future__ import annotations

import types
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import annotated_types
import msgspec
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from whyrank.errors import WhyrankError
from whyrank.service import reply, schemas
from whyrank.service.problems import problem_of
from whyrank.service.settings import SCOPES
from whyrank.service.state import State

Reply = Callable[[State, Any, Sequence[str]], Awaitable[bytes]]
NO_NUL = r"\A[^\0]*\Z"  # what the models check by a function


class Short(NamedTuple):
    """A route that has a short way: how bodies are decoded, the likeliest form first, and what answers them."""

    path: str
    decoders: tuple[msgspec.json.Decoder[Any], ...]
    reply: Reply

    async def __call__(self, state: State, body: bytes, scopes: Sequence[str] = SCOPES) -> bytes | None:
        """The answer, or None for what is to be looked at by the framework."""
        for decoder in self.decoders:
            try:
                asked = decoder.decode(body)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue
            try:
                return await self.reply(state, asked, scopes)
            except WhyrankError as error:
                raise problem_of(error) from error
        return None


def short_ways() -> dict[str, Short]:
    """The short ways by path."""
    explain = short_way("/v1/explain", reply.explain, schemas.ExplainOne, schemas.ExplainMany)
    recommend = short_way("/v1/recommend", reply.recommend, schemas.RecommendRequest)
    pairs = short_way("/v1/pairs", reply.pairs, schemas.PairsRequest)
    return {each.path: each for each in (explain, recommend, pairs)}


def short_way(path: str, reply: Reply, *models: type[BaseModel]) -> Short:
    """The short way of a route that takes these requests."""
    return Short(path, tuple(msgspec.json.Decoder(struct_of(each)) for each in models), reply)


def struct_of(model: type[BaseModel]) -> type[msgspec.Struct]:
    """A struct with those members of a request model that are simple; all others are unknown to it.

    >>> struct_of(schemas.Pair).__struct_fields__
    ('user', 'item')
    """
    members: list[tuple[str, Any, Any]] = []
    for name, field in model.model_fields.items():
        kind = _kind(field.annotation, field.metadata)
        if kind is not None:
            members.append((name, kind, _default(field)))
    return msgspec.defstruct(model.__name__, members, forbid_unknown_fields=True, kw_only=True, frozen=True)


def _default(field: FieldInfo) -> Any:
    return msgspec.NODEFAULT if field.is_required() else field.default


def _kind(annotation: Any, metadata: list[Any]) -> Any:
    """A type as msgspec takes it; None where it has none as strict."""
    if get_origin(annotation) is Annotated:
        inner, *more = get_args(annotation)
        return _kind(inner, [*more, *metadata])
    if get_origin(annotation) in (Union, types.UnionType):
        kinds = [None if each is type(None) else _kind(each, metadata) for each in get_args(annotation)]
        return None if len(kinds) != 2 or kinds[1] is not None else kinds[0] and kinds[0] | None
    if get_origin(annotation) is Literal:
        return annotation
    if annotation in (bool, int, float, str):
        rules = _rules(metadata) | ({"pattern": NO_NUL} if annotation is str else {})
        return Annotated[annotation, msgspec.Meta(**rules)] if rules else annotation
    if get_origin(annotation) is list and isinstance(get_args(annotation)[0], type):
        (inner,) = get_args(annotation)
        if issubclass(inner, BaseModel):
            return Annotated[list[struct_of(inner)], msgspec.Meta(**_rules(metadata))]  # type: ignore[misc]
    return None


def _rules(metadata: list[Any]) -> dict[str, Any]:
    """Bounds as msgspec names them."""
    rules: dict[str, Any] = {}
    for each in metadata:
        if isinstance(each, FieldInfo):
            rules |= _rules(each.metadata)
        elif isinstance(each, annotated_types.Ge):
            rules["ge"] = each.ge
        elif isinstance(each, annotated_types.Le):
            rules["le"] = each.le
        elif isinstance(each, annotated_types.MinLen):
            rules["min_length"] = each.min_length
        elif isinstance(each, annotated_types.MaxLen):
            rules["max_length"] = each.max_length
    return rules
