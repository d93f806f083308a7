"""BPER+: BPER whose explanation factors are fused with vectors of what the explanations say or show."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whyrank import training
from whyrank.data.catalog import Catalog
from whyrank.data.triplets import Triplets
from whyrank.errors import ArtifactError, DataError, ParameterError
from whyrank.index.form import Block, Floats, Numbers, two_sides
from whyrank.models.base import Model, Shape
from whyrank.models.bper import two_sides_as_cd
from whyrank.models.parameters import parameter, seed_parameter
from whyrank.text.encoder import Encoder
from whyrank.text.tuned import TunedEncoder
from whyrank.training import Run
from whyrank.training.checkpoint import Arrays, Checkpoint
from whyrank.training.fusion import FUSIONS
from whyrank.training.loop import run_epochs
from whyrank.training.text import SIDES, FrozenTrainer, TextSettings, start
from whyrank.training.text_features import Preparation, borrowed, checked, in_order, nearest, one_blas_thread

if TYPE_CHECKING:
    from whyrank.models.tensor import CD

PER_EXPLANATION = ("explanation_by_user", "explanation_by_item", "user_bias", "item_bias", "explanation_features")


@dataclass(kw_only=True, eq=False)
class BPERPlus(Model):
    """BPER with o_e fused with a linear layer of a text vector (paper, Section 4.3).

    Texts are encoded by a BERT-type encoder on this machine, or `features` stand in for them: one row of numbers per
    explanation, in the order of `feature_ids` (without them: of the sorted explanation ids). Explanations without a
    training triplet are ranked by what they say, and `add_explanations` brings in new ones after the fit. `mu` may be
    changed on a fitted model.
    """

    id = "bper+"
    summary = "BPER that reads the explanations: ID factors fused with text vectors (the paper's)"
    fitted: ClassVar[tuple[str, ...]] = (
        *("user_factors", "item_factors", *PER_EXPLANATION, "text_layer", "text_shift", "fusion_weights"),
        *("feature_mean", "feature_projection", "encoder_weights", "encoder_digest"),
    )
    types: ClassVar[Mapping[str, type]] = {"encoder_digest": np.uint8}

    factors: int = parameter(20, "d: length of a vector of factors", at_least=1, at_most=4096)
    mu: float = parameter(0.7, "weight of the user's side when ranking", at_least=0, at_most=1)
    fusion: Literal["multiply", "add", "gate", "mlp"] = parameter(
        "multiply", "how ID factors and text vector become one; multiply is the paper's", one_of=tuple(FUSIONS)
    )
    start: Literal["text", "random"] = parameter(
        "text", "an explanation is at first what it says; or random (paper)", one_of=("text", "random")
    )
    negatives: Literal["uniform", "popular"] = parameter(
        "popular", "negatives are drawn uniformly (paper) or as often as they are used", one_of=("uniform", "popular")
    )
    learning_rate: float = parameter(0.03, "of AdamW at the start", above=0)
    text_learning_rate: float = parameter(0.003, "the same for the text layer, which every batch touches", above=0)
    schedule: Literal["linear", "constant"] = parameter(
        "linear", "learning rates fall linearly to zero, or stay (paper)", one_of=("linear", "constant")
    )
    epsilon: float = parameter(
        0.01, "of AdamW on factors: without a floor like this, steps stay large however small gradients become", above=0
    )
    regularization: float = parameter(0.01, "weight decay of AdamW", at_least=0)
    epochs: int = parameter(3, "T: passes over the training data", at_least=1)
    batch: int = parameter(128, "triplets per step", at_least=1)
    encoder: str = parameter("minilm", "'minilm', a folder, one that a package adds, or a name of the hub")
    pooling: Literal["cls", "mean"] = parameter(
        "mean", "the vector of a text: that of [CLS] (paper) or the mean over its tokens", one_of=("cls", "mean")
    )
    max_length: int = parameter(64, "tokens of a text that are read", at_least=4)
    dimensions: int = parameter(128, "main directions of the text vectors that are kept", at_least=1)
    encoder_mode: Literal["frozen", "finetune"] = parameter(
        "frozen", "fixed text vectors, or learning that goes on into the encoder (paper)", one_of=("frozen", "finetune")
    )
    trainable_layers: int = parameter(2, "finetune: how many of the encoder's last layers learn", at_least=1)
    encoder_learning_rate: float = parameter(0.00001, "finetune: of AdamW on the encoder", above=0)
    network: bool = parameter(False, "whether an encoder may be downloaded from the hub")
    features: ArrayLike | None = dataclasses.field(
        default=None, repr=False, metadata={"help": "vectors that stand in for texts, one row per explanation"}
    )
    feature_ids: Iterable[object] | None = dataclasses.field(
        default=None, repr=False, metadata={"help": "the explanation of each row of features; None: the sorted ids"}
    )
    seed: int = seed_parameter()

    @classmethod
    def paper(cls, learning_rate: float = 0.0001, encoder: str = "bert-base-uncased", **others: Any) -> Self:
        """BPER+ as the paper trains it: everything from random values by one constant rate, the whole encoder included.

        `learning_rate` is the paper's for Amazon (0.00001 for TripAdvisor and Yelp); `others` are parameters that
        shall differ. The encoder must be on this machine, or `network=True` fetches it.

        >>> BPERPlus.paper(encoder="minilm", epochs=1).negatives
        'uniform'
        """
        rates = dict.fromkeys(("learning_rate", "text_learning_rate", "encoder_learning_rate"), learning_rate)
        sizes = {"factors": 20, "batch": 128, "epochs": 5, "dimensions": 4096, "trainable_layers": 99}
        ways = {"fusion": "multiply", "start": "random", "negatives": "uniform", "schedule": "constant"}
        text = {"encoder": encoder, "pooling": "cls", "encoder_mode": "finetune"}
        settings: dict[str, Any] = {**rates, **sizes, **ways, **text, "epsilon": 1e-8}
        return cls(**settings | others)

    # -- learning ------------------------------------------------------------------------------------------------------

    def _fit(self, train: Triplets, run: Run, validation: Triplets | None) -> None:
        raw = self._raw_features(train, run)
        preparation = Preparation.of(raw, self.dimensions)
        self.feature_mean_, self.feature_projection_ = preparation
        self.encoder_weights_ = np.zeros(0, np.float32)
        features = preparation.apply(raw)
        settings = TextSettings(*(getattr(self, name) for name in TextSettings._fields))
        arrays = start(train, features.shape[1], settings)
        if self.encoder_mode == "finetune":
            features = self._finetune(train, preparation, arrays, settings, run)
        else:
            self._train(FrozenTrainer(train, features, arrays, settings), run)
        self._set_learned(arrays, features)
        self._borrow(np.flatnonzero(train.popularity == 0), np.flatnonzero(train.popularity))

    def _drawn(self) -> Floats:
        """The part of a bias that popular negatives leave out: the log of how often an explanation is drawn."""
        if self.negatives == "uniform":
            return np.zeros(len(self.catalog_.popularity), np.float32)
        return np.log(np.maximum(self.catalog_.popularity, 1)).astype(np.float32)

    def _finetune(
        self, train: Triplets, preparation: Preparation, arrays: Arrays, settings: TextSettings, run: Run
    ) -> Floats:
        from whyrank.training.text_finetune import FinetuneTrainer

        tuned = TunedEncoder(self._encoder(), self.trainable_layers)
        trainer = FinetuneTrainer(train, tuned, preparation, arrays, settings, self.encoder_learning_rate, run.threads)
        self._train(trainer, run)
        self.encoder_weights_ = tuned.weights
        return preparation.apply(tuned.encode(trainer.texts))

    def _train(self, trainer: FrozenTrainer, run: Run) -> None:
        given = (self.feature_mean_, self.feature_projection_, trainer.features, self.encoder_digest_)
        run_epochs(trainer, run, Checkpoint(run, self.data_digest_, given, dict(self._stored_parameters())))

    def _raw_features(self, train: Triplets, run: Run) -> Floats:
        """One row per explanation as the user or the encoder gives it."""
        if self.features is None:
            if self.feature_ids is not None:
                raise ParameterError("feature_ids is given without features; give both, or neither to use the texts")
            encoder = self._encoder()
            self.encoder_digest_ = np.frombuffer(bytes.fromhex(encoder.weights.digest), np.uint8)
            return encoder(train.text_of(np.arange(len(train.explanations))).to_list(), threads=run.threads)
        if self.encoder_mode == "finetune":
            raise ParameterError("encoder_mode='finetune' needs texts; use encoder_mode='frozen' with features")
        self.encoder_digest_ = np.zeros(0, np.uint8)
        return in_order(checked(self.features), self.feature_ids, train.explanations)

    def _encoder(self) -> Encoder:
        return Encoder.find(self.encoder, pooling=self.pooling, max_length=self.max_length, network=self.network)

    def _set_learned(self, arrays: Arrays, features: Floats) -> None:
        self.user_factors_, self.item_factors_ = arrays["user_factors"], arrays["item_factors"]
        self.explanation_by_user_ = arrays["explanation_by_user"]
        self.explanation_by_item_ = arrays["explanation_by_item"]
        self.text_layer_, self.text_shift_ = arrays["text_layer"], arrays["text_shift"]
        self.user_bias_, self.item_bias_ = (arrays[f"bias_by_{side}"][:, 0] + self._drawn() for side in SIDES)
        self.explanation_features_ = features
        shapes = FUSIONS[self.fusion].shapes(self.factors)
        self.fusion_weights_ = np.concatenate([np.zeros(0, np.float32), *(arrays[name].ravel() for name in shapes)])

    # -- explanations without triplets ---------------------------------------------------------------------------------

    def add_explanations(
        self, ids: Sequence[object], texts: Sequence[str] | None = None, *, features: ArrayLike | None = None
    ) -> Self:
        """Let a fitted model rank explanations it has never seen, by their texts (without: their ids) or features."""
        self._check_fitted()
        named = [str(each) for each in ids]
        texts = named if texts is None else [str(each) for each in texts]
        vocabulary = self.catalog_.explanations
        if len(set(named)) != len(named) or len(texts) != len(named):
            raise DataError("ids and texts of new explanations", expected="different ids, and one text for each")
        if (vocabulary.numbers(named, missing="negative") >= 0).any():
            known = named[int(np.argmax(vocabulary.numbers(named, missing="negative") >= 0))]
            raise DataError(f"explanation {known!r} is already known", expected="new ids")
        raw = self._new_features(texts, features)
        if len(raw) != len(named):
            raise DataError(f"{len(raw):,} rows of features for {len(named):,} ids", expected="one row per id")
        order = np.argsort(np.array(named, object), kind="stable") if named else np.zeros(0, np.int64)
        self._append([named[place] for place in order], [texts[place] for place in order], raw[order])
        return self

    def _new_features(self, texts: Sequence[str], features: ArrayLike | None) -> Floats:
        preparation = Preparation(self.feature_mean_, self.feature_projection_)
        if (features is None) != (len(self.encoder_digest_) > 0):
            raise ParameterError("new explanations need what the model was fitted to: texts, or features=")
        if features is not None:
            return preparation.apply(checked(features))
        encoder = self._encoder()
        if encoder.weights.digest != self.encoder_digest_.tobytes().hex():
            raise ArtifactError(f"encoder {self.encoder!r} is not the one the model was fitted with; fit again")
        if not len(self.encoder_weights_):
            return preparation.apply(encoder(texts))
        tuned = TunedEncoder(encoder, self.trainable_layers)
        tuned.weights = self.encoder_weights_
        return preparation.apply(tuned.encode(texts))

    def _append(self, ids: list[str], texts: list[str], features: Floats) -> None:
        old, catalog, new = len(self.catalog_.explanations), self.catalog_, len(ids)
        self.catalog_ = catalog.with_explanations(ids, texts)
        for name in PER_EXPLANATION:
            values = getattr(self, f"{name}_")
            more = features if name == "explanation_features" else np.zeros((new, *values.shape[1:]), np.float32)
            setattr(self, f"{name}_", np.concatenate([values, more]))
        self._borrow(np.arange(old, old + new), np.flatnonzero(catalog.popularity))
        if new:
            self._took_in(hashlib.sha256(repr((ids, texts)).encode() + features.tobytes()).hexdigest())
        self._forget()

    def _borrow(self, cold: NDArray[np.int64], warm: NDArray[np.int64]) -> None:
        """Give explanations without triplets ID factors and biases of those that say nearly the same."""
        if not len(cold) or not len(warm):
            return
        places, weights = nearest(self.explanation_features_[cold], self.explanation_features_[warm])
        for name in ("explanation_by_user", "explanation_by_item", "user_bias", "item_bias"):
            values = getattr(self, f"{name}_")
            values[cold] = borrowed(values[warm], places, weights)

    # -- users and items that come later -------------------------------------------------------------------------------

    def _grow(self, catalog: Catalog) -> None:
        d, keys = self.factors, self._fused()
        storage = training.Storage({side: training.Table(len(keys), d, bias=True) for side in SIDES})
        for place, side in enumerate(SIDES):
            storage.factors(side)[:] = keys[:, place * d : (place + 1) * d]
            storage.bias(side)[:] = keys[:, 2 * d + place]
        for side, relation in zip(SIDES, (catalog.user_explanations, catalog.item_explanations), strict=True):
            known = getattr(self, f"{side}_factors_")
            fresh = relation.take(np.arange(len(known), relation.rows))
            found = training.fold_in(storage, side, fresh, training.FactorSettings(seed=self.seed))
            setattr(self, f"{side}_factors_", np.vstack([known, found]))

    # -- scoring -------------------------------------------------------------------------------------------------------

    def shapes(self) -> dict[str, Shape]:
        catalog, d = self.catalog_, self.factors
        pool, width = len(catalog.explanations), len(self.text_layer_)
        mixed = sum(rows * columns for rows, columns in FUSIONS[self.fusion].shapes(d).values())
        return {
            "user_factors": (len(catalog.users), d),
            "item_factors": (len(catalog.items), d),
            "explanation_by_user": (pool, d),
            "explanation_by_item": (pool, d),
            "user_bias": (pool,),
            "item_bias": (pool,),
            "explanation_features": (pool, width),
            "text_layer": (width, d),
            "text_shift": (1, d),
            "fusion_weights": (mixed,),
            "feature_mean": (len(self.feature_projection_),),
            "feature_projection": (None, width),
            "encoder_weights": (None,),
            "encoder_digest": (None,),
        }

    def text_vectors(self) -> Floats:
        """o_e^BERT: the linear layer's view of what each explanation says."""
        with one_blas_thread():
            vectors: Floats = self.explanation_features_ @ self.text_layer_ + self.text_shift_
        return vectors

    def keys(self) -> Floats:
        return self._fused()

    def _fused(self) -> Floats:
        """What texts and IDs say together, without what a subclass adds to it."""
        fusion, text = FUSIONS[self.fusion], self.text_vectors()
        weights, at = {}, 0
        for name, shape in fusion.shapes(self.factors).items():
            weights[name] = self.fusion_weights_[at : at + shape[0] * shape[1]].reshape(shape)
            at += shape[0] * shape[1]
        sides = (fusion.fuse(ids, text, weights) for ids in (self.explanation_by_user_, self.explanation_by_item_))
        return np.hstack([*sides, self.user_bias_[:, None], self.item_bias_[:, None]])

    def queries(self, users: Numbers, items: Numbers, mu: float | None = None) -> Floats:
        return two_sides(self.user_factors_, users, self.item_factors_, items, self.mu if mu is None else mu)

    def blocks(self) -> tuple[Block, ...]:
        return (Block("user", self.factors), Block("item", self.factors), Block("popularity", 2))

    def as_cd(self) -> CD:
        """The same scores as a CD model with 2d + 2 factors: `BPER.as_cd` with the fused vectors as factors."""
        return two_sides_as_cd(self, self.mu, self.seed)

    def _stored_parameters(self) -> Mapping[str, object]:
        return {
            name: value
            for name, value in super()._stored_parameters().items()
            if name not in ("features", "feature_ids")
        }
