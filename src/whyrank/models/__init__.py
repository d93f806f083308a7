"""All models, by name and by command-line id."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from whyrank import artifacts
from whyrank.errors import ArtifactError, ParameterError
from whyrank.models.base import Model
from whyrank.models.bper import BPER, BPERJ, BPR
from whyrank.models.bper_plus import BPERPlus
from whyrank.models.counts import COUNTS, ITEMPOP, SHARE, USERPOP
from whyrank.models.expgcn import ExpGCN
from whyrank.models.learned import ARRAYS, LEARNED
from whyrank.models.neighbours import RICF, RUCF
from whyrank.models.profile import Profile, ProfileJ
from whyrank.models.simple import POP, RAND
from whyrank.models.tensor import CD, CDJ, PITF, PITFJ
from whyrank.plugins import installed

MODELS: dict[str, type[Model]]  # by id, those of other packages included; made on first use, see `__getattr__`
OURS: tuple[type[Model], ...] = (
    *(RAND, POP, USERPOP, ITEMPOP, COUNTS, SHARE, RUCF, RICF),
    *(CD, PITF, ExpGCN, BPER, BPERPlus),
    *(CDJ, PITFJ, BPERJ, BPR),
    *(Profile, ProfileJ),
)
DEFAULT = ProfileJ.id

__all__ = [
    "BPER",
    "BPERJ",
    "BPR",
    "CD",
    "CDJ",
    "COUNTS",
    "DEFAULT",
    "ITEMPOP",
    "MODELS",
    "PITF",
    "PITFJ",
    "POP",
    "RAND",
    "RICF",
    "RUCF",
    "SHARE",
    "USERPOP",
    "BPERPlus",
    "ExpGCN",
    "Model",
    "Profile",
    "ProfileJ",
    "load",
    "model_class",
]


def __getattr__(name: str) -> Any:
    """Make `MODELS` when it is first used: a package that adds models imports this one before it has defined them."""
    if name != "MODELS":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    models = {model.id: model for model in OURS}

    def add(found: Any) -> None:
        if not (isinstance(found, type) and issubclass(found, Model)):
            raise TypeError("it is not a subclass of whyrank.Model")
        if found.id in models:
            raise ValueError(f"the id {found.id!r} is taken")
        models[found.id] = found

    installed("models", add)
    return globals().setdefault("MODELS", models)


def model_class(name: str) -> type[Model]:
    """The model with a command-line id, such as `bper+`."""
    from whyrank.models import MODELS as models  # noqa: N811 - it is made when it is first used

    try:
        return models[name.lower()]
    except KeyError:
        raise ParameterError(f"unknown model {name!r}; use one of {', '.join(models)}") from None


def load(path: str | Path) -> Model:
    """Load a model that `save` wrote.

    Its arrays are memory-mapped, so that processes share them.

    Args:
        path: The model's folder.

    Returns:
        The fitted model, of the class that was saved.

    Raises:
        ArtifactError: There is no model in the folder, or it is damaged.

    Examples:
        >>> import tempfile
        >>> import whyrank as wr
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = wr.POP().fit(wr.simulate("small", users=20, items=5, records=60)).save(f"{folder}/model")
        ...     load(f"{folder}/model").id
        'pop'
    """
    stored = artifacts.load(path, "model")
    name = stored.facts.get("model")
    from whyrank.models import MODELS as models  # noqa: N811 - it is made when it is first used

    if not isinstance(name, str) or name not in models:
        raise ArtifactError(f"{path}: holds a model {name!r} that this version of whyrank does not know")
    learned = f"model.{ARRAYS[0]}" in stored.arrays and name in LEARNED
    return (LEARNED[name][1] if learned else models[name]).restore(stored, Path(path))
