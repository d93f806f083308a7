"""The training engine: tables and passes in, learned tables out, the same bits for any number of threads."""

from whyrank.training.fold_in import fold_in
from whyrank.training.loop import train
from whyrank.training.monitor import EarlyStopping, Epoch, History, Monitor
from whyrank.training.passes import PairwisePass, Pass, Settings, Table, TriplePass
from whyrank.training.run import Run
from whyrank.training.storage import Storage, grow

__all__ = [
    "EarlyStopping",
    "Epoch",
    "History",
    "Monitor",
    "PairwisePass",
    "Pass",
    "Run",
    "Settings",
    "Storage",
    "Table",
    "TriplePass",
    "fold_in",
    "grow",
    "train",
]
