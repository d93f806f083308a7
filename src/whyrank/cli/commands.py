"""All commands; importing them registers them, in the order in which help lists them."""

from whyrank.cli import demo, mine, data, fit, measure, tune, experiment, explain, learn, export, serve, study, doctor  # noqa: F401, I001
