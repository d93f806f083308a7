"""The flagship: popularity, count evidence and profiles, log-linear, trained by softmax, tuned by itself.

    s(u, i, e) = b_e + x_u . kU_e + x_i . kI_e + log(1 + A_ue) + log(1 + A_ie)
    x_u  = sum over e' of n_ue' vU_e' / sqrt(sum of n_ue')     what the user says; x_i: what people say about the item
    A_ue = exp(a) n_ue p_e^-w (1 + N_u)^-g                     the user's own words; A_ie: those about the item
    k_e, v_e = own vector + sum of the vectors of its words / sqrt(number of words)

No parameter belongs to a user or an item, so that new ones need no training. In training, everything said in a record
is left out of the profiles and counts that predict it. Validation records choose the penalties and the number of
epochs; then all records are learned from. Held-out records say how far to go from counts alone to what was learned.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Self

import numpy as np

from whyrank.data.catalog import Catalog
from whyrank.data.csr import CSR
from whyrank.data.triplets import Triplets
from whyrank.explain.evidence import similar_items
from whyrank.index.form import Block, Floats, Numbers
from whyrank.models._evidence import Strength
from whyrank.models.base import Shape
from whyrank.models.counts import MANY, EvidenceModel, best_worth_weight, held_out, quality, sampled, shared
from whyrank.models.parameters import parameter, seed_parameter, values
from whyrank.models.profile_mixture import ENOUGH, FOLDS, MIXTURES, best_counts, mixture
from whyrank.models.profile_records import (
    Learning,
    ValidationUsers,
    item_quality,
    item_records,
    reason_records,
    word_rows,
)
from whyrank.training import Run
from whyrank.training._softmax import Side, pair_profiles
from whyrank.training.candidates import CandidateTrainer, FixedTrainer
from whyrank.training.checkpoint import Arrays, Checkpoint
from whyrank.training.loop import EarlyStopping, run_epochs
from whyrank.training.softmax import START, SoftmaxSettings, SoftmaxTask, SoftmaxTraining

# Candidates for penalties: (of vectors, of words' vectors); as many with words as without.
PENALTIES_WITH_WORDS = ((1e-4, 1e-4), (3e-3, 3e-5))
PENALTIES = ((1e-4, 0.0), (1e-3, 0.0))
COMPARED = 65536  # records after which candidates are compared at least, and at least a quarter of all
FALL = 0.995  # training ends when validation falls below this part of its best
CHECKED = 4000  # validation records that decide
ITEM_SAMPLE = 2048  # items that stand for a larger pool in each step
PATIENCE = 3  # epochs without a better ranking of items after which it is enough
STEPS = 100  # batches are smaller than asked for where an epoch would otherwise have fewer steps
MANY_STEPS = 175  # and larger than the usual 512 records where it would have more than these, up to LARGEST
LARGEST = 8192
SMALL = 4000  # records to learn from, below which counts alone may be better than what is learned
AGAIN = "-again"  # ends the name of a training on all records
ITEM_CURVE = "item_loss"
NOTHING = np.zeros((0, 0), np.float32)

Found = tuple[int, int]  # a candidate, and for how many epochs it is to be trained
Make = Callable[[int], SoftmaxTraining]


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

    stages: ClassVar[tuple[str, ...]] = ("reasons",)  # what is trained in turn

    def _fit(self, train: Triplets, run: Run, validation: Triplets | None) -> None:
        """Stage by stage, each by validation and then on all records; a monitor stops what is being trained."""
        checkpoint = Checkpoint(run, self.id, values(self), (train.digest(), validation.digest() if validation else ""))
        learning = self.learning(train, validation)

        def trained(name: str, found: Found | None) -> tuple[Arrays, Found]:
            trainer = self.trainer(name, learning, found, run)
            run_epochs(trainer, run, checkpoint, name)
            return trainer.learned, trainer.found

        for stage in self.stages:
            held_out, found = trained(stage, None)
            learned = trained(stage + AGAIN, found)[0] if self.refit else held_out
            self.finish_stage(stage, learning, held_out, learned, found, run)

    def remembers(self, train: Triplets, validation: Triplets | None) -> Triplets:
        return train if validation is None or not self.refit else train.joined(validation)

    @property
    def learned_among(self) -> str:
        return self.candidates

    def suited_to(self, candidates: str) -> Self:
        suited = copy.copy(self)
        suited.candidates = "item-all" if candidates == "item-all" else self.candidates
        return suited

    def learning(self, train: Triplets, validation: Triplets | None) -> Learning:
        """What a fit to some data learns from."""
        learn, check = held_out(train, validation)
        return Learning(learn, check, self.remembers(train, validation), Catalog.of(learn, quotes=False))

    def among(self, whole: Triplets) -> CSR | None:
        """What competes in lists by which validation chooses; None: the pool."""
        return whole.item_explanations if self.candidates == "item-all" else None

    def trainer(self, name: str, learning: Learning, found: Found | None, run: Run) -> CandidateTrainer | FixedTrainer:
        """Of a stage by validation or, with what that has found, again on all records."""
        stage = name.removesuffix(AGAIN)
        task = self.task(stage, learning, learning.whole if found else learning.learn)
        make = partial(self.training, stage, task, run)
        return (
            FixedTrainer(make, found, self.curve(name)) if found else self.trainer_of(stage, learning, make, task, run)
        )

    def curve(self, name: str) -> str:
        """What the loss of a training is called."""
        return "loss"

    def most_epochs(self, name: str) -> int:
        """Of a training by validation."""
        return self.epochs

    def task(self, stage: str, learning: Learning, part: Triplets) -> SoftmaxTask:
        """Predict a record's explanations from what else the user says and what else people say about the item."""
        words = word_rows(part.text_of(np.arange(len(part.explanations)))) if self.words else None
        pool, source = len(part.explanations), reason_records(part)
        among, theta = self.candidates == "item-all", best_counts(part, 1)["theta"]
        return SoftmaxTask(source, part.popularity, (pool, pool), True, words, (words, words), among, theta)

    def training(self, stage: str, task: SoftmaxTask, run: Run, candidate: int) -> SoftmaxTraining:
        penalty, word_penalty = (PENALTIES if task.words is None else PENALTIES_WITH_WORDS)[candidate]
        settings = self.settings(task.source.count, run)
        return SoftmaxTraining(task, replace(settings, penalty=penalty, word_penalty=word_penalty))

    def trainer_of(self, stage: str, learning: Learning, make: Make, task: SoftmaxTask, run: Run) -> CandidateTrainer:
        """Every penalty for an epoch (of many records: a quarter), the best one until validation falls."""
        sample, view = sampled(learning.check, CHECKED), self._view(learning.catalog)
        among = self.among(learning.whole)

        def measure(learned: Arrays) -> float:
            view.set_stage(stage, learned)
            return quality(view, sample, among=among)

        return CandidateTrainer(
            make,
            measure,
            partial(EarlyStopping, fall=FALL),
            self.most_epochs(stage),
            candidates=len(PENALTIES),
            start_steps=comparison_steps(task.source.count, self.settings(task.source.count, run)),
        )

    def finish_stage(
        self, stage: str, learning: Learning, held_out: Arrays, learned: Arrays, found: Found, run: Run
    ) -> None:
        """Take what a stage has learned; of reasons as much of it as held-out records say, and counts for the rest.

        `held_out` is what was learned without the held-out records.
        """
        if stage != "reasons":
            self.set_stage(stage, learned)
            return
        whole = learning.whole if self.refit else learning.learn
        scores, among = np.zeros(len(MIXTURES)), self.among(learning.whole)
        parts = list(self._held_out_parts(learning, whole, held_out, found, run))
        known = sum(int((part.user_explanations.sizes()[check.record_user] > 0).sum()) for part, check, _ in parts)
        judged = np.array([known >= ENOUGH, True])  # what was learned of users is used where it could be looked at
        for part, check, found_there in parts:
            view, counts = self._view(Catalog.of(part, quotes=False)), best_counts(part, self.factors)
            for place, share in enumerate(MIXTURES):
                view.set_stage(stage, mixture(counts, found_there, share * judged))
                scores[place] += quality(view, check, among=among) * check.records
        self.learned_share_ = MIXTURES[int(np.argmax(scores))] * judged
        self.set_stage(stage, mixture(best_counts(whole, self.factors), learned, self.learned_share_))
        if len(self.catalog_.people.worth):
            views = []
            for part, check, found_there in parts:
                view = self._view(Catalog.of(part, quotes=False))
                view.set_stage(stage, mixture(best_counts(part, self.factors), found_there, self.learned_share_))
                views.append((view, check))
            self.catalog_ = replace(self.catalog_, worth_weight=best_worth_weight(views))

    def _held_out_parts(
        self, learning: Learning, whole: Triplets, held_out: Arrays, found: Found, run: Run
    ) -> Iterator[tuple[Triplets, Triplets, Arrays]]:
        """Records to learn from, others to measure on, and what was learned from the first; few records in turn."""
        if whole.records >= SMALL:
            yield learning.learn, sampled(learning.check, CHECKED), held_out
            return
        folds = np.random.default_rng(0).permutation(whole.records) % FOLDS
        for fold in range(min(FOLDS, whole.records)):
            learn, check = (whole.take(np.flatnonzero(part)) for part in (folds != fold, folds == fold))
            if learn.records:
                task = self.task("reasons", learning, learn)
                trainer = FixedTrainer(partial(self.training, "reasons", task, run), found)
                while not trainer.finished:
                    trainer.epoch()
                yield learn, check, trainer.learned

    def chosen(self) -> str:
        user, item = self.learned_share_.tolist()
        weight = self.catalog_.worth_weight
        of_worth = f"; {weight:g} times the log of a reason's worth is added to its score" if weight else ""
        if user == item == 1:
            return f"uses all that it has learned, which is the best on held-out training records{of_worth}"
        if user == item == 0:
            return f"uses counts alone, which are the best on held-out training records{of_worth}"
        return f"uses counts, and {user:.0%} of what it has learned of users and {item:.0%} of what of items{of_worth}"

    def set_stage(self, stage: str, learned: Arrays) -> None:
        """Take what a stage has learned."""
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
        user, item = Side(users, self.catalog_.user_explanations), Side(items, self.catalog_.item_explanations)
        return pair_profiles(user, item, self.user_inputs_, self.item_inputs_)

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

    stages: ClassVar[tuple[str, ...]] = ("reasons", "items")

    def curve(self, name: str) -> str:
        return ITEM_CURVE if name.startswith("items") else super().curve(name)

    def most_epochs(self, name: str) -> int:
        return self.item_epochs if name == "items" else super().most_epochs(name)

    def task(self, stage: str, learning: Learning, part: Triplets) -> SoftmaxTask:
        if stage == "reasons":
            return super().task(stage, learning, part)
        popularity = np.bincount(part.record_item, minlength=len(part.items))
        return SoftmaxTask(item_records(part), popularity, (len(popularity), 0), False)

    def training(self, stage: str, task: SoftmaxTask, run: Run, candidate: int) -> SoftmaxTraining:
        if stage == "reasons":
            return super().training(stage, task, run, candidate)
        return SoftmaxTraining(task, self.item_settings(task.source.count, run))

    def trainer_of(self, stage: str, learning: Learning, make: Make, task: SoftmaxTask, run: Run) -> CandidateTrainer:
        """Of items one setting, until validation no longer rises."""
        if stage == "reasons":
            return super().trainer_of(stage, learning, make, task, run)
        users = ValidationUsers.of(learning.check.user_items)

        def measure(learned: Arrays) -> float:
            view = self._view(learning.catalog)
            view.set_stage(stage, learned)
            return item_quality(view, users)

        stopping = partial(EarlyStopping, patience=PATIENCE)
        return CandidateTrainer(make, measure, stopping, self.most_epochs(stage), curve=self.curve(stage))

    def set_stage(self, stage: str, learned: Arrays) -> None:
        if stage == "reasons":
            super().set_stage(stage, learned)
            return
        self.item_vectors_, self.item_bias_ = learned["keys"], learned["bias"]
        self.item_by_item_inputs_ = learned["first"]
        self._forget()

    def item_settings(self, records: int, run: Run) -> SoftmaxSettings:
        """Items need more room than reasons: twice the factors, and a larger sample of the pool."""
        return replace(self.settings(records, run), factors=2 * self.factors, sample=ITEM_SAMPLE)

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
        return pair_profiles(Side(rows, seen), Side.none(len(rows)), self.item_by_item_inputs_, NOTHING)


def comparison_steps(records: int, settings: SoftmaxSettings) -> int:
    """After how many steps it is decided which candidate goes on."""
    return -(-max(COMPARED, records // 4) // settings.batch)
