"""The flagship: popularity, count evidence and profiles, log-linear, trained by softmax, tuned by itself.

    s(u, i, e) = b_e + x_u . kU_e + x_i . kI_e + log(1 + A_ue) + log(1 + A_ie)
    x_u  = sum over e' of n_ue' vU_e' / sqrt(sum of n_ue')     what the user has said; x_i: what was said of the item
    A_ue = exp(a) n_ue p_e^-w (1 + N_u)^-g                     the user's own words; A_ie: the item's
    k_e, v_e = own vector + sum of the vectors of its words / sqrt(number of words)

No parameter belongs to a user or an item, so that new ones need no training. In training, everything said in a record
is left out of the profiles and counts that predict it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.data.catalog import Catalog
from whyrank.data.csr import CSR
from whyrank.data.triplets import Triplets
from whyrank.kernels import profile as kernels
from whyrank.kernels.evidence import Strength
from whyrank.kernels.metrics import hits
from whyrank.models.base import Shape
from whyrank.models.counts import EvidenceModel, held_out, quality, sampled
from whyrank.models.parameters import parameter, seed_parameter, values
from whyrank.ranking.evidence import similar_items
from whyrank.ranking.form import Block, Floats, Numbers
from whyrank.ranking.rank import rank_items
from whyrank.training import Run
from whyrank.training.candidates import CandidateTrainer
from whyrank.training.checkpoint import Arrays, Checkpoint
from whyrank.training.loop import EarlyStopping, run_epochs
from whyrank.training.records import ALL, RecordsInMemory, Side, Source
from whyrank.training.softmax import START, SoftmaxSettings, SoftmaxTask, SoftmaxTraining
from whyrank.training.vectors import EntryWords

# Candidates for penalties: (of vectors, of words' vectors); as many with words as without.
PENALTIES_WITH_WORDS = ((1e-4, 1e-4), (3e-3, 3e-5))
PENALTIES = ((1e-4, 0.0), (1e-3, 0.0))
COMPARED = 65536  # records after which candidates are compared at least, and at least a quarter of all
FALL = 0.995  # training ends when validation falls below this part of its best
CHECKED = 4000  # validation records that decide
VALIDATION_USERS = 2000  # that decide of items
ITEM_SAMPLE = 2048  # items that stand for a larger pool in each step
PATIENCE = 3  # epochs without a better ranking of items after which it is enough
ITEMS_SEEN = 256  # of a user that stand for all in a step, so that an epoch's time grows with records only
SAID = 2048  # of what a user or an item has said, likewise
STEPS = 100  # batches are smaller than asked for where an epoch would otherwise have fewer steps
MANY_STEPS = 175  # and larger than the usual 512 records where it would have more than these, up to LARGEST
LARGEST = 8192


@dataclass(kw_only=True, eq=False)
class Profile(EvidenceModel):
    """whyrank's own ranker of reasons; it needs no settings."""

    id = "profile"
    summary = "popularity, evidence and profiles, trained by softmax (whyrank's own)"
    uses_validation = True
    fitted: ClassVar[tuple[str, ...]] = ("vectors", "bias", "user_inputs", "item_inputs", "strengths")
    types: ClassVar[Mapping[str, type]] = {"strengths": np.float64}

    factors: int = parameter(32, "length of each side's profile", at_least=1, at_most=1024)
    epochs: int = parameter(5, "passes over the training data at most; it stops when validation falls", at_least=1)
    learning_rate: float = parameter(0.01, "of the first epoch", above=0)
    batch: int | None = parameter(None, "records a step at most; None: more of them the more there are", at_least=1)
    words: bool = parameter(True, "use the words of explanations")
    seed: int = seed_parameter()

    stages: ClassVar[tuple[str, ...]] = ("reasons",)  # what is trained in turn

    def _fit(self, train: Triplets, run: Run, validation: Triplets | None) -> None:
        """Stage by stage; a monitor stops a stage, as soon as its candidates are compared."""
        digests = (train.digest(), validation.digest() if validation else "")
        checkpoint = Checkpoint(run, self.id, values(self), digests)
        learn, check = held_out(train, validation)
        catalog = Catalog.of(learn, quotes=False)
        for stage in self.stages:
            trainer = self.trainer(stage, learn, check, catalog, run)
            run_epochs(trainer, run, checkpoint, stage)
            self.set_stage(stage, trainer.best)

    def trainer(self, stage: str, learn: Triplets, check: Triplets, catalog: Catalog, run: Run) -> CandidateTrainer:
        """What trains a stage; `catalog` is that of the records to learn from."""
        words = word_rows(learn.text_of(np.arange(len(learn.explanations)))) if self.words else None
        task = self.task(reason_records(learn), learn.popularity, words)
        return self.reason_trainer(task, catalog, sampled(check, CHECKED), run)

    def task(self, source: Source, popularity: NDArray[np.int64], words: EntryWords | None) -> SoftmaxTask:
        """Predict a record's explanations from what else the user says and what else people say about the item."""
        pool = len(popularity)
        return SoftmaxTask(source, popularity, (pool, pool), True, words, (words, words))

    def reason_trainer(self, task: SoftmaxTask, catalog: Catalog, check: Triplets, run: Run) -> CandidateTrainer:
        """Every penalty for an epoch (of many records: a quarter), the best one until validation falls."""
        settings = self.settings(task.source.records, run)
        penalties = PENALTIES if task.words is None else PENALTIES_WITH_WORDS

        def make(candidate: int) -> SoftmaxTraining:
            penalty, word_penalty = penalties[candidate]
            return SoftmaxTraining(task, replace(settings, penalty=penalty, word_penalty=word_penalty))

        def measure(learned: Arrays) -> float:
            view = self._view(catalog)
            view.set_stage("reasons", learned)
            return quality(view, check)

        steps = comparison_steps(task.source.records, settings)
        stopping = partial(EarlyStopping, fall=FALL)
        return CandidateTrainer(make, measure, stopping, self.epochs, candidates=len(penalties), start_steps=steps)

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
        return {**of_explanations, "strengths": (len(START),)}

    def keys(self) -> Floats:
        return np.hstack([self.vectors_, self.bias_[:, None]])

    def queries(self, users: Numbers, items: Numbers, mu: float | None = None) -> Floats:
        said, of_items = self.catalog_.user_explanations, self.catalog_.item_explanations
        return kernels.pair_profiles(users, *said, self.user_inputs_, items, *of_items, self.item_inputs_, ALL)

    def blocks(self) -> tuple[Block, ...]:
        return (Block("user", self.factors), Block("item", self.factors), Block("popularity", 1))

    def strengths(self, mu: float | None = None) -> tuple[Strength, Strength]:
        return self.kept("strengths", self._strengths)

    def _strengths(self) -> tuple[Strength, Strength]:
        popularity, theta = self.catalog_.popularity, self.strengths_
        log_share = np.log((popularity + 0.5) / max(popularity.sum(), 1))
        scales = [np.exp(theta[side] - theta[side + 1] * log_share) for side in (0, 3)]
        return Strength(scales[0], 1.0, 1.0, float(theta[2])), Strength(scales[1], 1.0, 1.0, float(theta[5]))


