"""EXTRA, the paper's data sets: how they are made from reviews, and the folders they come in."""

from whyrank.lab.extra.folders import read_extra, write_extra
from whyrank.lab.extra.sentences import find_extra

__all__ = ["find_extra", "read_extra", "write_extra"]
