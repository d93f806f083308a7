"""The flagship: popularity, count evidence and profiles, log-linear, trained by softmax, tuned by itself.

    s(u, i, e) = b_e + x_u . kU_e + x_i . kI_e + log(1 + A_ue) + log(1 + A_ie)
    x_u  = sum over e' of n_ue' vU_e' / sqrt(sum of n_ue')     what the user says; x_i: what people say about the item
    A_ue = exp(a) n_ue p_e^-w (1 + N_u)^-g                     the user's own words; A_ie: those about the item
    k_e, v_e = own vector + sum of the vectors of its words / sqrt(number of words)

No parameter belongs to a user or an item, so that new ones need no training. In training, everything said in a record
is left out of the profiles and counts that predict it. Validation records choose the penalties and the number of
epochs; then all records are learned from. Held-out records say how far to go from popularity or counts alone to what
was learned: not at all, unless it wins by more than its standard error.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from whyrank.data.catalog import Catalog
from whyrank.data.csr import CSR
from whyrank.data.triplets import Triplets
from whyrank.explain.evidence import similar_items
from whyrank.index.form import Block, Floats, Numbers
from whyrank.models._evidence import Strength
from whyrank.models.base import Shape
from whyrank.models.counts import MANY, EvidenceModel, shared
from whyrank.models.parameters import parameter, seed_parameter, values
from whyrank.models.profile_mixture import NEXT_TO_NONE
from whyrank.models.profile_stages import ItemStage, Learning, ReasonStage
from whyrank.training import Run
from whyrank.training._softmax import pair_profiles
from whyrank.training.candidates import CandidateTrainer, FixedTrainer, Found
from whyrank.training.checkpoint import Arrays, Checkpoint
from whyrank.training.loop import run_epochs
from whyrank.training.softmax import START, SoftmaxSettings

STEPS = 100  # batches are smaller than asked for where an epoch would otherwise have fewer steps
MANY_STEPS = 175  # and larger than the usual 512 records where it would have more than these, up to LARGEST
LARGEST = 8192
AGAIN = "-again"  # ends the name of a training on all records
NOTHING = np.zeros((0, 0), np.float32)


@dataclass(kw_only=True, eq=False)
class Profile(EvidenceModel):
    """whyrank's own ranker of reasons; it needs no settings."""

    id = "profile"
    summary = "popularity, evidence and profiles, trained by softmax (whyrank's own)"
    uses_validation = True
    fitted: ClassVar[tuple[str, ...]] = ("vectors", "bias", "user_inputs", "item_inputs", "strengths", "learned_share")
    types: ClassVar[Mapping[str, type]] = {"strengths": np.float64, "learned_share": np.float64}

    factors: int = parameter(32, "length of each side's profile", at_least=1, at_most=1024)
    epochs: int = parameter(5, "passes over the training data at most; it stops when validation falls", at_least=1)
    learning_rate: float = parameter(0.01, "of the first epoch", above=0)
    batch: int | None = parameter(None, "records a step at most; None: more of them the more there are", at_least=1)
    words: bool = parameter(True, "use the words of explanations")
    refit: bool = parameter(True, "learn from validation records, too, after they have chosen")
    candidates: str = parameter(
        "pool",
        "what explanations compete with: all (pool), or what anybody ever said about the item (item-all), for lists "
        "that are made and measured so",
        one_of=("pool", "item-all"),
    )
    seed: int = seed_parameter()

    if TYPE_CHECKING:
        learned_share_: NDArray[np.float64]  # of users and of items

    def _fit(self, train: Triplets, run: Run, validation: Triplets | None) -> None:
        """Stage by stage, each by validation and then on all records; a monitor stops what is being trained."""
        checkpoint = Checkpoint(run, self.id, values(self), (train.digest(), validation.digest() if validation else ""))

        def trained(name: str, trainer: CandidateTrainer | FixedTrainer) -> tuple[Arrays, Found]:
            run_epochs(trainer, run, checkpoint, name)
            return trainer.learned, trainer.found

        learning = Learning.of(train, validation, self.remembers(train, validation))
        for stage in self.stages(learning, run):
            held_out, found = trained(stage.name, stage.by_validation())
            learned = held_out
            if self.refit:
                learned, _ = trained(stage.name + AGAIN, stage.again(found, learning.whole))
            stage.finish(held_out, learned, found)

    def stages(self, learning: Learning, run: Run) -> tuple[ReasonStage | ItemStage, ...]:
        """What is trained in turn."""
        return (ReasonStage(self, learning, run),)

    def remembers(self, train: Triplets, validation: Triplets | None) -> Triplets:
        return train if validation is None or not self.refit else train.joined(validation)

    @property
    def learned_among(self) -> str:
        return self.candidates

    def suited_to(self, candidates: str) -> Self:
        suited = copy.copy(self)
        suited.candidates = "item-all" if candidates == "item-all" else self.candidates
        return suited

    def chosen(self) -> str:
        user, item = self.learned_share_.tolist()
        weight = self.catalog_.worth_weight
        of_worth = f"; {weight:g} times the log of a reason's worth is added to its score" if weight else ""
        if user == item == 1:
            return f"uses all that it has learned, which is the best on held-out training records{of_worth}"
        if user == item == 0:
            none = max(self.strengths_[::3]) <= np.log(NEXT_TO_NONE[0])
            best = "popularity alone, which is" if none else "counts alone, which are"
            return f"uses {best} the best on held-out training records{of_worth}"
        return f"uses counts, and {user:.0%} of what it has learned of users and {item:.0%} of what of items{of_worth}"

    def take_reasons(self, learned: Arrays) -> None:
        """Take what a training of reasons has learned."""
        self.vectors_, self.bias_, self.strengths_ = learned["keys"], learned["bias"], learned["theta"]
        self.user_inputs_, self.item_inputs_ = learned["first"], learned["second"]
        self._forget()

    def settings(self, records: int, run: Run) -> SoftmaxSettings:
        return SoftmaxSettings(
            factors=self.factors,
            learning_rate=self.learning_rate,
            batch=min(self.batch or min(max(512, records // MANY_STEPS), LARGEST), max(64, records // STEPS)),
            seed=self.seed,
            threads=run.threads,
        )

    # -- scoring -------------------------------------------------------------------------------------------------------

    def shapes(self) -> dict[str, Shape]:
        pool, d = len(self.catalog_.explanations), self.factors
        of_explanations = {
            "vectors": (pool, 2 * d),
            "bias": (pool,),
            "user_inputs": (pool, d),
            "item_inputs": (pool, d),
        }
        return {**of_explanations, "strengths": (len(START),), "learned_share": (2,)}

    def keys(self) -> Floats:
        return np.hstack([self.vectors_, self.bias_[:, None]])

    def queries(self, users: Numbers, items: Numbers, mu: float | None = None) -> Floats:
        if len(users) < MANY:
            return self._profiles(users, items)
        (some, user_of), (others, item_of) = shared(users), shared(items)  # each profile is made once
        profiles = self._profiles(np.full(len(others), -1, np.int32), others)[item_of]
        profiles[:, : self.factors] = self._profiles(some, np.full(len(some), -1, np.int32))[user_of, : self.factors]
        return profiles

    def _profiles(self, users: Numbers, items: Numbers) -> Floats:
        said, about = self.catalog_.user_explanations[:], self.catalog_.item_explanations[:]
        return pair_profiles(users, said, items, about, self.user_inputs_, self.item_inputs_)

    def blocks(self) -> tuple[Block, ...]:
        return (Block("user", self.factors), Block("item", self.factors), Block("popularity", 1))

    def strengths(self, mu: float | None = None) -> tuple[Strength, Strength]:
        return self.cached("strengths", self._strengths)

    def _strengths(self) -> tuple[Strength, Strength]:
        popularity, theta = self.catalog_.popularity, self.strengths_
        log_share = np.log((popularity + 0.5) / max(popularity.sum(), 1))
        scales = [np.exp(theta[side] - theta[side + 1] * log_share) for side in (0, 3)]
        return Strength(scales[0], 1.0, 1.0, float(theta[2])), Strength(scales[1], 1.0, 1.0, float(theta[5]))


@dataclass(kw_only=True, eq=False)
class ProfileJ(Profile):
    """Profile, and items ranked the same way: b_i + y_u . k_i with a profile y_u of the user's other items."""

    id = "profile-j"
    summary = "popularity, evidence and profiles, for items and reasons together (whyrank's own, the default)"
    ranks_items = True
    item_constant = 1
    fitted: ClassVar[tuple[str, ...]] = (
        *Profile.fitted,
        *("item_vectors", "item_bias", "item_by_item_inputs"),
    )

    item_epochs: int = parameter(12, "passes for items at most; it stops when validation no longer rises", at_least=1)

    def stages(self, learning: Learning, run: Run) -> tuple[ReasonStage | ItemStage, ...]:
        return (*super().stages(learning, run), ItemStage(self, learning, run))

    def take_items(self, learned: Arrays) -> None:
        """Take what a training of items has learned."""
        self.item_vectors_, self.item_bias_ = learned["keys"], learned["bias"]
        self.item_by_item_inputs_ = learned["first"]
        self._forget()

    def _grow(self, catalog: Catalog) -> None:
        """New items get the mean vectors of the known items most like them, by what is said about them."""
        known = len(self.item_bias_)
        fresh = np.arange(known, len(catalog.items), dtype=np.int32)
        like = similar_items(catalog, fresh)
        there = (like >= 0) & (like < known)
        weights = (there / np.maximum(there.sum(1, keepdims=True), 1)).astype(np.float32)
        for name in ("item_vectors_", "item_by_item_inputs_"):
            table = getattr(self, name)
            rows = np.zeros((len(fresh), table.shape[1]), np.float32)
            for place in range(like.shape[1]):
                rows += weights[:, [place]] * table[np.where(there[:, place], like[:, place], 0)]
            setattr(self, name, np.vstack([table, rows]))
        popularity = np.bincount(catalog.user_items.indices, minlength=len(catalog.items))
        bias = np.log((popularity[known:] + 0.5) / max(popularity.sum(), 1)).astype(np.float32)
        self.item_bias_ = np.concatenate([self.item_bias_, bias])

    def shapes(self) -> dict[str, Shape]:
        items, d = len(self.catalog_.items), 2 * self.factors
        of_items: dict[str, Shape] = {"item_vectors": (items, d), "item_bias": (items,)}
        return super().shapes() | of_items | {"item_by_item_inputs": (items, d)}

    def item_keys(self) -> Floats:
        return np.hstack([self.item_vectors_, self.item_bias_[:, None]])

    def item_queries(self, users: Numbers) -> Floats:
        return self._item_profiles(users, self.catalog_.user_items)

    def item_query_from(self, items: Numbers) -> Floats:
        chosen = CSR(np.array([0, len(items)]), items, np.ones(len(items), np.int32))
        return self._item_profiles(np.zeros(1, np.int32), chosen)

    def _item_profiles(self, rows: Numbers, seen: CSR) -> Floats:
        nobody = np.full(len(rows), -1, np.int32)
        return pair_profiles(rows, seen[:], nobody, seen[:], self.item_by_item_inputs_, NOTHING)
