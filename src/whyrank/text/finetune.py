"""Training of BPER+ that goes on into the encoder: torch for the encoder, the same kernels for the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whyrank.data.triplets import Triplets
from whyrank.errors import ArtifactError, ParameterError
from whyrank.text.checkpoint import State
from whyrank.text.encoder import BATCH, Encoder, limited_threads, torch_or_missing
from whyrank.text.features import Preparation
from whyrank.text.frozen import Arrays, Floats, Settings, Trainer


class TunedEncoder:
    """An encoder whose last layers can learn; `weights` are those that did, as one flat array.

    All layers and the embeddings learn if `layers` is at least as many as there are. Dropout stays off, so that the
    result depends on the seed only.
    """

    def __init__(self, encoder: Encoder, layers: int) -> None:
        self.torch = torch_or_missing()
        self.encoder = encoder
        self.tokenizer, model = encoder.load()
        self.model = model.to("cuda" if self.torch.cuda.is_available() else "cpu")
        self.learning = _learning(self.model, self.torch, layers)

    def hidden(self, texts: Sequence[str]) -> Any:
        """Pooled vectors of texts, with gradients."""
        return self.encoder.hidden(texts, self.tokenizer, self.model)

    def encode(self, texts: Sequence[str]) -> Floats:
        """Vectors of texts as they are now; each distinct text once."""
        distinct = sorted(set(texts), key=lambda text: (len(text), text))
        with self.torch.inference_mode():
            batches = [
                self.hidden(distinct[start : start + BATCH]).float().cpu().numpy()
                for start in range(0, len(distinct), BATCH)
            ]
        place = {text: number for number, text in enumerate(distinct)}
        return np.concatenate(batches)[[place[text] for text in texts]]

    @property
    def weights(self) -> Floats:
        return np.concatenate([each.detach().float().cpu().numpy().ravel() for each in self.learning])

    @weights.setter
    def weights(self, values: NDArray[np.generic]) -> None:
        sizes = [each.numel() for each in self.learning]
        if len(values) != sum(sizes):
            raise ArtifactError(f"tuned weights are {len(values):,} numbers, the encoder needs {sum(sizes):,}")
        with self.torch.no_grad():
            for each, part in zip(self.learning, np.split(values, np.cumsum(sizes)[:-1]), strict=True):
                each.copy_(self.torch.from_numpy(part.astype(np.float32)).reshape(each.shape))


class FinetuneTrainer(Trainer):
    """As `Trainer`, but features come from an encoder that learns, too."""

    def __init__(
        self,
        train: Triplets,
        tuned: TunedEncoder,
        preparation: Preparation,
        arrays: Arrays,
        settings: Settings,
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

    def epoch(self, number: int) -> float:
        with limited_threads(self.threads):
            return super().epoch(number)

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

    def state(self) -> State:
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

    def restore(self, state: State) -> None:
        super().restore(state)
        torch, start = self.tuned.torch, 0
        self.tuned.weights = state["encoder.weights"]
        for each in self.tuned.learning:
            moments = {
                name: torch.from_numpy(np.array(state[f"encoder.{name}"][start : start + each.numel()], np.float32))
                .reshape(each.shape)
                .to(each.device)
                for name in ("exp_avg", "exp_avg_sq")
            }
            self.optimizer.state[each] = {"step": torch.tensor(float(state["encoder.steps"][0])), **moments}
            start += each.numel()


def _learning(model: Any, torch: Any, layers: int) -> list[Any]:
    """The parameters that learn, in the model's own order; all others are fixed."""
    stacks = [module for module in model.modules() if isinstance(module, torch.nn.ModuleList)]
    if not stacks:
        raise ParameterError("encoder_mode='finetune' needs an encoder made of layers; use encoder_mode='frozen'")
    stack = max(stacks, key=len)
    chosen = model if layers >= len(stack) else stack[len(stack) - layers :]
    wanted = {id(each) for each in chosen.parameters()}
    for each in model.parameters():
        each.requires_grad_(id(each) in wanted)
    used = {id(each) for name, each in model.named_parameters() if "pooler" not in name}
    return [each for each in model.parameters() if id(each) in wanted & used]
