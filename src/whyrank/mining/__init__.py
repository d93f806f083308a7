"""Mining: from reviews to statements and triplets."""

from whyrank.mining.mine import mine
from whyrank.mining.mined import Mined
from whyrank.mining.review import apply_review, write_review
from whyrank.mining.rules import MiningRules

__all__ = ["Mined", "MiningRules", "apply_review", "mine", "write_review"]
