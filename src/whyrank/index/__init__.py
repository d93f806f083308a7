"""Exact search over the linear form, and grounded selection."""
