"""The shape of the package: who imports whom, what is exported, and how light it is."""

from __future__ import annotations

import ast
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import whyrank

SOURCE = Path(whyrank.__file__).parent
ROOT = SOURCE.parent.parent
SCRIPT: dict[str, Any] = runpy.run_path(str(ROOT / "scripts" / "architecture"))
PACKAGES: list[str] = SCRIPT["PACKAGES"]
ALWAYS = {"errors", "version", "atomic", "places", "parent", "plugins", "thread_pool", "locks", "render"}
KERNELS = {"compile", "rng", "simd"}
ALWAYS |= KERNELS
HEAVY = ("torch", "transformers", "ray", "starlette", "uvicorn", "matplotlib", "optuna", "numba", "polars", "numpy")


def imports(code: str) -> set[str]:
    """The packages that a module names in its imports, wherever they stand."""
    return set(SCRIPT["packages_of"](code, whyrank._HOME_OF))


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_imports_only_the_packages_before_it(package: str) -> None:
    allowed = ALWAYS | set(PACKAGES[: PACKAGES.index(package) + 1])
    for path in (SOURCE / package).rglob("*.py"):
        found = imports(path.read_text())
        assert found <= allowed, f"{path.relative_to(SOURCE)} imports {found - allowed}"


def test_every_folder_of_code_is_a_package_of_the_list() -> None:
    assert {path.parent.name for path in SOURCE.glob("*/__init__.py")} == set(PACKAGES)


def test_kernels_import_kernels_only() -> None:
    for path in [path for path in SOURCE.rglob("_*.py") if not path.name.startswith("__")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("whyrank."):
                used = [str(node.module).rpartition(".")[2], *(name.name for name in node.names)]
                fit = {*KERNELS, "csr"}  # a tuple of arrays
                assert any(name.startswith("_") or name in fit for name in used), f"{path.name}: {node.module}"


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("from whyrank import artifacts, errors", {"artifacts", "errors"}),
        ("from whyrank import evaluate", {"evaluation"}),
        ("from whyrank import simulate as made", {"lab"}),
        ("def f():\n    from whyrank.data.csr import CSR", {"data"}),
        ("import whyrank.cli.app", {"cli"}),
        ("import whyrank as wr", {"whyrank"}),
        ("import numpy", set()),
    ],
)
def test_every_form_of_import_is_seen(code: str, found: set[str]) -> None:
    assert imports(code) == found


def test_the_picture_of_the_packages_is_that_of_the_imports() -> None:
    assert SCRIPT["PICTURE"].read_text(encoding="utf-8") == SCRIPT["drawing"](), "run scripts/architecture"


def test_the_page_of_options_is_that_of_their_declarations() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "options"))
    assert script["PAGE"].read_text(encoding="utf-8") == script["page"](), "run scripts/options"


# -- the map of docs/architecture.md -----------------------------------------------------------------------------------


def rows_of_the_map() -> dict[str, list[str]]:
    """What somebody wants to do -> the files to open."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    part = page.partition("## I want to")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("| ")][1:]
    return {wish: re.findall(r"`([\w./-]+\.\w+)`", files) for wish, files in rows}


def test_the_map_names_files_that_are_there_and_four_at_most() -> None:
    rows = rows_of_the_map()
    assert len(rows) == 11
    for wish, files in rows.items():
        assert 1 <= len(files) <= 4, wish
        for file in files:
            assert (SOURCE / file).is_file() or (ROOT / file).is_file(), f"{wish}: {file}"


FLAT = """
from dataclasses import dataclass
from whyrank.models.simple import POP

@dataclass(kw_only=True, eq=False)
class Flat(POP):
    id = "flat"
    summary = "all the same"
"""


ASK = """
import gc, json, typer
from whyrank.cli import commands
from whyrank.cli.app import app
from whyrank.models import MODELS
from whyrank.service.app import declared
from whyrank.service.openapi import document
from whyrank.service.settings import Settings
explain = typer.main.get_command(app).commands["explain"]
flags = [flag for each in explain.params for flag in each.opts]
schemas = document(declared(Settings()))["components"]["schemas"]
option = schemas["PairsRequest"]["properties"]["loudness"]
print(json.dumps({"summary": MODELS["flat"].summary, "flags": flags, "option": option}))
gc.freeze()
"""


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a copy of the sources says after a model and an option were added in the files that the map names."""
    tree, rows = tmp_path_factory.mktemp("src") / "whyrank", rows_of_the_map()
    shutil.copytree(SOURCE, tree, ignore=shutil.ignore_patterns("page", "*.nb?"))

    def edit(file: str, old: str, new: str) -> None:
        text = (tree / file).read_text(encoding="utf-8")
        assert text.count(old) == 1, (file, old)
        (tree / file).write_text(text.replace(old, new), encoding="utf-8")

    register, before = rows["add a model"][1], "from whyrank.models.learned"
    (tree / "models" / "flat.py").write_text(FLAT)
    edit(register, before, f"from whyrank.models.flat import Flat\n{before}")
    edit(register, "*(Profile, ProfileJ),", "*(Profile, ProfileJ, Flat),")
    field, before = 'option(1.0, "number", "How loud.", at_least=0, at_most=11)', "    per_aspect: int = option(\n"
    edit(rows["add an option"][0], before, f"    loudness: float = {field}\n{before}")
    environment = os.environ | {"PYTHONPATH": str(tree.parent)}
    done = subprocess.run([sys.executable, "-c", ASK], env=environment, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_model_is_added_in_the_files_that_the_map_names(extended: dict[str, Any]) -> None:
    assert extended["summary"] == "all the same"


def test_an_option_is_added_in_the_files_that_the_map_names(extended: dict[str, Any]) -> None:
    assert "--loudness" in extended["flags"]
    assert (extended["option"]["description"], extended["option"]["maximum"]) == ("How loud.", 11)


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = f"import sys, whyrank; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom whyrank.cli import main\ntry:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_every_public_name_is_there() -> None:
    for name in whyrank.__all__:
        assert getattr(whyrank, name) is not None
    with pytest.raises(AttributeError):
        whyrank.nothing  # noqa: B018


def test_no_requirement_is_said_twice() -> None:
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
    said = [each for extra in project["optional-dependencies"].values() for each in extra] + project["dependencies"]
    names = Counter(re.split(r"[<>=\[]", each)[0] for each in said)
    assert [name for name, times in names.items() if times > 1 and name != "whyrank"] == []


def test_a_class_name_means_one_thing() -> None:
    places: dict[str, list[str]] = {}
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(str(file.relative_to(SOURCE)))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}
