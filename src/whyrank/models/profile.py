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
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
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
from whyrank.models.courses import Checkpoint, Course, Work, race
from whyrank.models.parameters import parameter, seed_parameter
from whyrank.ranking.evidence import similar_items
from whyrank.ranking.form import Block, Floats, Numbers
from whyrank.ranking.rank import rank_items
from whyrank.training import Epoch, Run
from whyrank.training.records import ALL, Records, Side, Source
from whyrank.training.softmax import START, SoftmaxSettings, SoftmaxTraining, State, Task
from whyrank.training.vectors import Words

# Penalties that race for an epoch or a part of it: (of vectors, of words' vectors); as many with words as without.
RACE_WITH_WORDS = ((1e-4, 1e-4), (3e-3, 3e-5))
RACE = ((1e-4, 0.0), (1e-3, 0.0))
RACED = 65536  # records of the race at least, and at least a quarter of all
FALL = 0.995  # training ends when validation falls below this part of its best
CHECKED = 4000  # validation records that decide
ASKED = 2000  # validation users that decide of items
ITEM_SAMPLE = 2048  # items that stand for a larger pool in each step
PATIENCE = 3  # epochs without a better ranking of items after which it is enough
ITEMS_SEEN = 256  # of a user that stand for all in a step, so that an epoch's time grows with records only
STEPS = 100  # batches are smaller than asked for where an epoch would otherwise have fewer steps
MANY_STEPS = 175  # and larger than the usual 512 records where it would have more than these, up to LARGEST
LARGEST = 8192


