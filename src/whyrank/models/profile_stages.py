"""What Profile trains in turn: reasons, and items for those who rank them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from whyrank.data.catalog import Catalog
from whyrank.data.csr import CSR
from whyrank.data.triplets import Triplets
from whyrank.models.counts import best_worth_weight, held_out, quality, record_quality, sampled
from whyrank.models.profile_mixture import FOLDS, MIXTURES, best_counts, mixture, simplest_best
from whyrank.models.profile_records import ValidationUsers, item_quality, item_records, reason_records, word_rows
from whyrank.training import Run
from whyrank.training.candidates import CandidateTrainer, FixedTrainer, Found
from whyrank.training.checkpoint import Arrays
from whyrank.training.loop import EarlyStopping
from whyrank.training.softmax import SoftmaxSettings, SoftmaxTask, SoftmaxTraining

if TYPE_CHECKING:
    from whyrank.models.profile import Profile, ProfileJ

# Candidates for penalties: (of vectors, of words' vectors); as many with words as without.
PENALTIES_WITH_WORDS = ((1e-4, 1e-4), (3e-3, 3e-5))
PENALTIES = ((1e-4, 0.0), (1e-3, 0.0))
COMPARED = 65536  # records after which candidates are compared at least, and at least a quarter of all
FALL = 0.995  # training ends when validation falls below this part of its best
CHECKED = 4000  # validation records that decide
ITEM_SAMPLE = 2048  # items that stand for a larger pool in each step
PATIENCE = 3  # epochs without a better ranking of items after which it is enough
ENOUGH = 100  # records of known users; fewer decide nothing
SMALL = 4000  # records to learn from, below which what is learned is judged by parts of them in turn

Make = Callable[[int], SoftmaxTraining]
HeldOut = tuple[Triplets, Triplets, Arrays]  # records to learn from, others to measure on, what the first have given


@dataclass(frozen=True, eq=False)
class Learning:
    """What a fit learns from, what it chooses by, and both together."""

    learn: Triplets
    check: Triplets
    whole: Triplets

    @classmethod
    def of(cls, train: Triplets, validation: Triplets | None, whole: Triplets) -> Learning:
        return cls(*held_out(train, validation), whole)


@dataclass(frozen=True, eq=False)
class ReasonStage:
    """Reasons: every penalty starts, the best one goes on until validation falls."""

    model: Profile
    learning: Learning
    run: Run

    name: ClassVar[str] = "reasons"
    curve: ClassVar[str] = "loss"

    @property
    def among(self) -> CSR | None:
        """What competes in lists by which validation chooses; None: the pool."""
        return self.learning.whole.item_explanations if self.model.candidates == "item-all" else None

    def task(self, part: Triplets) -> SoftmaxTask:
        """Predict a record's explanations from what else the user says and what else people say about the item."""
        pool = len(part.explanations)
        words = word_rows(part.text_of(np.arange(pool))) if self.model.words else None
        theta, among = best_counts(part, 1)["theta"], self.model.candidates == "item-all"
        return SoftmaxTask(
            reason_records(part), part.popularity, (pool, pool), True, words, (words, words), among, theta
        )

    def training(self, task: SoftmaxTask, candidate: int) -> SoftmaxTraining:
        penalty, word_penalty = (PENALTIES if task.words is None else PENALTIES_WITH_WORDS)[candidate]
        settings = self.model.settings(task.source.count, self.run)
        return SoftmaxTraining(task, replace(settings, penalty=penalty, word_penalty=word_penalty))

    def by_validation(self) -> CandidateTrainer:
        """The training that chooses: every penalty for an epoch (of many records: a quarter), then the best one."""
        sample, among = sampled(self.learning.check, CHECKED), self.among
        view, task = self.model._view(Catalog.for_ranking(self.learning.learn)), self.task(self.learning.learn)

        def measure(learned: Arrays) -> float:
            view.take_reasons(learned)
            return quality(view, sample, among=among)

        return CandidateTrainer(
            partial(self.training, task),
            measure,
            partial(EarlyStopping, fall=FALL),
            self.model.epochs,
            candidates=len(PENALTIES),
            start_steps=comparison_steps(task.source.count, self.model.settings(task.source.count, self.run)),
        )

    def again(self, found: Found, part: Triplets) -> FixedTrainer:
        """The same training on other records."""
        return FixedTrainer(partial(self.training, self.task(part)), found, self.curve)

    def finish(self, held_out: Arrays, learned: Arrays, found: Found) -> None:
        """Take as much of what was learned as held-out records say, and counts for the rest.

        `held_out` is what was learned without the held-out records.
        """
        model, whole = self.model, self.learning.whole if self.model.refit else self.learning.learn
        parts = list(self._held_out_parts(whole, held_out, found))
        model.learned_share_ = self._best_share(parts)
        model.take_reasons(mixture(best_counts(whole, model.factors), learned, model.learned_share_))
        if len(model.catalog_.people.worth):
            views = []
            for part, check, found_there in parts:
                view = model._view(Catalog.for_ranking(part))
                view.take_reasons(mixture(best_counts(part, model.factors), found_there, model.learned_share_))
                views.append((view, check))
            model.catalog_ = replace(model.catalog_, worth_weight=best_worth_weight(views))

    def _best_share(self, parts: list[HeldOut]) -> NDArray[np.float64]:
        """How much of what was learned of users and of items ranks held-out records best; none unless it surely helps.

        What was learned of users is used where it could be looked at.
        """
        known = sum(int((part.user_explanations.sizes()[check.record_user] > 0).sum()) for part, check, _ in parts)
        judged, gains = np.array([known >= ENOUGH, True]), []
        for part, check, found_there in parts:
            view, counts = self.model._view(Catalog.for_ranking(part)), best_counts(part, self.model.factors)
            of_part = []
            for share in MIXTURES:
                view.take_reasons(mixture(counts, found_there, share * judged))
                of_part.append(record_quality(view, check, among=self.among))
            gains.append(of_part)
        return MIXTURES[simplest_best(np.hstack(gains)) if gains else 0] * judged

    def _held_out_parts(self, whole: Triplets, held_out: Arrays, found: Found) -> Iterator[HeldOut]:
        """What was held out at first; of few records every part in turn."""
        if whole.records >= SMALL:
            yield self.learning.learn, sampled(self.learning.check, CHECKED), held_out
            return
        folds = np.random.default_rng(0).permutation(whole.records) % FOLDS
        for fold in range(min(FOLDS, whole.records)):
            learn, check = (whole.take(np.flatnonzero(part)) for part in (folds != fold, folds == fold))
            if learn.records:
                trainer = self.again(found, learn)
                while not trainer.finished:
                    trainer.epoch()
                yield learn, check, trainer.learned


