"""Protocols of the field: each user's last records, an item's candidates, and what models learn from."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whyrank.data import Split, Triplets, splits
from whyrank.data.split import read_split
from whyrank.errors import DataError, ParameterError
from whyrank.evaluation import compare, evaluate
from whyrank.explain.rank import rank
from whyrank.models import COUNTS, ITEMPOP, MODELS, POP, RAND, USERPOP, Profile

timed = st.lists(
    st.tuples(st.sampled_from("abcd"), st.sampled_from("uvwxyz"), st.sampled_from("123"), st.integers(0, 4)),
    min_size=1,
    max_size=60,
)


@given(timed, st.integers(1, 3), st.integers(0, 5))
def test_leave_last_takes_each_users_latest_and_leaves_everybody_a_first(
    rows: list[tuple[str, str, str, int]], last: int, seed: int
) -> None:
    made = Triplets.from_frame(pl.DataFrame(rows, schema=["user", "item", "explanation", "time"], orient="row"))
    split = made.split(method="leave-last", last=last, seed=seed)
    parts = (split.train_records, split.validation_records, split.test_records)
    assert sorted(np.concatenate(parts).tolist()) == list(range(made.records))
    assert made.time is not None
    for user in range(len(made.users)):
        train, held, test = ([r for r in part if made.record_user[r] == user] for part in parts)
        count = len(train) + len(held) + len(test)
        assert len(test) == min(last, count - 1)
        assert len(held) == min(last, count - 1 - len(test))
        times = [[made.time[r] for r in part] for part in (train, held, test)]
        assert max(times[0]) <= min(times[1] + times[2], default=9)
        assert max(times[1], default=0) <= min(times[2], default=9)


def test_leave_last_worked_by_hand_travels_and_breaks_ties_by_the_seed(tmp_path: Path) -> None:
    rows = [("ann", item, "e", time) for item, time in (("a", 1), ("b", 4), ("c", 2), ("d", 4), ("e", 3))]
    made = Triplets.from_frame(pl.DataFrame(rows, schema=["user", "item", "explanation", "time"], orient="row"))
    seen = set()
    for seed in range(12):
        split = made.split(method="leave-last", seed=seed)
        assert np.array_equal(split.test_records, made.split(method="leave-last", seed=seed).test_records)
        seen.add((split.data.items.ids[int(split.test.item[0])], split.data.items.ids[int(split.validation.item[0])]))
    assert seen == {("b", "d"), ("d", "b")}
    back = read_split(split.write(tmp_path / "split"))
    assert back.info == split.info
    assert back.info["last"] == 1


def test_leave_last_says_who_has_too_few(tiny: Triplets, caplog: pytest.LogCaptureFixture) -> None:
    tiny.split(method="leave-last")
    assert "3 of 3 users have fewer than 3 records" in caplog.text
    assert "2 of them are not tested at all" in caplog.text


def test_options_that_do_not_go_together_are_refused(data: Triplets) -> None:
    with pytest.raises(ParameterError, match="takes last"):
        data.split(method="leave-last", test=0.2)
    with pytest.raises(ParameterError, match="last is 0"):
        data.split(method="leave-last", last=0)
    with pytest.raises(ParameterError, match="last is for"):
        data.split(last=2)
    with pytest.raises(DataError, match="needs times"):
        Triplets.from_frame(data.frame().drop("time")).split(method="leave-last")
    with pytest.raises(ParameterError, match="the same split every time"):
        splits(data, 2, method="time")


# -- what is ranked ----------------------------------------------------------------------------------------------------


def dense(model: object, split: Split, users: list[int], items: list[int]) -> np.ndarray:
    """Scores of the whole pool for pairs, the slow way."""
    u, i = np.array(users, np.int32), np.array(items, np.int32)
    pool = len(split.data.explanations)
    scores = (model.queries(u, i) @ model.keys().T).astype(np.float64)  # type: ignore[attr-defined]
    bonus = model.bonus(u, i, pool)  # type: ignore[attr-defined]
    if bonus is not None:
        scores[np.repeat(np.arange(len(u)), np.diff(bonus.indptr)), bonus.explanations] += bonus.values
    return scores


@pytest.mark.parametrize("kind", ["item", "item-all"])
@pytest.mark.parametrize("make", [RAND, POP, USERPOP, COUNTS])
def test_candidates_are_ranked_and_judged_as_an_oracle_does(split: Split, kind: str, make: type) -> None:
    model = make().fit(split)
    parts = [split.training] + ([split.test] if kind == "item-all" else [])
    known: dict[int, set[int]] = {}
    for part in parts:
        for item, said in zip(part.item.tolist(), part.explanation.tolist(), strict=True):
            known.setdefault(item, set()).add(said)
    popularity, gains = model.catalog_.popularity, 1 / np.log2(np.arange(2, 12))
    scores = dense(model, split, split.test.record_user.tolist(), split.test.record_item.tolist())
    expected, truths, reached = [], 0, 0
    for record in range(split.test.records):
        allowed = known.get(int(split.test.record_item[record]), set())
        said = set(split.test.record_explanations.row(record).tolist())
        truths, reached = truths + len(said), reached + len(said & allowed)
        if said & allowed:
            order = sorted(allowed, key=lambda e, r=record: (-scores[r, e], -popularity[e], e))[:10]
            gained = sum(gains[place] for place, e in enumerate(order) if e in said)
            expected.append(gained / gains[: len(said & allowed)].sum())
    found = evaluate(model, split, candidates=kind)  # type: ignore[arg-type]
    assert found.per_pair["ndcg"] == pytest.approx(expected)
    assert found.pairs == len(expected)
    assert found.reach is not None
    assert found.reach["pairs"] == pytest.approx(len(expected) / split.test.records)
    assert found.reach["truths"] == pytest.approx(reached / truths)
    assert found.as_dict()["candidates"] == kind


def test_without_a_split_the_models_own_data_are_the_training_part(split: Split) -> None:
    model = COUNTS(user_smoothing=3, item_smoothing=3, power=1).fit(split)
    for kind in ("item", "item-all"):
        whole = evaluate(model, split, candidates=kind)  # type: ignore[arg-type]
        bare = evaluate(model, split.test, candidates=kind)  # type: ignore[arg-type]
        elsewhere = evaluate(model, Triplets.from_frame(split.test.frame()), candidates=kind)  # type: ignore[arg-type]
        assert whole.explanation["ndcg"] == bare.explanation["ndcg"]
        assert elsewhere.explanation["ndcg"] == pytest.approx(bare.explanation["ndcg"])
        assert elsewhere.reach == pytest.approx(bare.reach)


def test_candidates_do_not_depend_on_what_a_model_learned_from(split: Split) -> None:
    few = POP().fit(split.train.take(np.arange(100)))
    known = evaluate(few, split, candidates="item")
    assert known.reach == evaluate(POP().fit(split), split, candidates="item").reach


def test_items_of_joint_models_are_measured_on_all_pairs(split: Split) -> None:
    model = MODELS["bper-j"](epochs=2).fit(split)
    pool, item = evaluate(model, split), evaluate(model, split, candidates="item")
    assert item.recommendation == pool.recommendation
    assert item.pairs < pool.pairs


def test_where_nothing_can_be_reached_there_is_no_figure(tiny: Triplets) -> None:
    split = tiny.split(seed=0)
    nothing = np.empty(0, np.int64)
    alone = replace(split, train_records=np.array([0, 3]), validation_records=nothing, test_records=np.array([2]))
    with pytest.raises(DataError, match="no explanation of a test pair"):
        evaluate(POP().fit(alone), alone, candidates="item")
    with pytest.raises(ParameterError, match="candidates is 'all'"):
        evaluate(POP().fit(split), split, candidates="all")  # type: ignore[arg-type]


def test_a_comparison_says_what_is_ranked(split: Split) -> None:
    found = compare({"POP": POP(), "ITEMPOP": ITEMPOP()}, split, candidates="item")
    assert "can be reached" in found.note()
    assert found.as_dict()["reach"]["pairs"] < 1


def test_the_command_line_splits_fits_and_measures_by_each_protocol(
    data: Triplets, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from whyrank.cli import main

    def call(*arguments: object, code: int = 0) -> str:
        with pytest.raises(SystemExit) as end:
            main([*map(str, arguments)])
        assert end.value.code == code
        out, err = capsys.readouterr()
        return out if code == 0 else err

    file, split, model = data.write(tmp_path / "t.parquet"), tmp_path / "split", tmp_path / "model"
    call("split", file, "-o", split, "--method", "leave-last", "--last", 2, "--json")
    assert read_split(split).info["last"] == 2
    call("fit", split, "--model", "userpop", "-o", model, "--json")
    found = json.loads(call("evaluate", model, split, "--candidates", "item", "--json"))
    assert found["candidates"] == "item"
    assert 0 < found["reach"]["pairs"] < 1
    both = json.loads(call("compare", split, "--models", "pop,userpop", "--candidates", "item-all", "--json"))
    assert both["reach"]["pairs"] == 1
    assert set(both["models"][0]["p_holm"] or both["models"][1]["p_holm"]) >= {"ndcg", "recall"}
    assert "can be reached" in call("compare", split, "--models", "pop,userpop", "--candidates", "item")
    assert "one of pool, item, item-all" in call("evaluate", model, split, "--candidates", "some", code=2)
    assert "takes last" in call("split", file, "-o", tmp_path / "x", "--method", "leave-last", "--test", 0.2, code=2)


# -- baselines, and what models learn from -----------------------------------------------------------------------------


def test_user_and_item_popularity_worked_by_hand(tiny: Triplets) -> None:
    def ranked(model: object, user: int, item: int) -> list[str]:
        found = rank(model, np.array([user], np.int32), np.array([item], np.int32), 4).numbers[0]  # type: ignore[arg-type]
        return tiny.explanations.terms(found).to_list()

    # bob (1) said quiet and warm once each; quiet is the more popular one. spa (1): rude and warm, once each.
    assert ranked(USERPOP().fit(tiny), 1, 1) == ["quiet", "warm", "clean", "rude"]
    assert ranked(ITEMPOP().fit(tiny), 1, 1) == ["rude", "warm", "quiet", "clean"]
    assert ranked(ITEMPOP().fit(tiny), 0, 0) == ["quiet", "clean", "rude", "warm"]


def test_models_without_validation_learn_from_all_of_the_training_part(split: Split) -> None:
    for model in (POP(), COUNTS(), USERPOP()):
        assert model.fit(split).data_digest_ == split.training.digest()
    assert Profile(epochs=1).fit(split).data_digest_ == split.training.digest()
    assert Profile(epochs=1, refit=False).fit(split).data_digest_ == split.train.digest()
    assert MODELS["bper"](epochs=1).fit(split).digest() == MODELS["bper"](epochs=1).fit(split.training).digest()


def test_the_inner_split_holds_no_test_record(split: Split) -> None:
    inner = split.inner
    assert np.array_equal(inner.test_records, split.validation_records)
    assert np.array_equal(inner.training.record_user, split.train.record_user)
    everything = np.concatenate([inner.train_records, inner.validation_records, inner.test_records])
    assert not np.intersect1d(everything, split.test_records).size