@dataclass(kw_only=True, eq=False)
class Profile(EvidenceModel):
    """whyrank's own ranker of reasons; it needs no settings."""

    id = "profile"
    summary = "popularity, evidence and profiles, trained by softmax (whyrank's own)"
    fitted: ClassVar[tuple[str, ...]] = ("vectors", "bias", "user_inputs", "item_inputs", "strengths")
    types: ClassVar[Mapping[str, type]] = {"strengths": np.float64}

    factors: int = parameter(32, "length of each side's profile", at_least=1, at_most=1024)
    epochs: int = parameter(5, "passes over the training data at most; it stops when validation falls", at_least=1)
    learning_rate: float = parameter(0.01, "of the first epoch", above=0)
    batch: int | None = parameter(None, "records a step at most; None: more of them the more there are", at_least=1)
    words: bool = parameter(True, "use the words of explanations")
    seed: int = seed_parameter()

    stages: ClassVar[dict[str, int]] = {"reasons": len(RACE)}  # how many courses start in each

    def _fit(self, train: Triplets, run: Run, validation: Triplets | None) -> None:
        """Stage by stage: of several courses the one that is best after its start goes on until it is over.

        A monitor stops a stage, during the race as soon as it is decided, and is asked again in the next.
        """
        saved = Checkpoint.of(self, train, validation, run)
        learn, check = held_out(train, validation)
        catalog, self.catalog_ = self.catalog_, Catalog.of(learn, quotes=False)
        for stage, racers in self.stages.items():
            work = self.work(stage, learn, check, run)
            course = saved.course(work, stage) or race(work, racers)
            saved.keep(stage, course)
            while not (course.over or work.stopped):
                work.go_on(course)
                saved.keep(stage, course)
            self.keep_stage(stage, course.best)
        self.catalog_ = catalog
        self._forget()

    def task(self, source: Source, popularity: NDArray[np.int64], words: Words | None) -> Task:
        """Predict a record's explanations from what else the user says and what else is said of the item."""
        pool = len(popularity)
        return Task(source, popularity, (pool, pool), True, words, (words, words))

    def work(self, stage: str, learn: Triplets, check: Triplets, run: Run) -> Work:
        """What a stage of the fit does."""
        words = word_rows(learn.text_of(np.arange(len(learn.explanations)))) if self.words else None
        return Reasons(self, self.task(reason_records(learn), learn.popularity, words), sampled(check, CHECKED), run)

    def keep_stage(self, stage: str, state: State) -> None:
        """Take what a stage has learned."""
        self._keep(state)

    def settings(self, records: int, run: Run) -> SoftmaxSettings:
        return SoftmaxSettings(
            factors=self.factors,
            learning_rate=self.learning_rate,
            batch=min(self.batch or min(max(512, records // MANY_STEPS), LARGEST), max(64, records // STEPS)),
            seed=self.seed,
            threads=run.threads,
        )

    def epoch(
        self,
        training: SoftmaxTraining,
        run: Run,
        of: int,
        steps: int | None = None,
        *,
        curve: str = "loss",
        racer: int = 0,
    ) -> bool:
        """An epoch of a training (or its rest, or so many steps of it); whether monitors want to stop after it."""
        begin, before = time.perf_counter(), training.done
        loss = training.epoch(steps)
        if training.done:
            return False
        seconds = time.perf_counter() - begin
        updates = training.task.source.entries * (1 - before / training.task.source.records) / seconds
        epoch = Epoch(training.epochs, of, loss, updates, seconds, seconds * (of - training.epochs), curve, racer)
        return any([monitor.on_epoch(epoch, None) for monitor in run.monitors])  # noqa: C419 - ask all

    def _keep(self, state: State) -> None:
        self.vectors_, self.bias_ = state.keys, state.bias
        self.user_inputs_, self.item_inputs_ = state.inputs
        self.strengths_ = state.theta
        self._forget()

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
        x = profiles(users, said, self.user_inputs_, items, of_items, self.item_inputs_)
        return np.hstack([x, np.ones((len(users), 1), np.float32)])

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

    stages: ClassVar[dict[str, int]] = {"reasons": len(RACE), "items": 1}

    def work(self, stage: str, learn: Triplets, check: Triplets, run: Run) -> Work:
        if stage == "reasons":
            return super().work(stage, learn, check, run)
        popularity = np.bincount(learn.record_item, minlength=len(learn.items))
        return Items(self, item_task(item_records(learn), popularity), Asked.of(check.user_items), run)

    def keep_stage(self, stage: str, state: State) -> None:
        (self._keep_items if stage == "items" else self._keep)(state)

    def item_settings(self, records: int, run: Run) -> SoftmaxSettings:
        """Items need more room than reasons: twice the factors, and a larger sample of the pool."""
        return replace(self.settings(records, run), factors=2 * self.factors, sample=ITEM_SAMPLE)

    def _keep_items(self, state: State) -> None:
        self.item_vectors_, self.item_bias_ = state.keys, state.bias
        self.item_by_item_inputs_ = state.inputs[0]
        self._forget()

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
        x = profiles(users, seen, self.item_by_item_inputs_, nobody, seen, nothing)
        return np.hstack([x, np.ones((len(users), 1), np.float32)])

    def item_query_from(self, items: Numbers) -> Floats:
        chosen = CSR(np.array([0, len(items)]), items, np.ones(len(items), np.int32))
        user, nobody, nothing = np.zeros(1, np.int32), np.full(1, -1, np.int32), np.zeros((0, 0), np.float32)
        x = profiles(user, chosen, self.item_by_item_inputs_, nobody, chosen, nothing)
        return np.hstack([x, np.ones((1, 1), np.float32)])


class Reasons:
    """Every penalty runs for an epoch (of many records: a quarter), the best one on until validation falls."""

    def __init__(self, model: Profile, task: Task, check: Triplets, run: Run) -> None:
        self.model, self.task, self.check, self.run = model, task, check, run
        self.settings, self.stopped = model.settings(task.source.records, run), False
        self.penalties = RACE if self.task.words is None else RACE_WITH_WORDS

    def training(self, racer: int) -> SoftmaxTraining:
        penalty, word_penalty = self.penalties[racer]
        return SoftmaxTraining(self.task, replace(self.settings, penalty=penalty, word_penalty=word_penalty))

    def start(self, racer: int) -> Course:
        training = self.training(racer)
        steps = race_steps(self.task.source.records, self.settings)
        self.stopped |= self.model.epoch(training, self.run, self.model.epochs, steps, racer=racer)
        state, epochs = training.state(), training.epochs
        return Course(training, state, self._quality(state), epochs, epochs >= self.model.epochs, racer)

    def go_on(self, course: Course) -> None:
        self.stopped |= self.model.epoch(course.training, self.run, self.model.epochs, racer=course.racer)
        now = course.training.state()
        score = self._quality(now)
        fallen = score < FALL * course.score and course.training.epochs > 1
        if score > course.score:
            course.best, course.score, course.when = now, score, course.training.epochs
        course.over = fallen or course.training.epochs >= self.model.epochs

    def _quality(self, state: State) -> float:
        self.model.keep_stage("reasons", state)
        return quality(self.model, self.check)


class Items:
    """One training of item ranking, until validation no longer rises."""

    def __init__(self, model: ProfileJ, task: Task, check: Asked, run: Run) -> None:
        self.model, self.task, self.check, self.run = model, task, check, run
        self.settings, self.stopped = model.item_settings(task.source.records, run), False

    def training(self, racer: int) -> SoftmaxTraining:
        return SoftmaxTraining(self.task, self.settings)

    def start(self, racer: int) -> Course:
        training = self.training(racer)
        return Course(training, training.state(), -1.0, 0, over=False)

    def go_on(self, course: Course) -> None:
        self.stopped |= self.model.epoch(course.training, self.run, self.model.item_epochs, curve="item_loss")
        now = course.training.state()
        self.model.keep_stage("items", now)
        score = item_quality(self.model, self.check)
        if score > course.score:
            course.best, course.score, course.when = now, score, course.training.epochs
        course.over = course.training.epochs >= min(self.model.item_epochs, course.when + PATIENCE)


def race_steps(records: int, settings: SoftmaxSettings) -> int:
    """After how many steps it is decided which racer goes on."""
    return -(-max(RACED, records // 4) // settings.batch)


class Asked(NamedTuple):
    """A fixed sample of validation users, by number, and their validation items, user by user."""

    users: Numbers
    relevant: CSR

    @classmethod
    def of(cls, relevant: CSR) -> Asked:
        users = np.flatnonzero(relevant.sizes()).astype(np.int32)
        users = np.sort(np.random.default_rng(0).permutation(users)[:ASKED])
        return cls(users, relevant.take(users))


def item_quality(model: ProfileJ, check: Asked, k: int = 10) -> float:
    """ndcg_paper@k of items, by which training is stopped."""
    ranked = rank_items(model, check.users, k).numbers
    found = hits(ranked, *check.relevant[:2])
    return float((found / np.log2(np.arange(2, ranked.shape[1] + 2))).sum(1).mean()) if len(check.users) else 0.0


def reason_records(learn: Triplets) -> Records:
    """Records with what their user and their item have said of them."""
    own = learn.record_explanations
    user, item = (learn.record_user, learn.user_explanations), (learn.record_item, learn.item_explanations)
    return Records(own, (Side(*user, own), Side(*item, own)))


def item_records(learn: Triplets) -> Records:
    """Records with the user's items (what the user says was tried and did not help), of very many some."""
    alone = np.arange(learn.records + 1, dtype=np.int64)
    item = CSR(alone, learn.record_item, np.ones(learn.records, np.int32))
    return Records(item, (Side(learn.record_user, learn.user_items, item), Side.none(learn.records)), ITEMS_SEEN)


def item_task(source: Source, popularity: NDArray[np.int64]) -> Task:
    """Predict a record's item from the user's other items."""
    return Task(source, popularity, (len(popularity), 0), False)


def profiles(
    rows_a: Numbers, relation_a: CSR, inputs_a: Floats, rows_b: Numbers, relation_b: CSR, inputs_b: Floats
) -> Floats:
    """Both sides' profiles, side by side; an unknown row (-1) has a profile of zeros."""
    nobody, nothing = np.zeros(1, np.int64), np.zeros(0, np.int32)
    everyone = np.arange(len(rows_a), dtype=np.int64)
    a, b = relation_a, relation_b
    numbers, counts, places = kernels.other_entries(
        everyone,
        *(rows_a, a.indptr, a.indices, a.counts, nobody, nothing),
        *(rows_b, b.indptr, b.indices, b.counts, nobody, nothing),
        *(False, ALL),
    )
    x = np.zeros((len(rows_a), inputs_a.shape[1] + inputs_b.shape[1]), np.float32)
    weights = kernels.profile_weights(counts, places)
    kernels.gather_profiles(numbers, weights, places, inputs_a, inputs_b, x)
    return x


def word_rows(texts: pl.Series, least: int = 2) -> Words | None:
    """The words of every text that stand in at least `least` of them; None where there are none."""
    tokens = [sorted(set(re.findall(r"\w+", text.lower()))) for text in texts]
    seen = Counter(word for each in tokens for word in each)
    numbers = {word: number for number, word in enumerate(sorted(word for word in seen if seen[word] >= least))}
    if not numbers:
        return None
    kept = [[numbers[word] for word in each if word in numbers] for each in tokens]
    rows = np.repeat(np.arange(len(kept)), [len(each) for each in kept])
    columns = np.array([word for each in kept for word in each], np.int64)
    return Words(CSR.from_pairs(rows, columns, len(kept), len(numbers)), len(numbers))