@dataclass(frozen=True, eq=False)
class ItemStage:
    """Items: one setting, until validation no longer rises."""

    model: ProfileJ
    learning: Learning
    run: Run

    name: ClassVar[str] = "items"
    curve: ClassVar[str] = "item_loss"

    def task(self, part: Triplets) -> SoftmaxTask:
        """Predict a record's item from the user's other items."""
        popularity = np.bincount(part.record_item, minlength=len(part.items))
        return SoftmaxTask(item_records(part), popularity, (len(popularity), 0), False)

    def training(self, task: SoftmaxTask, candidate: int) -> SoftmaxTraining:
        """Items need more room than reasons: twice the factors, and a larger sample of the pool."""
        settings = self.model.settings(task.source.count, self.run)
        return SoftmaxTraining(task, replace(settings, factors=2 * self.model.factors, sample=ITEM_SAMPLE))

    def by_validation(self) -> CandidateTrainer:
        users = ValidationUsers.of(self.learning.check.user_items)
        view = self.model._view(Catalog.for_ranking(self.learning.learn))

        def measure(learned: Arrays) -> float:
            view.take_items(learned)
            return item_quality(view, users)

        make = partial(self.training, self.task(self.learning.learn))
        stopping = partial(EarlyStopping, patience=PATIENCE)
        return CandidateTrainer(make, measure, stopping, self.model.item_epochs, curve=self.curve)

    def again(self, found: Found, part: Triplets) -> FixedTrainer:
        return FixedTrainer(partial(self.training, self.task(part)), found, self.curve)

    def finish(self, held_out: Arrays, learned: Arrays, found: Found) -> None:
        self.model.take_items(learned)


def comparison_steps(records: int, settings: SoftmaxSettings) -> int:
    """After how many steps it is decided which candidate goes on."""
    return -(-max(COMPARED, records // 4) // settings.batch)
