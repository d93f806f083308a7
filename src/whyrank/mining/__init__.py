"""Mining: from raw reviews to explanations and triplets."""

from whyrank.mining.mine import mine
from whyrank.mining.mined import Mined
from whyrank.mining.review import apply_review, write_review
from whyrank.mining.rules import MiningRules, StatementRules

__all__ = ["Mined", "MiningRules", "StatementRules", "apply_review", "mine", "write_review"]
