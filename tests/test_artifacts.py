from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from whyrank.atomic import new_file, new_folder
from whyrank.data import Split
from whyrank.errors import ArtifactError
from whyrank.models import POP, load


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
        base = base.base  # type: ignore[assignment]
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
    with pytest.raises(ZeroDivisionError), new_folder(folder) as aside:
        (aside / "half").write_text(str(1 // 0))
    assert (folder / "manifest.json").read_bytes() == before
    (tmp_path / "file").write_text("old")
    with pytest.raises(ZeroDivisionError), new_file(tmp_path / "file") as aside:
        aside.write_text(str(1 // 0))
    assert (tmp_path / "file").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "model"]


def test_a_folder_is_not_written_over_a_file(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(ArtifactError, match="is a file"), new_folder(tmp_path / "taken"):
        pass
    assert (tmp_path / "taken").read_text() == "mine"
