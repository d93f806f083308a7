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
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from whyrank.data.catalog import Catalog
from whyrank.data.csr import CSR
from whyrank.data.triplets import Triplets
from whyrank.kernels import profile as kernels
from whyrank.kernels.metrics import hits
from whyrank.models.base import Model
from whyrank.models.counts import evidence_bonus, held_out, quality
from whyrank.models.parameters import parameter
from whyrank.ranking.form import Block, Bonus, Floats, Numbers
from whyrank.ranking.rank import rank_items
from whyrank.training import Epoch, Run
from whyrank.training.softmax import Side, SoftmaxSettings, SoftmaxTraining, State, Task, Words

# Penalties that race for one epoch: (of vectors, of words' vectors).
RACE_WITH_WORDS = ((1e-4, 1e-4), (3e-3, 3e-5))
RACE = ((1e-4, 0.0), (1e-3, 0.0))
FALL = 0.995  # training ends when validation falls below this part of its best
CHECKED = 4000  # validation records that decide
PATIENCE = 3  # epochs without a better ranking of items after which it is enough
STEPS = 100  # batches are smaller than asked for where an epoch would otherwise have fewer steps


@dataclass(kw_only=True, eq=False)
class Profile(Model):
    """whyrank's own ranker of reasons; it needs no settings."""

    id = "profile"
    summary = "popularity, evidence and profiles, trained by softmax (whyrank's own)"
    fitted: ClassVar[tuple[str, ...]] = ("vectors", "bias", "user_inputs", "item_inputs", "strengths")

    factors: int = parameter(32, "length of each side's profile", at_least=1, at_most=1024)
    epochs: int = parameter(5, "passes over the training data at most; it stops when validation falls", at_least=1)
    learning_rate: float = parameter(0.01, "of the first epoch", above=0)
    batch: int = parameter(512, "records a step at most", at_least=1)
    words: bool = parameter(True, "use the words of explanations")
    seed: int = parameter(0, "every random choice comes from it", at_least=0)

    def _fit(self, train: Triplets, run: Run, validation: Triplets | None) -> None:
        catalog = self.catalog_
        learn, check = held_out(train, validation)
        self._race(self.task(learn, word_rows(train) if self.words else None), run, learn, check)
        self.catalog_ = catalog
        self._forget_searches()

    def task(self, learn: Triplets, words: Words | None) -> Task:
        """Predict a record's explanations from what else the user says and what else is said of the item."""
        own, pool = learn.record_explanations, len(learn.explanations)
        sides = (
            Side(learn.record_user, learn.user_explanations, own),
            Side(learn.record_item, learn.item_explanations, own),
        )
        return Task(own, learn.popularity, sides, (pool, pool), True, words, (words, words))

    def _race(self, task: Task, run: Run, learn: Triplets, check: Triplets) -> None:
        """Train every penalty for an epoch, the best one on until validation falls; keep its best state."""
        self.catalog_ = Catalog.of(learn)
        base = self._settings(learn, run)
        penalties = RACE if task.words is None else RACE_WITH_WORDS
        racers = [SoftmaxTraining(task, replace(base, penalty=a, word_penalty=b)) for a, b in penalties]
        scores, states = [], []
        for racer in racers:
            self._epoch(racer, run)
            states.append(racer.state())
            scores.append(self._quality(states[-1], check))
        winner = int(np.argmax(scores))
        training, best, state = racers[winner], scores[winner], states[winner]
        while training.epochs < self.epochs:
            self._epoch(training, run)
            now = training.state()
            score = self._quality(now, check)
            if score > best:
                best, state = score, now
            elif score < FALL * best:
                break
        self._keep(state)

    def _settings(self, learn: Triplets, run: Run) -> SoftmaxSettings:
        return SoftmaxSettings(
            factors=self.factors,
            learning_rate=self.learning_rate,
            batch=min(self.batch, max(64, learn.records // STEPS)),
            seed=self.seed,
            threads=run.threads,
        )

    def _epoch(self, training: SoftmaxTraining, run: Run, of: int | None = None) -> None:
        begin = time.perf_counter()
        loss = training.epoch()
        seconds = time.perf_counter() - begin
        of = of or self.epochs
        updates = len(training.task.targets.indices) / seconds
        epoch = Epoch(training.epochs, of, loss, updates, seconds, seconds * (of - training.epochs))
        for monitor in run.monitors:
            monitor.on_epoch(epoch, None)

    def _quality(self, state: State, check: Triplets) -> float:
        self._keep(state)
        self._forget_searches()
        return quality(self, check, CHECKED)

    def _keep(self, state: State) -> None:
        self.vectors_, self.bias_ = state.keys, state.bias
        self.user_inputs_, self.item_inputs_ = state.inputs
        self.strengths_ = state.theta

    # -- scoring -------------------------------------------------------------------------------------------------------

    def keys(self) -> Floats:
        return np.hstack([self.vectors_, self.bias_[:, None]])

    def queries(self, users: Numbers, items: Numbers) -> Floats:
        said, of_items = self.catalog_.user_explanations, self.catalog_.item_explanations
        x = profiles(users, said, self.user_inputs_, items, of_items, self.item_inputs_)
        return np.hstack([x, np.ones((len(users), 1), np.float32)])

    def blocks(self) -> tuple[Block, ...]:
        return (Block("user", self.factors), Block("item", self.factors), Block("popularity", 1))

    def bonus(self, users: Numbers, items: Numbers, n: int) -> Bonus:
        catalog, theta = self.catalog_, self.strengths_
        share = (catalog.popularity + 0.5) / max(catalog.popularity.sum(), 1)
        scales = [np.exp(theta[side] - theta[side + 1] * np.log(share)) for side in (0, 3)]
        activity = [
            (1.0 + _totals(relation)) ** -theta[side + 2]
            for side, relation in ((0, catalog.user_explanations), (3, catalog.item_explanations))
        ]
        return evidence_bonus(catalog, users, items, (scales[0], scales[1]), (activity[0], activity[1]), logs=True)


@dataclass(kw_only=True, eq=False)
class ProfileJ(Profile):
    """Profile, and items ranked the same way: b_i + y_u . k_i with a profile y_u of the user's other items."""

    id = "profile-j"
    summary = "Profile with items: joint ranking (whyrank's own, the default)"
    ranks_items = True
    fitted: ClassVar[tuple[str, ...]] = (
        *Profile.fitted,
        *("item_vectors", "item_bias", "item_by_item_inputs"),
    )

    item_epochs: int = parameter(12, "passes for items at most; it stops when validation no longer rises", at_least=1)

    def _fit(self, train: Triplets, run: Run, validation: Triplets | None) -> None:
        super()._fit(train, run, validation)
        learn, check = held_out(train, validation)
        catalog, self.catalog_ = self.catalog_, Catalog.of(learn)
        training = SoftmaxTraining(item_task(learn), self._settings(learn, run))
        best, score, when = training.state(), -1.0, 0
        while training.epochs < self.item_epochs and training.epochs < when + PATIENCE:
            self._epoch(training, run, self.item_epochs)
            self._keep_items(training.state())
            now = item_quality(self, check)
            if now > score:
                best, score, when = training.state(), now, training.epochs
        self._keep_items(best)
        self.catalog_ = catalog
        self._forget_searches()

    def _keep_items(self, state: State) -> None:
        self.item_vectors_, self.item_bias_ = state.keys, state.bias
        self.item_by_item_inputs_ = state.inputs[0]
        self._forget_searches()

    def item_keys(self) -> Floats:
        return np.hstack([self.item_vectors_, self.item_bias_[:, None]])

    def item_queries(self, users: Numbers) -> Floats:
        seen, nobody = self.catalog_.user_items, np.full(len(users), -1, np.int32)
        nothing = np.zeros((0, 0), np.float32)
        x = profiles(users, seen, self.item_by_item_inputs_, nobody, seen, nothing)
        return np.hstack([x, np.ones((len(users), 1), np.float32)])


def item_quality(model: ProfileJ, validation: Triplets, users: int = 2000, k: int = 10) -> float:
    """ndcg_paper@k of items for a fixed sample of validation users, by which training is stopped."""
    relevant = validation.user_items
    asked = np.flatnonzero(relevant.sizes()).astype(np.int32)
    asked = np.sort(np.random.default_rng(0).permutation(asked)[:users])
    ranked = rank_items(model, asked, k).numbers
    found = hits(ranked, *relevant.take(asked)[:2])
    return float((found / np.log2(np.arange(2, ranked.shape[1] + 2))).sum(1).mean()) if len(asked) else 0.0


def item_task(train: Triplets) -> Task:
    """Predict a record's item from the user's other items (what the user says was tried and did not help)."""
    alone = np.arange(train.records + 1, dtype=np.int64)
    item = CSR(alone, train.record_item, np.ones(train.records, np.int32))
    sides = (Side(train.record_user, train.user_items, item), Side.none(train.records))
    popularity = np.bincount(train.record_item, minlength=len(train.items))
    return Task(item, popularity, sides, (len(train.items), 0), False)


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
        False,
    )
    x = np.zeros((len(rows_a), inputs_a.shape[1] + inputs_b.shape[1]), np.float32)
    weights = kernels.profile_weights(counts, places)
    kernels.gather_profiles(numbers, weights, places, inputs_a, inputs_b, x)
    return x


def word_rows(train: Triplets, least: int = 2) -> Words | None:
    """The words of every explanation that stand in at least `least` of them; None where there are none."""
    texts = train.text_of(np.arange(len(train.explanations))).to_list()
    tokens = [sorted(set(re.findall(r"\w+", text.lower()))) for text in texts]
    seen = Counter(word for each in tokens for word in each)
    numbers = {word: number for number, word in enumerate(sorted(word for word in seen if seen[word] >= least))}
    if not numbers:
        return None
    kept = [[numbers[word] for word in each if word in numbers] for each in tokens]
    rows = np.repeat(np.arange(len(kept)), [len(each) for each in kept])
    columns = np.array([word for each in kept for word in each], np.int64)
    return Words(CSR.from_pairs(rows, columns, len(kept), len(numbers)), len(numbers))


def _totals(relation: CSR) -> NDArray[np.float64]:
    """The sum of counts of every row."""
    sums = np.concatenate([[0], np.cumsum(relation.counts, dtype=np.int64)])
    return np.diff(sums[relation.indptr]).astype(np.float64)
