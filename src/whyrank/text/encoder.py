"""Vectors of texts from a BERT-type encoder, each distinct text encoded once."""

from __future__ import annotations

import contextlib
import importlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from whyrank.errors import MissingExtra, ParameterError
from whyrank.text.cache import VectorCache, encodings
from whyrank.text.weights import Weights, find_weights

Floats = NDArray[np.float32]
Pooling = Literal["cls", "mean"]
POOLINGS = ("cls", "mean")
BATCH = 64
CHUNK = 2048  # texts between two visits to the cache: an interrupted run loses no more than these


@dataclass(frozen=True)
class Encoder:
    """How texts become vectors. `find` one, then call it with texts.

    >>> vectors = Encoder.find("minilm", pooling="mean")(["a quiet room"])  # doctest: +SKIP
    """

    weights: Weights
    pooling: Pooling = "cls"
    max_length: int = 64
    cache_folder: Path | None = field(default=None, repr=False)

    @classmethod
    def find(
        cls,
        name: str = "minilm",
        *,
        pooling: Pooling = "cls",
        max_length: int = 64,
        network: bool = False,
        cache: bool = True,
    ) -> Encoder:
        """The encoder of a name (see `find_weights`); raises at once where it cannot be had."""
        if pooling not in POOLINGS:
            raise ParameterError(f"pooling is {pooling!r}; use 'cls' or 'mean'")
        return cls(find_weights(name, network=network), pooling, max_length, encodings() if cache else None)

    @property
    def hidden_size(self) -> int:
        """The width of a vector, from the configuration."""
        try:
            return int(json.loads((self.weights.folder / "config.json").read_text("utf-8"))["hidden_size"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ParameterError(f"{self.weights.folder}: its config.json names no hidden_size") from error

    def __call__(
        self,
        texts: Sequence[str],
        *,
        threads: int | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Floats:
        """One row per text. `progress` is told how many of the distinct texts have their vector."""
        distinct = sorted(set(texts))
        cache = self._cache()
        known = cache.load(distinct)
        missing = [text for text in distinct if text not in known]
        missing.sort(key=lambda text: (len(text), text))  # neighbours need little padding
        if missing:
            tokenizer, model = self.load()
            for start in range(0, len(missing), CHUNK):
                chunk = missing[start : start + CHUNK]
                vectors = self._encode(chunk, tokenizer, model, threads)
                cache.store(chunk, vectors)
                known |= zip(chunk, vectors, strict=True)
                if progress is not None:
                    progress(len(known), len(distinct))
        if not len(texts):
            return np.zeros((0, self.hidden_size), np.float32)
        return np.stack([known[text] for text in texts])

    def load(self) -> tuple[Any, Any]:
        """The tokenizer and the torch module, from local files."""
        torch_or_missing()
        transformers = importlib.import_module("transformers")
        folder = str(self.weights.folder)
        try:
            with quiet(transformers):
                tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
                model = transformers.AutoModel.from_pretrained(folder, local_files_only=True, use_safetensors=True)
        except (OSError, ValueError, KeyError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise ParameterError(f"{folder}: is not an encoder that transformers can load ({reason})") from error
        return tokenizer, model.eval()

    def hidden(self, texts: Sequence[str], tokenizer: Any, model: Any) -> Any:
        """Pooled vectors as a torch tensor on the model's device; gradients flow where torch records them."""
        inputs = tokenizer(
            list(texts), padding=True, truncation=True, max_length=self.max_length, return_tensors="pt"
        ).to(model.device)
        states = model(**inputs).last_hidden_state
        if self.pooling == "cls":
            return states[:, 0]
        mask = inputs["attention_mask"][..., None].to(states.dtype)
        return (states * mask).sum(1) / mask.sum(1)

    def _encode(self, texts: list[str], tokenizer: Any, model: Any, threads: int | None) -> Floats:
        torch = torch_or_missing()
        with torch.inference_mode(), limited_threads(threads):
            batches = [
                self.hidden(texts[start : start + BATCH], tokenizer, model).float().cpu().numpy()
                for start in range(0, len(texts), BATCH)
            ]
        return np.concatenate(batches)

    def _cache(self) -> VectorCache:
        if self.cache_folder is None:
            return VectorCache(None, self.hidden_size)
        name = f"{self.weights.digest[:32]}-{self.pooling}-{self.max_length}"
        return VectorCache(self.cache_folder / name, self.hidden_size)


def unit_vectors(vectors: Floats) -> Floats:
    """Rows of length 1, so that dot products are cosines; a row of zeros stays."""
    unit: Floats = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return unit


def torch_or_missing() -> Any:
    """The torch module, or one clear line."""
    try:
        importlib.import_module("transformers")
        return importlib.import_module("torch")
    except ImportError as error:
        raise MissingExtra("text", "encoding texts") from error


@contextlib.contextmanager
def limited_threads(threads: int | None) -> Iterator[None]:
    """At most so many threads inside torch, and the old number afterwards."""
    torch = torch_or_missing()
    before = torch.get_num_threads()
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def quiet(transformers: Any) -> Iterator[None]:
    """No bars and no remarks while weights are loaded."""
    logging = transformers.utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
