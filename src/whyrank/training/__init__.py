"""Training: one loop, one checkpoint form, and the trainers that use them; the same bits for any number of threads."""

from whyrank.training.factors import train
from whyrank.training.fold_in import fold_in
from whyrank.training.monitor import Epoch, History, Monitor
from whyrank.training.passes import PairwisePass, Pass, TriplePass
from whyrank.training.run import Run
from whyrank.training.settings import FactorSettings
from whyrank.training.storage import Storage, Table, grow

__all__ = [
    "Epoch",
    "FactorSettings",
    "History",
    "Monitor",
    "PairwisePass",
    "Pass",
    "Run",
    "Storage",
    "Table",
    "TriplePass",
    "fold_in",
    "grow",
    "train",
]
