"""Experiments: every one writes its part, runs are remembered, reports stand alone, figures come from plain oracles."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from whyrank.data import CSR, Split, Triplets, splits
from whyrank.errors import ParameterError, WhyrankError
from whyrank.evaluation import compare, evaluate
from whyrank.evaluation.beyond import propensity_ndcg
from whyrank.lab.experiments import lab as lab_module
from whyrank.lab.experiments import ranking, strata, tuning
from whyrank.lab.experiments.cache import Cache, Result, digest
from whyrank.lab.experiments.jobs import Job
from whyrank.lab.experiments.lab import Lab, of_same_data, read_configs, read_tuned
from whyrank.lab.experiments.measures import choose_mu
from whyrank.lab.experiments.plots import Curve
from whyrank.lab.experiments.published import published_for
from whyrank.lab.experiments.report import ExperimentReport
from whyrank.lab.experiments.suite import EXPERIMENTS, names_of, run, tune_first
from whyrank.lab.experiments.workers import processes
from whyrank.models import BPER, BPR, POP, SHARE, Profile
from whyrank.render import latex_text

pytest.importorskip("matplotlib")
QUICK: dict[str, dict[str, object]] = {
    name: {"epochs": 3, "factors": 4} for name in ("cd", "pitf", "bper", "bper-j", "bpr", "profile")
}
MODELS = ["pop", "bper", "profile", "bper-j", "bpr"]


@pytest.fixture(scope="module")
def parts(data: Triplets) -> list[Split]:
    return splits(data, 2, seed=4)


@pytest.fixture(scope="module")
def ranked(parts: list[Split], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with the table of methods."""
    folder = tmp_path_factory.mktemp("ranking")
    run(["ranking"], Lab("toy", parts, Cache(folder / "runs"), QUICK, ["pop", "bper"]), folder)
    return folder


