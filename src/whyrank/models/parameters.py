"""Parameters of models: declared with their bounds, stored by the constructor, checked by `fit`."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from whyrank.errors import ParameterError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def parameter(
    default: Any,
    help: str,
    *,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    one_of: Sequence[object] | None = None,
) -> Any:
    """A dataclass field that knows what it accepts and says what it does."""
    bounds = {"at_least": at_least, "above": above, "at_most": at_most, "one_of": one_of}
    return dataclasses.field(default=default, metadata={"help": help, **bounds})


def seed_parameter(help: str = "every random choice comes from it") -> Any:
    """Where random choices come from."""
    return parameter(0, help, at_least=0, at_most=2**63 - 1)


def check(model: DataclassInstance) -> None:
    """Raise ParameterError for the first parameter that is out of its bounds; numbers of NumPy become plain ones."""
    kinds = typing.get_type_hints(type(model))
    for field in dataclasses.fields(model):
        value = _plain(getattr(model, field.name))
        setattr(model, field.name, value)
        problem = _problem(value, kinds[field.name], field.metadata)
        if problem:
            raise ParameterError(f"{field.name} is {value!r}; {problem}")


def values(model: DataclassInstance) -> dict[str, object]:
    """The parameters as the constructor took them."""
    return {field.name: _plain(getattr(model, field.name)) for field in dataclasses.fields(model)}


def _plain(value: object) -> object:
    """What JSON and compiled code know: 20 instead of np.int64(20)."""
    return value.item() if isinstance(value, np.generic) else value


def parse(model_class: type, settings: Mapping[str, str]) -> dict[str, object]:
    """Texts from a command line as values of the model's parameters."""
    kinds = typing.get_type_hints(model_class)
    names = [field.name for field in dataclasses.fields(model_class)]
    for name in settings:
        if name not in names:
            raise ParameterError(f"{model_class.__name__} has no parameter {name!r}; it has {', '.join(names)}")
    return {name: _from_text(name, text, kinds[name]) for name, text in settings.items()}


def as_text(value: object) -> str:
    """A value as `parse` takes it.

    >>> as_text(None), as_text(True), as_text(0.5), as_text("pool")
    ('none', 'true', '0.5', 'pool')
    """
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def _problem(value: object, kind: object, bounds: Mapping[str, Any]) -> str | None:
    if not _fits(value, kind):
        return f"use {_describe(kind)}"
    if bounds.get("one_of") is not None and value not in bounds["one_of"]:
        return f"use one of {', '.join(map(repr, bounds['one_of']))}"
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not math.isfinite(value):
            return "use a finite number"
        if bounds.get("at_least") is not None and value < bounds["at_least"]:
            return f"use at least {bounds['at_least']}"
        if bounds.get("above") is not None and value <= bounds["above"]:
            return f"use more than {bounds['above']}"
        if bounds.get("at_most") is not None and value > bounds["at_most"]:
            return f"use at most {bounds['at_most']}"
    return None


def _kinds(kind: object) -> tuple[object, ...]:
    if isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union:
        return typing.get_args(kind)
    return (kind,)


def _fits(value: object, kind: object) -> bool:
    for each in _kinds(kind):
        origin = typing.get_origin(each)
        if each is float and isinstance(value, int | float) and not isinstance(value, bool):
            return True
        if each is int and isinstance(value, int) and not isinstance(value, bool):
            return True
        if origin is typing.Literal or each not in (int, float, bool, str, type(None)):
            return True  # literals are checked by one_of, arrays and the like by the model itself
        if each not in (int, float) and isinstance(value, each):
            return True
    return False


def _describe(kind: object) -> str:
    words: dict[object, str] = {
        int: "a whole number",
        float: "a number",
        bool: "True or False",
        str: "a text",
        type(None): "None",
    }
    return " or ".join(words.get(each, str(each)) for each in _kinds(kind))


def _from_text(name: str, text: str, kind: object) -> object:
    for each in _kinds(kind):
        try:
            if each is type(None) and text.lower() in ("none", "null"):
                return None
            if each is bool and text.lower() in ("true", "false"):
                return text.lower() == "true"
            if each is int:
                return int(text)
            if each is float:
                return float(text)
        except ValueError:
            continue
    if any(each is str or typing.get_origin(each) is typing.Literal for each in _kinds(kind)):
        return text
    raise ParameterError(f"{name} is {text!r}; use {_describe(kind)}")
