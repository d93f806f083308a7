"""Models that learned from reactions: what the reviews say, plus a correction in the same linear form.

    s'(u, i, e) = s(u, i, e) + bias_e + (users_u + items_i) . units_e

The correction is part of the saved model. Its bias joins the popularity columns, whose queries add up to 1; the rest
widens the user's and the item's part, so that the search stays exact and bounds stay bounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from whyrank.data.catalog import Catalog
from whyrank.data.triplets import Triplets
from whyrank.data.vocabulary import Vocabulary
from whyrank.errors import ParameterError
from whyrank.index.form import Block, Floats, Numbers, rows
from whyrank.models.base import Model, Shape
from whyrank.models.bper import BPER, BPERJ
from whyrank.models.bper_plus import BPERPlus
from whyrank.models.profile import Profile, ProfileJ
from whyrank.training import Run

Kind = TypeVar("Kind", bound=Model)
ARRAYS = ("learned_bias", "learned_units", "learned_users", "learned_items")


@dataclass(frozen=True, eq=False)
class Correction:
    """What is added to scores: one bias and one row per explanation, one row per user, one per item."""

    bias: Floats
    units: Floats
    users: Floats
    items: Floats

    @classmethod
    def none(cls, catalog: Catalog) -> Correction:
        """A correction that changes nothing."""
        pool, users, items = (len(each) for each in (catalog.explanations, catalog.users, catalog.items))
        widths = ((pool, 0), (users, 0), (items, 0))
        return cls(np.zeros(pool, np.float32), *(np.zeros(shape, np.float32) for shape in widths))


class LearnedModel(Model):
    """Base of models with a correction; the reviews' part is the next class in line."""

    of_users = (*Model.of_users, "learned_users")
    learned_bias_: Floats
    learned_units_: Floats
    learned_users_: Floats
    learned_items_: Floats

    def _fit(self, train: Triplets, run: Run, validation: Triplets | None) -> None:
        self._correct(Correction.none(self.catalog_))  # a fit forgets what was learned before
        super()._fit(train, run, validation)

    def _correct(self, given: Correction) -> None:
        self.learned_bias_, self.learned_units_ = given.bias, given.units
        self.learned_users_, self.learned_items_ = given.users, given.items
        self._forget()

    def shapes(self) -> dict[str, Shape]:
        catalog, width = self.catalog_, self.learned_units_.shape[-1]
        pool, users, items = (len(each) for each in (catalog.explanations, catalog.users, catalog.items))
        own: dict[str, Shape] = {"learned_bias": (pool,), "learned_units": (pool, width)}
        return {**super().shapes(), **own, "learned_users": (users, width), "learned_items": (items, width)}

    def keys(self) -> Floats:
        user, item, popular = self._parts(super().keys())
        units = self.learned_units_
        return np.hstack([user, units, item, units, popular + self.learned_bias_[:, None]])

    def queries(self, users: Numbers, items: Numbers, mu: float | None = None) -> Floats:
        user, item, popular = self._parts(super().queries(users, items, mu))
        tastes = rows(self.learned_users_, users), rows(self.learned_items_, items)
        return np.hstack([user, tastes[0], item, tastes[1], popular])

    def blocks(self) -> tuple[Block, ...]:
        user, item, popular = super().blocks()
        width = self.learned_units_.shape[1]
        return (Block("user", user.width + width), Block("item", item.width + width), popular)

    def partial_fit(self, *_: Any, **__: Any) -> Any:
        raise ParameterError("this model learned from reactions; go on from the one before it, and learn again")

    def _parts(self, table: Floats) -> list[NDArray[np.float32]]:
        """The columns of the user, of the item and of popularity."""
        user, item, _ = super().blocks()
        return np.split(table, [user.width, user.width + item.width], axis=1)

    def _grow(self, catalog: Catalog) -> None:
        super()._grow(catalog)
        for name, size in (("learned_users_", len(catalog.users)), ("learned_items_", len(catalog.items))):
            table = getattr(self, name)
            setattr(self, name, np.vstack([table, np.zeros((size - len(table), table.shape[1]), np.float32)]))


class LearnedProfile(LearnedModel, Profile):
    """Profile, corrected by reactions."""

    fitted = (*Profile.fitted, *ARRAYS)


class LearnedProfileJ(LearnedModel, ProfileJ):
    """Profile with items, corrected by reactions."""

    fitted = (*ProfileJ.fitted, *ARRAYS)


class LearnedBPER(LearnedModel, BPER):
    """BPER, corrected by reactions."""

    fitted = (*BPER.fitted, *ARRAYS)


class LearnedBPERJ(LearnedModel, BPERJ):
    """BPER with items, corrected by reactions."""

    fitted = (*BPERJ.fitted, *ARRAYS)


class LearnedBPERPlus(LearnedModel, BPERPlus):
    """BPER+, corrected by reactions; explanations that are added later have no correction."""

    fitted = (*BPERPlus.fitted, *ARRAYS)

    def _append(self, ids: list[str], texts: list[str], features: Floats) -> None:
        for name in ("learned_bias_", "learned_units_"):
            table = getattr(self, name)
            setattr(self, name, np.concatenate([table, np.zeros((len(ids), *table.shape[1:]), np.float32)]))
        super()._append(ids, texts, features)


LEARNED: dict[str, tuple[type[Model], type[LearnedModel]]] = {
    "profile": (Profile, LearnedProfile),
    "profile-j": (ProfileJ, LearnedProfileJ),
    "bper": (BPER, LearnedBPER),
    "bper-j": (BPERJ, LearnedBPERJ),
    "bper+": (BPERPlus, LearnedBPERPlus),
}


def before_reactions(model: Model) -> Model:
    """The model as it was learned from reviews; shares its arrays."""
    plain, _ = _classes(model)
    return _as(plain, model, [name for name in vars(model) if name.removesuffix("_") not in ARRAYS])


def with_correction(model: Model, correction: Correction, digest: str) -> Model:
    """The model with a correction in place of any that it had; `digest` is of what it was learned from."""
    _, learned = _classes(model)
    made = _as(learned, model, list(vars(model)))
    made._correct(correction)
    made._took_in(digest)
    return made


def carried_over(model: Model, fitted: Model) -> Model:
    """A newly fitted model with the correction of an older one: by id, nothing for what the older one does not know.

    The correction adds to scores and has a space of its own, so it does not depend on the factors of the fit; it does
    on the scale of scores, so both must be of the same kind.
    """
    if not isinstance(model, LearnedModel) or fitted.id != model.id:
        raise ParameterError(f"what {model.id} learned from reactions does not fit {fitted.id}; learn again")
    old, new = model.catalog_, fitted.catalog_

    def taken(table: Floats, known: Vocabulary, wanted: Vocabulary) -> Floats:
        return rows(table, known.numbers(wanted.ids, missing="negative"))

    explanations = (old.explanations, new.explanations)
    correction = Correction(
        taken(model.learned_bias_, *explanations),
        taken(model.learned_units_, *explanations),
        taken(model.learned_users_, old.users, new.users),
        taken(model.learned_items_, old.items, new.items),
    )
    return with_correction(fitted, correction, model.digest())


def _classes(model: Model) -> tuple[type[Model], type[LearnedModel]]:
    if model.id not in LEARNED:
        raise ParameterError(f"{model.id} cannot learn from reactions; use one of {', '.join(LEARNED)}")
    model._check_fitted()
    return LEARNED[model.id]


def _as(kind: type[Kind], model: Model, names: list[str]) -> Kind:
    made = object.__new__(kind)
    made.__setstate__({name: vars(model)[name] for name in names if name != "_cache"})
    return made
