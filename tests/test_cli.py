"""Commands end to end, in one process and quick; what they print is what users rely on."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from whyrank import atomic
from whyrank.cli import main
from whyrank.data import Split, Triplets, read_split, write
from whyrank.models import Profile, load, model_class
from whyrank.service.report import shown_report

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """Runs a command; answers its exit code and what it wrote to both streams."""

    def run(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as leaving:
            main([str(argument) for argument in arguments])
        streams = capsys.readouterr()
        return int(leaving.value.code or 0), streams.out, streams.err

    return run


@pytest.fixture(scope="module")
def folder(split: Split, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cli")
    split.write(path / "split")
    write(split.data, path / "data.csv")
    return path


def test_the_demo_begins_with_cards_and_every_line_it_prints_runs(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, _ = call("demo")
    assert code == 0
    assert max(map(len, out.partition("Next:")[0].splitlines())) <= 80
    first = out.index("  - ")
    assert out.index("“") < out.index("finds a right reason"), "cards come before figures"
    assert "say the opposite" not in out[first : out.index("finds a right reason")]
    page = Path("demo/report.html").read_text(encoding="utf-8")
    assert page.index("“") < page.index("ndcg_paper")
    lines = [line.strip() for line in out.partition("Next:")[2].splitlines() if line.strip()]
    assert len(lines) == 4
    for line in lines:
        done = subprocess.run(line, shell=True, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{line}: {done.stderr}"


@pytest.mark.slow
def test_the_demo_ends_with_a_report_and_a_model_that_knows_its_figures(call: Call, tmp_path: Path) -> None:
    code, out, _ = call("demo", "-o", tmp_path / "demo", "--json")
    assert code == 0
    found = json.loads(out)
    figures = {row["name"]: row["explanation"]["ndcg_paper"] for row in found["models"]}
    assert figures["profile"] > figures["bper"] > figures["pop"] > figures["rand"]
    assert "because" in Path(found["report"]).read_text(encoding="utf-8")
    kept = shown_report(Path(found["model"]))
    assert kept is not None
    assert kept.strata


def test_the_way_from_nothing_to_reasons(call: Call, tmp_path: Path) -> None:
    data, split, model = tmp_path / "d.parquet", tmp_path / "split", tmp_path / "model"
    assert call("simulate", "small", "-o", data, "--users", 100, "--items", 30, "--records", 900)[0] == 0
    described = json.loads(call("describe", data, "--json")[1])
    assert described["users"] == 100
    assert json.loads(call("split", data, "-o", split, "--repeats", 2, "--json")[1])["splits"] == 2
    fitted = json.loads(call("fit", split, "--model", "bper", "--set", "epochs=30", "-o", model, "--json")[1])
    assert fitted["model"] == "bper"
    measured = json.loads(call("evaluate", model, split, "--json")[1])
    assert set(measured["explanation"]) >= {"ndcg_paper", "ndcg", "precision", "recall", "f1"}
    assert measured["recommendation"] is None
    assert 0 < measured["explanation"]["ndcg_paper"] < 1
    user, item = pl.read_parquet(data).select("user", "item").row(0)
    reasons = json.loads(call("explain", model, "--user", user, "--item", item, "-n", 3, "--json")[1])["reasons"]
    assert 1 <= len(reasons) <= 3
    assert {"explanation", "text", "score", "parts", "evidence", "sentence", "quotes"} < set(reasons[0])
    table = call("compare", split, "--models", f"pop,{model}", "--number", 1)[1]
    assert "pop" in table


def test_figures_are_kept_with_the_model_and_shown_by_the_service(call: Call, folder: Path, tmp_path: Path) -> None:
    split, model, results = folder / "split", tmp_path / "model", tmp_path / "results.json"
    call("fit", split, "--model", "bper-j", "--set", "epochs=5", "-o", model)
    fitted = shown_report(model)
    assert fitted is not None
    assert [row["epoch"] for row in fitted.training] == [1, 2, 3, 4, 5]
    curve = {"alpha": [0.0, 1.0], "explanation": [1.0, 3.0], "recommendation": [4.0, 2.0]}
    results.write_text(json.dumps({"experiments": {"alpha": {"bper-j": curve}}}))
    printed = json.loads(call("evaluate", model, split, "--save", "--alpha", results, "--json")[1])
    shown = shown_report(model)
    assert shown is not None
    assert shown.training == fitted.training
    assert shown.evaluation is not None
    assert shown.evaluation.explanation == printed["explanation"]
    assert shown.evaluation.recommendation == printed["recommendation"]
    at_own_mu = next(row for row in shown.mu_curve if row["mu"] == 0.7)
    assert at_own_mu["ndcg_paper"] == printed["explanation"]["ndcg_paper"]
    assert shown.alpha_curve[1] == {"alpha": 1.0, "explanation_f1": 0.03, "recommendation_f1": 0.02}
    assert len(shown.strata) == 3
    assert load(model).mu == 0.7


def test_a_model_without_mu_and_a_wrong_alpha_file(call: Call, folder: Path, tmp_path: Path) -> None:
    split, model, results = folder / "split", tmp_path / "model", tmp_path / "results.json"
    call("fit", split, "--model", "pop", "-o", model)
    assert shown_report(model) is None
    assert call("evaluate", model, split, "--save")[0] == 0
    shown = shown_report(model)
    assert shown is not None
    assert shown.mu_curve == []
    results.write_text(json.dumps({"experiments": {"alpha": {"bper-j": {}}}}))
    code, _, error = call("evaluate", model, split, "--save", "--alpha", results)
    assert (code, "only for bper-j" in error) == (2, True)
    assert call("evaluate", model, split, "--alpha", results)[0] == 2


def test_bulk_explanations_are_written_with_codes_for_unknown_ids(call: Call, folder: Path, tmp_path: Path) -> None:
    model, output = tmp_path / "model", tmp_path / "reasons.parquet"
    call("fit", folder / "split", "--model", "pop", "-o", model)
    pairs = pl.read_csv(folder / "data.csv").select("user", "item").head(50)
    strange = pl.DataFrame({"user": ["nobody", pairs["user"][0]], "item": [pairs["item"][0], "nothing"]})
    pl.concat([pairs, strange]).write_parquet(tmp_path / "pairs.parquet")
    report = json.loads(
        call("explain", model, "--pairs", tmp_path / "pairs.parquet", "-o", output, "-n", 2, "--json")[1]
    )
    table = pl.read_parquet(output)
    first = table.filter(pl.col("rank").is_null() | (pl.col("rank") == 1))
    assert report["statuses"] == dict(first["status"].value_counts().rows())
    assert (report["unknown_users"], report["statuses"]["unknown_item"], len(first)) == (1, 1, 52)
    assert first.tail(2)["status"].to_list() == ["ok", "unknown_item"]
    assert first.tail(2)["fallback"].to_list() == ["unknown_user", None]
    assert table["rank"].count() == report["reasons"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "pairs.parquet", "reasons.parquet"]


def test_recommendations_come_with_reasons(call: Call, folder: Path, tmp_path: Path) -> None:
    call("fit", folder / "split", "--model", "bper-j", "--set", "epochs=20", "-o", tmp_path / "model")
    user = pl.read_csv(folder / "data.csv")["user"][0]
    found = json.loads(call("recommend", tmp_path / "model", "--user", user, "-n", 2, "--json")[1])
    assert all(1 <= len(each["reasons"]) <= 3 for each in found["recommendations"])
    pairs = json.loads(call("recommend", tmp_path / "model", "--user", user, "--joint", "-n", 4, "--json")[1])["pairs"]
    assert len(pairs) == 4
    code, out, _ = call("recommend", tmp_path / "model", "--user", user, "-n", 1)
    assert code == 0
    assert found["recommendations"][0]["reasons"][0]["sentence"][:20] in out
    assert "because" not in out
    assert "because" in call("recommend", tmp_path / "model", "--user", user, "-n", 1, "--scores")[1]


def test_data_can_be_converted_and_columns_renamed(call: Call, folder: Path, tmp_path: Path) -> None:
    renamed = pl.read_csv(folder / "data.csv").rename({"user": "who"})
    renamed.write_csv(tmp_path / "renamed.csv")
    assert call("convert", tmp_path / "renamed.csv", "-o", tmp_path / "extra", "--columns", "user=who")[0] == 0
    assert (tmp_path / "extra" / "IDs.pickle").is_file()
    assert json.loads(call("describe", tmp_path / "extra", "--json")[1])["records"] == 1500


def test_bad_rows_can_be_skipped_and_are_reported(call: Call, folder: Path, tmp_path: Path) -> None:
    text = (folder / "data.csv").read_text() + "a,b\n"
    (tmp_path / "bad.csv").write_text(text)
    code, _, err = call("describe", tmp_path / "bad.csv")
    assert code == 2
    assert err.endswith("; --on-error skip leaves such rows out\n")
    code, _, err = call("describe", tmp_path / "bad.csv", "--on-error", "skip")
    assert code == 0
    assert "skipped 1 row" in err


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("describe", "nowhere.csv"), "no such file or folder"),
        (("fit", "{data}", "--model", "magic", "-o", "{out}"), "unknown model 'magic'"),
        (("fit", "{data}", "--model", "bper", "--set", "factors=many", "-o", "{out}"), "factors is 'many'"),
        (("fit", "{data}", "--model", "bper", "--set", "factor=3", "-o", "{out}"), "no parameter 'factor'"),
        (("fit", "{data}", "--model", "bper", "--set", "factors=0", "-o", "{out}"), "factors is 0; use at least 1"),
        (("fit", "{data}", "--set", "oops", "-o", "{out}"), "--set takes name=value"),
        (("evaluate", "{out}", "{split}"), "is not a saved model"),
        (("explain", "{split}", "--user", "u"), "is not a saved model|give --user and --item"),
        (("compare", "{split}", "--models", "pop", "--test", "coin"), "test is 'coin'"),
        (("split", "{data}", "-o", "{out}", "--test", "2"), "test is 2.0"),
        (("simulate", "small"), "nothing to write"),
    ],
)
def test_bad_input_is_one_clear_line_and_exit_code_2(
    call: Call, folder: Path, tmp_path: Path, arguments: tuple[str, ...], problem: str
) -> None:
    import re

    names = {"data": folder / "data.csv", "split": folder / "split", "out": tmp_path / "out"}
    code, out, err = call(*(argument.format(**names) for argument in arguments))
    assert code == 2
    assert out == ""
    assert re.search(problem, err)
    assert len(err.strip().splitlines()) == 1
    assert "Traceback" not in err
    assert not (tmp_path / "out").exists()


def test_help_of_every_command_has_an_example_and_no_types_of_python(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    from whyrank.cli import commands
    from whyrank.cli.app import app

    assert commands  # importing them has registered them
    names = [command.name for command in app.registered_commands]
    groups = [(group.name, group.typer_instance) for group in app.registered_groups if group.name]
    names += [name for name, _ in groups]
    assert {"demo", "mine", "describe", "simulate", "split", "fit", "evaluate", "compare", "explain"} <= set(names)
    monkeypatch.setenv("COLUMNS", "80")
    inner = [(name, each.name) for name, group in groups if group for each in group.registered_commands]
    for name in [*((name,) for name in names), *inner]:
        code, out, _ = call(*name, "--help")
        assert code == 0
        assert "xample" in out, name
        assert not re.search(r"<\w+|list\[|Path\b|x[<>]=", out), name
        assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [
        ("fit", "--config", "FILE"),
        ("fit", "--output", "FOLDER"),
        ("convert", "--output", "PATH"),
        ("fit", "--set", "NAME=VALUE"),
        ("explain", "--user", "ID"),
        ("explain", "--diversity", "NUMBER"),
        ("serve", "--port", "0-65535"),
        ("recommend", "--users", "FILE|all"),
        ("estimate", "--until", "TIME"),
        ("serve", "models...", "FOLDER"),
        ("study create", "-n", "1-20"),
    ],
)
def test_help_names_values_in_plain_words(call: Call, name: str, option: str, value: str) -> None:
    _, out, _ = call(*name.split(), "--help")
    assert re.search(rf"{re.escape(option)} +(-\w +)?{re.escape(value)} ", out)


def test_a_config_file_sets_a_model_and_set_overrides_it(call: Call, folder: Path, tmp_path: Path) -> None:
    config = tmp_path / "best.json"
    config.write_text(json.dumps({"model": "bper", "parameters": {"epochs": 3, "factors": 4}}))
    call("fit", folder / "data.csv", "--config", config, "--set", "factors=6", "-o", tmp_path / "model")
    manifest = json.loads((tmp_path / "model" / "manifest.json").read_text())
    assert manifest["parameters"]["epochs"] == 3
    assert manifest["parameters"]["factors"] == 6


def test_an_interrupted_fit_resumes_to_the_same_bits(
    call: Call, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ("--model", "bper", "--set", "epochs=40", "--set", "seed=5")
    call("fit", folder / "split", *settings, "-o", tmp_path / "whole")
    from whyrank.models.base import Model

    monkeypatch.setattr(Model, "save", lambda self, path, report: (_ for _ in ()).throw(KeyboardInterrupt()))
    code, _, err = call("fit", folder / "split", *settings, "-o", tmp_path / "later")
    assert (code, "interrupted; the same command with --resume goes on" in err) == (130, True)
    assert (tmp_path / ".later.checkpoint").exists()
    monkeypatch.undo()
    assert call("fit", folder / "split", *settings, "-o", tmp_path / "later", "--resume")[0] == 0
    for name in ("user_factors", "explanation_by_item", "item_bias"):
        ours, theirs = ((tmp_path / run / "arrays" / f"model.{name}.npy").read_bytes() for run in ("whole", "later"))
        assert ours == theirs
    assert not (tmp_path / ".later.checkpoint").exists()


def test_mining_from_the_command_line(call: Call, tmp_path: Path) -> None:
    from whyrank.data.tables import write_table
    from whyrank.lab.simulate import simulate_reviews

    write_table(simulate_reviews("small", users=150, items=40, records=1200, seed=2), tmp_path / "reviews.jsonl.gz")
    code, out, err = call("mine", tmp_path / "reviews.jsonl.gz", "-o", tmp_path / "mined", "--rules")
    assert code == 0
    assert "What the rules dropped" in out
    assert "statements" in err
    described = json.loads(call("describe", tmp_path / "mined", "--json")[1])
    assert described["explanations"] > 20


def test_the_data_reader_takes_a_mined_split_or_plain_folder(folder: Path) -> None:
    from whyrank.data import read

    assert isinstance(read(folder / "split"), Triplets)


def test_the_doctor_looks_at_versions_caches_and_bits(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whyrank.cli.doctor.EPOCHS", 1)
    monkeypatch.setattr("whyrank.models.MODELS", {name: model_class(name) for name in ("pop", "bper")})
    code, out, _ = call("doctor", "--compile", "--json")
    facts = json.loads(out)
    assert code == 0
    assert facts["compiled"].startswith("in ")
    assert facts["deterministic"] is True
    assert facts["versions"]["numpy"]
    assert {"msgspec", "uvloop"} <= set(facts["versions"])
    assert set(facts["caches"]) == {"kernels", "text vectors"}
    bits = iter(["first", "one", "other"])
    monkeypatch.setattr("whyrank.cli.doctor._fitted", lambda *_: (1.0, next(bits)))
    code, out, _ = call("doctor")
    assert code == 1
    assert "NO: 1 and 2 threads" in out


@pytest.fixture
def joint(call: Call, folder: Path, tmp_path: Path) -> Path:
    call("fit", folder / "split", "--model", "bper-j", "--set", "epochs=5", "-o", tmp_path / "joint")
    return tmp_path / "joint"


@pytest.mark.parametrize("command", ["fit", "split", "export", "mine"])
def test_a_folder_with_other_things_in_it_is_left_alone(
    call: Call, folder: Path, tmp_path: Path, joint: Path, command: str
) -> None:
    (tmp_path / "mine" / "sub").mkdir(parents=True)
    (tmp_path / "mine" / "sub" / "thesis.tex").write_text("years of work")
    given = {"fit": folder / "split", "split": folder / "data.csv", "export": joint, "mine": folder / "data.csv"}
    code, _, err = call(command, given[command], "-o", tmp_path / "mine")
    assert code == 2
    assert "which would be lost" in err
    assert (tmp_path / "mine" / "sub" / "thesis.tex").read_text() == "years of work"


def test_no_command_takes_the_place_of_its_input(call: Call, folder: Path, tmp_path: Path, joint: Path) -> None:
    shutil.copytree(folder / "split", tmp_path / "split")
    pl.DataFrame({"user": ["u"], "item": ["i"]}).write_parquet(tmp_path / "pairs.parquet")
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    for arguments in (
        ("fit", tmp_path / "split", "--model", "pop", "-o", tmp_path / "split"),
        ("split", tmp_path / "split", "-o", tmp_path / "split"),
        ("explain", joint, "--pairs", tmp_path / "pairs.parquet", "-o", tmp_path / "pairs.parquet"),
    ):
        assert call(*arguments)[0] == 2
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == before


def test_a_link_to_a_model_stays_a_link_and_shows_the_new_one(call: Call, folder: Path, tmp_path: Path) -> None:
    for kind in ("pop", "rand"):
        call("fit", folder / "split", "--model", kind, "-o", tmp_path / ("v1" if kind == "pop" else "current"))
        if kind == "pop":
            (tmp_path / "current").symlink_to("v1")
    assert (tmp_path / "current").is_symlink()
    assert load(tmp_path / "v1").id == "rand"


def test_bulk_that_cannot_begin_leaves_nothing(call: Call, tmp_path: Path, joint: Path) -> None:
    (tmp_path / "bad.csv").write_text("who,what\n1,2\n")
    before = sorted(tmp_path.iterdir())
    for name in ("nosuch.csv", "bad.csv"):
        assert call("explain", joint, "--pairs", tmp_path / name, "-o", tmp_path / "reasons.parquet")[0] == 2
    assert sorted(tmp_path.iterdir()) == before


def test_items_and_reasons_ranked_together_obey_the_options(call: Call, split: Split, joint: Path) -> None:
    user, catalog = split.data.users.ids[0], load(joint).catalog_
    asked = ("recommend", joint, "--user", user, "--joint", "-n", 5, "--json")
    against = json.loads(call(*asked, "--polarity", "negative")[1])["pairs"]
    numbers = catalog.explanations.numbers([pair["reason"]["explanation"] for pair in against])
    assert len(against) == 5
    assert (catalog.sentiment[numbers] < 0).all()
    first = json.loads(call(*asked)[1])["pairs"][0]["reason"]
    without = json.loads(call(*asked, "--exclude", first["explanation"])[1])["pairs"]
    assert first["explanation"] not in [pair["reason"]["explanation"] for pair in without]
    lifted = json.loads(call(*asked, "--boost", f"{without[4]['reason']['explanation']}=1000")[1])["pairs"]
    assert lifted[0]["reason"]["explanation"] == without[4]["reason"]["explanation"]
    for wrong in (("--reasons", 2), ("--diversity", 0.5), ("--boost", "e=much")):
        assert call(*asked, *wrong)[0] == 2
    assert call("recommend", joint, "--user", user, "--weight", 2)[0] == 2


def test_fitting_to_a_split_stops_by_its_validation_part_as_the_library_does(
    call: Call, folder: Path, split: Split, tmp_path: Path
) -> None:
    call("fit", folder / "split", "--model", "profile", "-o", tmp_path / "model")
    ours, theirs = load(tmp_path / "model"), Profile().fit(read_split(folder / "split"))
    np.testing.assert_array_equal(ours.keys(), theirs.keys())


def test_figures_on_pairs_that_the_model_knows_come_with_a_warning(call: Call, folder: Path, tmp_path: Path) -> None:
    for data, warned in (("data.csv", True), ("split", False)):
        call("fit", folder / data, "--model", "pop", "-o", tmp_path / "model")
        code, out, err = call("evaluate", tmp_path / "model", folder / "split", "--json")
        assert code == 0
        assert (json.loads(out)["known_pairs"] > 0, "too good for new ones" in err) == (warned, warned)


def test_a_folder_does_not_take_the_place_of_the_model_it_is_named_after(
    call: Call, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    call("fit", folder / "split", "--model", "rand", "-o", "pop")
    asked = ("compare", folder / "split", "--json", "--models")
    fresh, fitted = json.loads(call(*asked, "pop,./pop")[1])["models"]
    assert fresh["explanation"]["ndcg_paper"] > fitted["explanation"]["ndcg_paper"]
    for models, setting in (("./pop", "pop.seed=1"), ("pop", "bper.factors=3"), ("bper", "factors=3")):
        code, _, err = call(*asked, models, "--set", setting)
        assert (code, f"--set {setting}" in err) == (2, True)
    assert call(*asked, ",")[0] == 2


def test_the_training_curve_of_a_joint_fit_is_a_line_for_each_task(call: Call, folder: Path, tmp_path: Path) -> None:
    call("fit", folder / "split", "--set", "epochs=3", "--set", "item_epochs=4", "-o", tmp_path / "model")
    kept = shown_report(tmp_path / "model")
    assert kept is not None
    for name in ("loss", "item_loss"):
        curve = [(row["epoch"], row[name]) for row in kept.training if name in row]
        assert [epoch for epoch, _ in curve] == list(range(1, len(curve) + 1))
        losses = [loss for _, loss in curve]
        assert len(losses) > 1
        assert losses == sorted(losses, reverse=True)


def test_a_fit_that_is_killed_while_it_writes_leaves_no_model_without_its_curve(
    call: Call, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, swap = [], atomic._swap_in

    def look(aside: Path, path: Path) -> Path | None:
        seen.append((path.name, (aside / "metrics.json").is_file()))
        return swap(aside, path)

    monkeypatch.setattr(atomic, "_swap_in", look)
    call("fit", folder / "split", "--model", "bper", "--set", "epochs=2", "-o", tmp_path / "model")
    assert seen == [("model", True)]


def test_a_configuration_for_another_model_is_refused(call: Call, folder: Path, tmp_path: Path) -> None:
    config = tmp_path / "best.json"
    config.write_text(json.dumps({"model": "bper", "parameters": {"epochs": 3}}))
    asked = ("fit", folder / "split", "-o", tmp_path / "model", "--config")
    assert "is for bper" in call(*asked, config, "--model", "pitf")[2]
    assert "No such file" in call(*asked, tmp_path / "nothing.json")[2]


def test_where_no_bar_can_be_drawn_lines_say_how_far_it_is(
    call: Call, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whyrank.cli.lines.EVERY", 0.0)
    err = call("fit", folder / "split", "--model", "bper", "--set", "epochs=3", "-o", tmp_path / "model")[2]
    assert re.search(r"fitting bper: 2 of 3, about \d+ s left, loss \d\.\d+", err)


def test_mining_nothing_is_an_error_that_writes_nothing(call: Call, tmp_path: Path) -> None:
    (tmp_path / "reviews.jsonl").write_text('{"user": "a", "item": "x", "text": "Great pool [sic] \\u001b[31mred"}\n')
    code, out, err = call("mine", tmp_path / "reviews.jsonl", "-o", tmp_path / "mined")
    assert (code, out) == (2, "")
    assert "no statement was found" in err
    assert not (tmp_path / "mined").exists()


def test_the_scale_of_ratings_and_the_growth_of_files_can_be_named(call: Call, tmp_path: Path) -> None:
    import whyrank.cli.app
    from whyrank.data import compressed

    assert whyrank.cli.app.EXPANSION == compressed.EXPANSION
    rows = "".join(f"u{n},i,e,{rating}\n" for n, rating in enumerate([5, 4, 1, 2, 5, 4, 3, 5, 1, 26]))
    (tmp_path / "t.csv").write_text(f"user,item,explanation,rating\n{rows}")
    code, out, err = call("describe", tmp_path / "t.csv", "--json")
    assert (code, json.loads(out)["ratings"]["high"]) == (0, 5)
    assert "warning: 1 rating outside of the scale 1 to 5" in err
    named = call("describe", tmp_path / "t.csv", "--json", "--rating-range", "0:30", "--max-expansion", 5)
    assert json.loads(named[1])["ratings"]["high"] == 26
    assert call("describe", tmp_path / "t.csv", "--rating-range", "5")[0] == 2
    for command in ("split", "convert", "fit"):
        code, _, err = call(command, tmp_path / "t.csv", "-o", tmp_path / command, "--rating-range", "9:1")
        assert (code, "rating_range is (9.0, 1.0)" in err) == (2, True)


NASTY = [
    "[/b] closed",
    "[sic] said",
    "\x1b[31mred\x1b[0m",
    "\x9b31m",
    ":smile:",
    "\u202eback",
    "[link=file:///x]y[/link]",
]


def test_texts_ids_and_names_of_files_are_shown_and_never_obeyed(call: Call, tmp_path: Path) -> None:
    rows = {"user": NASTY, "item": NASTY[::-1], "explanation": NASTY}
    folder = tmp_path / "[b] [sic] \x1b[31m"
    folder.mkdir()
    write(Triplets.from_frame(pl.DataFrame(rows)), folder / "t.parquet")
    said = [call("describe", folder / "t.parquet"), call("describe", folder / "t.parquet", "--json")]
    said += [call("fit", folder / "t.parquet", "--model", "pop", "-o", folder / "pop")]
    said += [call("fit", folder / "t.parquet", "--model", "share", "-o", folder / "share")]
    for user in NASTY:
        said += [call("explain", folder / "pop", "-u", user, "-i", NASTY[2], "-n", 9, "--no-grounded")]
        said += [call("explain", folder / "pop", "-u", user, "-i", NASTY[2], "-n", 9, "--no-grounded", "--scores")]
        said += [call("explain", folder / "pop", "-u", user, "-i", NASTY[2], "--json")]
    assert all(code == 0 for code, _, _ in said)
    wrong = [call("describe", folder / "t.parquet", "--columns", "user=\x1b[31m")]
    wrong += [call("explain", folder / "pop", "-u", "\x1b[31m", "-i", "[/b]")]
    wrong += [call("evaluate", folder / "nothing [/b]", folder / "pop")]
    assert all(code == 2 for code, _, _ in wrong)
    for _, out, err in said + wrong:
        assert not re.search(
            "[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", out + re.sub("\x1b\\[(31|1|0)m(?=error|$| )", "", err)
        )
    card, scores = (" ".join(out.split()) for _, out, _ in said[4:6])
    for text in ("[/b] closed", "[sic] said", r"\x1b[31mred\x1b[0m", r"\x9b31m", ":smile:", r"\u202eback"):
        assert text in card
        assert text in scores
    assert "[/b]" in wrong[2][2]


# -- at 80 columns, and in the words of the command line ---------------------------------------------------------------


@pytest.fixture(scope="module")
def counts_model(folder: Path) -> Path:
    with pytest.raises(SystemExit):
        main(["fit", str(folder / "split"), "--model", "counts", "-o", str(folder / "counts"), "--json"])
    return folder / "counts"


def test_every_table_fits_80_columns_without_cutting_anything(
    call: Call, folder: Path, counts_model: Path, split: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    user, item = split.train.users.ids[0], split.train.items.ids[0]
    asked = (
        ("compare", folder / "split", "--models", f"pop,rand,{counts_model}", "--number", 1),
        ("evaluate", counts_model, folder / "split"),
        ("explain", counts_model, "--user", user, "--item", item, "--scores", "--no-grounded"),
        ("describe", folder / "data.csv"),
        ("models",),
    )
    for arguments in asked:
        code, out, err = call(*arguments)
        assert code == 0, err
        assert "…" not in out, arguments
        limit = 80 if str(counts_model) not in out else 80 + len(str(counts_model))  # a name is never cut
        assert max(map(len, out.splitlines())) <= limit, arguments
    assert "columns user, item, explanation" in call("describe", folder / "data.csv")[2]
    told = call("compare", folder / "split", "--models", "pop,rand", "--number", 1)
    assert "pop finds a right reason in" in told[1]
    assert "the baseline rand is the second best of these" in told[2]


def test_a_wrong_option_is_told_in_one_line(call: Call, folder: Path) -> None:
    for arguments, told in (
        (("fit", folder / "data.csv", "--bogus", 1), "no such option: --bogus"),
        (("fit",), "missing argument"),
        (("bogus",), "no such command 'bogus'"),
        (("split", folder / "data.csv", "-o", "x", "--repeats", "many"), "--repeats"),
    ):
        code, out, err = call(*arguments)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert told in err
        assert "--help" in err


def test_messages_name_options_not_arguments(call: Call, tmp_path: Path) -> None:
    (tmp_path / "two.csv").write_text("reviewer,thing\n1,2\n")
    code, _, err = call("describe", tmp_path / "two.csv")
    assert code == 2
    assert "--columns user=NAME" in err
    assert "the file has reviewer, thing" in err


def test_what_was_done_is_told_in_a_sentence(call: Call, folder: Path, tmp_path: Path) -> None:
    told = call("split", folder / "data.csv", "-o", tmp_path / "split")[2]
    assert re.search(r"[\d,]+ triplets \([\d,]+ users, .*\) split into [\d,]+ training, [\d,]+ validation and", told)
    told = call("fit", tmp_path / "split", "--model", "pop", "-o", tmp_path / "pop")[2]
    assert re.search(r"pop fitted to [\d,]+ triplets \(", told)
