"""Models of other packages, found by their entry points."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from whyrank.data import Triplets

THEIRS = """
from dataclasses import dataclass
import numpy as np
from whyrank.models.base import Model

@dataclass(kw_only=True, eq=False)
class Theirs(Model):
    id = "theirs"
    summary = "popularity of another package"

    def _fit(self, train, run, validation):
        pass

    def keys(self):
        return np.log1p(self.catalog_.popularity)[:, None].astype(np.float32)

    def queries(self, users, items, mu=None):
        return np.ones((len(users), 1), np.float32)

no_model = "a string"
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Of processes that see an installed distribution with a model, and one whose entry points are of no use."""
    about = tmp_path / "site" / "their_package-1.0.dist-info"
    about.mkdir(parents=True)
    (tmp_path / "site" / "their_package.py").write_text(THEIRS)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: their-package\nVersion: 1.0\n")
    points = ("theirs = their_package:Theirs", "gone = not_installed_at_all:Model", "odd = their_package:no_model")
    (about / "entry_points.txt").write_text("\n".join(["[whyrank.models]", *points]))
    path = [str(tmp_path / "site"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(path)}


def test_a_model_of_an_installed_package_is_compared_saved_and_loaded(
    environment: dict[str, str], tiny: Triplets, tmp_path: Path
) -> None:
    tiny.split(seed=1).write(tmp_path / "split")

    def call(*arguments: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "whyrank", *map(str, arguments)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True)

    compared = call("compare", tmp_path / "split", "--models", "pop,theirs", "--json")
    assert "theirs" in str(json.loads(compared.stdout))
    for point in ("not_installed_at_all", "no_model"):
        assert point in compared.stderr
    call("fit", tmp_path / "split", "--model", "theirs", "-o", tmp_path / "model")
    user, item = tiny.users.ids[0], tiny.items.ids[0]
    assert json.loads(call("explain", tmp_path / "model", "--user", user, "--item", item, "--json").stdout)
