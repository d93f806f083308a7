"""Columns of reasons against plain NumPy, one evidence in every form, and what is made once for eight threads."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest

import whyrank as wr
from whyrank.data import Split
from whyrank.data.once import OncePer, made_once
from whyrank.errors import ParameterError
from whyrank.explain import diversity, evidence
from whyrank.explain import rank as ranking
from whyrank.explain._columns import parts_of
from whyrank.explain.evidence import Evidence
from whyrank.explain.options import Options
from whyrank.explain.reasons import reasons, table
from whyrank.explain.result import explain
from whyrank.index.form import Bonus, bonus_of
from whyrank.models import POP, Model, base
from whyrank.service.answer import reasons_of


@pytest.fixture(scope="module")
def model(split: Split) -> Model:
    return wr.BPER(factors=4, epochs=2).fit(split)


def test_parts_are_those_of_the_blocks_and_the_bonus() -> None:
    rng = np.random.default_rng(0)
    queries, keys = (rng.normal(size=(rows, 7)).astype(np.float32) for rows in (3, 20))
    row, explanations = np.array([0, 0, 2, 2, 2]), np.array([3, 19, 0, 3, 8], np.int32)
    bonus = Bonus(np.array([0, 2, 2, 4]), np.array([3, 5, 0, 8], np.int32), np.arange(1, 5, dtype=np.float32))
    added = bonus_of(bonus, row, explanations)
    assert added.tolist() == [1, 0, 3, 0, 4]
    products = queries[row] * keys[explanations]
    whole, rest = products.sum(1) + added, np.empty(5, np.float32)
    for left in (0.0, 0.5):
        parts = np.empty((3, 5), np.float32)
        parts[2] = added
        given = (queries, keys, row, explanations, (np.array([4, 3]), np.arange(3)), whole + np.float32(left))
        assert parts_of(*given, parts, rest) is (left > 0)
        np.testing.assert_allclose(parts, [products[:, :4].sum(1), products[:, 4:].sum(1), added], atol=1e-5)
        np.testing.assert_allclose(rest, left, atol=1e-5)
    parts[2] = added
    parts_of(queries, keys, row, explanations, (np.array([4, 3]), np.array([0, 1, 0])), whole, parts, rest)
    np.testing.assert_allclose(parts[0], products[:, :4].sum(1) + added, atol=1e-5)
    np.testing.assert_allclose(rest, 0, atol=1e-5)


def test_a_model_that_divides_its_bonus_has_the_parts_of_some_explanations(model: Model) -> None:
    pool, rng = len(model.catalog_.explanations), np.random.default_rng(0)

    class Divides(wr.POP):
        id = "divides"

        def bonus_parts(self, users: Any, items: Any, mu: float | None = None) -> dict[str, Bonus]:
            return {"item": Bonus(np.array([0, 2, 2]), np.array([1, 4], np.int32), np.array([0.5, 2.0], np.float32))}

    row, explanations = np.array([0, 0, 1]), np.array([4, 2, 4], np.int32)
    pair = rng.integers(0, 9, (2, 2)).astype(np.int32)
    assert pool > 4
    assert Divides().bonus_at(*pair, row, explanations)["item"].tolist() == [2.0, 0.0, 0.0]


ADDED = """
    loudness: int = count("A count of a test: three times the people who say it.", "loud")

    @classmethod
    @cache
    def declared"""
CHECK = """
import msgspec, whyrank as wr
from whyrank.explain.reasons import table
from whyrank.explain.result import explain
from whyrank.explain.evidence import Evidence
from types import SimpleNamespace
from whyrank.service.answer import reasons_of
from whyrank.service.messages import ReasonOut
from whyrank.service.answer import reasons_of
model = wr.POP().fit(wr.Triplets.from_frame({"user": ["a", "b"], "item": ["x"] * 2, "explanation": ["slow"] * 2}))
found = explain(model, [("a", "x")], n=1)
assert model.explain("a", "x")[0].evidence.loudness == 6
assert model.explain("a", "x")[0].as_dict()["evidence"]["loudness"] == 6
assert table(found)["loudness"].to_list() == [6]
served = SimpleNamespace(sentiments=lambda numbers: [None] * len(numbers))
(answer,) = reasons_of(served, found)
assert msgspec.json.decode(msgspec.json.encode(answer))[0]["evidence"]["loudness"] == 6
assert "loudness" in SCHEMA
"""


@pytest.mark.slow
def test_a_count_is_added_in_one_file_if_all_that_it_needs_is_known(tmp_path: Path) -> None:
    """What has to be known for it is the second file: data/people.py."""
    package = Path(wr.__file__).parent
    shutil.copytree(package, tmp_path / "whyrank", ignore=shutil.ignore_patterns("__pycache__", "static"))
    file = tmp_path / "whyrank" / "explain" / "evidence.py"
    text = file.read_text()
    text = text.replace("\n    @classmethod\n    @cache\n    def declared", ADDED, 1)
    text = text.replace(
        "    made.entry[at] = entry\n", "    count.loudness = 3 * count.supporting\n    made.entry[at] = entry\n", 1
    )
    file.write_text(text)
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    code = CHECK.replace("SCHEMA", "str(msgspec.json.schema(ReasonOut))")
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_count_is_in_every_form(model: Model) -> None:
    names = [each.name for each in Evidence.declared()]
    found = explain(
        model, [(model.catalog_.users.ids[0], model.catalog_.items.ids[0])], Options.plain(), 4, similar=True
    )
    listed = table(found)
    assert [name for name in listed.columns if name in names] == names
    for place, each in enumerate(reasons(found)[0]):
        assert list(each.evidence.as_dict()) == names
        assert listed.select(names).row(place, named=True) == each.evidence.as_dict()


@pytest.mark.parametrize("options", [Options(), Options.plain(), Options(explore=1.0, draw=3)])
def test_documents_are_reasons_as_dictionaries(model: Model, options: Options) -> None:
    users, items = model.catalog_.users.ids, model.catalog_.items.ids
    pairs = [(users[at], items[at]) for at in range(40)] + [("nobody", items[3]), (users[0], "nothing")]
    found = explain(model, pairs, options, 4, similar=True)
    served: Any = SimpleNamespace(sentiments=lambda numbers: [0.5] * len(numbers))
    made = [msgspec.json.decode(msgspec.json.encode(each)) for each in reasons_of(served, found)]
    expected = [[each.as_dict() for each in listed] for listed in reasons(found)]
    for each in (each for listed in expected for each in listed):
        assert ("propensity" in each) == options.drawn
        each |= {"sentiment": 0.5, "other_rank": None}
    assert made == expected
    assert any(made)


def test_one_pair_alone_is_as_among_others(model: Model) -> None:
    pairs = list(zip(model.catalog_.users.ids[:40].to_list(), model.catalog_.items.ids[:40].to_list(), strict=True))
    for options in (Options(), Options.plain(), Options(specificity=0.3, support=1)):
        together = reasons(explain(model, pairs, options, 5))
        assert together == [reasons(explain(model, [pair], options, 5))[0] for pair in pairs]


def test_what_a_search_refuses_is_refused_for_grounded_lists_too(split: Split) -> None:
    fitted = wr.BPER(factors=4, epochs=2).fit(split)
    fitted.item_factors_[0, 0] = np.nan
    with pytest.raises(ParameterError, match="NaN"):
        ranking.rank(fitted, np.zeros(1, np.int32), np.zeros(1, np.int32), 3, Options())


def together(work: Callable[[], object], threads: int = 8) -> list[BaseException]:
    """Do the same in many threads that start at once; what they raised."""
    start, errors = threading.Barrier(threads), list[BaseException]()

    def run() -> None:
        start.wait()
        try:
            work()
        except BaseException as error:
            errors.append(error)

    running = [threading.Thread(target=run) for _ in range(threads)]
    for each in running:
        each.start()
    for each in running:
        each.join()
    return errors


def test_eight_threads_that_ask_a_cold_model_prepare_it_once(split: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    model, made = POP().fit(split), Counter[str]()

    def counted(where: object, name: str) -> None:
        function = getattr(where, name)

        def note(*given: Any, **named: Any) -> Any:
            made[name] += 1
            return function(*given, **named)

        monkeypatch.setattr(where, name, note)

    counted(base, "Search")
    counted(diversity, "word_rows")
    counted(evidence._said_of_items, "_make")
    user, item = split.train.users.ids[0], split.train.items.ids[0]
    assert together(lambda: model.explain(user, item, 3, diversity=0.3)) == []
    assert made == {"Search": 1, "word_rows": 1, "_make": 1}


def test_threads_wait_for_what_the_first_of_them_makes() -> None:
    made, started = list[int](), threading.Event()

    class Table:
        @made_once
        def total(self) -> int:
            started.wait(1)  # others come meanwhile
            made.append(1)
            return len(made)

    table = Table()
    assert together(lambda: (started.set(), table.total)) == []
    assert (made, table.total) == ([1], 1)
    of_table = OncePer(lambda each: made.append(2) or each.total)
    assert together(lambda: of_table(table)) == []
    assert made == [1, 2]
