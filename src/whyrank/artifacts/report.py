"""What was measured of a saved model: `metrics.json` in its folder, which is added to part by part."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path

from whyrank.artifacts.store import read_manifest
from whyrank.atomic import new_file
from whyrank.errors import ArtifactError

REPORT = "metrics.json"
LARGEST = 4 << 20  # bytes; a report is a few curves, anything larger is not one
CHECKSUM = "checksum"


def add_report(folder: str | Path, parts: Mapping[str, object]) -> Path:
    """Put parts (evaluation, training, mu_curve, ...) into a model's report; parts of other names stay."""
    file = Path(folder) / REPORT
    read_manifest(Path(folder), "model")
    report = (read_report(file) if file.is_file() else {}) | dict(parts)
    with new_file(file) as aside:
        aside.write_text(report_text(report), encoding="utf-8")
    return file


def report_text(parts: Mapping[str, object]) -> str:
    """A report as it stands in a file."""
    report = {name: finite(part) for name, part in parts.items()}
    return json.dumps(report | {CHECKSUM: _checksum(report)}, indent=1, ensure_ascii=False) + "\n"


def read_report(file: Path) -> dict[str, object]:
    """The parts of a report; one that was written by hand has no checksum and is taken as it is."""
    try:
        if file.stat().st_size > LARGEST:
            raise ArtifactError(f"{file}: is larger than {LARGEST:,} bytes, which no report is")
        report = finite(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError) as error:
        raise ArtifactError(f"{file}: is not readable JSON") from error
    if not isinstance(report, dict):
        raise ArtifactError(f"{file}: is not a report (expected an object)")
    if report.pop(CHECKSUM, None) not in (None, _checksum(report)):
        raise ArtifactError(f"{file}: has been changed since it was saved (checksum differs); measure the model again")
    return report


def finite(value: object) -> object:
    """NaN and infinities as None, which JSON can say."""
    if isinstance(value, Mapping):
        return {str(key): finite(each) for key, each in value.items()}
    if isinstance(value, list):
        return [finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _checksum(report: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(report, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
