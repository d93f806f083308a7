"""What the README shows runs as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_the_python_of_the_readme_runs(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    for block in blocks:
        done = subprocess.run([sys.executable, "-c", block], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_every_command_of_the_readme_exists_and_every_link_leads_somewhere() -> None:
    from whyrank.cli import commands  # noqa: F401 - registers the commands
    from whyrank.cli.app import app

    text = README.read_text(encoding="utf-8")
    known = {command.name for command in app.registered_commands} | {group.name for group in app.registered_groups}
    assert set(re.findall(r"^whyrank ([a-z]+)", text, re.MULTILINE)) <= known
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert target.startswith("http") or (README.parent / target).exists(), target
