"""A person is erased from models, splits, mined folders and checkpoints; what a ranking weighs is told."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import sqlalchemy as sa

import whyrank as wr
from whyrank.cli import main
from whyrank.data import Triplets, read_split
from whyrank.data.catalog import Catalog
from whyrank.errors import DataError, ParameterError
from whyrank.models import BPER, COUNTS, RUCF, ProfileJ, load
from whyrank.models.learned import Correction, with_correction
from whyrank.online.about import about
from whyrank.online.erasure import TOMBSTONE
from whyrank.online.forget import RECOUNTED, UNLINKED, forget, held_by_model
from whyrank.online.store import Store
from whyrank.online.tables import events
from whyrank.service.refresh import Recipe, refresh
from whyrank.training import Run
from whyrank.training.checkpoint import Checkpoint

USER = "ann@example.org"


def frame() -> pl.DataFrame:
    """Five people who write about four items; only Ann says that the inn has ghosts."""
    rng = np.random.default_rng(0)
    said = ["quiet", "clean", "cheap", "central"]
    rows = [
        (user, item, e, f"{user} finds the {item} {e}, which is nice to know.", int(rng.integers(1, 6)), at)
        for at, user in enumerate(["bob", "eve", "joe", "kim", USER])
        for item in ("inn", "spa", "bar", "pub")
        for e in rng.permutation(said)[:2]
    ]
    rows.append((USER, "inn", "ghosts", "The inn has ghosts and Ann saw them all.", 1, 9))
    names = ["user", "item", "explanation", "sentence", "rating", "time"]
    source = pl.concat_str(pl.lit("review of the guest "), "user", pl.lit(" about "), "item")
    return pl.DataFrame(rows, names, orient="row").with_columns(
        aspect=pl.col("explanation").str.head(3), polarity=pl.lit(1), source=source
    )


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main([str(each) for each in arguments])
    said = capsys.readouterr()
    return int(ended.value.code or 0), said.out, said.err


@pytest.fixture
def split(tmp_path: Path) -> Path:
    return Triplets.from_frame(frame()).split(seed=0, test=0.2, validation=0.1, method="hash").write(tmp_path / "split")


def names_user(folder: Path) -> bool:
    """Whether any file of a folder holds the id, or what only Ann wrote."""
    whole = b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())
    tables = [pl.read_parquet(file) for file in folder.rglob("*.parquet")]
    texts = [str(value) for table in tables for column in table for value in column.to_list()]
    own = ("ann@", "Ann saw", "ghosts", "gho")  # her id, her words, her explanation, its aspect
    return any(word.encode() in whole or any(word in text for text in texts) for word in own)


@pytest.mark.parametrize("kind", [BPER, COUNTS, RUCF, ProfileJ])
def test_a_model_with_its_split_is_counted_anew_without_the_user(tmp_path: Path, split: Path, kind: type) -> None:
    train = read_split(split).train
    given = {"epochs": 2} if kind in (BPER, ProfileJ) else {}
    kind(**given).fit(train).save(tmp_path / "model")
    assert names_user(tmp_path / "model")
    receipt = forget(USER, models=[tmp_path / "model"], data=[split])
    assert [each.note for each in receipt.folders] == [RECOUNTED, ""]
    assert not names_user(tmp_path / "model")
    assert not names_user(split)
    model = load(tmp_path / "model")
    number = train.users.number(USER)
    left = Catalog.of(train.take(np.flatnonzero(train.record_user != number)))
    for name, array in left.arrays().items():
        np.testing.assert_array_equal(model.catalog_.arrays()[name], array, err_msg=name)
    assert model.catalog_.people.quotes.equals(left.people.quotes)
    assert model.catalog_.users.ids[number].startswith(TOMBSTONE)
    if kind is BPER:
        assert not model.user_factors_[number].any()
    theirs, nobody = (model.explain(user, "inn", grounded=False) for user in (USER, "somebody unknown"))
    assert [each.explanation for each in theirs] == [each.explanation for each in nobody]
    assert theirs[0].fallback == "unknown_user"
    again = forget("bob", models=[tmp_path / "model"], data=[split])  # also the second one
    assert [each.note for each in again.folders] == [RECOUNTED, ""]


def test_a_model_alone_keeps_sums_and_loses_every_link(tmp_path: Path, split: Path) -> None:
    model = BPER(epochs=2).fit(read_split(split).train)
    model.save(tmp_path / "model")
    (tmp_path / "model" / "notes.txt").write_text("ours")
    receipt = forget(USER, models=[tmp_path / "model"])
    (erased,) = receipt.folders
    assert (erased.found, erased.note) == (True, UNLINKED)
    assert erased.removed["quotes"] > 0
    assert erased.before == model.digest()
    assert erased.after == load(tmp_path / "model").digest() != erased.before
    assert not names_user(tmp_path / "model")
    assert (tmp_path / "model" / "notes.txt").read_text() == "ours"
    after = load(tmp_path / "model").catalog_
    assert after.popularity.tolist() == model.catalog_.popularity.tolist()
    assert after.user_items.sizes()[model.catalog_.users.number(USER)] == 0
    assert len(after.people.quotes) + erased.removed["quotes"] == len(model.catalog_.people.quotes)
    (nothing,) = forget(USER, models=[tmp_path / "model"]).folders
    assert (nothing.found, nothing.before) == (False, erased.after)


def test_a_model_that_learned_from_reactions_loses_what_it_learned_of_the_user(tmp_path: Path, split: Path) -> None:
    model = BPER(epochs=2).fit(read_split(split).train)
    catalog = model.catalog_
    sizes = (len(catalog.explanations), len(catalog.users), len(catalog.items))
    units, users, items = (np.ones((size, 2), np.float32) for size in sizes)
    learned = with_correction(model, Correction(np.ones(sizes[0], np.float32), units, users, items), "log")
    learned.save(tmp_path / "model")
    assert "learned_users" in held_by_model(learned, USER)["factors"]  # type: ignore[operator]
    forget(USER, models=[tmp_path / "model"])
    left = load(tmp_path / "model").learned_users_
    number = catalog.users.number(USER)
    assert not left[number].any()
    assert np.delete(left, number, 0).all()


def test_a_split_keeps_the_parts_of_all_others(tmp_path: Path, split: Path) -> None:
    before = read_split(split)
    forget(USER, data=[split])
    after = read_split(split)
    for part in ("train", "validation", "test"):
        old, new = (getattr(each, part).frame() for each in (before, after))
        assert new.drop("text", strict=False).equals(old.filter(pl.col("user") != USER).drop("text", strict=False))
    assert after.data.rating_range == before.data.rating_range


def test_a_mined_folder_loses_what_the_user_wrote(tmp_path: Path) -> None:
    rows = [
        (f"u{at % 9}", f"i{at % 7}", f"The room was clean. The staff was friendly at {at % 5}.") for at in range(60)
    ]
    rows += [("ann@example.org", "i1", "The room was clean. Ann saw a friendly staff.")]
    reviews = tmp_path / "reviews.csv"
    pl.DataFrame(rows, ["user", "item", "text"], orient="row").write_csv(reviews)
    mined = wr.mine(reviews, min_count=2)
    mined.write(tmp_path / "mined")
    (erased,) = forget(USER, data=[tmp_path / "mined"]).folders
    assert erased.found
    assert erased.removed["triplets"] == mined.pool.triplets.filter(pl.col("user") == USER).height > 0
    assert not names_user(tmp_path / "mined")
    left = type(mined).read(tmp_path / "mined")
    assert left.explanations["count"].sum() == left.pool.triplets.height
    (nothing,) = forget(USER, data=[tmp_path / "mined"]).folders
    assert not nothing.found


def test_a_checkpoint_is_removed_and_other_files_are_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "bper.checkpoint"
    Checkpoint(Run(checkpoint=file), "mark").save("training", {"values": np.zeros(3)})
    (erased,) = forget(USER, data=[file]).folders
    assert (erased.kind, erased.after, file.exists()) == ("checkpoint", None, False)
    (tmp_path / "reviews.csv").write_text("user,item\nann,inn\n")
    for path in ("reviews.csv", "nowhere"):
        with pytest.raises(DataError, match="never changed"):
            forget(USER, data=[tmp_path / path])
    assert (tmp_path / "reviews.csv").read_text() == "user,item\nann,inn\n"


def reviews_in(folder: Path) -> tuple[Path, Path]:
    """Two files of reviews, the user's in the first one."""
    said = ("The bed was comfortable.", "The staff was friendly.", "The room was clean.")
    rows = [(USER if k == 7 else f"u{k}", f"h{k % 10}", said[k % 10 % 3], 5) for k in range(160)]
    table = pl.DataFrame(rows, ["user", "item", "text", "rating"], orient="row")
    for name, part in (("1.csv", table[:120]), ("2.csv", table[120:])):
        part.write_csv(folder / name)
    return folder / "1.csv", folder / "2.csv"


