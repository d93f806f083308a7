"""The OpenAPI document, made of the declared operations and of the structs of requests and answers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from whyrank.explain.evidence import Evidence
from whyrank.service.calls import JSON, Operation
from whyrank.service.problems import MEDIA, ProblemDocument
from whyrank.version import __version__

ABOUT = "Ranked, grounded reasons for recommendations. Ids are those of your data. Errors are application/problem+json."
PLACE = "#/components/schemas/{name}"
LIMITS = (400, 401, 403, 413, 422, 429, 503)  # problems that any route may answer with
Document = dict[str, Any]


def document(operations: Sequence[Operation], prefix: str = "") -> Document:
    """Describe all routes with their types."""
    types = [kind for each in operations for kind in (each.asked if each.has_body else None, each.answer) if kind]
    _, schemas = msgspec.json.schema_components([*types, ProblemDocument], ref_template=PLACE)
    for each in Evidence.declared():
        if "Evidence" in schemas:
            schemas["Evidence"]["properties"][each.name]["description"] = each.help
    paths: dict[str, Document] = {}
    for operation in operations:
        path = re.sub(r"{(\w+)(:\w+)?}", r"{\1}", operation.path)
        paths.setdefault(path, {})[operation.method.lower()] = _operation(operation)
    about: Document = {"openapi": "3.1.0", "info": {"title": "whyrank", "version": __version__, "description": ABOUT}}
    if prefix:
        about["servers"] = [{"url": prefix}]
    return about | {"paths": paths, "components": {"schemas": schemas}}


def _operation(operation: Operation) -> Document:
    """Describe one route."""
    found: Document = {
        "tags": [operation.tag],
        "summary": operation.name.replace("_", " ").capitalize(),
        "description": operation.handler.__doc__,
        "operationId": operation.name,
        "responses": {str(operation.status): _answer(operation), **_problems(operation)},
    }
    if operation.has_body:
        found["requestBody"] = {"required": True, "content": {JSON: {"schema": _reference(operation.asked)}}}
    parameters = _parameters(operation)
    if parameters:
        found["parameters"] = parameters
    return found


def _answer(operation: Operation) -> Document:
    content: Document = {} if operation.answer is None else {"schema": _reference(operation.answer)}
    return {"description": HTTPStatus(operation.status).phrase, "content": {operation.media: content}}


def _problems(operation: Operation) -> Document:
    """Describe the problems that a route may answer with."""
    content = {MEDIA: {"schema": _reference(ProblemDocument)}}
    limits: Iterable[int] = LIMITS if operation.path.startswith("/v1/") else (503,)
    statuses = sorted({*limits, *operation.problems})
    return {str(each): {"description": HTTPStatus(each).phrase, "content": content} for each in statuses}


def _parameters(operation: Operation) -> list[Document]:
    """Describe what the path and the query name."""
    named = re.findall(r"{(\w+)(?::\w+)?}", operation.path)
    if operation.has_body or operation.asked is None:
        schema = {"type": "string", "minLength": 1}
        return [{"name": name, "in": "path", "required": True, "schema": schema} for name in named]
    _, schemas = msgspec.json.schema_components([operation.asked], ref_template=PLACE)
    members = schemas[operation.asked.__name__]["properties"]
    return [
        {"name": name, "in": "path", "required": True, "schema": schema}
        if name in named
        else {"name": name, "in": "query", "required": False, "schema": schema}
        for name, schema in members.items()
    ]


def _reference(kind: type | None) -> Document:
    assert kind is not None
    return {"$ref": PLACE.format(name=kind.__name__)}
