"""Metrics, evaluation, comparison and significance."""

from whyrank.evaluation.comparison import Comparison, compare
from whyrank.evaluation.evaluator import Evaluation, evaluate

__all__ = ["Comparison", "Evaluation", "compare", "evaluate"]