def test_what_refreshes_left_beside_a_model_is_erased_as_well(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = reviews_in(tmp_path)
    live, work = tmp_path / "live", tmp_path / "live.refresh"
    refresh(live, [first], recipe=Recipe(BPER(epochs=1, factors=2)))
    assert refresh(live, [second], recipe=Recipe(least=50)).outcome == "refused"
    assert len(list((work / "runs").iterdir())) == 2
    assert names_user(work)
    receipt = forget(USER, models=[live])
    assert not names_user(live)
    assert not names_user(work)
    assert not list(work.rglob("drift.*"))  # what only the user said may be in it
    kinds = [(each.kind, each.note) for each in receipt.folders if each.kind in ("model", "run")]
    assert sorted(kinds) == [("model", RECOUNTED)] * 2 + [("run", "removed: nothing goes on with it")]
    assert refresh(live, [second], recipe=Recipe(tolerance=1.0)).outcome == "swapped"
    assert len(load(live).catalog_.users) == 159
    code, _, said = call(capsys, "forget", USER, "--model", live)
    assert (code, f"nothing is known of '{USER}'" in " ".join(said.split())) == (0, True)


def is_known(model: Path) -> bool:
    return USER in load(model).catalog_.users.ids.to_list()


@pytest.mark.parametrize("place", ["beside the link", "elsewhere"])
def test_refreshes_of_a_link_and_in_another_place_are_found(tmp_path: Path, place: str) -> None:
    (tmp_path / "versions").mkdir()
    live = tmp_path / "live"
    live.symlink_to(tmp_path / "versions" / "v1")
    given = {"work": tmp_path / "work"} if place == "elsewhere" else {}
    (first, more), recipe = reviews_in(tmp_path), Recipe(COUNTS(), tolerance=1.0)
    refresh(live, [first], recipe=recipe, **given)  # type: ignore[arg-type]
    assert is_known(live)
    forget(USER, models=[live.resolve()])  # named by what the link shows
    assert not names_user(tmp_path / "versions")
    assert not names_user(given.get("work", tmp_path / "live.refresh"))
    assert refresh(live, [more], recipe=recipe, **given).outcome == "swapped"  # type: ignore[arg-type]
    assert not is_known(live)


@pytest.mark.parametrize("is_there", [True, False])
def test_the_pool_that_a_refused_refresh_remembers_is_erased_from(tmp_path: Path, is_there: bool) -> None:
    live, pool = tmp_path / "live", tmp_path / "pool"
    (first, more), recipe = reviews_in(tmp_path), Recipe(COUNTS(), tolerance=1.0)
    wr.mine(first).write(pool)
    COUNTS().fit(wr.read(pool)).save(live)
    assert refresh(live, [more], pool=pool, recipe=Recipe(COUNTS(), least=1000)).outcome == "refused"
    if not is_there:
        pool.rename(tmp_path / "away")
    forget(USER, models=[live])
    assert not names_user(live)
    if not is_there:
        (tmp_path / "away").rename(pool)
        with pytest.raises(ParameterError, match="name --pool"):
            refresh(live, [more], recipe=recipe)
        return
    assert not names_user(pool)
    assert refresh(live, [more], recipe=recipe).outcome == "swapped"
    assert not is_known(live)


def test_a_run_that_cannot_be_read_does_not_stop_an_erasure(tmp_path: Path) -> None:
    live = tmp_path / "live"
    refresh(live, [reviews_in(tmp_path)[0]], recipe=Recipe(COUNTS()))
    runs = tmp_path / "live.refresh" / "runs"
    (run,) = runs.iterdir()
    shutil.copytree(run, runs / "0000000000000000")
    table = runs / "0000000000000000" / "pool" / "triplets.parquet"
    table.write_bytes(table.read_bytes()[:-100])
    forget(USER, models=[live])
    assert not names_user(live)
    assert not names_user(tmp_path / "live.refresh")
    assert [each.name for each in runs.iterdir()] == [run.name]


def test_reports_in_and_beside_a_model_name_the_user_no_more(tmp_path: Path, split: Path) -> None:
    folder, missed = tmp_path / "model", [{"user": name, "item": "inn", "said": ["quiet"]} for name in (USER, "bob")]
    COUNTS().fit(read_split(split).train).save(folder, {"missed": missed})
    (tmp_path / "model.metrics.json").write_text(json.dumps({"missed": missed}))
    forget(USER, models=[folder])
    for file in (folder / "metrics.json", tmp_path / "model.metrics.json"):
        assert [each["user"] for each in json.loads(file.read_text())["missed"]] == ["bob"]


def test_an_erasure_waits_for_no_reader_of_the_store(tmp_path: Path) -> None:
    store, other = (Store(f"sqlite:///{tmp_path}/log.db") for _ in range(2))
    store.create()
    with other.reading() as connection:
        connection.execute(sa.select(events)).all()
        forget(USER, store=store)
        assert store.untidy
        assert not store.tidy()
    assert store.tidy()
    assert not store.untidy
    assert (tmp_path / "log.db-wal").stat().st_size == 0
    store.close()
    other.close()


def test_an_export_shows_what_a_model_holds(tmp_path: Path, split: Path) -> None:
    model = BPER(epochs=1).fit(read_split(split).train)
    held = held_by_model(model, USER)
    assert held["known"]
    assert set(held["items"]) <= {"inn", "spa", "bar", "pub"}  # type: ignore[call-overload]
    assert any("Ann saw" in text for text in held["quotes"])  # type: ignore[attr-defined]
    assert held["factors"] == ["user_factors"]
    assert held_by_model(model, "nobody") == {"model": "bper", "known": False}


def test_the_commands_go_from_an_export_to_a_receipt(
    tmp_path: Path, split: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    COUNTS().fit(read_split(split).train).save("model")
    store = "sqlite:///store.db"
    for name in (("retain", "--days", "3"), ("forget", USER), ("export-user", USER)):  # a mistyped name is not clean
        assert "does not exist" in call(capsys, *name, "--store", store)[2]
    Store(store).create().close()
    assert json.loads(call(capsys, "export-user", USER, "--store", store, "--model", "model")[1])["models"][0]["known"]
    code, out, _ = call(
        capsys, "forget", USER, "--store", store, "--model", "model", "--data", split, "-o", "receipt.json"
    )
    assert code == 0
    assert "model (model): " in out
    receipt = (tmp_path / "receipt.json").read_text()
    assert USER not in receipt
    assert USER not in out
    assert re.fullmatch("[0-9a-f]{64}", json.loads(receipt)["user"])
    assert not json.loads(call(capsys, "export-user", USER, "--model", "model")[1])["models"][0]["known"]
    assert call(capsys, "retain", "--store", store, "--days", "3")[1] == "0 exposures, 0 events erased\n"
    for wrong in (("forget", USER), ("export-user", USER), ("forget", USER, "--model", "nowhere")):
        code, out, err = call(capsys, *wrong)
        assert (code, out) == (2, "")
        assert err.startswith("error: ")
        assert err.count("\n") == 1


def test_a_page_says_what_the_ranking_weighs(
    tmp_path: Path, split: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    train = read_split(split).train
    found = about(BPER(epochs=2, mu=0.9).fit(train))
    assert sum(found.weights.values()) == pytest.approx(1)
    assert about(BPER(epochs=2, mu=1.0).fit(train)).weights.get("item", 0) == 0
    assert "`mu`: 0.9" in found.markdown()
    COUNTS().fit(train).save(tmp_path / "model")
    assert call(capsys, "about", tmp_path / "model", "-o", tmp_path / "about.html")[0] == 0
    page = (tmp_path / "about.html").read_text()
    assert "<h1>How reasons are ranked (COUNTS)</h1>" in page
    assert "<script" not in page
    assert "-> about.md" in call(capsys, "about", tmp_path / "model", "-o", "about.md")[2]
    assert call(capsys, "about", tmp_path / "model", "-o", tmp_path / "about.pdf")[0] == 2
    assert "use a joint model such as bper-j" in call(capsys, "recommend", tmp_path / "model", "--user", "bob")[2]
    assert call(capsys, "about", tmp_path / "model")[1].startswith("# How reasons are ranked")


def test_the_ab_commands_go_from_an_experiment_to_its_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arms = ("--arm", "a=bper", "--arm", "b=bper,diversity=0.5", "--share", "50:50")
    for wrong in (("list",), ("show", "t"), ("ramp", "t", "1"), ("stop", "t"), ("results", "t")):
        assert "does not exist" in call(capsys, "ab", *wrong)[2]  # and none is made in silence
    assert not (tmp_path / "whyrank.db").exists()
    code, out, said = call(capsys, "ab", "create", "t", *arms)
    assert "whyrank.db is a new store" in said
    assert "is a new store" not in call(capsys, "ab", "create", "other", *arms)[2]
    call(capsys, "ab", "stop", "other", "--store", "whyrank.db")
    assert out.splitlines()[1:] == [
        "  a: bper (50%)",
        "  b: bper, diversity=0.5 (50%)",
    ]
    assert json.loads(call(capsys, "ab", "ramp", "t", "0.5", "--json")[1])["ramp"] == 0.5
    assert "50% of users" in call(capsys, "ab", "list")[1]
    code, out, _ = call(capsys, "ab", "results", "t", "--markdown", "t.md")
    assert code == 0
    assert out.startswith("Too early to say: arm a has no users")
    assert (tmp_path / "t.md").read_text().startswith("# Experiment t\n")
    assert json.loads(call(capsys, "ab", "results", "t", "--json")[1])["comparisons"][0]["decided"] is False
    assert json.loads(call(capsys, "ab", "stop", "t", "--json")[1])["stopped"] is not None
    assert "stopped" in call(capsys, "ab", "show", "t")[1]
    for wrong in (("create", "t", *arms), ("show", "u"), ("create", "u", "--arm", "a=x")):
        assert call(capsys, "ab", *wrong)[0] == 2


def test_arms_are_checked_against_the_models_that_are_served(
    tmp_path: Path, split: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    wr.POP().fit(wr.Triplets.from_frame(frame())).save("pop")
    served = ("--model", "pop", "--model", "new=pop", "--model", "pop")
    arms = ("--arm", "a=pop", "--arm", "b=new", "--arm", "c=pop-2", "--arm", "d=none")
    assert "not checked: the service must serve pop, new, pop-2" in call(capsys, "ab", "create", "s", *arms)[2]
    code, _, said = call(capsys, "ab", "create", "t", *arms, *served)
    assert (code, "not checked" in said) == (0, False)
    code, _, said = call(capsys, "ab", "create", "u", *arms, *served[:4])
    assert code == 2
    assert "arm c: no model 'pop-2' would be served; there is pop, new" in said
