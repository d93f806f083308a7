"""Texts as vectors."""

from whyrank.text.encoder import Encoder
from whyrank.text.weights import find_weights

__all__ = ["Encoder", "find_weights"]
