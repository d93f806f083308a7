from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whyrank.artifacts import MARKER, REPORT, add_report, read_report
from whyrank.atomic import new_file, new_folder
from whyrank.data import Split
from whyrank.errors import ArtifactError
from whyrank.models import POP, RUCF, Model, Profile, ProfileJ, load


@pytest.fixture
def folder(split: Split, tmp_path: Path) -> Path:
    return POP().fit(split.train).save(tmp_path / "model")


def test_a_manifest_says_where_a_model_comes_from(folder: Path, split: Split) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["model"] == "pop"
    assert manifest["data"] == split.train.digest()
    assert set(manifest["vocabularies"]) == {"users", "items", "explanations"}
    assert all(len(checksum) == 64 for checksum in manifest["files"].values())


def test_arrays_are_memory_mapped(folder: Path) -> None:
    popularity = load(folder).catalog_.popularity
    base = popularity
    while base is not None and not isinstance(base, np.memmap):
        base = base.base
    assert isinstance(base, np.memmap)


def test_every_damaged_file_is_refused(folder: Path) -> None:
    for file in sorted(folder.rglob("*.*")):
        content = file.read_bytes()
        for damaged in (content[: len(content) // 2], content[:-1] + bytes([content[-1] ^ 1]), b""):
            file.write_bytes(damaged)
            with pytest.raises(ArtifactError):
                load(folder)
        file.unlink()
        with pytest.raises(ArtifactError):
            load(folder)
        file.write_bytes(content)
    load(folder)


@pytest.mark.parametrize(
    "change",
    [
        {"format": 99},
        {"kind": "split"},
        {"model": "oracle"},
        {"files": {"../../etc/passwd": "0"}},
        {"files": {}},
        {"parameters": {"factors": 7}},
    ],
)
def test_an_edited_manifest_is_refused(folder: Path, change: dict[str, object]) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | change))
    with pytest.raises(ArtifactError):
        load(folder)


UNFIT = {
    "short": (RUCF(), "least", lambda array: array[1:]),
    "short inputs": (Profile(epochs=1, factors=2), "user_inputs", lambda array: array[1:]),
    "short items": (ProfileJ(epochs=1, item_epochs=1, factors=2), "item_by_item_inputs", lambda array: array[1:]),
    "few strengths": (Profile(epochs=1, factors=2), "strengths", lambda array: array[:5]),
    "endless strengths": (Profile(epochs=1, factors=2), "strengths", lambda array: array + 1e4),
    "other order": (Profile(epochs=1, factors=2), "item_inputs", np.asfortranarray),
    "other bytes": (Profile(epochs=1, factors=2), "vectors", lambda array: array.astype(">f4")),
}


@pytest.mark.parametrize(("model", "name", "change"), UNFIT.values(), ids=UNFIT)
def test_arrays_that_kernels_would_stumble_over_are_refused(
    split: Split, tmp_path: Path, model: Model, name: str, change: Callable[[Any], Any]
) -> None:
    folder = model.fit(split).save(tmp_path / "model")
    manifest = json.loads((folder / "manifest.json").read_text())
    file = folder / f"arrays/model.{name}.npy"
    np.save(file, change(np.load(file)))
    manifest["files"][f"arrays/{file.name}"] = hashlib.sha256(file.read_bytes()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ArtifactError, match=r"does not hold what|as whyrank writes"):
        load(folder)


def test_a_missing_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="is not a saved model"):
        load(tmp_path / "nothing")


def test_saving_over_a_model_replaces_it_whole(folder: Path, split: Split) -> None:
    (folder / "left over").write_text("from before")
    POP().fit(split.train).save(folder)
    assert not (folder / "left over").exists()
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


def test_a_failed_write_leaves_the_old_one_and_no_debris(folder: Path, tmp_path: Path) -> None:
    before = (folder / "manifest.json").read_bytes()
    with pytest.raises(ZeroDivisionError), new_folder(folder, MARKER) as aside:
        (aside / "half").write_text(str(1 // 0))
    assert (folder / "manifest.json").read_bytes() == before
    (tmp_path / "file").write_text("old")
    with pytest.raises(ZeroDivisionError), new_file(tmp_path / "file") as aside:
        aside.write_text(str(1 // 0))
    assert (tmp_path / "file").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "model"]


def test_a_folder_is_not_written_over_a_file(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(ArtifactError, match="is a file"), new_folder(tmp_path / "taken", MARKER):
        pass
    assert (tmp_path / "taken").read_text() == "mine"


def test_a_report_grows_part_by_part_and_leaves_the_model_alone(folder: Path) -> None:
    add_report(folder, {"training": [{"epoch": 1, "loss": float("nan")}]})
    file = add_report(folder, {"strata": [{"stratum": "1 to 2 times", "ndcg": 0.5}]})
    assert file == folder / REPORT
    assert read_report(file) == {
        "training": [{"epoch": 1, "loss": None}],
        "strata": [{"stratum": "1 to 2 times", "ndcg": 0.5}],
    }
    add_report(folder, {"training": []})
    assert read_report(file)["training"] == []
    load(folder)


def test_a_report_that_was_edited_is_refused_and_one_by_hand_is_read(folder: Path, tmp_path: Path) -> None:
    file = add_report(folder, {"evaluation": {"k": 10}})
    file.write_text(file.read_text().replace("10", "11"))
    with pytest.raises(ArtifactError, match="checksum differs"):
        read_report(file)
    file.write_text('{"evaluation": {"k": 11}}')
    assert read_report(file) == {"evaluation": {"k": 11}}
    for text in ("[1]", "{", "\xff"):
        file.write_bytes(text.encode("latin-1"))
        with pytest.raises(ArtifactError):
            read_report(file)
    with pytest.raises(ArtifactError, match="not a saved model"):
        add_report(tmp_path / "nowhere", {})


def test_a_folder_with_a_manifest_of_somebody_else_is_left_alone(split: Split, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"name": "a web application"}')
    (tmp_path / "index.html").write_text("<p>")
    with pytest.raises(ArtifactError, match="would be lost"):
        POP().fit(split).save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index.html", "manifest.json"]
