"""What is packed: the wheel and the sdist hold the built page, and a wheel made of the sdist does, without Node."""

from __future__ import annotations

import runpy
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import whyrank

ROOT = Path(whyrank.__file__).parents[2]
pytestmark = pytest.mark.skipif(not (ROOT / "pyproject.toml").is_file(), reason="not run from a source tree")
PAGE = "whyrank/service/page"


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a wheel and an sdist of this tree, with a stand-in for the page that `make page` builds."""
    tree = tmp_path_factory.mktemp("tree")
    for name in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", ".gitignore"):
        shutil.copy(ROOT / name, tree / name)
    shutil.copytree(ROOT / "src", tree / "src", ignore=shutil.ignore_patterns("__pycache__", "page"))
    (tree / "src" / PAGE / "assets").mkdir(parents=True)
    (tree / "src" / PAGE / "index.html").write_text("<script></script>")
    (tree / "src" / PAGE / "assets" / "index-1.js").write_text("1")
    (tree / "src" / "whyrank" / "__pycache__").mkdir()
    (tree / "src" / "whyrank" / "__pycache__" / "x.pyc").write_text("")
    build = [sys.executable, "-m", "hatchling", "build", "--directory", "dist"]
    subprocess.run(build, cwd=tree, check=True, capture_output=True)
    return tree / "dist"


def names_in_wheel(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_the_wheel_holds_the_page_the_word_lists_and_no_caches(packed: Path) -> None:
    (wheel,) = packed.glob("*.whl")
    names = names_in_wheel(wheel)
    assert {f"{PAGE}/index.html", f"{PAGE}/assets/index-1.js", "whyrank/cli/app.py"} <= names
    lists = {each.relative_to(ROOT / "src").as_posix() for each in (ROOT / "src").rglob("*.txt")}
    assert lists <= names
    assert not [name for name in names if "__pycache__" in name or "node_modules" in name]
    assert wheel.name.startswith(f"whyrank-{whyrank.__version__}-py3-none-any")


def test_a_wheel_of_the_sdist_holds_the_page_without_node_or_network(packed: Path, tmp_path: Path) -> None:
    (sdist,) = packed.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        assert any(name.endswith(f"src/{PAGE}/index.html") for name in archive.getnames())
    make = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps", "--no-index"]
    offline = {"PATH": str(tmp_path), "PIP_DISABLE_PIP_VERSION_CHECK": "1", "HOME": str(tmp_path)}
    subprocess.run([*make, "--wheel-dir", tmp_path, sdist], check=True, env=offline)
    (wheel,) = tmp_path.glob("*.whl")
    (direct,) = packed.glob("*.whl")
    assert names_in_wheel(wheel) == names_in_wheel(direct)


def test_scripts_name_tests_that_are_there() -> None:
    named = runpy.run_path(str(ROOT / "scripts" / "compatibility"))["TESTS"].split()
    assert named
    assert [name for name in named if not (ROOT / "tests" / f"test_{name}.py").is_file()] == []
