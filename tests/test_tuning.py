"""Tuning: what it finds can be fitted again, it resumes, it balances two tasks, and it never sees test records."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from whyrank.data import Split
from whyrank.errors import DataError, ParameterError
from whyrank.evaluation import evaluate
from whyrank.lab.experiments import measures
from whyrank.lab.experiments.spaces import SPACES, space_of
from whyrank.lab.experiments.tuning import balanced, pareto, tune
from whyrank.models import BPER, BPR, COUNTS, MODELS
from whyrank.models.profile_records import ValidationUsers, item_quality

optuna = pytest.importorskip("optuna")
SMALL = {"factors": [4, 8], "learning_rate": [0.05], "epochs": [3, 6, 12]}


def test_epochs_and_mu_that_tuning_chose_give_the_value_it_promised(split: Split) -> None:
    space = {"factors": [16], "learning_rate": [0.2], "regularization": [0.0], "epochs": [3, 10, 100]}
    found = tune("bper", split, space, sampler="grid")
    assert set(found.parameters) == {*space, "mu"}
    assert found.parameters["epochs"] != 100
    again = BPER(**found.parameters).fit(split.train)
    assert measures.means(again, split.validation)["ndcg_paper"] == pytest.approx(found.values[0], rel=1e-12)


def test_a_trial_that_diverges_does_not_end_the_search(split: Split) -> None:
    space = {"factors": [16], "learning_rate": [0.05, 0.5], "regularization": [0.0], "epochs": [100]}
    found = tune("bper", split, space, sampler="grid")
    values = {trial["parameters"]["learning_rate"]: trial["values"][0] for trial in found.trials}
    assert values[0.5] == 0 < values[0.05] == found.values[0]


def test_a_grid_ends_by_itself(split: Split) -> None:
    assert len(tune("bper", split, SMALL, sampler="grid").trials) == 2


def test_tuning_does_not_depend_on_the_test_part(split: Split) -> None:
    other = replace(split, test_records=split.test_records[:5])
    assert tune("bper", split, SMALL, trials=2).values == tune("bper", other, SMALL, trials=2).values


def test_a_search_goes_on_where_it_stopped(split: Split, tmp_path: Path) -> None:
    options = {"storage": tmp_path / "trials.sqlite"}
    space = {"factors": {"low": 2, "high": 8, "int": True}, "learning_rate": [0.05], "epochs": [2]}
    first = tune("bper", split, space, trials=2, **options)
    second = tune("bper", split, space, trials=4, **options)
    assert [len(first.trials), len(second.trials)] == [2, 4]
    assert second.trials[:2] == first.trials
    assert tune("bper", split, space, trials=4, **options).trials == second.trials


def test_the_defaults_are_tried_first_and_kept_where_nothing_drawn_is_better(
    split: Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = {"user_smoothing": [1000.0], "item_smoothing": [1000.0], "power": {"low": 1.8, "high": 2.0}}
    monkeypatch.setitem(SPACES["counts"], "tpe", space)
    found = tune("counts", split, space, trials=3, storage=tmp_path / "trials.sqlite")
    assert [set(trial["parameters"]) for trial in found.trials] == [set(), set(space), set(space)]
    assert found.parameters == {}
    default = COUNTS().fit(split.train, split.validation)
    assert found.values == [measures.means(default, split.validation)["ndcg_paper"]]
    assert len(tune("counts", split, space, trials=4, storage=tmp_path / "trials.sqlite").trials) == 4
    assert len(tune("counts", split, space, seconds=0).trials) == 1  # no time is left after the defaults
    other = tune("counts", split, {"power": [2.0]}, trials=1)
    assert other.parameters == {"power": 2.0}  # a space of somebody's own is a bound


def test_a_joint_model_is_tuned_for_both_tasks_and_its_front_is_drawn(split: Split, tmp_path: Path) -> None:
    space = {"factors": [4], "epochs": [5], "learning_rate": [0.05], "alpha": [0.1, 1.0, 2.0]}
    found = tune("bper-j", split, space, sampler="grid")
    assert len(found.trials) == 3
    assert len(found.values) == 2
    assert found.parameters in [trial["parameters"] for trial in found.front]
    found.write(tmp_path / "best.json")
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".csv", ".svg", ".png"}
    document = json.loads((tmp_path / "best.json").read_text())
    assert (document["model"], set(document["validation"])) == ("bper-j", {"explanations", "items"})


def test_nothing_on_the_front_is_beaten_and_the_choice_is_good_for_both() -> None:
    trials = [{"values": list(values)} for values in ((1, 9), (5, 7), (6, 2), (4, 6), (5, 7))]
    front = pareto(trials)
    assert [trial["values"] for trial in front] == [[1, 9], [5, 7], [6, 2], [5, 7]]
    assert balanced(front)["values"] == [5, 7]


def test_a_model_without_factors_is_tuned_too(split: Split) -> None:
    found = tune("counts", split, {"power": [0.5, 1.0], "user_smoothing": [3.0]}, sampler="grid")
    assert set(found.parameters) == {"power", "user_smoothing"}


@pytest.mark.parametrize("name", sorted(SPACES))
def test_every_space_names_parameters_that_the_model_has(name: str) -> None:
    if name not in MODELS:
        pytest.skip("not part of this installation")
    for sampler in ("grid", "tpe"):
        assert space_of(name, sampler)


def test_bad_spaces_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "space.json"
    for content in ("[]", "{}", '{"nonsense": [1]}', '{"factors": 3}', '{"factors": {"low": 1}}', "no json"):
        file.write_text(content)
        with pytest.raises(ParameterError):
            space_of("bper", "tpe", file)
    file.write_text('{"factors": {"low": 1, "high": 5}}')
    with pytest.raises(ParameterError, match="grid"):
        space_of("bper", "grid", file)
    with pytest.raises(ParameterError, match="nothing to tune"):
        space_of("pop", "tpe")


def test_tuning_without_validation_is_refused(split: Split) -> None:
    empty = replace(split, validation_records=np.zeros(0, np.int64))
    with pytest.raises(DataError, match="validation"):
        tune("bper", empty, SMALL)


def test_what_is_tuned_for_all_that_is_said_about_items_learns_from_it(split: Split) -> None:
    space = {"factors": [4], "epochs": [1]}
    found = [tune("profile", split, space, sampler="grid", candidates=kind) for kind in ("item-all", "item")]
    assert found[0].parameters["candidates"] == "item-all"
    assert "candidates" not in found[1].parameters


def test_items_are_measured_as_evaluate_does(split: Split) -> None:
    model = BPR(factors=4, epochs=3).fit(split.train)
    users = ValidationUsers.of(split.validation.renumbered(split.train).user_items)
    found = evaluate(model, split.validation, 10).recommendation
    assert found is not None
    assert item_quality(model, users) == pytest.approx(found["ndcg_paper"], rel=1e-12)
