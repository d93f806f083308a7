"""What only POSIX has is not needed: the library and the command line work where it is hidden, as on Windows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

# A stand-in for Windows' msvcrt: one lock for each file, refused as Windows refuses it.
WINDOWS = """
import asyncio, multiprocessing, os, subprocess, sys, types  # those that look for Windows
for name in ("fcntl", "resource", "pwd", "grp"):
    sys.modules[name] = None
held = {}
def locking(handle, mode, size):
    found = os.fstat(handle)
    holder = held.get((found.st_dev, found.st_ino))
    if holder is not None and holder != handle:
        try:
            same = os.path.samestat(os.fstat(holder), found)
        except OSError:
            same = False
        if same:
            raise PermissionError(13, "Permission denied")
    held[found.st_dev, found.st_ino] = handle
msvcrt = types.ModuleType("msvcrt")
msvcrt.locking, msvcrt.LK_NBLCK = locking, 2
sys.modules["msvcrt"] = msvcrt
"""


def run(code: str, *arguments: object) -> str:
    command = [sys.executable, "-c", WINDOWS + code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_locks_refuse_a_second_holder_without_fcntl(tmp_path: Path) -> None:
    code = """
from pathlib import Path
from whyrank.atomic import new_file, sole_writer
from whyrank.errors import ArtifactError
folder = Path(sys.argv[1])
with sole_writer(folder / "out"):
    try:
        with sole_writer(folder / "out"):
            print("both")
    except ArtifactError as error:
        print("refused" if "another process" in str(error) else error)
with sole_writer(folder / "out"), new_file(folder / "out") as aside:
    with new_file(folder / "out") as other:
        other.write_text("first")
    aside.write_text("second")
print((folder / "out").read_text(), os.listdir(folder))
"""
    assert run(code, tmp_path).splitlines() == ["refused", "second ['out']"]


def test_the_command_line_works_without_posix_modules(tmp_path: Path) -> None:
    code = """
import whyrank.service.app, whyrank.service.run, whyrank.lab.experiments.lab
from whyrank.cli import main
folder = sys.argv[1]
for line in (
    f"simulate small --users 40 --items 20 --records 200 -o {folder}/data.csv",
    f"fit {folder}/data.csv --model pop -o {folder}/model",
    f"explain {folder}/model --user u000001 --item i00001 --json",
):
    try:
        main(line.split())
    except SystemExit as leaving:
        assert not leaving.code, line
"""
    assert '"reasons"' in run(code, tmp_path)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["data.csv", "model"]
