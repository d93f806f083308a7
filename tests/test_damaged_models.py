"""Model folders whose structure is damaged, checksums put right: refused with an error of ours, for every model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from whyrank.data import Split
from whyrank.errors import ArtifactError
from whyrank.models import MODELS, Model, load

QUICK: dict[str, dict[str, object]] = {
    name: {"epochs": 1, "factors": 3} for name in ("cd", "pitf", "bper", "cd-j", "pitf-j", "bper-j", "bpr", "profile")
}
QUICK["profile-j"] = {"epochs": 1, "item_epochs": 1, "factors": 3}
QUICK["rucf"] = QUICK["ricf"] = {"neighbours": 3}


@pytest.fixture(scope="module", params=sorted(MODELS))
def model(request: pytest.FixtureRequest, split: Split) -> Model:
    settings = QUICK.get(request.param, {})
    if request.param == "bper+":
        features = np.random.default_rng(0).normal(size=(len(split.data.explanations), 5))
        settings = {"epochs": 1, "factors": 3, "features": features, "dimensions": 4, "fusion": "gate"}
    return MODELS[request.param](**settings).fit(split)


@pytest.fixture
def folder(model: Model, tmp_path: Path) -> Path:
    return model.save(tmp_path / "model")


def rewrite(folder: Path, name: str, write: Callable[[Path], object]) -> None:
    """Change a file and put its checksum right."""
    file = folder / name
    file.unlink()
    write(file)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"][name] = hashlib.sha256(file.read_bytes()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest))


DAMAGES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "a row too few": lambda array: array[1:],
    "no row": lambda array: array[:0],
    "a row too many": lambda array: np.concatenate([array, array[:1]]),
    "a column too few": lambda array: array[..., :-1],
    "a dimension too many": lambda array: array[..., None],
    "a dimension too few": lambda array: array.reshape(-1) if array.ndim > 1 else array.sum(),
    "other numbers": lambda array: array.astype(np.float64 if array.dtype != np.float64 else np.float32),
    "whole numbers": lambda array: array.astype(np.int64),
}


def test_every_learned_array_has_a_shape(model: Model) -> None:
    assert set(model.shapes()) == set(model.fitted)
    for name, shape in model.shapes().items():
        array = getattr(model, f"{name}_")
        assert len(shape) == array.ndim
        assert all(wanted in (None, size) for wanted, size in zip(shape, array.shape, strict=True)), name


@pytest.mark.parametrize("damage", DAMAGES)
def test_arrays_of_another_shape_are_refused(model: Model, folder: Path, damage: str) -> None:
    for name in model.fitted:
        array = getattr(model, f"{name}_")
        changed = DAMAGES[damage](array)
        free = len(model.shapes()[name]) == changed.ndim == 1 and model.shapes()[name][0] is None
        if (changed.shape, changed.dtype) == (array.shape, array.dtype) or (free and changed.dtype == array.dtype):
            continue  # what an encoder says of itself has any length, and nothing is looked up in it
        rewrite(folder, f"arrays/model.{name}.npy", lambda file, changed=changed: np.save(file, changed))
        with pytest.raises(ArtifactError, match=r"does not hold what|as whyrank writes"):
            load(folder)
        rewrite(folder, f"arrays/model.{name}.npy", lambda file, array=array: np.save(file, array))
    load(folder)


STRANGE: list[Any] = [[], None, -1, "x", {"a": []}, 2**70]


def places(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something can be put into a document."""
    for key in document if isinstance(document, dict) else ():
        yield (*path, key)
        yield from places(document[key], (*path, key))


def test_a_manifest_of_another_structure_is_refused_or_makes_no_difference(model: Model, folder: Path) -> None:
    whole = json.loads((folder / "manifest.json").read_text())
    refused = 0
    of_files = [path for path in places(whole) if path[0] == "files"][2:]  # all alike: one is enough
    for path in (path for path in places(whole) if path not in of_files):
        for value in STRANGE:
            changed = json.loads(json.dumps(whole))
            inside = changed
            for key in path[:-1]:
                inside = inside[key]
            inside[path[-1]] = value
            (folder / "manifest.json").write_text(json.dumps(changed))
            try:
                load(folder)
            except ArtifactError:
                refused += 1
    assert refused >= 5 * len(STRANGE)


def test_tables_of_another_structure_are_refused(model: Model, folder: Path) -> None:
    for name in ("users", "items", "explanations"):
        whole = pl.read_ipc((folder / f"tables/{name}.arrow").read_bytes())
        ids = whole["id"]
        damaged = [
            whole.rename({"id": "name"}),
            whole.select(id=pl.int_range(pl.len())),
            whole.with_columns(id=pl.lit(None, pl.String)),
            whole.with_columns(id=pl.lit(ids[0])),
            whole.with_columns(id=pl.concat_list("id")),
            whole.head(1),
            whole.head(0),
            pl.concat([whole, whole.head(1).with_columns(id=pl.lit("one more"))]),
            pl.DataFrame(),
        ]
        for table in damaged:
            rewrite(folder, f"tables/{name}.arrow", table.write_ipc)
            with pytest.raises(ArtifactError):
                load(folder)
        rewrite(folder, f"tables/{name}.arrow", whole.write_ipc)
    load(folder)


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_a_compressed_table_is_refused_before_it_is_read(folder: Path, compression: str) -> None:
    whole = pl.read_ipc((folder / "tables/users.arrow").read_bytes())
    several = pl.concat([whole, whole.with_columns(pl.col("id") + "'s twin")], rechunk=False)
    for table in (whole, several, whole.with_columns(pl.col("id").cast(pl.Categorical))):
        rewrite(folder, "tables/users.arrow", partial(table.write_ipc, compression=compression))
        with pytest.raises(ArtifactError, match="is compressed"):
            load(folder)


def test_arrays_and_tables_that_are_not_listed_are_refused(folder: Path) -> None:
    whole = json.loads((folder / "manifest.json").read_text())
    # Without them as in models that know no times, and count records.
    optional = ("people.latest", "people.supporting")
    for name in whole["files"]:
        if any(each in name for each in optional):
            continue
        files = {each: checksum for each, checksum in whole["files"].items() if each != name}
        (folder / "manifest.json").write_text(json.dumps(whole | {"files": files}))
        with pytest.raises(ArtifactError):
            load(folder)


def test_counts_below_nothing_are_refused(folder: Path) -> None:
    files = [file.name for file in (folder / "arrays").glob("catalog.*.npy")]
    names = [f"arrays/{name}" for name in files if "counts" in name or "supporting" in name]
    assert "arrays/catalog.user_explanations.counts.npy" in names
    for name in names:
        array = np.load(folder / name)
        if not len(array):
            continue
        damaged = array.copy()
        damaged[len(damaged) // 2] = -900
        rewrite(folder, name, lambda file, damaged=damaged: np.save(file, damaged))
        with pytest.raises(ArtifactError):
            load(folder)
        rewrite(folder, name, lambda file, array=array: np.save(file, array))
    assert load(folder).id
