"""Where `whyrank tune` looks: spaces.toml has the spaces of our models, and other packages' models declare theirs."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from whyrank.errors import ParameterError
from whyrank.models import Model, model_class

Space = dict[str, Any]


def _read(place: Path) -> dict[str, dict[str, Space]]:
    """Spaces by model and sampler."""
    document = tomllib.loads(place.read_text(encoding="utf-8"))

    def space(about: Space) -> Space:
        like = [values for name in about.get("like", []) for values in document[name].items()]
        return {name: _with_null(values) for name, values in (dict(like) | about).items() if name != "like"}

    return {
        model: {sampler: space(about) for sampler, about in samplers.items()}
        for model, samplers in document["models"].items()
    }


def _with_null(values: Any) -> Any:
    return [None if value == "all" else value for value in values] if isinstance(values, list) else values


SPACES = _read(Path(__file__).parent / "spaces.toml")


def spaces_of(kind: type[Model]) -> Mapping[str, Mapping[str, Any]]:
    """Return the spaces of a model by sampler: those of its class, if it declares any, or ours; empty if none."""
    return kind.spaces or SPACES.get(kind.id, {})


def check_sampler(sampler: str) -> None:
    if sampler not in ("tpe", "grid"):
        raise ParameterError(f"sampler is {sampler!r}; use tpe or grid")


def space_of(model: str, sampler: str, file: str | Path | None = None) -> Space:
    """Read the space of a model, or that of a JSON file."""
    kind = model_class(model)
    check_sampler(sampler)
    if file is not None:
        try:
            space: Mapping[str, Any] = dict(json.loads(Path(file).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError, RecursionError) as error:
            raise ParameterError(f"{file}: is not a search space; use a JSON object of parameters") from error
    else:
        space = spaces_of(kind).get(sampler, {})
    if not space:
        raise ParameterError(f"{model} has nothing to tune; see `whyrank models` for its parameters")
    for name, values in space.items():
        if name not in kind.__dataclass_fields__:
            raise ParameterError(f"{model} has no parameter {name!r}; mend the search space")
        ranged = isinstance(values, dict) and {"low", "high"} <= set(values)
        if not ranged and not (isinstance(values, list) and values):
            raise ParameterError(f"search space of {name}: use a list of values, or an object with low and high")
        if ranged and sampler == "grid":
            raise ParameterError(f"search space of {name}: a grid needs a list of values")
    return dict(space)
