"""Triplets, vocabularies and splits; reading, writing and describing them."""

from whyrank.data.csr import CSR
from whyrank.data.files import read, write
from whyrank.data.split import Split, read_split, read_splits, split_records, splits, write_splits
from whyrank.data.triplets import Triplets
from whyrank.data.vocabulary import Vocabulary

__all__ = [
    "CSR",
    "Split",
    "Triplets",
    "Vocabulary",
    "read",
    "read_split",
    "read_splits",
    "split_records",
    "splits",
    "write",
    "write_splits",
]
