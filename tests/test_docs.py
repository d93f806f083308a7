"""What the documentation shows runs as it stands there, and every link leads somewhere."""

from __future__ import annotations

import ast
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import pytest
import typer

import whyrank as wr
from needs import module
from whyrank.cli import commands, main  # noqa: F401 - registers the commands
from whyrank.cli.app import app
from whyrank.data.tables import write_table

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"(?:^<!-- not run: (?P<why>[^\n]+) -->\n)?^```(?P<kind>\w*)\n(?P<code>.*?)^```$", re.M | re.S)


class Block(NamedTuple):
    """A piece of code on a page."""

    kind: str
    code: str
    skipped: str | None  # why it is not run


def blocks(page: Path) -> list[Block]:
    found = FENCE.finditer(page.read_text(encoding="utf-8"))
    return [Block(each["kind"], each["code"], each["why"]) for each in found]


def shell_lines(code: str) -> Iterator[list[str]]:
    """The words of every command, without comments."""
    for line in code.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words:
            yield words


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What pages may take for granted: some reviews and triplets."""
    folder = tmp_path_factory.mktemp("samples")
    sizes = {"users": 90, "items": 30, "records": 900}
    write_table(wr.simulate("small", seed=0, **sizes).frame(), folder / "triplets.parquet")
    write_table(wr.simulate_reviews("small", seed=0, **sizes), folder / "reviews.jsonl.gz")
    return folder


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_of_a_page_runs_from_top_to_bottom(
    page: Path, samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in samples.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "page"}
    monkeypatch.setitem(sys.modules, "page", type(sys)("page"))
    for block in blocks(page):
        if block.skipped or block.kind not in ("python", "sh"):
            continue
        if block.kind == "python":
            exec(compile(block.code, page.name, "exec"), names)
            continue
        for words in shell_lines(block.code):
            assert words[0] == "whyrank", f"{page.name}: mark it as not run: {words}"
            with pytest.raises(SystemExit) as ended:
                main(words[1:])
            assert ended.value.code == 0, words


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_and_option_of_a_page_exists(page: Path) -> None:
    root = typer.main.get_command(app)
    for block in blocks(page):
        for words in shell_lines(block.code) if block.kind == "sh" else ():
            if words[0] != "whyrank":
                continue
            command, rest = root, words[1:]
            while isinstance(command, click.Group) or hasattr(command, "commands"):
                assert rest, words
                assert rest[0] in command.commands, f"{page.name}: {words}"
                command, rest = command.commands[rest[0]], rest[1:]
            known = {option for each in command.params for option in (*each.opts, *each.secondary_opts)}
            asked = {word.partition("=")[0] for word in rest if re.match(r"--?[a-zA-Z]", word)}
            assert asked <= known | {"--help"}, f"{page.name}: {words}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)#\s]+)", text):
        assert target.startswith("http") or (page.parent / target).exists(), target


def test_the_notebook_runs_and_shows_what_it_stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = json.loads((ROOT / "docs" / "notebook.ipynb").read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] for cell in cells), "run scripts/notebook"
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "notebook"}
    for cell in cells[:6]:  # the last one measures times, which differ
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop()
        exec(compile(tree, "cell", "exec"), names)
        assert isinstance(last, ast.Expr)
        shown = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
        assert shown._repr_html_() == "".join(cell["outputs"][0]["data"]["text/html"]), "run scripts/notebook"


def test_few_blocks_are_not_run_and_each_says_why() -> None:
    runnable = [block for page in PAGES for block in blocks(page) if block.kind in ("python", "sh")]
    assert sum(block.skipped is not None for block in runnable) <= 14
    assert sum(block.skipped is None for block in runnable) >= 10


@pytest.mark.slow
def test_the_site_builds_without_warnings_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    for name in ("mkdocs", "material", "mkdocstrings"):
        module(name, "docs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for page in (tmp_path / "site").rglob("*.html"):
        loaded = re.findall(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=\"?(https?:)?//", page.read_text())
        assert not loaded, page.name


def test_the_ways_of_the_architecture_name_what_is_there() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    steps = re.findall(r"^([\w/]+\.py): (\w+)", page.partition("## Four ways")[2].partition("\n## ")[0], re.M)
    assert len(steps) > 30
    for file, name in steps:
        code = (ROOT / "src" / "whyrank" / file).read_text(encoding="utf-8")
        assert re.search(rf"^(?:async )?(?:def|class) {name}\b", code, re.M), f"{file} has no {name}"
