"""whyrank: rank the reasons, not only the items.

Explanations for recommendations that are learned, ranked and measured. Names are loaded when they are first used, so
that importing the package costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from whyrank.version import __version__

if TYPE_CHECKING:
    from whyrank.data import Split, Triplets, Vocabulary, read, read_split, read_splits, splits, write
    from whyrank.data.describe import describe
    from whyrank.errors import (
        ArtifactError,
        ClusterError,
        DataError,
        MissingExtra,
        NotFitted,
        ParameterError,
        TrainingError,
        UnknownId,
        WhyrankError,
    )
    from whyrank.evaluation import compare, evaluate
    from whyrank.explain.options import ItemGoals, Options
    from whyrank.lab.simulate import simulate, simulate_people, simulate_reviews
    from whyrank.mining import MiningRules, mine
    from whyrank.models import (
        BPER,
        BPERJ,
        BPR,
        CD,
        CDJ,
        COUNTS,
        ITEMPOP,
        MODELS,
        PITF,
        PITFJ,
        POP,
        RAND,
        RICF,
        RUCF,
        SHARE,
        USERPOP,
        BPERPlus,
        ExpGCN,
        Model,
        Profile,
        ProfileJ,
        load,
    )
    from whyrank.training import Run
    from whyrank.wording.claims import claims, supported
    from whyrank.wording.templates import Templates

_HOMES = {
    "whyrank.data": "Split Triplets Vocabulary read read_split read_splits splits write",
    "whyrank.data.describe": "describe",
    "whyrank.errors": "ArtifactError ClusterError DataError MissingExtra NotFitted ParameterError TrainingError "
    "UnknownId WhyrankError",
    "whyrank.evaluation": "compare evaluate",
    "whyrank.mining": "MiningRules mine",
    "whyrank.models": "BPER BPERJ BPERPlus BPR CD CDJ COUNTS ExpGCN ITEMPOP MODELS Model PITF PITFJ POP Profile "
    "ProfileJ RAND RICF RUCF SHARE USERPOP load",
    "whyrank.wording.claims": "claims supported",
    "whyrank.explain.options": "ItemGoals Options",
    "whyrank.wording.templates": "Templates",
    "whyrank.lab.simulate": "simulate simulate_people simulate_reviews",
    "whyrank.training": "Run",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [
    "BPER",
    "BPERJ",
    "BPR",
    "CD",
    "CDJ",
    "COUNTS",
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
    "ArtifactError",
    "BPERPlus",
    "ClusterError",
    "DataError",
    "ExpGCN",
    "ItemGoals",
    "MiningRules",
    "MissingExtra",
    "Model",
    "NotFitted",
    "Options",
    "ParameterError",
    "Profile",
    "ProfileJ",
    "Run",
    "Split",
    "Templates",
    "TrainingError",
    "Triplets",
    "UnknownId",
    "Vocabulary",
    "WhyrankError",
    "__version__",
    "claims",
    "compare",
    "describe",
    "evaluate",
    "load",
    "mine",
    "read",
    "read_split",
    "read_splits",
    "simulate",
    "simulate_people",
    "simulate_reviews",
    "splits",
    "supported",
    "write",
]


def __getattr__(name: str) -> object:
    try:
        home = _HOME_OF[name]
    except KeyError:
        raise AttributeError(f"module 'whyrank' has no attribute {name!r}") from None
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