@dataclass(kw_only=True, eq=False)
class ProfileJ(Profile):
    """Profile, and items ranked the same way: b_i + y_u . k_i with a profile y_u of the user's other items."""

    id = "profile-j"
    summary = "Profile with items: joint ranking (whyrank's own, the default)"
    ranks_items = True
    item_constant = 1
    fitted: ClassVar[tuple[str, ...]] = (
        *Profile.fitted,
        *("item_vectors", "item_bias", "item_by_item_inputs"),
    )

    item_epochs: int = parameter(12, "passes for items at most; it stops when validation no longer rises", at_least=1)

    stages: ClassVar[tuple[str, ...]] = ("reasons", "items")

    def trainer(self, stage: str, learn: Triplets, check: Triplets, catalog: Catalog, run: Run) -> CandidateTrainer:
        if stage == "reasons":
            return super().trainer(stage, learn, check, catalog, run)
        popularity = np.bincount(learn.record_item, minlength=len(learn.items))
        task = item_task(item_records(learn), popularity)
        return self.item_trainer(task, catalog, ValidationUsers.of(check.user_items), run)

    def item_trainer(self, task: SoftmaxTask, catalog: Catalog, check: ValidationUsers, run: Run) -> CandidateTrainer:
        """One setting, until validation no longer rises."""
        settings = self.item_settings(task.source.records, run)

        def measure(learned: Arrays) -> float:
            view = self._view(catalog)
            view.set_stage("items", learned)
            return item_quality(view, check)

        stopping = partial(EarlyStopping, patience=PATIENCE)
        make = lambda candidate: SoftmaxTraining(task, settings)  # noqa: E731
        return CandidateTrainer(make, measure, stopping, self.item_epochs, curve="item_loss")

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
        """New items get the mean vectors of the known items most like them, by what is said of them."""
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
        seen, nobody = self.catalog_.user_items, np.full(len(users), -1, np.int32)
        nothing = np.zeros((0, 0), np.float32)
        return kernels.pair_profiles(users, *seen, self.item_by_item_inputs_, nobody, *seen, nothing, ALL)

    def item_query_from(self, items: Numbers) -> Floats:
        chosen = CSR(np.array([0, len(items)]), items, np.ones(len(items), np.int32))
        user, nobody, nothing = np.zeros(1, np.int32), np.full(1, -1, np.int32), np.zeros((0, 0), np.float32)
        return kernels.pair_profiles(user, *chosen, self.item_by_item_inputs_, nobody, *chosen, nothing, ALL)


