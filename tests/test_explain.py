"""One explain for everybody: evidence and lists against plain Python, one policy in Python, CLI, service and bulk."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from test_people import POOL, ROWS, Row, are_opposites, one_time_per_record, position, some_rows, table
from whyrank.cli import main
from whyrank.cli.cards import card
from whyrank.data.triplets import Triplets
from whyrank.errors import ParameterError, UnknownId
from whyrank.explain._columns import distinct_rows
from whyrank.explain.bulk import BulkColumns, explain_file
from whyrank.explain.evidence import Evidence
from whyrank.explain.options import Options
from whyrank.explain.rank import rank
from whyrank.explain.reasons import reasons
from whyrank.explain.reasons import table as reason_table
from whyrank.explain.result import explain
from whyrank.explain.topics import groups_of
from whyrank.models import BPER, BPERJ, COUNTS, POP, Model, load
from whyrank.service.app import create_app
from whyrank.service.settings import Settings

SEVERAL = {  # more statements of fewer aspects, so that limits matter
    f"{aspect}|{opinion}|{sign}": (f"{opinion} {aspect}", aspect, sign)
    for aspect in ("bed", "staff", "pool")
    for opinion, sign in (("good", 1), ("great", 1), ("odd", 0), ("bad", -1), ("awful", -1))
} | {f"tag{n}": (f"tag number {n}", None, 0) for n in range(4)}


def counts_model(rows: list[Row]) -> COUNTS:
    return COUNTS(user_smoothing=1.0, item_smoothing=1.0, power=1.0).fit(Triplets.from_frame(table(rows)))


def several_rows(count: int, seed: int) -> list[tuple[str, str, str]]:
    rng = np.random.default_rng(seed)
    names = list(SEVERAL)
    return [(f"u{rng.integers(9)}", f"i{rng.integers(3)}", names[rng.integers(len(names))]) for _ in range(count)]


def several(rows: list[tuple[str, str, str]]) -> Triplets:
    made = [(user, item, each, *SEVERAL[each]) for user, item, each in rows]
    columns = ["user", "item", "explanation", "text", "aspect", "polarity"]
    kinds = dict(zip(columns, [pl.String] * 5 + [pl.Int64], strict=True))
    return Triplets.from_frame(pl.DataFrame(made, schema=kinds, orient="row"))


# -- evidence ----------------------------------------------------------------------------------------------------------


@given(ROWS, st.sampled_from(["ann", "dan", "nobody"]), st.sampled_from(["inn", "zoo"]))
def test_evidence_agrees_with_sets(rows: list[Row], user: str, item: str) -> None:
    rows = one_time_per_record([*rows, ("ann", "inn", "nice|", 1, None), ("ann", "zoo", "nice|", 1, None)])
    model = counts_model(rows)
    for each in model.explain(user, item, n=9, **vars(Options.plain())):
        _, aspect, sign, *_ = POOL[each.explanation]
        here = [row for row in rows if row[1] == item]
        same = [row for row in here if POOL[row[2]][1] == aspect and aspect is not None]
        says = {row[0] for row in here if row[2] == each.explanation}
        so = {row[0] for row in here if position(row[2]) == position(each.explanation)}
        against = {row[0] for row in here if are_opposites(row[2], each.explanation)}
        said = each.evidence
        assert (said.supporting, said.mixed) == (len(says - against), len(says & against))
        assert said.opposing == len(against - so)
        assert said.mentions == len({row[0] for row in same})
        assert said.praise == len({row[0] for row in same if POOL[row[2]][2] > 0})
        assert said.complaints == len({row[0] for row in same if POOL[row[2]][2] < 0})
        assert said.user_says == len({row[1] for row in rows if row[0] == user and row[2] == each.explanation})
        of_user = {row[1] for row in rows if row[0] == user and aspect is not None and POOL[row[2]][1] == aspect}
        assert said.user_mentions == len(of_user)
        assert said.latest == max((row[3] * 1000 for row in here if row[2] == each.explanation), default=None)
        assert (each.aspect, each.polarity) == (aspect, sign)


def test_the_shower_is_not_good_where_four_found_it_pitiful() -> None:
    rows: list[Row] = [("ann", "inn", "bed|soft|+", 1, None)]
    rows += [(f"u{n}", "inn", "bed|hard|-", 1, None) for n in range(4)]
    rows += [("ann", "inn", "staff|friendly|+", 1, None)]
    model = counts_model(rows)

    def shown(**options: Any) -> list[str]:
        return sorted(each.text for each in model.explain("ann", "inn", support=1, **options))

    assert shown() == ["friendly staff"]
    assert shown(backing=0.2) == ["friendly staff", "soft bed"]
    assert shown(backing=0.25) == ["friendly staff"]  # more than, not as many as
    assert shown(backing=0.0) == ["friendly staff", "soft bed"]
    assert shown(polarity="negative") == ["hard bed"]
    assert shown(polarity="any") == ["friendly staff", "hard bed"]
    assert shown(polarity="any", backing=0.0, per_aspect=0) == ["friendly staff", "soft bed"]  # no contradiction
    everything = ["friendly staff", "hard bed", "soft bed"]
    assert shown(polarity="any", backing=0.0, per_aspect=0, consistent=False) == everything


@pytest.mark.parametrize("listed", [0, 1000])
def test_quotes_are_of_others_where_there_are_others_and_never_say_who(
    listed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whyrank.data.people.LISTED", listed)
    rows: list[Row] = [
        ("ann", "inn", "nice|", 9, "what ann wrote about this nice little inn"),
        ("bob", "inn", "nice|", 1, "what bob wrote about this nice little inn"),
        ("ann", "spa", "nice|", 5, "what ann wrote about this nice little spa"),
    ]
    model = counts_model(rows)

    def quoted(user: str, item: str) -> list[dict[str, object]]:
        return model.explain(user, item, support=1)[0].quotes

    assert [each["text"][:8] for each in quoted("bob", "inn")] == ["what ann"]
    assert [each["text"][:8] for each in quoted("ann", "inn")] == ["what bob"]
    assert [each["text"][:8] for each in quoted("eve", "inn")] == ["what ann", "what bob"]
    many = reasons(explain(model, [("bob", "inn"), ("ann", "spa"), ("ann", "inn")], Options.plain()))
    assert [[len(each.quotes) for each in listed] for listed in many] == [[1], [1], [1]]
    assert quoted("ann", "spa") == [{"text": rows[2][4], "source": "r5", "time": 5000}]  # there is no other


# -- lists -------------------------------------------------------------------------------------------------------------


def expected_list(model: Model, user: int, item: int, n: int, options: Options) -> list[int]:
    """Everything ranked by score, then chosen one by one."""
    catalog, pool = model.catalog_, len(model.catalog_.explanations)
    zero = np.array([user], np.int32), np.array([item], np.int32)
    everything = rank(model, *zero, pool, Options.plain(specificity=options.specificity)).numbers[0]
    evidence = {
        each.explanation: each
        for each in model.explain(catalog.users.ids[user], catalog.items.ids[item], pool, **vars(Options.plain()))
    }
    chosen: list[int] = []
    for number in everything.tolist():
        said = evidence[catalog.explanations.ids[number]].evidence
        sign, aspect = int(catalog.signs[number]), int(catalog.aspect[number])
        if options.polarity != "any" and (sign < 0) != (options.polarity == "negative"):
            continue
        few = said.supporting < options.support or said.supporting <= options.backing * said.opposing
        if options.grounded and few:
            continue
        same = [other for other in chosen if aspect >= 0 and catalog.aspect[other] == aspect]
        if options.per_aspect and len(same) >= options.per_aspect:
            continue
        sense = groups_of(catalog)[2]
        if options.per_aspect and any(sense[other] == sense[number] >= 0 for other in chosen):
            continue
        if options.consistent and any(int(catalog.signs[other]) * sign < 0 for other in same):
            continue
        chosen.append(number)
    return chosen[:n]


OPTIONS = st.builds(
    Options,
    grounded=st.booleans(),
    backing=st.sampled_from([0.0, 0.5, 1.0, 2.0]),
    support=st.integers(1, 4),
    polarity=st.sampled_from(["any", "positive", "negative"]),
    per_aspect=st.integers(0, 3),
    consistent=st.booleans(),
    specificity=st.sampled_from([0.0, 0.7]),
)


@given(st.integers(0, 99), OPTIONS, st.integers(1, 12))
def test_lists_are_chosen_exactly(seed: int, options: Options, n: int) -> None:
    model = COUNTS(user_smoothing=1.0, item_smoothing=1.0, power=1.0).fit(several(several_rows(120, seed)))
    users = np.repeat(np.arange(3, dtype=np.int32), 3)
    items = np.tile(np.arange(3, dtype=np.int32), 3)
    ranked = rank(model, users, items, n, options).numbers
    for user, item, row in zip(users.tolist(), items.tolist(), ranked, strict=True):
        assert row[row >= 0].tolist() == expected_list(model, user, item, n, options)


def test_a_list_asks_for_more_until_it_is_full() -> None:
    """One aspect takes all first places; what comes after has to be found."""
    rows = [(f"u{n}", "i", each) for n in range(9) for each, (_, aspect, _) in SEVERAL.items() if aspect == "bed"]
    rows += [("u0", "i", "staff|good|1"), ("u0", "i", "pool|good|1"), ("u0", "i", "tag1")]
    model = POP().fit(several(rows))
    for options in ({}, {"grounded": False}, {"diversity": 0.2}):
        found = model.explain("u0", "i", n=4, backing=0.0, support=1, **options)
        assert sorted(filter(None, (each.aspect for each in found))) == ["bed", "pool", "staff"], options


def test_diverse_lists_have_one_reason_of_an_aspect_and_no_contradiction() -> None:
    model = POP().fit(several(several_rows(400, 1)))
    for user in model.catalog_.users.ids:
        found = model.explain(user, "i1", n=9, diversity=0.3, polarity="any", backing=0.0)
        aspects = [each.aspect for each in found if each.aspect]
        assert len(aspects) == len(set(aspects)) == 3
        two = model.explain(user, "i1", n=9, diversity=0.3, polarity="any", per_aspect=5, backing=0.0)
        by_aspect = defaultdict(set)
        for each in two:
            by_aspect[each.aspect].add(each.polarity)
        assert not any({1, -1} <= signs for aspect, signs in by_aspect.items() if aspect)


def test_pairs_ranked_together_have_one_reason_of_an_aspect_for_each_item() -> None:
    model = BPERJ(epochs=3).fit(several(several_rows(200, 2)))
    found = model.recommend_pairs("newcomer", 12, polarity="any")
    seen = [(pair.item, pair.reason.aspect) for pair in found if pair.reason.aspect]
    assert len(seen) == len(set(seen))
    assert all(pair.reason.evidence.supporting > pair.reason.evidence.opposing for pair in found)
    everything = model.recommend_pairs("newcomer", 200, polarity="any", per_aspect=0)
    kept, wanted, sense = set(), [], groups_of(model.catalog_)[2]
    for pair in everything:
        key = (pair.item, pair.reason.aspect)
        word = (pair.item, int(sense[model.catalog_.explanations.number(pair.reason.explanation)]))
        if pair.reason.aspect is None or (key not in kept and word not in kept):
            kept |= {key, word} if word[1] >= 0 else {key}
            wanted.append((pair.item, pair.reason.explanation))
    assert [(pair.item, pair.reason.explanation) for pair in found] == wanted[:12]


def test_mu_is_a_part_of_the_question() -> None:
    model = BPER(epochs=5).fit(several(several_rows(200, 2)))
    for mu in (0.0, 0.4, 1.0):
        other = BPER(epochs=5, mu=mu).fit(several(several_rows(200, 2)))
        for options in ({}, {"grounded": False}):
            assert model.explain("u1", "i1", mu=mu, **options) == other.explain("u1", "i1", **options)
    assert model.mu == BPER().mu
    with pytest.raises(ParameterError, match="POP has no mu"):
        POP().fit(several(several_rows(20, 2))).explain("u1", "i1", mu=0.5)


# -- one policy --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = Triplets.from_frame(table(some_rows(400, 7)))
    return BPERJ(epochs=5).fit(data).save(tmp_path_factory.mktemp("one") / "model")


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[TestClient]:
    settings = Settings(models=(str(folder),), store=f"sqlite:///{folder.parent}/store.db", rate=0.0)
    with TestClient(create_app(settings)) as made:
        yield made


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as leaving:
        main([str(each) for each in arguments])
    captured = capsys.readouterr()
    return int(leaving.value.code or 0), captured.out, captured.err


POLICIES: list[tuple[dict[str, Any], list[str]]] = [
    ({}, []),
    ({"polarity": "negative"}, ["--polarity", "negative"]),
    ({"grounded": False, "polarity": "any"}, ["--no-grounded", "--polarity", "any"]),
    ({"backing": 0.0, "per_aspect": 2}, ["--backing", "0", "--per-aspect", "2"]),
    ({"mu": 0.2, "diversity": 0.2}, ["--mu", "0.2", "--diversity", "0.2"]),
    ({"boosts": {"nice|": 3.0}, "banned": ["friendly"]}, ["--boost", "nice|=3", "--ban", "friendly"]),
]


@pytest.mark.parametrize(("options", "arguments"), POLICIES)
@pytest.mark.parametrize("user", ["u1", "nobody"])
def test_everybody_gets_the_same_reasons(
    folder: Path,
    client: TestClient,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    user: str,
    options: dict[str, Any],
    arguments: list[str],
) -> None:
    model = load(folder)
    expected = [each.as_dict() for each in model.explain(user, "i1", 4, **options)]
    fallback = "unknown_user" if user == "nobody" else None
    assert [each["fallback"] for each in expected] == [fallback] * len(expected)
    told = json.loads(run(capsys, "explain", folder, "-u", user, "-i", "i1", "-n", 4, "--json", *arguments)[1])
    assert (told["reasons"], told["fallback"]) == (expected, fallback)
    body = {"user": user, "item": "i1", "n": 4, "similar": True, **options}
    (answer,) = client.post("/v1/explain", json=body).json()["results"]
    assert [{name: each[name] for name in expected[0]} for each in answer["reasons"]] == expected
    assert (answer["status"], answer["fallback"]) == ("ok", fallback)
    pairs = pl.DataFrame({"user": [user, user], "item": ["i1", "no such item"]})
    pairs.write_csv(tmp_path / "pairs.csv")
    done = run(capsys, "explain", folder, "--pairs", tmp_path / "pairs.csv", "-o", tmp_path / "r.parquet", "-n", 4,
               "--quotes", "--json", *arguments)  # fmt: skip
    assert done[0] == 0
    tables = [pl.read_parquet(tmp_path / "r.parquet"), model.explain_many(pairs, 4, **options)]
    for found in tables:
        assert found["status"].to_list() == ["ok"] * len(expected) + ["unknown_item"]
        assert found["fallback"].to_list() == [fallback] * len(expected) + [None]
        for name in ("rank", "explanation", "text", "sentence", "aspect", "polarity"):
            assert found[name].to_list() == [*(each[name] for each in expected), None], name
        for name in (each.name for each in Evidence.declared() if each.name != "similar_items"):
            assert found[name].to_list() == [*(each["evidence"][name] for each in expected), None], name
    assert tables[0]["quotes"].to_list() == [*(each["quotes"] for each in expected), None]


def test_recommendations_are_the_same_everywhere(
    folder: Path, client: TestClient, capsys: pytest.CaptureFixture[str]
) -> None:
    model = load(folder)
    for user in ("u1", "nobody"):
        expected = [each.as_dict() for each in model.recommend(user, 3, 2)]
        told = json.loads(run(capsys, "recommend", folder, "-u", user, "-n", 3, "--reasons", 2, "--json")[1])
        assert [{name: each[name] for name in expected[0]} for each in told["recommendations"]] == expected
        body = {"user": user, "n": 3, "reasons": 2, "similar": True}
        answer = client.post("/v1/recommend", json=body).json()
        assert [each["item"] for each in answer["recommendations"]] == [each["item"] for each in expected]
        sentences = [[reason["sentence"] for reason in each["reasons"]] for each in answer["recommendations"]]
        assert sentences == [[reason["sentence"] for reason in each["reasons"]] for each in expected]
        together = model.recommend_pairs(user, 4)
        told = json.loads(run(capsys, "recommend", folder, "-u", user, "-n", 4, "--joint", "--json")[1])["pairs"]
        asked = client.post("/v1/pairs", json={"user": user, "n": 4}).json()["pairs"]
        for found in (told, asked):
            assert [(each["item"], each["reason"]["sentence"]) for each in found] == [
                (each.item, each.reason.sentence) for each in together
            ]


def test_unknown_items_raise_or_are_marked(folder: Path) -> None:
    model = load(folder)
    with pytest.raises(UnknownId, match="unknown item 'nothing'"):
        model.explain("u1", "nothing")
    found = explain(model, [("u1", "nothing"), ("nobody", "i1"), ("nobody", "nothing"), ("u1", "i1")], n=2)
    assert found.statuses() == ["unknown_item", "ok", "unknown_item", "ok"]
    assert found.fallbacks() == [None, "unknown_user", None, None]
    assert [bool(each) for each in reasons(found)] == [False, True, False, True]
    with pytest.raises(UnknownId):
        explain(model, [("u1", "nothing")], on_unknown="raise")
    nothing = explain(model, [("u1", "i1")], Options(exclude=list(POOL)), 3)
    assert nothing.statuses() == ["no_reason"]
    assert reason_table(nothing)["status"].to_list() == ["no_reason"]
    assert len(reason_table(explain(model, [], n=2))) == 0


def test_evaluation_does_not_know_the_defaults(folder: Path) -> None:
    data = Triplets.from_frame(table(some_rows(60, 8)))
    model = POP().fit(data)
    from whyrank.evaluation import evaluate

    plain = evaluate(model, data)
    assert plain.explanation == evaluate(model, data, **vars(Options.plain())).explanation
    assert plain.explanation != evaluate(model, data, **vars(Options())).explanation


def test_every_option_is_on_the_command_line_and_in_the_api(
    client: TestClient, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    names = set(Options.__dataclass_fields__) - {"keep"}  # a function
    declared = list(Options.declared())
    assert {each.name for each in declared} == names
    for command in ("explain", "recommend"):
        help_ = run(capsys, command, "--help")[1]
        assert [each.flag for each in declared if each.flag not in help_] == []
    schemas = client.get("/openapi.json").json()["components"]["schemas"]
    for request in ("ExplainRequest", "RecommendRequest", "PairsRequest"):
        properties = schemas[request]["properties"]
        for each in declared:
            if each.name == "diversity" and request == "PairsRequest":
                assert "diversity" not in properties  # pairs that are ranked together go by their scores
                continue
            if each.name == "query_by":
                assert "query_by" not in properties  # encoding takes too long for a request
                continue
            assert properties[each.name]["description"] == each.help
            default = list(each.default) if each.kind == "texts" else each.default
            assert properties[each.name].get("default") == default


@pytest.mark.parametrize(("name", "value"), [("backing", -1), ("per_aspect", 101), ("per_aspect", 1.5), ("mu", 2)])
def test_ranges_hold_everywhere(
    folder: Path, client: TestClient, capsys: pytest.CaptureFixture[str], name: str, value: float
) -> None:
    with pytest.raises(ParameterError, match=name):
        load(folder).explain("u1", "i1", **{name: value})
    assert client.post("/v1/explain", json={"user": "u1", "item": "i1", name: value}).status_code == 422
    flag = "--" + name.replace("_", "-")
    assert run(capsys, "explain", folder, "-u", "u1", "-i", "i1", flag, value)[0] == 2


# -- cards -------------------------------------------------------------------------------------------------------------


def test_cards_fit_eighty_columns_and_show_title_sentences_quote_and_counts(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "titles.csv").write_text(
        "item,title\ni1,The [bold]Old[/b] Inn\x1b[31m at the very end of a long road\n"
    )
    (tmp_path / "guests.json").write_text('{"people": ["guest", "guests"]}')
    more = ("--titles", tmp_path / "titles.csv", "--templates", tmp_path / "guests.json")
    code, out, _ = run(capsys, "explain", folder, "-u", "u1", "-i", "i1", *more)
    lines = out.splitlines()
    first = load(folder).explain("u1", "i1")[0]
    assert code == 0
    assert lines[0].startswith(r"The [bold]Old[/b] Inn\x1b[31m at the very end")
    assert all(len(line) <= 80 for line in lines)
    assert "guest" in out
    assert "people" not in out
    assert f"{first.evidence.supporting} say so" in out
    assert "“" in out
    assert "score" not in out
    code, out, _ = run(capsys, "recommend", folder, "-u", "nobody", "-n", 2, "--no-quotes")
    assert code == 0
    assert "unknown user" in out
    banned = [part for word in ("bed", "staff", "nice", "fun") for part in ("--ban", word)]
    assert run(capsys, "explain", folder, "-u", "u1", "-i", "i1", *banned)[2]


def test_the_quote_of_a_card_stands_below_the_reason_that_it_backs(folder: Path) -> None:
    first, second, third = load(folder).explain("u1", "i1", 3, grounded=False, polarity="any")
    for reason, texts in ((first, []), (second, ["so soft"]), (third, ["too loud"])):
        object.__setattr__(reason, "quotes", [{"text": text, "source": None, "time": None} for text in texts])
    lines = list(card("An item", [first, second, third]))
    at = lines.index("    “so soft”")
    assert second.text in " ".join(lines[:at])
    assert lines[at + 1].startswith("  - ")
    assert not any("too loud" in line for line in lines)


def test_long_words_and_long_quotes_do_not_break_cards(folder: Path) -> None:
    (reason, *_) = load(folder).explain("u1", "i1")
    object.__setattr__(reason, "quotes", [{"text": "word " * 200, "source": None, "time": None}])
    lines = list(card("x" * 200, [reason]))
    assert all(len(line) <= 80 for line in lines)
    assert len(lines) < 10


def test_bulk_writes_quotes_only_when_asked_for(folder: Path, tmp_path: Path) -> None:
    pl.DataFrame({"user": ["u1"], "item": ["i1"]}).write_parquet(tmp_path / "pairs.parquet")
    for quotes in (False, True):
        explain_file(
            load(folder), tmp_path / "pairs.parquet", tmp_path / "out.parquet", 3, shown=BulkColumns(quotes=quotes)
        )
        assert ("quotes" in pl.read_parquet(tmp_path / "out.parquet").columns) == quotes


def test_columns_of_many_pairs_are_the_reasons_of_each() -> None:
    model = counts_model(one_time_per_record(some_rows(300, 5)))
    pairs = [(f"u{n % 12}", f"i{n % 4}") for n in range(60)]
    many = model.explain_many(pairs, 5).drop_nulls("rank")
    alone = [each for pair in pairs for each in model.explain(*pair, 5)]
    assert len(alone) > 100
    assert many["sentence"].to_list() == [each.sentence for each in alone]
    assert many["score"].to_list() == [each.score for each in alone]
    names = [each.name for each in Evidence.declared()]
    assert many.select(names).rows() == [tuple(each.evidence.as_dict().values()) for each in alone]


@given(st.lists(st.lists(st.integers(-2, 1), min_size=3, max_size=3), max_size=60))
def test_equal_rows_are_found_once(rows: list[list[int]]) -> None:
    first, place = distinct_rows(np.array(rows, np.int64).reshape(-1, 3))
    assert [rows[first[at]] for at in place] == rows
    assert first.tolist() == [k for k, row in enumerate(rows) if row not in rows[:k]]


def test_a_filter_of_another_length_is_refused() -> None:
    frame = pl.DataFrame({"user": ["a", "b"], "item": ["x", "x"], "explanation": ["slow", "fast"]})
    model = POP().fit(Triplets.from_frame(frame))
    with pytest.raises(ParameterError, match="keep gives 1 values"):
        model.explain("a", "x", 1, keep=lambda table: pl.Series([True]))
