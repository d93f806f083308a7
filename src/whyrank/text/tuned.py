"""An encoder whose last layers can learn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whyrank.errors import ArtifactError, ParameterError
from whyrank.text.encoder import BATCH, Encoder, torch_or_missing

Floats = NDArray[np.float32]


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
