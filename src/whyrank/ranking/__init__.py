"""Exact top-n reasons, exact item-reason pairs, and what makes reasons fit to show."""
