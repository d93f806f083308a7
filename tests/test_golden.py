"""Folders that version 0.1.0 wrote (format 1) load and rank as they did then.

Arrays stand here as text and are written by a writer of this file's own, so that a change of ours cannot change both.
"""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import whyrank as wr
from whyrank.data import read_split

INTEGERS = {
    "catalog.item_explanations.indptr": ("<i8", "0 2 4"),
    "catalog.item_explanations.indices": ("<i4", "0 1 2 3"),
    "catalog.item_explanations.counts": ("<i4", "1 2 1 1"),
    "catalog.user_explanations.indptr": ("<i8", "0 2 4 5"),
    "catalog.user_explanations.indices": ("<i4", "0 1 1 3 2"),
    "catalog.user_explanations.counts": ("<i4", "1 1 1 1 1"),
    "catalog.user_items.indptr": ("<i8", "0 1 3 4"),
    "catalog.user_items.indices": ("<i4", "0 0 1 1"),
    "catalog.user_items.counts": ("<i4", "1 1 1 1"),
    "catalog.popularity": ("<i8", "1 2 1 1"),
}
FLOATS = {
    "catalog.mean_rating": "5.0 4.5 1.0 2.0",
    "model.user_factors": "0.056335 0.080367; 0.097970 0.028473; 0.033484 0.010992",
    "model.item_factors": "-0.023638 -0.003471; -0.064001 0.059352",
    "model.explanation_by_user": "0.035016 -0.094560; 0.101484 0.100989; 0.062483 0.092765; -0.075022 -0.080933",
    "model.explanation_by_item": "0.018325 0.087523; -0.086128 -0.022441; -0.017523 0.032501; -0.030629 -0.005314",
    "model.user_bias": "-0.005007 0.034076 -0.009802 -0.019265",
    "model.item_bias": "-0.015110 0.039363 -0.014585 -0.009669",
}
TABLES = {
    "users": {"id": ["ann", "bob", "cat"]},
    "items": {"id": ["inn", "spa"]},
    "explanations": {
        "id": ["clean", "quiet", "rude", "warm"],
        "text": ["Clean", "Quiet rooms", "Rude staff", "Warm water"],
    },
}
MANIFEST = {
    "format": 1,
    "kind": "model",
    "model": "bper",
    "parameters": {
        "factors": 2,
        "learning_rate": 0.01,
        "regularization": 0.01,
        "epochs": 5,
        "seed": 1,
        "solver": "blocks",
        "shards": None,
        "epoch_unit": "triplets",
        "schedule": "constant",
        "factor_range": 0.1,
        "mu": 0.7,
        "bias_start": "zero",
    },
    "whyrank": "0.1.0",
    "data": "c019759ef7be2de7e8e6ae385df51b7e3ff29a526a3e61192db6f25acf60d199",
    "vocabularies": {
        "users": "96ba03da7a233c5f21535084911caafc03eb892a717ade3ef769fef26bb5fa11",
        "items": "6866e01650c663e556dd9b5f47d83c4aff6bfee13876c6f615e3631ccda8d367",
        "explanations": "eb634f1a8e043c9980ea5752f83d2745fe376c6dcb661304788494e74d4d1d10",
    },
}


# What version 0.1.0 answered, best first.
EXPECTED = (["quiet", "rude", "clean", "warm"], [0.045980, -0.003464, -0.012198, -0.023675])


def npy(kind: str, text: str) -> bytes:
    """The bytes of an .npy file, version 1.0: rows separated by semicolons."""
    rows = [line.split() for line in text.split(";")]
    shape = f"({len(rows)}, {len(rows[0])})" if len(rows) > 1 else f"({len(rows[0])},)"
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    header = header.ljust(117) + "\n"
    letter, number = {"<i8": ("q", int), "<i4": ("i", int), "<f4": ("f", float)}[kind]
    values = [number(word) for row in rows for word in row]
    start = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
    return start + struct.pack(f"<{len(values)}{letter}", *values)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model folder as format 1 has it."""
    model = tmp_path / "model"
    files: dict[str, bytes] = {f"arrays/{name}.npy": npy(*given) for name, given in INTEGERS.items()}
    files |= {f"arrays/{name}.npy": npy("<f4", text) for name, text in FLOATS.items()}
    for part in ("arrays", "tables"):
        (model / part).mkdir(parents=True)
    for name, columns in TABLES.items():
        pl.DataFrame(columns).write_ipc(model / "tables" / f"{name}.arrow", compression="uncompressed")
        files[f"tables/{name}.arrow"] = (model / "tables" / f"{name}.arrow").read_bytes()
    for name, content in files.items():
        (model / name).write_bytes(content)
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in sorted(files.items())}
    (model / "manifest.json").write_text(json.dumps(MANIFEST | {"files": sums}))
    return model


def test_a_model_of_format_1_ranks_as_it_did(folder: Path) -> None:
    model = wr.load(folder)
    reasons = model.explain("ann", "inn", n=4, **vars(wr.Options.plain()))
    assert [reason.explanation for reason in reasons] == EXPECTED[0]
    np.testing.assert_allclose([reason.score for reason in reasons], EXPECTED[1], atol=2e-6)
    assert (reasons[0].text, reasons[0].evidence.item, reasons[0].evidence.user) == ("Quiet rooms", 2, 1)
    assert [reason.explanation for reason in model.explain("cat", "inn")] == ["quiet", "clean"]
    assert [reason.explanation for reason in model.explain("bob", "spa", polarity="negative")] == ["rude"]


def test_what_is_saved_again_is_the_same(folder: Path, tmp_path: Path) -> None:
    again = wr.load(folder).save(tmp_path / "again")
    for file in sorted(folder.glob("arrays/*")):
        assert (again / "arrays" / file.name).read_bytes() == file.read_bytes(), file.name
    manifest = json.loads((again / "manifest.json").read_text())
    assert {name: manifest[name] for name in MANIFEST if name != "whyrank"} == {
        name: value for name, value in MANIFEST.items() if name != "whyrank"
    }


def test_a_split_of_format_1_loads_and_its_data_have_the_same_digest(tmp_path: Path) -> None:
    rows = [
        ("ann", "inn", "quiet", 0),
        ("ann", "inn", "clean", 0),
        ("bob", "inn", "quiet", 1),
        ("bob", "spa", "warm", 2),
    ]
    table = pl.DataFrame(rows, schema=["user", "item", "explanation", "record"], orient="row")
    (tmp_path / "1").mkdir()
    table.write_parquet(tmp_path / "triplets.parquet")
    for name, numbers in (("train", "0"), ("validation", "1"), ("test", "2")):
        (tmp_path / "1" / f"{name}.index").write_text(numbers)
    info = {"method": "random", "seed": 0, "test": 0.3, "validation": 0.1, "number": 1}
    digest = "f74940d3c48c95268a6a2f370cce20f390e568af610fa217c6dbb26d26f369f9"
    (tmp_path / "split.json").write_text(json.dumps({"format": 1, "data": digest, "records": 3, "splits": [info]}))
    split = read_split(tmp_path)
    assert (split.train.records, split.validation.records, split.test.records) == (1, 1, 1)
