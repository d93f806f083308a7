"""What SECURITY.md promises: nothing from outside is run, and no path from outside leads out of its folder."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

import whyrank
from service_world import World, make_world
from whyrank.data import Split, read_split
from whyrank.errors import ArtifactError, DataError, ParameterError
from whyrank.models import POP, load
from whyrank.service.settings import NAME, Settings

SOURCE = Path(whyrank.__file__).parent
ROOT = Path(__file__).parent.parent
# Calls that would run what a file says. `pickle.dumps` writes EXTRA folders for the published code, and is harmless.
RUNNING = {"eval", "exec", "compile", "__import__", "pickle.load", "pickle.loads", "marshal.loads", "marshal.load"}
RUNNING |= {"yaml.load", "yaml.unsafe_load", "os.system", "os.popen", "torch.load", "joblib.load", "shelve.open"}
RUNNING |= {"subprocess.run", "subprocess.Popen", "subprocess.call", "subprocess.check_output"}


def calls(path: Path) -> list[tuple[str, ast.Call]]:
    nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    return [(ast.unparse(node.func), node) for node in nodes]


def test_nothing_in_the_source_runs_what_it_reads() -> None:
    for path in SOURCE.rglob("*.py"):
        for name, node in calls(path):
            assert name not in RUNNING, f"{path.relative_to(SOURCE)}:{node.lineno} calls {name}"
            given = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
            assert given.get("shell") != "True", f"{path.relative_to(SOURCE)}:{node.lineno} uses a shell"
            assert given.get("allow_pickle") != "True", f"{path.relative_to(SOURCE)}:{node.lineno} allows pickles"
            if name in ("np.load", "numpy.load"):
                assert given.get("allow_pickle") == "False", f"{path.relative_to(SOURCE)}:{node.lineno}"


def test_there_is_one_unpickler_and_it_finds_no_class() -> None:
    users = [path.name for path in SOURCE.rglob("*.py") if "Unpickler" in path.read_text()]
    assert users == ["folders.py"]


@pytest.mark.parametrize("linked", ["arrays/catalog.popularity.npy", "arrays"])
def test_a_model_does_not_follow_links_out_of_its_folder(split: Split, tmp_path: Path, linked: str) -> None:
    folder = POP().fit(split).save(tmp_path / "model")
    (folder / linked).rename(tmp_path / "elsewhere")
    (folder / linked).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ArtifactError, match="missing"):
        load(folder)


def test_a_model_folder_may_itself_be_reached_by_a_link(split: Split, tmp_path: Path) -> None:
    POP().fit(split).save(tmp_path / "model-1")
    (tmp_path / "current").symlink_to(tmp_path / "model-1")
    assert load(tmp_path / "current").id == "pop"


@pytest.mark.parametrize(
    "name",
    ["../arrays/x.npy", "arrays/../../x.npy", "/etc/passwd", "arrays/x.npy\0", "x.npy", f"arrays/{300 * 'x'}.npy"],
)
def test_a_manifest_names_files_of_its_own_folder_only(split: Split, tmp_path: Path, name: str) -> None:
    folder = POP().fit(split).save(tmp_path / "model")
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | {"files": {name: "0" * 64}}))
    with pytest.raises(ArtifactError, match="cannot be part of it"):
        load(folder)


@pytest.mark.parametrize("linked", ["1/test.index", "triplets.parquet", "1"])
def test_a_split_does_not_follow_links_out_of_its_folder(split: Split, tmp_path: Path, linked: str) -> None:
    folder = split.write(tmp_path / "split")
    (folder / linked).rename(tmp_path / "elsewhere")
    (folder / linked).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DataError, match="leads elsewhere"):
        read_split(folder)


def test_a_mined_folder_does_not_follow_links_and_names_no_files(tmp_path: Path) -> None:
    import polars as pl

    from whyrank.mining import Mined, mine

    reviews = pl.DataFrame({"user": list("abc"), "item": list("xyx"), "text": ["The bed was comfortable."] * 3})
    folder = mine(reviews, min_count=2).write(tmp_path / "mined")
    account = json.loads((folder / "mining.json").read_text())
    account["sha256"]["../secret.parquet"] = "0" * 64  # would have been opened if the account said what to read
    (folder / "mining.json").write_text(json.dumps(account))
    assert len(Mined.read(folder).triplets)
    (folder / "wordings.parquet").rename(tmp_path / "elsewhere")
    (folder / "wordings.parquet").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DataError, match="leads elsewhere"):
        Mined.read(folder)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("world"))


OUTSIDE = ["..%2fsettings.py", "assets/..%2f..%2fsettings.py", "%2e%2e/%2e%2e/errors.py", "assets/%2e%2e/%2e%2e/app.py"]
OUTSIDE += [
    "..\\settings.py",
    "%2fetc%2fpasswd",
    "v1/studies/..%2f..%2fetc",
    "v1/take/..%2f..%2fstore.db",
    "v1/items/../../x",
]


@pytest.mark.parametrize("path", OUTSIDE)
def test_no_path_of_a_request_leads_to_a_file_outside_of_the_page(world: World, path: str) -> None:
    with world.client("pop") as client:
        answer = client.get(f"/{path}")
    assert answer.status_code in (404, 405)
    assert "import" not in answer.text
    assert "root:" not in answer.text


def test_names_of_models_are_no_paths(world: World) -> None:
    for name in ("..", "../x", "a/b", "a\0", "", ".hidden", "a" * 65):
        assert not NAME.fullmatch(name)
    with pytest.raises(ParameterError):
        Settings(models=("m",), prefix="/../x y")
    with world.client("pop") as client:
        body = {"user": world.user, "item": world.item, "model": "../rand"}
        assert client.post("/v1/explain", json=body).status_code == 404


def test_the_page_carries_no_code_that_the_policy_would_have_to_allow() -> None:
    text = (ROOT / "web" / "index.html").read_text()
    assert "<style" not in text
    assert " style=" not in text
    assert "http://" not in text.replace("http://www.w3.org", "")
    assert all("src=" in script for script in text.split("<script")[1:])
