"""The command line: parse, call, print."""

from whyrank.cli.app import main

__all__ = ["main"]
