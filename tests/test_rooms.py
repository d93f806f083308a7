"""The shape of the package: who imports whom, what is exported, and how light it is."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest

import whyrank

SOURCE = Path(whyrank.__file__).parent
# A room may import itself and the rooms to its left.
ROOMS = ["kernels", "data", "mining", "text", "artifacts", "ranking", "training", "models"]
ROOMS += ["evaluation", "online", "experiments", "cluster", "service", "cli"]
ALWAYS = {"errors", "version", "atomic", "places", "parent", "thread_pool", "locks", "render"}
HEAVY = ("torch", "transformers", "ray", "fastapi", "uvicorn", "matplotlib", "optuna", "numba", "polars", "numpy")


def imports(path: Path) -> set[str]:
    """The rooms that a module names in its imports, wherever they stand."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        found |= {name.split(".")[1] for name in names if name.startswith("whyrank.")}
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_knows_only_the_rooms_to_its_left(room: str) -> None:
    allowed = ALWAYS | set(ROOMS[: ROOMS.index(room) + 1])
    for path in (SOURCE / room).rglob("*.py"):
        assert imports(path) <= allowed, f"{path.relative_to(SOURCE)} imports {imports(path) - allowed}"


def test_kernels_know_no_other_room() -> None:
    for path in (SOURCE / "kernels").glob("*.py"):
        assert imports(path) <= {"kernels", "places"}, path.name


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
