"""Run every benchmark, keep what it printed in benchmarks/output/, and put it into benchmarks/README.md.

    python benchmarks/run_all.py [triplets.parquet] [reviews.jsonl.gz] [--only training_speed,ranking_speed]

One file holds triplets (.parquet), the other reviews; what is not given is simulated. What is printed stands in the
README between `<!-- printed by NAME -->` and `<!-- end of NAME -->`: a Markdown table as it is, JSON as a table,
anything else as text. A script without such a place gets one at the end. Left out is what takes hours: quality
(ablation.py, `whyrank experiment`), recorded runs of trouble (fuzz.py, kill_runs.py, service_overload.py); and
page_speed.py, which needs a running service.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
# Script -> what it is told; `triplets` and `reviews` stand for files.
SCRIPTS: dict[str, tuple[str, ...]] = {
    "foundation_speed": ("triplets",),
    "simulate_speed": ("amazon",),
    "training_speed": ("triplets",),
    "training_scale": (),
    "profile_speed": ("amazon", "--fits", "1"),
    "ranking_speed": ("triplets",),
    "bper_plus": ("triplets", "--parts", "speed"),
    "service_load": (),
    "ray_speed": (),
    "bulk_speed": (),
    "items_speed": ("--models", "bper-j", "profile-j"),
    "large_pools": (),
}


def arguments_of(name: str, files: dict[str, str]) -> list[str]:
    """What a script is called with."""
    return [files.get(word, word) for word in SCRIPTS[name]]


def simulated(folder: Path) -> dict[str, str]:
    """Triplets and reviews for those who bring none, made once."""
    made = {"triplets": folder / "simulated.parquet", "reviews": folder / "simulated.jsonl.gz"}
    for preset, option, path in (("tripadvisor", "-o", made["triplets"]), ("amazon", "--reviews", made["reviews"])):
        if not path.exists():
            subprocess.run([sys.executable, "-m", "whyrank", "simulate", preset, option, str(path)], check=True)
    return {kind: str(path) for kind, path in made.items()}


def shown(printed: str) -> str:
    """What a script printed, as Markdown."""
    documents = _json(printed)
    if documents:
        rows = [f"| {name} | {value} |" for each in documents for name, value in _flat(each)]
        return "\n".join(["| | |", "|---|--:|", *rows])
    if re.search(r"^\|.*\|$", printed, re.MULTILINE):
        return printed.strip()
    return f"```\n{printed.strip()}\n```"


def placed(text: str, name: str, content: str) -> str:
    """The README with the content between the marks of a script."""
    first, last = f"<!-- printed by {name} -->", f"<!-- end of {name} -->"
    block = f"{first}\n{content}\n{last}"
    if first in text:
        return text[: text.index(first)] + block + text[text.index(last) + len(last) :]
    return f"{text.rstrip()}\n\n## `{name}.py`, as printed\n{block}\n"


def _json(printed: str) -> list[object]:
    """The JSON values of an output that is nothing else: one document, or one a line."""
    for parts in ([printed], printed.strip().splitlines()):
        try:
            return [json.loads(part) for part in parts]
        except ValueError:
            continue
    return []


def _flat(value: object, name: str = "") -> Iterator[tuple[str, str]]:
    """Leaves with the names on the way to them."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _flat(each, f"{name} {key}".strip())
    elif isinstance(value, list):
        for number, each in enumerate(value, 1):
            yield from _flat(each, f"{name} {number}".strip())
    else:
        yield name, f"{value:,.4g}" if isinstance(value, float) else str(value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--only", help="scripts, separated by commas")
    chosen = parser.parse_args()
    files = {"triplets" if ".parquet" in path.suffixes else "reviews": str(path) for path in chosen.files}
    readme = HERE / "README.md"
    (HERE / "output").mkdir(exist_ok=True)
    files = simulated(HERE / "output") | files
    failed = []
    for name in chosen.only.split(",") if chosen.only else SCRIPTS:
        print(f"== {name}", flush=True)
        command = [sys.executable, str(HERE / f"{name}.py"), *arguments_of(name, files)]
        done = subprocess.run(command, capture_output=True, text=True)
        (HERE / "output" / f"{name}.txt").write_text(done.stdout + done.stderr)
        print(done.stdout or done.stderr, flush=True)
        if done.returncode:
            failed.append(name)
        else:
            readme.write_text(placed(readme.read_text(), name, shown(done.stdout)))
    if failed:
        sys.exit(f"failed: {', '.join(failed)}; see benchmarks/output/")


if __name__ == "__main__":
    main()