def comparison_steps(records: int, settings: SoftmaxSettings) -> int:
    """After how many steps it is decided which candidate goes on."""
    return -(-max(COMPARED, records // 4) // settings.batch)


class ValidationUsers(NamedTuple):
    """A fixed sample of validation users, by number, and their validation items, user by user."""

    users: Numbers
    relevant: CSR

    @classmethod
    def of(cls, relevant: CSR) -> ValidationUsers:
        users = np.flatnonzero(relevant.sizes()).astype(np.int32)
        users = np.sort(np.random.default_rng(0).permutation(users)[:VALIDATION_USERS])
        return cls(users, relevant.take(users))


def item_quality(model: ProfileJ, check: ValidationUsers, k: int = 10) -> float:
    """ndcg_paper@k of items, by which training is stopped."""
    ranked = rank_items(model, check.users, k).numbers
    found = hits(ranked, *check.relevant[:2])
    return float((found / np.log2(np.arange(2, ranked.shape[1] + 2))).sum(1).mean()) if len(check.users) else 0.0


def reason_records(learn: Triplets) -> RecordsInMemory:
    """Records with what else their user says and what else people say about their item, of very much some."""
    own = learn.record_explanations
    user, item = (learn.record_user, learn.user_explanations), (learn.record_item, learn.item_explanations)
    return RecordsInMemory(own, (Side(*user, own), Side(*item, own)), SAID)


def item_records(learn: Triplets) -> RecordsInMemory:
    """Records with the user's items (what the user says was tried and did not help), of very many some."""
    alone = np.arange(learn.records + 1, dtype=np.int64)
    item = CSR(alone, learn.record_item, np.ones(learn.records, np.int32))
    return RecordsInMemory(
        item, (Side(learn.record_user, learn.user_items, item), Side.none(learn.records)), ITEMS_SEEN
    )


def item_task(source: Source, popularity: NDArray[np.int64]) -> SoftmaxTask:
    """Predict a record's item from the user's other items."""
    return SoftmaxTask(source, popularity, (len(popularity), 0), False)


def word_rows(texts: pl.Series, least: int = 2) -> EntryWords | None:
    """The words of every text that stand in at least `least` of them; None where there are none."""
    tokens = [sorted(set(re.findall(r"\w+", text.lower()))) for text in texts]
    seen = Counter(word for each in tokens for word in each)
    numbers = {word: number for number, word in enumerate(sorted(word for word in seen if seen[word] >= least))}
    if not numbers:
        return None
    known = [[numbers[word] for word in each if word in numbers] for each in tokens]
    rows = np.repeat(np.arange(len(known)), [len(each) for each in known])
    columns = np.array([word for each in known for word in each], np.int64)
    return EntryWords(CSR.from_pairs(rows, columns, len(known), len(numbers)), len(numbers))
