"""Where `whyrank tune` looks: for each model, the paper's grid and a wider space for TPE.

A parameter has a list of values, or a range {"low", "high"} with "log" and "int" where they apply. The values of
`epochs` of factor models are all looked at during one fit, and `mu` after it, so neither costs a trial.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from whyrank.errors import ParameterError
from whyrank.models import Model, model_class

Space = dict[str, Any]
ALPHAS = [step / 10 for step in range(11)]

PAPER: Space = {
    "factors": [10, 20, 30, 40, 50],
    "regularization": [0.001, 0.01, 0.1],
    "learning_rate": [0.001, 0.01, 0.1],
    "epochs": [100, 500, 1000],
}
WIDE: Space = {
    "factors": {"low": 8, "high": 128, "log": True, "int": True},
    "regularization": {"low": 1e-4, "high": 0.3, "log": True},
    "learning_rate": {"low": 1e-3, "high": 0.2, "log": True},
    "epochs": [10, 20, 50, 100, 200, 350, 500, 750, 1000],
}
BIASED = WIDE | {"bias_start": ["zero", "popularity"]}
JOINT = {"alpha": {"low": 0.05, "high": 2.0, "log": True}}

SPACES: dict[str, dict[str, Space]] = {
    "counts": {
        "grid": {"user_smoothing": [1, 3, 10, 30], "item_smoothing": [1, 3, 10, 30], "power": [0.5, 1.0]},
        "tpe": {
            "user_smoothing": {"low": 0.3, "high": 100, "log": True},
            "item_smoothing": {"low": 0.3, "high": 100, "log": True},
            "power": {"low": 0.0, "high": 1.5},
        },
    },
    "rucf": {"grid": {"neighbours": [10, 50, 200, None]}, "tpe": {"neighbours": [5, 10, 20, 50, 100, 200, 500, None]}},
    "ricf": {"grid": {"neighbours": [10, 50, 200, None]}, "tpe": {"neighbours": [5, 10, 20, 50, 100, 200, 500, None]}},
    "cd": {"grid": PAPER, "tpe": WIDE},
    "pitf": {"grid": PAPER, "tpe": WIDE},
    "expgcn": {
        "grid": {"layers": [1, 2, 3], "learning_rate": [0.001, 0.005], "factors": [64, 128]},
        "tpe": {
            "factors": {"low": 16, "high": 128, "log": True, "int": True},
            "layers": [1, 2, 3],
            "learning_rate": {"low": 0.001, "high": 0.02, "log": True},
            "regularization": {"low": 1e-7, "high": 1e-3, "log": True},
            "negatives": [5, 20, 50],
        },
    },
    "bper": {"grid": PAPER, "tpe": BIASED},
    "bpr": {"grid": PAPER, "tpe": WIDE},
    "cd-j": {"grid": PAPER | {"alpha": ALPHAS}, "tpe": WIDE | JOINT},
    "pitf-j": {"grid": PAPER | {"alpha": ALPHAS}, "tpe": WIDE | JOINT},
    "bper-j": {"grid": PAPER | {"alpha": ALPHAS}, "tpe": BIASED | JOINT},
    "bper+": {
        "grid": {
            "start": ["text", "random"],
            "negatives": ["popular", "uniform"],
            "factors": [20, 50],
            "epochs": [3, 10],
        },
        "tpe": {
            "factors": {"low": 8, "high": 128, "log": True, "int": True},
            "start": ["text", "random"],
            "negatives": ["popular", "uniform"],
            "learning_rate": {"low": 0.001, "high": 0.1, "log": True},
            "regularization": {"low": 1e-4, "high": 0.1, "log": True},
            "epochs": [3, 5, 8, 12],
            "fusion": ["multiply", "add"],
        },
    },
}
OWN: Space = {
    "factors": {"low": 8, "high": 128, "log": True, "int": True},
    "learning_rate": {"low": 0.002, "high": 0.05, "log": True},
    "batch": [128, 256, 512, 1024],
    "epochs": [4, 6, 8],
    "words": [True, False],
}
for _name in ("profile", "profile-j"):
    SPACES[_name] = {"grid": {"factors": [16, 32, 64], "learning_rate": [0.003, 0.01, 0.03]}, "tpe": OWN}


def spaces_of(kind: type[Model]) -> Mapping[str, Mapping[str, Any]]:
    """Return the spaces of a model by sampler: those of its class, if it declares any, or ours; empty if none."""
    return kind.spaces or SPACES.get(kind.id, {})


def check_sampler(sampler: str) -> None:
    if sampler not in ("tpe", "grid"):
        raise ParameterError(f"sampler is {sampler!r}; use tpe or grid")


def space_of(model: str, sampler: str, file: str | Path | None = None) -> Space:
    """The space of a model, or that of a JSON file."""
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
