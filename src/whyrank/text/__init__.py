"""Texts as vectors, and what BPER+ learns from them."""

from whyrank.text.encoder import Encoder
from whyrank.text.weights import find_weights

__all__ = ["Encoder", "find_weights"]
