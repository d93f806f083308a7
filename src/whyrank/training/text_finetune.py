"""Training of BPER+ that goes on into the encoder: torch for the encoder, the same kernels for the rest."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from whyrank.data.triplets import Triplets
from whyrank.text.encoder import limited_threads
from whyrank.text.tuned import TunedEncoder
from whyrank.training.checkpoint import Arrays
from whyrank.training.loop import Trained
from whyrank.training.text import Floats, FrozenTrainer, TextSettings
from whyrank.training.text_features import Preparation


class FinetuneTrainer(FrozenTrainer):
    """As `FrozenTrainer`, but features come from an encoder that learns, too."""

    def __init__(
        self,
        train: Triplets,
        tuned: TunedEncoder,
        preparation: Preparation,
        arrays: Arrays,
        settings: TextSettings,
        rate: float,
        threads: int | None,
    ) -> None:
        super().__init__(train, np.zeros((0, 0), np.float32), arrays, settings)
        self.tuned, self.preparation, self.rate, self.threads = tuned, preparation, rate, threads
        self.texts = train.text_of(np.arange(len(train.explanations))).to_list()
        self.back = np.ascontiguousarray(preparation.projection.T)
        self.optimizer = tuned.torch.optim.AdamW(tuned.learning, lr=rate, weight_decay=settings.regularization)
        self.hidden: Any = None
        self.place: NDArray[np.int64] = np.zeros(0, np.int64)

    def epoch(self) -> Trained:
        with limited_threads(self.threads):
            return super().epoch()

    def features_of(self, explanations: NDArray[np.int32]) -> Floats:
        distinct, self.place = np.unique([self.texts[each] for each in explanations], return_inverse=True)
        self.hidden = self.tuned.hidden(distinct.tolist())
        return self.preparation.apply(self.hidden.detach().float().cpu().numpy())[self.place]

    def learn_features(self, by_text: Floats, left: float) -> None:
        by_hidden = np.zeros((len(self.hidden), self.back.shape[1]), np.float32)
        np.add.at(by_hidden, self.place, by_text @ self.arrays["text_layer"].T @ self.back)
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate * left
        self.optimizer.zero_grad()
        torch = self.tuned.torch
        self.hidden.backward(torch.from_numpy(by_hidden).to(self.hidden.device, self.hidden.dtype))
        self.optimizer.step()

    def state(self) -> Arrays:
        moments = [self.optimizer.state.get(each, {}) for each in self.tuned.learning]
        empty = [np.zeros(each.numel(), np.float32) for each in self.tuned.learning]
        parts = {
            f"encoder.{name}": np.concatenate(
                [m[name].float().cpu().numpy().ravel() if m else e for m, e in zip(moments, empty, strict=True)]
            )
            for name in ("exp_avg", "exp_avg_sq")
        }
        steps = np.array([int(moments[0]["step"]) if moments[0] else 0], np.int64)
        return {**super().state(), **parts, "encoder.weights": self.tuned.weights, "encoder.steps": steps}

    def restore(self, arrays: Arrays) -> None:
        super().restore(arrays)
        torch, start = self.tuned.torch, 0
        self.tuned.weights = arrays["encoder.weights"]
        for each in self.tuned.learning:
            moments = {
                name: torch.from_numpy(np.array(arrays[f"encoder.{name}"][start : start + each.numel()], np.float32))
                .reshape(each.shape)
                .to(each.device)
                for name in ("exp_avg", "exp_avg_sq")
            }
            self.optimizer.state[each] = {"step": torch.tensor(float(arrays["encoder.steps"][0])), **moments}
            start += each.numel()
