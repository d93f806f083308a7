"""All commands; importing them registers them, in the order in which help lists them."""

from whyrank.cli import demo, mine, why, data, fit, measure, tune, experiment, explain, folders  # noqa: F401, I001
from whyrank.cli import serve, refresh, study, ab, learn, duties, doctor  # noqa: F401
