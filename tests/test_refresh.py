"""From new reviews to a swapped model: what is taken in and refused, what a killed run leaves, what users notice."""

from __future__ import annotations

import json
import shutil
import threading
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from service_world import Process
from whyrank.cli import main
from whyrank.errors import ArtifactError, DataError, ParameterError
from whyrank.mining.drift import drift
from whyrank.mining.mine import mine
from whyrank.models import BPER, COUNTS, Model, load
from whyrank.models.learned import Correction, LearnedModel, carried_over, with_correction
from whyrank.service import refresh as refreshing
from whyrank.service.refresh import Recipe, _name, refresh
from whyrank.service.refresh_log import read_refreshes

SAID = ("The bed was comfortable.", "The staff was friendly.", "The room was clean.", "The pool was warm.")


def write_reviews(file: Path, first: int, count: int, texts: tuple[str, ...] = SAID[:3]) -> pl.DataFrame:
    """Reviews of people `first`.. of ten hotels; each hotel is praised for one thing."""
    rows = [(f"u{k}", f"h{k % 10}", texts[k % 10 % len(texts)], 5) for k in range(first, first + count)]
    table = pl.DataFrame(rows, schema=["user", "item", "text", "rating"], orient="row")
    file.parent.mkdir(parents=True, exist_ok=True)
    table.write_csv(file)
    return table


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with reviews and the model that a first refresh made of them."""
    folder = tmp_path_factory.mktemp("first")
    write_reviews(folder / "reviews" / "1.csv", 0, 120)
    found = refresh(folder / "current", [folder / "reviews"], recipe=Recipe(COUNTS()))
    assert (found.outcome, found.gate) == ("swapped", None)
    return folder


@pytest.fixture
def served(first: Path, tmp_path: Path) -> Path:
    """A model in service that the next refresh replaces."""
    shutil.copytree(first, tmp_path, dirs_exist_ok=True)
    return tmp_path / "current"


def call(*arguments: object) -> int:
    with pytest.raises(SystemExit) as leaving:
        main(["refresh", *map(str, arguments)])
    return int(leaving.value.code or 0)


def test_new_reviews_are_taken_in_once_and_swapped_in(served: Path) -> None:
    reviews = served.parent / "reviews"
    assert refresh(served, [reviews]).outcome == "nothing new"
    before = load(served).digest()
    write_reviews(reviews / "2.csv", 120, 120, SAID[2:])
    found = refresh(served, [reviews])
    assert (found.outcome, found.reviews) == ("swapped", [str(reviews / "2.csv")])
    assert found.gate is not None
    assert found.gate["passed"]
    model = load(served)
    assert model.digest() != before
    assert isinstance(model, COUNTS)  # fitted as the one before
    assert "pool|warm|+" in model.catalog_.explanations.ids.to_list()
    assert {"u0", "u239"} <= set(model.catalog_.users.ids)
    assert found.drift is not None
    assert "warm pool" in [row["text"] for row in found.drift["new_statements"]]
    assert all("pool" in str(row["text"]) for row in found.drift["new_statements"])
    assert "warm pool" in Path(str(found.report)).read_text(encoding="utf-8")
    assert refresh(served, [reviews]).outcome == "nothing new"
    assert len(list((served.parent / "current.refresh" / "runs").iterdir())) == 1
    account = [(each["outcome"], each["digest"], each["gate"]) for each in read_refreshes(served)]
    assert account == [("swapped", before, None), ("swapped", model.digest(), found.gate)]


def test_a_worse_model_is_refused_and_tried_again_only_when_asked(
    served: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = load(served).digest()
    write_reviews(served.parent / "reviews" / "2.csv", 120, 300)
    asked = (served, served.parent / "reviews", "--model", "rand", "--json")
    code, found = call(*asked), json.loads(capsys.readouterr().out)
    assert (code, found["outcome"], found["gate"]["passed"]) == (3, "refused", False)
    assert load(served).digest() == before
    calls: list[str] = []
    original = refreshing.compare_on
    monkeypatch.setattr(refreshing, "compare_on", lambda *given: calls.append("measured") or original(*given))
    assert (call(*asked), calls) == (3, [])
    assert (call(*asked, "--again"), calls) == (3, ["measured"])
    assert refresh(served, [served.parent / "reviews"]).outcome == "swapped"  # the same reviews, a better model
    assert [each["outcome"] for each in read_refreshes(served)] == ["swapped", "refused", "swapped"]


@pytest.mark.parametrize("where", ["mining", "fit", "swap", "account"])
def test_a_run_that_ended_anywhere_goes_on_there(served: Path, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reviews = write_reviews(served.parent / "reviews" / "2.csv", 120, 100)
    before, save, write = load(served).digest(), Model.save, refreshing._write

    def ended(*given: object, **more: object) -> None:
        raise KeyboardInterrupt

    def save_aside_only(model: Model, path: Path) -> Path:
        return ended() if path == served else save(model, path)  # type: ignore[return-value]

    def no_account(file: Path, document: object) -> None:
        return ended() if file.name == refreshing.STATE else write(file, document)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        if where == "mining":
            patch.setattr(refreshing, "mine", ended)
        elif where == "fit":
            patch.setattr(COUNTS, "fit", ended)
        elif where == "swap":
            patch.setattr(Model, "save", save_aside_only)
        else:
            patch.setattr(refreshing, "_write", no_account)
        with pytest.raises(KeyboardInterrupt):
            refresh(served, [served.parent / "reviews"])
    assert (load(served).digest() == before) == (where != "account")
    if where != "mining":
        monkeypatch.setattr(refreshing, "mine", lambda *given, **more: pytest.fail("mined twice"))
    if where in ("swap", "account"):
        monkeypatch.setattr(COUNTS, "fit", lambda *given, **more: pytest.fail("fitted twice"))
    assert refresh(served, [served.parent / "reviews"]).outcome == "swapped"
    assert set(reviews["user"]) & set(load(served).catalog_.users.ids)
    assert refresh(served, [served.parent / "reviews"]).outcome == "nothing new"


def test_few_held_out_records_are_said_and_can_stop_a_swap(served: Path) -> None:
    write_reviews(served.parent / "reviews" / "2.csv", 120, 120, SAID[2:])
    before, told = load(served).digest(), list[str]()
    found = refresh(served, [served.parent / "reviews"], recipe=Recipe(least=50), tell=told.append)
    assert (found.outcome, load(served).digest()) == ("refused", before)
    assert "refused: 12 held-out records, at least 50 are asked for" in " ".join(told)
    assert refresh(served, [served.parent / "reviews"], tell=told.append).outcome == "swapped"
    assert "warning: 12 held-out records say little" in " ".join(told)
    with pytest.raises(ParameterError, match="holdout above 0"):
        Recipe(least=5, holdout=0.0)


@pytest.mark.parametrize("keep", [True, False])
def test_what_was_learned_from_reactions_is_kept_by_id_or_left_out_as_asked(tmp_path: Path, keep: bool) -> None:
    reviews, current = tmp_path / "reviews", tmp_path / "current"
    write_reviews(reviews / "1.csv", 0, 120)
    refresh(current, [reviews], recipe=Recipe(BPER(factors=2, epochs=2)))
    plain = load(current)
    catalog, rng = plain.catalog_, np.random.default_rng(0)
    sizes = (
        (len(catalog.explanations),),
        (len(catalog.explanations), 3),
        (len(catalog.users), 3),
        (len(catalog.items), 3),
    )
    correction = Correction(*(rng.normal(size=size).astype(np.float32) for size in sizes))
    with_correction(plain, correction, "log").save(current)
    write_reviews(reviews / "2.csv", 120, 60, SAID[2:])
    told: list[str] = []
    assert (
        refresh(current, [reviews], recipe=Recipe(reactions=keep, tolerance=1.0), tell=told.append).outcome == "swapped"
    )
    new = load(current)
    assert ("is kept" in " ".join(told), "is left out (as asked for)" in " ".join(told)) == (keep, not keep)
    assert isinstance(new, LearnedModel) == keep
    if isinstance(new, LearnedModel):
        known = catalog.explanations.numbers(new.catalog_.explanations.ids, missing="negative")
        assert (known < 0).any()
        assert not new.learned_bias_[known < 0].any()
        np.testing.assert_array_equal(new.learned_bias_[known >= 0], correction.bias[known[known >= 0]])
        mine, theirs = new.catalog_.users.numbers(["u7"])[0], catalog.users.numbers(["u7"])[0]
        np.testing.assert_array_equal(new.learned_users_[mine], correction.users[theirs])


def test_what_was_learned_by_another_kind_of_model_does_not_fit(first: Path) -> None:
    with pytest.raises(ParameterError, match="does not fit"):
        carried_over(load(first / "current"), load(first / "current"))


def test_what_cannot_be_refreshed_says_why(served: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        refresh(served, [tmp_path / "nowhere"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no files of reviews"):
        refresh(served, [tmp_path / "empty"])
    with pytest.raises(ParameterError, match="say which one to fit"):
        refresh(tmp_path / "other", [served.parent / "reviews"])
    with pytest.raises(ParameterError, match="holdout"):
        Recipe(holdout=0.9)
    with refreshing.sole_writer(tmp_path / "current.refresh"), pytest.raises(ArtifactError, match="another process"):
        refresh(served, [served.parent / "reviews"])


@pytest.fixture
def unknown(first: Path, tmp_path: Path) -> Path:
    """A model in service that no refresh has made, with the mined folder that it was fitted to beside it."""
    shutil.copytree(first / "current", tmp_path / "current")
    mine([first / "reviews" / "1.csv"]).write(tmp_path / "mined")
    write_reviews(tmp_path / "new.csv", 120, 30)
    return tmp_path / "current"


def test_a_model_whose_pool_is_not_known_is_not_replaced_by_one_of_new_reviews_alone(
    unknown: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, new = load(unknown).digest(), unknown.parent / "new.csv"
    assert call(unknown, new) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "name --pool (the mined folder that it was fitted to), or give --fresh" in said
    assert load(unknown).digest() == before
    with pytest.raises(ParameterError, match="give one of them"):
        refresh(unknown, [new], pool=unknown.parent / "mined", fresh=True)
    assert refresh(unknown, [new], fresh=True, recipe=Recipe(least=50)).outcome == "refused"
    found = refresh(unknown, [new], fresh=True, recipe=Recipe(tolerance=1.0))
    assert (found.outcome, found.pool) == ("swapped", None)
    assert int(load(unknown).catalog_.popularity.sum()) == 54


def test_a_pool_that_was_named_is_remembered_and_never_left_out_silently(unknown: Path) -> None:
    pool, new = unknown.parent / "mined", [unknown.parent / "new.csv"]
    assert refresh(unknown, new, pool=pool, recipe=Recipe(least=50)).outcome == "refused"
    found = refresh(unknown, new)
    assert (found.outcome, found.pool) == ("swapped", str(pool.resolve()))
    assert int(load(unknown).catalog_.popularity.sum()) == 294
    write_reviews(unknown.parent / "more.csv", 150, 30)
    told: list[str] = []
    found = refresh(unknown, [unknown.parent / "more.csv"], pool=pool, tell=told.append)
    assert found.outcome == "swapped"
    assert found.pool is not None
    assert found.pool.startswith(str(unknown.parent / "current.refresh"))
    assert f"--pool {pool} is not used: the pool of earlier refreshes goes on" in " ".join(told)
    write_reviews(unknown.parent / "last.csv", 180, 30)
    last = [unknown.parent / "last.csv"]
    assert refresh(unknown, last, fresh=True, recipe=Recipe(least=50)).outcome == "refused"
    assert refresh(unknown, last).outcome == "swapped"  # a new pool that was refused leaves the old one in place
    assert int(load(unknown).catalog_.popularity.sum()) == 414


def test_a_model_that_knows_far_less_is_refused(unknown: Path) -> None:
    small = unknown.parent / "small"
    mine(write_reviews(unknown.parent / "0.csv", 0, 20)).write(small)
    before, told = load(unknown).digest(), list[str]()
    recipe = Recipe(tolerance=1.0)
    found = refresh(unknown, [unknown.parent / "new.csv"], pool=small, recipe=recipe, tell=told.append)
    assert (found.outcome, load(unknown).digest()) == ("refused", before)
    assert "refused: the new model knows 94 triplets, the one in service 240" in " ".join(told)


def test_no_request_fails_while_a_model_is_refreshed(served: Path) -> None:
    body = json.dumps({"user": "u1", "item": "h1", "grounded": False}).encode()
    write_reviews(served.parent / "reviews" / "2.csv", 120, 120, SAID[2:])
    statuses: list[int] = []
    over, swapped = threading.Event(), threading.Event()

    def keep_asking(url: str) -> None:
        while not over.is_set():
            status, answer = ask(url, body)
            statuses.append(status)
            if any(str(each["explanation"]).startswith("pool|") for each in answer["results"][0]["reasons"]):
                swapped.set()

    store = f"sqlite:///{served.parent}/store.db"
    with Process("serve", f"m={served}", "--store", store, "--rate", "0") as service:
        clients = [threading.Thread(target=keep_asking, args=(service.url + "v1/explain",)) for _ in range(2)]
        for client in clients:
            client.start()
        try:
            assert refresh(served, [served.parent / "reviews"]).outcome == "swapped"
            assert swapped.wait(60)
        finally:
            over.set()
            for client in clients:
                client.join()
    assert len(statuses) > 10
    assert set(statuses) == {200}


def ask(url: str, body: bytes) -> tuple[int, dict[str, list[dict[str, list[dict[str, object]]]]]]:
    import urllib.request

    request = urllib.request.Request(url, body, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as response:
        return response.status, json.load(response)


def test_drift_counts_shares_by_hand(tmp_path: Path) -> None:
    old = mine(write_reviews(tmp_path / "1.csv", 0, 100, SAID[:2]))
    new = mine(write_reviews(tmp_path / "2.csv", 100, 100, (SAID[0], SAID[0], SAID[3])), pool=old)
    found = drift(old, new)
    assert (found.records_before, found.records_new) == (100, 100)
    new_texts = {row["text"]: row["new"] for row in found.new_statements}
    assert new_texts["warm pool"] == 30
    assert all("pool" in text for text in new_texts)
    assert [row["aspect"] for row in found.new_aspects] == ["pool"]
    (rising,) = (row for row in found.rising if row["text"] == "comfortable bed")
    assert (rising["before"], rising["new"]) == (50, 70)
    assert rising["share_new"] == pytest.approx(0.7)
    assert rising["z"] == pytest.approx(0.2 / np.sqrt(0.6 * 0.4 * 0.02))
    (falling,) = (row for row in found.falling if row["text"] == "friendly staff")
    assert falling["new"] == 0
    assert found.distance == pytest.approx(0.5)
    assert found.totals["new_statements"] == len(found.new_statements)
    assert drift(None, old).new_statements == []


def test_every_part_of_a_recipe_but_its_threads_makes_another_run() -> None:
    others = {
        "model": COUNTS(power=0.5), "rules": {"min_count": 7}, "columns": {"user": "u"}, "titles": {"a": "A"},
        "on_error": "skip", "trim": True, "holdout": 0.2, "tolerance": 0.5, "least": 7, "reactions": False,
    }  # fmt: skip
    assert set(others) == {field.name for field in fields(Recipe)} - {"threads"}
    names = [_name({}, None, replace(Recipe(), **{name: value})) for name, value in others.items()]
    assert len({_name({}, None, Recipe()), *names}) == len(others) + 1
    assert _name({}, None, Recipe(threads=2)) == _name({}, None, Recipe())
