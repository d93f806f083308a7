from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from whyrank.artifacts import MARKER, REPORT, add_report, read_report
from whyrank.atomic import new_file, new_folder
from whyrank.data import Split
from whyrank.errors import ArtifactError
from whyrank.models import BPER, POP, RUCF, Model, Profile, ProfileJ, load


@pytest.fixture
def folder(split: Split, tmp_path: Path) -> Path:
    return POP().fit(split.train).save(tmp_path / "model")


def test_a_manifest_says_where_a_model_comes_from(folder: Path, split: Split) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["model"] == "pop"
    assert manifest["data"] == split.train.digest()
    assert set(manifest["vocabularies"]) == {"users", "items", "explanations"}
    assert all(len(checksum) == 64 for checksum in manifest["files"].values())


def test_a_model_and_what_was_measured_of_it_appear_in_one_step(
    folder: Path, split: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_off(aside: Path, path: Path) -> None:
        raise KeyboardInterrupt

    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    model, report = BPER(epochs=1).fit(split.train), {"training": [{"epoch": 1, "loss": 0.5}]}
    with monkeypatch.context() as patch:
        patch.setattr("whyrank.atomic._swap_in", cut_off)
        with pytest.raises(KeyboardInterrupt):
            model.save(folder, report)
    assert {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()} == before
    assert read_report(model.save(folder, report) / REPORT) == report


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


def test_saving_over_a_model_replaces_it_whole_and_keeps_what_is_not_ours(folder: Path, split: Split) -> None:
    (folder / "notes").mkdir()
    (folder / "notes" / "why.md").write_text("mine")
    (folder / "empty").mkdir()
    (folder / "link").symlink_to("nowhere")
    (folder / "metrics.json").write_text("{}")
    (folder / "arrays" / "model.old.npy").write_bytes(b"ours, of another model")
    folder.chmod(0o750)
    (folder / "manifest.json").chmod(0o600)
    POP().fit(split.train).save(folder)
    load(folder)
    assert (folder / "notes" / "why.md").read_text() == "mine"
    assert (folder / "empty").is_dir()
    assert (folder / "link").readlink() == Path("nowhere")
    assert not (folder / "metrics.json").exists()
    assert not (folder / "arrays" / "model.old.npy").exists()
    assert [each.stat().st_mode & 0o777 for each in (folder, folder / "manifest.json")] == [0o750, 0o600]
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


FOREIGN = {
    "manifest.json": [
        '{"name": "a web application"}',
        '{"kind": "app", "format": 3, "files": {"index.html": "0"}}',
        "[",
    ],
    "split.json": ['{"splits": ["left", "right"]}', '{"splits": []}'],
    "mining.json": ['{"rules": {"gold": 1}, "format": 1}'],
    "export.json": ['{"width": 4}', '{"width": [4], "explanations": 3}'],
    "IDs.txt": ["17\n18\n", "a::b"],
    "IDs.pickle": ["not one"],
}


@pytest.mark.parametrize(("name", "content"), [(name, text) for name in FOREIGN for text in FOREIGN[name]])
def test_a_folder_of_somebody_else_is_left_alone_whatever_its_files_are_called(
    split: Split, tmp_path: Path, name: str, content: str
) -> None:
    from whyrank.data import write
    from whyrank.explain.export import export
    from whyrank.mining import mine

    (tmp_path / name).write_text(content)
    (tmp_path / "index.html").write_text("<p>")
    reviews = pl.DataFrame({"user": list("abcde"), "item": list("xyxyx"), "text": ["The bed was comfortable."] * 5})
    writers = {
        "manifest.json": lambda: POP().fit(split).save(tmp_path),
        "split.json": lambda: split.write(tmp_path),
        "mining.json": lambda: mine(reviews).write(tmp_path),
        "export.json": lambda: export(BPER(epochs=1).fit(split), tmp_path),
        "IDs.txt": lambda: write(split.data, tmp_path, "extra"),
        "IDs.pickle": lambda: write(split.data, tmp_path, "extra"),
    }
    with pytest.raises(ArtifactError, match="would be lost"):
        writers[name]()
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {name: content, "index.html": "<p>"}


def test_every_kind_of_folder_gives_way_to_its_own_kind_and_keeps_notes(split: Split, tmp_path: Path) -> None:
    from whyrank.data import write
    from whyrank.explain.export import export
    from whyrank.mining import mine
    from whyrank.plugins import reader_of

    reviews = pl.DataFrame({"user": list("abcde"), "item": list("xyxyx"), "text": ["The bed was comfortable."] * 5})
    writers = {
        "split": lambda path: split.write(path),
        "mined": lambda path: mine(reviews).write(path),
        "export": lambda path: export(BPER(epochs=1).fit(split), path),
        "extra": lambda path: write(split.data, path),
        "text": lambda path: write(split.data, path, "extra-text"),
    }
    for name, written in writers.items():
        for _ in range(2):
            written(tmp_path / name)
            (tmp_path / name / "notes").write_text("mine")
        files = {path.name for path in (tmp_path / name).iterdir()}
        written(tmp_path / name)
        assert {path.name for path in (tmp_path / name).iterdir()} == files
    write(split.data, tmp_path / "extra", "extra-text")  # the pickle of before would be read instead
    assert sorted(path.name for path in (tmp_path / "extra").iterdir()) == ["IDs.txt", "id2exp.txt", "notes"]
    assert reader_of(tmp_path / "extra")
    (tmp_path / "extra" / "1").mkdir()
    (tmp_path / "extra" / "1" / "train.index").write_text("0 1")
    with pytest.raises(ArtifactError, match="splits of other records"):
        write(split.data, tmp_path / "extra")


def test_a_new_file_keeps_mode_and_links_of_the_old_one(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    target, link = tmp_path / "real" / "file", tmp_path / "link"
    target.write_text("old")
    target.chmod(0o600)
    link.symlink_to("real/file")
    with new_file(link) as aside:
        aside.write_text("new")
    assert link.is_symlink()
    assert (target.read_text(), target.stat().st_mode & 0o777) == ("new", 0o600)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "link", "real"]


def test_a_pipe_and_a_device_are_written_to_and_stay_what_they_are(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with new_file(pipe) as aside:
            aside.write_text("through it")
        assert os.read(reader, 100) == b"through it"
    finally:
        os.close(reader)
    assert pipe.is_fifo()
    with new_file(os.devnull) as aside:
        aside.write_text("gone")
    assert Path(os.devnull).is_char_device()
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]
