"""Models, encoders, templates and languages of other packages, found by their entry points."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import whyrank as wr
from whyrank.data import Split, Triplets
from whyrank.errors import DataError, ParameterError
from whyrank.text import find_weights

THEIRS = """
from dataclasses import dataclass
import numpy as np
from whyrank.models.base import Model

@dataclass(kw_only=True, eq=False)
class Theirs(Model):
    id = "theirs"
    summary = "popularity of another package"
    spaces = {"grid": {"power": [0.5, 1.0]}}
    power: float = 1.0

    def _fit(self, train, run, validation):
        pass

    def keys(self):
        return (np.log1p(self.catalog_.popularity) ** self.power)[:, None].astype(np.float32)

    def queries(self, users, items, mu=None):
        return np.ones((len(users), 1), np.float32)

no_model = "a string"
"""
OTHERS = """
from pathlib import Path

HERE = Path(__file__).parent

def encoder():
    return HERE / "encoder"

templates = str(HERE / "guests.json")

hotels = HERE / "hotels"

def broken():
    raise RuntimeError("no word lists")

def wrong():
    return "English"
"""
POINTS = """
[whyrank.models]
theirs = their_package:Theirs
gone = not_installed_at_all:Model
odd = their_package:no_model
[whyrank.encoders]
small = their_words:encoder
gone = not_installed_at_all:folder
[whyrank.templates]
guests = their_words:templates
[whyrank.languages]
hotels = their_words:hotels
broken = their_words:broken
wrong = their_words:wrong
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder of installed packages: one adds something of every kind, and some of it is of no use."""
    site = tmp_path / "site"
    about = site / "their_package-1.0.dist-info"
    (site / "encoder").mkdir(parents=True)
    (site / "hotels").mkdir()
    (site / "hotels" / "aspects.txt").write_text("bed: linen pillow\n")
    about.mkdir()
    (site / "their_package.py").write_text(THEIRS)
    (site / "their_words.py").write_text(OTHERS)
    (site / "guests.json").write_text('{"people": ["guest", "guests"]}')
    for name in ("config.json", "model.safetensors"):
        (site / "encoder" / name).write_text("{}")
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: their-package\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(POINTS)
    return site


@pytest.fixture
def environment(site: Path) -> dict[str, str]:
    """Of processes that see the installed package."""
    path = [str(site), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(path)}


@pytest.fixture
def installed(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process sees the installed package."""
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.delitem(sys.modules, "their_words", raising=False)


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


def test_a_model_of_a_package_that_is_imported_first_is_known_and_loaded(
    environment: dict[str, str], tiny: Triplets, tmp_path: Path
) -> None:
    """The package imports ours before its own class is defined."""
    tiny.write(tmp_path / "data.parquet")
    program = f"""
from their_package import Theirs
import whyrank as wr
Theirs().fit(wr.read({str(tmp_path / "data.parquet")!r})).save({str(tmp_path / "model")!r})
assert isinstance(wr.load({str(tmp_path / "model")!r}), Theirs)
assert wr.MODELS["theirs"] is Theirs
"""
    run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert "their_package:Theirs" not in run.stderr  # nothing is left out


def test_a_model_of_an_installed_package_is_tuned_in_the_space_that_it_declares(
    environment: dict[str, str], split: Split, tmp_path: Path
) -> None:
    pytest.importorskip("optuna")
    split.write(tmp_path / "split")
    given = (tmp_path / "split", "--model", "theirs", "--sampler", "grid", "-o", tmp_path / "best.json")
    command = [sys.executable, "-m", "whyrank", "tune", *map(str, given)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert json.loads((tmp_path / "best.json").read_text())["parameters"]["power"] in (0.5, 1.0)


@pytest.mark.usefixtures("installed")
def test_an_encoder_of_an_installed_package_is_found_by_its_name(site: Path) -> None:
    assert find_weights("small").folder == site / "encoder"
    with pytest.raises(ParameterError, match=r"encoder 'gone' of an installed package .* cannot be used"):
        find_weights("gone")
    with pytest.raises(ParameterError, match="use 'minilm', 'gone', 'small', a folder"):
        find_weights("no such!")


@pytest.mark.usefixtures("installed")
def test_templates_of_an_installed_package_are_found_by_their_name_and_files_come_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert wr.Templates.read("guests").settings["people"] == ["guest", "guests"]
    Path("guests").write_text('{"people": ["diner", "diners"]}')
    assert wr.Templates.read("guests").settings["people"] == ["diner", "diners"]
    with pytest.raises(DataError, match="not readable"):
        wr.Templates.read("strangers")


@pytest.mark.usefixtures("installed")
def test_a_language_of_an_installed_package_reads_reviews() -> None:
    texts = ["The linen was soft.", "The pillow was soft.", "The linen is soft and the staff was friendly."] * 4
    rows = {"user": [f"u{n}" for n in range(12)], "item": ["inn", "spa"] * 6, "text": texts}
    given = {"min_count": 2, "min_items": 1, "english": 0.0}
    plain, hotels = (wr.mine(pl.DataFrame(rows), **given, **more) for more in ({}, {"language": "hotels"}))
    assert {"linen", "pillow"} <= set(plain.explanations["aspect"])
    assert {"bed", "staff"} <= set(hotels.explanations["aspect"])
    assert not {"linen", "pillow"} & set(hotels.explanations["aspect"])
    assert hotels.summary()["rules"]["language"] == "hotels"  # type: ignore[index]
    for name, problem in {
        "nowhere": "there are en, broken",
        "broken": "no word lists",
        "wrong": "there is no language 'wrong'",
    }.items():
        with pytest.raises(ParameterError, match=problem):
            wr.mine(pl.DataFrame(rows), language=name)