@pytest.fixture(scope="module")
def made(parts: list[Split], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with every experiment: what uses it is slow."""
    folder = tmp_path_factory.mktemp("report")
    run(names_of("all"), Lab("toy", parts, Cache(folder / "runs"), QUICK, MODELS), folder)
    return folder


def toy_lab(parts: list[Split], folder: Path) -> Lab:
    return Lab("toy", parts[:1], Cache(folder), QUICK, ["pop", "bper"])


# -- the report --------------------------------------------------------------------------------------------------------


def test_a_report_opens_without_network_and_is_small(ranked: Path) -> None:
    page = (ranked / "report.html").read_text()
    assert len(page) < 2_000_000
    for link in re.findall(r"(?:src|href)=['\"]([^'\"]*)", page):
        assert link.startswith("#"), link
    assert "@import" not in page
    assert "width=device-width" in page


@pytest.mark.slow
def test_every_experiment_has_results(made: Path) -> None:
    results = json.loads((made / "results.json").read_text())["experiments"]
    assert set(results) == set(EXPERIMENTS)
    assert all(results.values())


@pytest.mark.slow
def test_goals_cost_accuracy_and_give_what_they_are_for(made: Path) -> None:
    goals = json.loads((made / "results.json").read_text())["experiments"]["beyond"]["goals"]
    assert set(goals["fairness tail"]) == {"bper-j", "bpr"}
    for curve in goals["fairness tail"].values():
        assert np.all(np.diff(curve) >= -1e-9)
        assert curve[-1] > curve[0]
    for curve in goals["serendipity unexpected"].values():
        assert curve[-1] > curve[0]


@pytest.mark.slow
def test_each_picture_is_there_as_svg_and_png_with_a_caption_and_ids_of_its_own(made: Path) -> None:
    pictures = [set(re.findall(r'id="(m[0-9a-f]+|p[0-9a-f]+)"', p.read_text())) for p in made.glob("figures/*.svg")]
    assert sum(map(len, pictures)) == len(set().union(*pictures))
    text = (made / "report.md").read_text()
    names = {path.stem for path in (made / "figures").iterdir()}
    assert names == {"mu", "sparsity", "alpha", "popularity", "known", "cost", "options", "goals"}
    for name in names:
        assert (made / "figures" / f"{name}.svg").is_file()
        caption = re.search(rf"!\[([^\]]*)\]\(figures/{name}.png\)", text)
        assert caption
        assert "Data: toy; means over 2 splits" in caption[1]


@pytest.mark.slow
def test_the_plain_recommender_stands_beside_the_joint_models_with_its_items_alone(
    made: Path, parts: list[Split]
) -> None:
    rows = {row[0]: row[1:] for row in csv.reader((made / "tables" / "joint.csv").read_text().splitlines())}
    found = [evaluate(BPR(epochs=3, factors=4).fit(part), part).recommendation for part in parts]
    expected = [f"{1000 * np.mean([each[m] for each in found if each]):.2f}" for m in ("ndcg_paper", "f1")]
    assert rows["bpr: items alone"] == ["", "", "", "", *expected]
    assert rows["bper-j: separate tasks"][4:] == expected  # alpha = 0 with the same settings


def test_the_table_of_methods_says_what_evaluate_says(ranked: Path, parts: list[Split]) -> None:
    rows = {row[0]: row for row in csv.reader((ranked / "tables" / "ranking.csv").read_text().splitlines())}
    expected = []
    for part in parts:
        first, scores = BPER(epochs=3, factors=4).fit(part.train), []
        for first.mu in np.arange(11) / 10:
            scores.append(evaluate(first, part.validation).explanation["ndcg_paper"])
        model = BPER(epochs=3, factors=4, mu=int(np.argmax(scores)) / 10).fit(part.training)
        expected.append(evaluate(model, part).explanation["ndcg_paper"])
    assert rows["bper"][1].startswith(f"{100 * np.mean(expected):.3f} ")


def test_latex_has_no_bare_marks(ranked: Path) -> None:
    for path in ranked.glob("tables/*.tex"):
        for line in path.read_text().splitlines():
            assert not re.search(r"(?<!\\)[%_#]", line), f"{path.name}: {line}"
    assert latex_text("50% a_b & 1‰ ↑") == r"50\% a\_b \& 1\textperthousand{} $\uparrow$"


# -- runs --------------------------------------------------------------------------------------------------------------


def test_a_second_run_fits_nothing_and_writes_the_same(
    parts: list[Split], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["ranking", "mu", "relation"]
    run(names, toy_lab(parts, tmp_path / "runs"), tmp_path / "one")
    monkeypatch.setattr(lab_module.Lab, "_run", lambda *_: pytest.fail("ran again"))
    run(names, toy_lab(parts, tmp_path / "runs"), tmp_path / "two")
    for name in ("report.html", "report.md", "results.json", "tables/ranking.tex", "figures/mu.svg"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_an_interrupted_run_goes_on(parts: list[Split], tmp_path: Path) -> None:
    def stop(what: str, done: int, of: int) -> None:
        if done == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(["ranking"], toy_lab(parts, tmp_path), tmp_path / "report", stop)
    seen: list[int] = []
    run(["ranking"], toy_lab(parts, tmp_path), tmp_path / "report", lambda what, done, of: seen.append(of))
    assert seen[-1] == 1


def test_runs_side_by_side_are_those_of_one_process(parts: list[Split], tmp_path: Path) -> None:
    jobs = [Job("pop", 0), Job("bper", 0), Job("bper", 0, "mu"), Job("bper", 1), Job("pitf", 0)]
    labs = [Lab("toy", parts, Cache(tmp_path / place), QUICK | {"pitf": {"factors": -1}}) for place in "ab"]
    seen: list[tuple[int, int]] = []
    labs[0].run(jobs[:-1])
    with processes(2) as workers:
        labs[1].run(jobs, lambda _, done, of: seen.append((done, of)), workers)
    assert seen[0] == (0, 5)
    assert seen[-1] == (5, 5)
    assert "factors is -1" in labs[1].skipped["pitf"]
    for job in jobs[:-1]:
        here, there = (lab.cache.load(lab.key(job)) for lab in labs)
        assert here is not None
        assert there is not None
        assert all(np.array_equal(here.arrays[name], there.arrays[name]) for name in here.arrays)
        assert here.facts.get("explanation") == there.facts.get("explanation")


def test_a_worker_that_ends_is_told_of(tmp_path: Path) -> None:
    with processes(1) as workers, pytest.raises(WhyrankError, match="before its work was done"):
        workers.gather([workers.submit(os._exit, 3)])


def test_workers_do_not_outlive_who_started_them(tmp_path: Path) -> None:
    """Killed outright, a process leaves nobody behind: the pipe that its worker holds is closed."""
    code = (
        "import os, sys, time\n"
        "from whyrank.lab.experiments.workers import processes\n"
        "if __name__ == '__main__':\n"
        "    with processes(1) as workers:\n"
        "        print(workers.gather([workers.submit(os.getpid)])[0], flush=True)\n"
        "        workers.gather([workers.submit(time.sleep, 600)])\n"
    )
    (tmp_path / "asks.py").write_text(code)
    with subprocess.Popen([sys.executable, tmp_path / "asks.py"], stdout=subprocess.PIPE, text=True) as asks:
        assert asks.stdout is not None
        assert int(asks.stdout.readline()) != asks.pid
        asks.kill()
        assert asks.stdout.read() == ""  # ends only when the worker, which writes there too, has ended


def test_joint_models_take_the_settings_of_the_model_without_items(parts: list[Split], tmp_path: Path) -> None:
    lab = Lab("toy", parts, Cache(tmp_path), {"bper": {"factors": 7}, "pitf": {"factors": 5}, "pitf-j": {"factors": 3}})
    assert [lab.make(Job(name, 0)).factors for name in ("bper-j", "pitf-j")] == [7, 3]


def test_a_key_changes_with_everything_that_matters(parts: list[Split], tmp_path: Path) -> None:
    lab = Lab("toy", parts, Cache(tmp_path), QUICK)
    jobs = [Job("bper", 0), Job("bper", 1), Job("pitf", 0), Job("bper", 0, "mu"), Job("bper", 0, share=0.3)]
    jobs += [Job("bper", 0, parameters=(("mu", 0.7),)), Job("bper", 0, parameters=(("factors", 5),))]
    assert len({digest(lab.key(job)) for job in jobs}) == len(jobs)
    assert digest(lab.key(Job("bper", 0))) == digest(Lab("other", parts, Cache(tmp_path), QUICK).key(Job("bper", 0)))


def test_a_cache_gives_back_what_it_took_and_survives_damage(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.save({"a": 1}, Result({"x": 0.25}, {"lists": np.arange(6, dtype=np.int32).reshape(2, 3)}))
    found = cache.load({"a": 1.0})
    assert found is not None
    assert found.facts == {"x": 0.25}
    assert found.arrays["lists"].tolist() == [[0, 1, 2], [3, 4, 5]]
    cache.path({"a": 1}).write_bytes(b"PK\x03\x04 damaged")
    assert cache.load({"a": 1}) is None
    assert cache.load({"a": 2}) is None


def test_a_model_that_cannot_run_is_left_out_with_its_reason(parts: list[Split], tmp_path: Path) -> None:
    lab = Lab("toy", parts[:1], Cache(tmp_path), QUICK | {"pitf": {"factors": -1}}, ["pop", "pitf", "bper"])
    _, facts = run(["ranking"], lab, tmp_path / "report")
    assert "factors is -1" in facts["skipped"]["pitf"]
    assert "pitf was left out" in (tmp_path / "report" / "report.md").read_text()


def test_configurations_are_read_by_model_and_bad_ones_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"model": "bper", "parameters": {"factors": 7, "mu": 0.2}, "about": 1}')
    assert read_configs(tmp_path) == {"bper": {"factors": 7}}
    (tmp_path / "b.json").write_text('{"model": "bper", "parameters": {}}')
    with pytest.raises(ParameterError, match="second"):
        read_configs(tmp_path)
    (tmp_path / "b.json").write_text("{}")
    with pytest.raises(ParameterError, match="configuration"):
        read_configs(tmp_path)


def test_unknown_experiments_and_pairs_are_refused(parts: list[Split], tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="unknown experiment"):
        names_of("rankings")
    lab = toy_lab(parts, tmp_path)
    lab.pairs = [("nobody", "nothing")]
    with pytest.raises(ParameterError, match="not a test pair"):
        run(["cases"], lab, tmp_path / "report")


@pytest.mark.slow
def test_the_relations_hold_as_mended_and_not_as_printed(made: Path) -> None:
    claims = json.loads((made / "results.json").read_text())["experiments"]["relation"]["claims"]
    verdicts = {claim["claim"]: claim["verdict"] for claim in claims}
    assert [verdicts[claim] for claim in sorted(verdicts)] == [
        "no" if "printed" in claim else "yes" for claim in sorted(verdicts)
    ]
    assert {claim["verdict"] for claim in claims} == {"yes", "no"}


# -- figures -----------------------------------------------------------------------------------------------------------


def test_strata_of_popularity_hold_a_third_each() -> None:
    strata_of = strata.popularity_strata(np.array([0, 6, 1, 2, 3, 3, 3]))
    assert strata_of.tolist() == [2, 0, 2, 2, 1, 1, 2]


def test_accuracy_in_strata_and_by_propensity_agrees_with_plain_loops() -> None:
    rng = np.random.default_rng(5)
    lists = np.array([rng.permutation(30)[:10] for _ in range(40)], np.int32)
    sets = [np.sort(rng.permutation(30)[: rng.integers(1, 13)]) for _ in range(40)]
    sizes = np.array([len(each) for each in sets])
    relevant = CSR(
        np.concatenate([[0], np.cumsum(sizes)]), np.concatenate(sets).astype(np.int32), np.ones(sizes.sum(), np.int32)
    )
    groups, popularity = rng.integers(0, 3, 30), rng.integers(0, 50, 30)
    gains = [1 / np.log2(place + 2) for place in range(10)]
    weight = (popularity + 1.0) ** -0.5
    expected: list[list[float]] = [[], [], []]
    reached = best = 0.0
    for row, said in zip(lists, sets, strict=True):
        for group in range(3):
            wanted = [e for e in said if groups[e] == group]
            if wanted:
                gain = sum(g for g, e in zip(gains, row, strict=True) if e in wanted)
                expected[group].append(gain / sum(gains[: len(wanted)]))
        reached += sum(g * weight[e] for g, e in zip(gains, row, strict=True) if e in said)
        best += sum(g * w for g, w in zip(gains, sorted(weight[said], reverse=True), strict=False))
    assert strata.by_explanation(lists, relevant, groups, 3) == pytest.approx([np.mean(each) for each in expected])
    assert propensity_ndcg(lists, relevant, popularity) == pytest.approx(reached / best)


def test_published_figures_stand_beside_the_papers_own_sets_only(data: Triplets) -> None:
    class Sizes:
        users, items, explanations = range(109_121), range(47_113), range(33_767)

    assert published_for(Sizes()).ranking["bper+"] == [2.877, 1.919, 14.936, 3.317]
    assert published_for(data) is None


def test_a_report_escapes_what_users_wrote() -> None:
    report = ExperimentReport("<b>", "").paragraph("<script>").table(["a"], [["<i>x</i>"]], name="t")
    assert "<script>" not in report.html()
    assert "<i>" not in report.html()


# -- commands ----------------------------------------------------------------------------------------------------------


def test_what_tune_writes_fit_and_experiment_read(
    parts: list[Split], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("optuna")
    from whyrank.cli import main
    from whyrank.data import write_splits

    def call(*arguments: object) -> dict[str, object]:
        with pytest.raises(SystemExit) as end:
            main([*map(str, arguments), "--json"])
        assert end.value.code == 0
        return json.loads(capsys.readouterr().out)

    folder = write_splits(parts, tmp_path / "split")
    space = tmp_path / "space.json"
    space.write_text('{"factors": [3, 5], "epochs": [2, 4], "learning_rate": [0.05]}')
    config = tmp_path / "configs" / "bper.json"
    found = call("tune", folder, "--model", "bper", "--sampler", "grid", "--space", space, "-o", config)
    assert found["model"] == "bper"
    assert call("fit", folder, "--config", config, "-o", tmp_path / "model")["model"] == "bper"
    pair = (
        parts[0].test.users.ids[int(parts[0].test.record_user[0])],
        parts[0].test.items.ids[int(parts[0].test.record_item[0])],
    )
    (tmp_path / "titles.csv").write_text(f"item,title\n{pair[1]},The Old Mill\n")
    options = ("--models", "pop,bper", "--config", config.parent, "--splits", 1, "--pair", ",".join(pair))
    options += ("--titles", tmp_path / "titles.csv")
    report = call("experiment", "ranking,cases", folder, "-o", tmp_path / "report", *options)
    assert "The Old Mill" in Path(str(report["report"])).read_text(encoding="utf-8")
    assert report["experiments"]["cases"]["cases"][0]["user"] == pair[0]


def test_experiments_tune_first_with_the_same_budget_for_all(
    parts: list[Split], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("optuna")
    lab = Lab("small", parts, Cache(tmp_path / "runs"), models=["pop", "counts", "rucf"])
    try_out = tuning.try_out
    monkeypatch.setattr(tuning, "try_out", lambda *call: try_out(*call) if call[1] else (None, {}))  # no defaults
    tune_first(["ranking"], lab, tmp_path / "configs", trials=2)
    assert [set(lab.tuned[split]) for split in (0, 1)] == [{"counts", "rucf"}] * 2
    for split in (1, 2):  # each from validation of its own split
        document = json.loads((tmp_path / "configs" / str(split) / "counts.json").read_text())
        assert document["about"]["trials"] == 2
        assert document["about"]["split"]["number"] == split
        assert lab.make(Job("counts", split - 1)).power == document["parameters"]["power"]
    assert read_tuned(tmp_path / "configs", 2) == lab.tuned
    again = Lab("small", parts, Cache(tmp_path / "runs"), models=["counts"])
    tune_first(["ranking"], again, tmp_path / "configs", trials=2)  # nothing left to try
    assert again.tuned[1]["counts"] == lab.tuned[1]["counts"]


def test_a_joint_model_takes_what_was_tuned_for_the_model_without_items(parts: list[Split], tmp_path: Path) -> None:
    lab = Lab("small", parts, Cache(tmp_path / "runs"), tuned={1: {"bper": {"factors": 7}}})
    assert [lab.make(Job("bper-j", split)).factors for split in (0, 1)] == [20, 7]


def test_a_configuration_of_one_split_is_named_where_others_of_the_data_are_measured(
    parts: list[Split], tmp_path: Path
) -> None:
    data = parts[0].data.digest()
    for name, about in (("bper", {"data": data}), ("pitf", {"data": "other"}), ("cd", {})):
        document = {"model": name, "parameters": {}, "about": about}
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
    assert of_same_data(tmp_path, data) == ["bper"]


@pytest.mark.parametrize("kind", ["item", "item-all"])
def test_the_table_of_methods_ranks_candidates_as_compare_does(parts: list[Split], tmp_path: Path, kind: str) -> None:
    lab = Lab("small", parts[:1], Cache(tmp_path), QUICK, models=["pop", "share", "profile"], candidates=kind)
    lab.run(ranking.jobs(lab))
    found = ranking.comparison(lab)
    mu = lab.facts(Job("share", 0, candidates=kind))["mu"]
    models = {"pop": POP(), "share": SHARE(mu=mu), "profile": Profile(epochs=3, factors=4)}
    expected = compare(models, parts[0], candidates=kind, baseline=found.baseline)
    assert found.note() == expected.note()
    assert ("profile learned from such candidates" in found.note()) == (kind == "item-all")
    for row, other in zip(found.rows, expected.rows, strict=True):
        assert row.mean("ndcg") == other.mean("ndcg")
        assert row.evaluations[0].reach == other.evaluations[0].reach
    assert found.p_values("ndcg") == expected.p_values("ndcg")


def test_mu_is_chosen_by_a_model_that_has_not_learned_from_validation(parts: list[Split], tmp_path: Path) -> None:
    lab = Lab("small", parts[:1], Cache(tmp_path), models=["share"])
    chosen = lab.facts(Job("share", 0))["mu"]
    assert chosen == choose_mu(SHARE().fit(parts[0].train), parts[0].validation)


def test_deviations_in_pictures_are_those_of_a_sample() -> None:
    values = np.array([[1.0, 2.0], [3.0, np.nan], [8.0, 4.0]])
    found = Curve("x", [0, 1], values).deviation
    assert found == pytest.approx([values[:, 0].std(ddof=1), np.array([2.0, 4.0]).std(ddof=1)])
    assert Curve("x", [0, 1], values[:1]).deviation.tolist() == [0, 0]
