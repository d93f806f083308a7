"""How `make bench` puts what benchmarks print into their README."""

from __future__ import annotations

import ast
from importlib import import_module
from importlib.util import find_spec

from run_all import HERE, SCRIPTS, arguments_of, placed, shown


def test_what_is_printed_becomes_markdown() -> None:
    assert shown("| a |\n|---|\n| 1 |\n") == "| a |\n|---|\n| 1 |"
    assert shown('{"a": {"b": 0.12345678}, "c": [1]}') == "| | |\n|---|--:|\n| a b | 0.1235 |\n| c 1 | 1 |"
    assert shown("took 3 s\n") == "```\ntook 3 s\n```"


def test_it_stands_between_marks_and_a_second_run_replaces_it() -> None:
    first = placed("# Benchmarks\n", "speed", "old")
    again = placed(first + "\nwords of ours\n", "speed", "new")
    assert "old" in first
    assert "old" not in again
    assert again.count("printed by speed") == 1
    assert again.endswith("words of ours\n")


def test_every_script_is_there_and_says_what_it_needs() -> None:
    assert all((HERE / f"{name}.py").is_file() for name in SCRIPTS)
    assert arguments_of("training_scale", {}) == []
    assert arguments_of("bper_plus", {"triplets": "t.parquet"}) == ["t.parquet", "--parts", "speed"]


def test_scripts_import_what_the_package_has() -> None:
    for script in HERE.glob("*.py"):
        for node in ast.walk(ast.parse(script.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("whyrank"):
                module = import_module(node.module)
                for name in (alias.name for alias in node.names):
                    known = hasattr(module, name) or find_spec(f"{node.module}.{name}")
                    assert known, f"{script.name} imports {name} of {node.module}"
