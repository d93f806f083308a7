"""Aspects, polarity, quotes and counts of people: from tables to a saved model, against plain Python."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import whyrank as wr
from whyrank.data.catalog import Catalog
from whyrank.data.csr import CSR
from whyrank.data.people import CUT
from whyrank.data.split import read_split
from whyrank.data.statements import positions
from whyrank.data.triplets import Triplets
from whyrank.data.vocabulary import Vocabulary
from whyrank.errors import ArtifactError, DataError
from whyrank.models import COUNTS, POP, load

POOL: dict[str, tuple[str, str | None, int, str | None, str | None]] = {
    "bed|soft|+": ("soft bed", "bed", 1, "soft", "hard"),
    "bed|hard|-": ("hard bed", "bed", -1, "hard", None),
    "bed|large|0": ("large bed", "bed", 0, "large", "small"),
    "staff|friendly|+": ("friendly staff", "staff", 1, "friendly", None),
    "staff|friendly|-": ("too friendly staff", "staff", -1, "friendly", None),
    "wall-": ("thin walls", "wall", -1, None, None),
    "wall+": ("thick walls", "wall", 1, None, None),
    "it|fun|+": ("fun", "it", 1, None, None),
    "it|long|-": ("long", "it", -1, None, None),
    "nice|": ("nice", None, 1, None, None),
}


def position(each: str) -> tuple[object, ...]:
    _, aspect, sign, sense, _ = POOL[each]
    return (each,) if aspect is None or (aspect == "it" and sense is None) else (aspect, sense, sign)


def are_opposites(one: str, other: str) -> bool:
    (_, aspect, sign, sense, opposite), (_, of_other, other_sign, other_sense, other_opposite) = POOL[one], POOL[other]
    if aspect is None or aspect != of_other or len(position(one)) == 1:
        return False
    named = sense is not None and other_sense is not None and (opposite == other_sense or other_opposite == sense)
    return named or (sense == other_sense and sign * other_sign == -1)


Row = tuple[str, str, str, int, str | None]
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["ann", "bob", "cat", "dan"]),
        st.sampled_from(["inn", "spa", "zoo"]),
        st.sampled_from(list(POOL)),
        st.integers(1, 9),
        st.sampled_from([None, "ok", "the bed was really comfortable for us", "x" * 200, "we slept well in this room"]),
    ),
    min_size=1,
    max_size=30,
)


def table(rows: list[Row], *, record: bool = False) -> pl.DataFrame:
    made = [
        (user, item, each, *POOL[each], time * 1000, sentence, None if sentence is None else f"r{time}")
        for user, item, each, time, sentence in rows
    ]
    names = ["user", "item", "explanation", "text", "aspect"]
    schema: dict[str, type[pl.DataType]] = dict.fromkeys(names, pl.String) | {"polarity": pl.Int64}
    schema |= {"sense": pl.String, "opposite": pl.String, "time": pl.Int64, "sentence": pl.String, "source": pl.String}
    frame = pl.DataFrame(made, schema=schema, orient="row")
    return frame.with_row_index("record") if record else frame


def some_rows(count: int, seed: int) -> list[Row]:
    rng = np.random.default_rng(seed)
    sentences = [None, "ok", "the bed was really comfortable for us", "we slept well in this room"]
    return [
        (
            f"u{rng.integers(12)}",
            f"i{rng.integers(4)}",
            list(POOL)[rng.integers(len(POOL))],
            int(rng.integers(1, 9)),
            sentences[rng.integers(4)],
        )
        for _ in range(count)
    ]


def test_columns_of_explanations_and_triplets_survive_every_form(tmp_path: Path) -> None:
    data = Triplets.from_frame(table(some_rows(60, 0)))
    assert data.aspects is not None
    assert data.polarity is not None
    assert data.senses is not None
    assert data.opposites is not None
    columns = (data.aspects.to_list(), data.polarity.tolist(), data.senses.to_list(), data.opposites.to_list())
    assert list(zip(*columns, strict=True)) == [POOL[each][1:] for each in data.explanations.ids]
    for name in ("d.parquet", "d.csv", "d.jsonl", "d.tsv.gz"):
        back = wr.read(data.write(tmp_path / name))
        assert back.digest() == data.digest()
        assert back.frame().sort(pl.all()).equals(data.frame().sort(pl.all()), null_equal=True), name
    split = data.split(seed=0)
    back = read_split(split.write(tmp_path / "split")).train
    assert back.frame().equals(split.train.frame())
    assert data.take(np.array([1, 0])).frame().equals(pl.concat([data.take(np.array([k])).frame() for k in (1, 0)]))


def test_what_belongs_to_triplets_and_explanations_goes_with_them() -> None:
    rows = one_time_per_record([(u, i, e, t, f"{u} {i} {e}") for u, i, e, t, _ in some_rows(60, 0)])
    frame = table(rows).with_columns(source=pl.concat_str("user", "item", "explanation"))
    data = Triplets.from_frame(frame)
    some = np.arange(len(data)) % 3 == 0
    assert data.without(some).frame().equals(data.frame().filter(pl.Series(~some)))
    other = Triplets.from_frame(frame.filter(pl.col("user") != "u3"))
    assert other.aspects is not None
    assert other.polarity is not None
    assert other.texts is not None
    like = replace(
        other,
        explanations=Vocabulary(other.explanations.ids.reverse(), "explanation"),
        aspects=other.aspects.reverse(),
        polarity=other.polarity[::-1],
        senses=None if other.senses is None else other.senses.reverse(),
        opposites=None if other.opposites is None else other.opposites.reverse(),
        texts=other.texts.reverse(),
    )
    columns = ["user", "item", "explanation"]
    left = data.renumbered(like).frame().sort(columns)
    assert left.equals(data.frame().filter(pl.col("user") != "u3").sort(columns))


def test_a_polarity_that_is_none_skips_its_row_if_asked_to(tmp_path: Path) -> None:
    rows = {"user": ["a", "b", "c"], "item": ["x"] * 3, "explanation": ["e", "f", "g"], "polarity": ["1", "good", ""]}
    pl.DataFrame(rows).write_csv(tmp_path / "t.csv")
    with pytest.raises(DataError, match=r"not a polarity: 'good'"):
        wr.read(tmp_path / "t.csv")
    assert wr.read(tmp_path / "t.csv", on_error="skip").frame()["polarity"].to_list() == [1, 0]


def test_the_digest_depends_on_aspects_senses_and_polarity_but_not_on_their_absence() -> None:
    frame = table(some_rows(30, 1))
    digests = {
        Triplets.from_frame(frame.drop(names)).digest()
        for names in (["aspect"], ["polarity"], ["sense"], ["opposite"], [], "sentence")
    }
    assert len(digests) == 5


@pytest.mark.parametrize("polarity", ["good", "0.5", "2"])
def test_a_polarity_that_is_none_is_refused_by_name(polarity: str) -> None:
    columns = {"user": ["a"], "item": ["b"], "explanation": ["c"], "polarity": [polarity]}
    with pytest.raises(DataError, match="not a polarity"):
        Triplets.from_frame(pl.DataFrame(columns))


def entries(relation: CSR, rows: list[str], columns: list[str], counts: np.ndarray) -> dict[tuple[str, str], int]:
    return {
        (rows[row], columns[column]): int(count)
        for row, column, count in zip(relation.rows_of_entries(), relation.indices, counts, strict=True)
    }


def check(catalog: Catalog, rows: list[Row]) -> None:
    """A catalog's counts of people against sets."""
    people, said, users = catalog.people, catalog.item_explanations, catalog.users.ids.to_list()
    items, pool, aspects = (v.ids.to_list() for v in (catalog.items, catalog.explanations, catalog.aspects))
    saying, latest = defaultdict(set), defaultdict(int)
    mention, praise, blame, of_user = defaultdict(set), defaultdict(set), defaultdict(set), defaultdict(set)
    for user, item, each, time, _ in rows:
        _, aspect, sign, *_ = POOL[each]
        saying[item, each].add(user)
        latest[item, each] = max(latest[item, each], time * 1000)
        if aspect is not None:
            mention[item, aspect].add(user)
            of_user[user, aspect].add(item)
            if sign:
                (praise if sign > 0 else blame)[item, aspect].add(user)
    against: dict[tuple[str, str], set[str]] = {}
    for item, each in saying:
        others = {e: who for (about, e), who in saying.items() if about == item}
        against[item, each] = set().union(*(who for e, who in others.items() if are_opposites(each, e)))
        same = set().union(*(who for e, who in others.items() if position(e) == position(each)))
        against[item, f"only {each}"] = against[item, each] - same
    mixed = {key: len(who & against[key]) for key, who in saying.items()}
    assert entries(said, items, pool, people.mixed) == mixed
    assert entries(said, items, pool, people.supporting) == {k: len(who) - mixed[k] for k, who in saying.items()}
    opposing = {(item, each): len(against[item, f"only {each}"]) for item, each in saying}
    assert entries(said, items, pool, catalog.opposing) == opposing
    assert entries(said, items, pool, people.latest) == latest
    assert entries(people.item_aspects, items, aspects, people.item_aspects.counts) == {
        key: len(who) for key, who in mention.items()
    }
    for found, expected in ((people.praising, praise), (people.blaming, blame)):
        assert entries(people.item_aspects, items, aspects, found) == {key: len(expected[key]) for key in mention}
    assert entries(people.user_aspects, users, aspects, people.user_aspects.counts) == {
        key: len(what) for key, what in of_user.items()
    }
    check_quotes(catalog, rows)


def check_quotes(catalog: Catalog, rows: list[Row]) -> None:
    people, said = catalog.people, catalog.item_explanations
    for entry, (item, each) in enumerate(zip(said.rows_of_entries(), said.indices, strict=True)):
        key = (catalog.items.ids[int(item)], catalog.explanations.ids[int(each)])
        written = [(u, s[:CUT], t * 1000) for u, i, e, t, s in rows if (i, e) == key and s is not None]
        ordered = sorted(written, key=lambda w: (not 30 <= len(w[1]) <= 140, -w[2], w[1]))
        wanted: list[tuple[str, str, int]] = []
        seen: set[str] = set()
        for user, text, time in ordered:  # one of each person, no text twice
            if user not in seen:
                seen.add(user)
                if text not in [each[1] for each in wanted]:
                    wanted.append((user, text, time))
        own = people.quotes.slice(int(people.quote_starts[entry]), int(np.diff(people.quote_starts)[entry]))
        assert [(own["text"][k], own["time"][k]) for k in range(len(own))] == [(w[1], w[2]) for w in wanted[:3]]


def one_time_per_record(rows: list[Row]) -> list[Row]:
    """Rows as triplets see them: a record has one time, a repeated triplet its first sentence."""
    time: dict[tuple[str, str], int] = defaultdict(int)
    first: dict[tuple[str, str, str], str | None] = {}
    for user, item, each, when, sentence in rows:
        time[user, item] = max(time[user, item], when)
        first.setdefault((user, item, each), sentence)
    return [(u, i, e, time[u, i], s) for (u, i, e), s in first.items()]


@pytest.mark.parametrize(
    ("one", "other", "opposites"),
    [
        ("bed quiet noisy +", "bed noisy quiet -", True),
        ("bed quiet noisy +", "bed quiet noisy -", True),  # the same sense, the other polarity
        ("bed soft hard -", "bed hard . -", True),  # two complaints that contradict each other
        ("bed great bad +", "bed hard soft -", False),  # another complaint about the bed
        ("bed quiet noisy +", "room noisy quiet -", False),  # another aspect
        ("bed quiet noisy +", "bed quiet noisy 0", False),
        ("bed quiet noisy +", "bed too-quiet quiet -", True),
        ("bed . . +", "bed . . -", True),  # no senses: praise and blame of one aspect
        ("bed . . +", "bed noisy quiet -", False),
        ("it . . +", "it . . -", False),  # of the item itself that says nothing
        (". quiet noisy +", ". noisy quiet -", False),
    ],
)
def test_opposites_say_the_opposite_about_the_same_aspect(one: str, other: str, opposites: bool) -> None:
    aspect, sense, opposite = (
        pl.Series([None if each.split()[k] == "." else each.split()[k] for each in (one, other)], dtype=pl.String)
        for k in range(3)
    )
    sign = np.array([{"+": 1, "-": -1, "0": 0}[each.split()[3]] for each in (one, other)], np.int8)
    found = positions(aspect, sign, sense, opposite)
    assert [found.opposites.row(k).tolist() for k in (0, 1)] == ([[1], [0]] if opposites else [[], []])


@given(ROWS)
def test_people_are_counted_once(rows: list[Row]) -> None:
    check(Catalog.of(Triplets.from_frame(table(rows))), one_time_per_record(rows))
    # Several records of one pair are still one person.
    check(Catalog.of(Triplets.from_frame(table(rows, record=True), record="record")), rows)


@given(ROWS, ROWS)
def test_a_grown_catalog_counts_people_as_one_of_all_triplets(old: list[Row], new: list[Row]) -> None:
    old, pairs = one_time_per_record(old), {row[:2] for row in old}
    new = one_time_per_record([row for row in new if row[:2] not in pairs])
    if new:
        grown = Catalog.of(Triplets.from_frame(table(old))).grown(Triplets.from_frame(table(new)), explanations=True)
        check(grown, old + new)
        again = grown.grown(Triplets.from_frame(table(new)))
        assert again.people.supporting.tolist() == grown.people.supporting.tolist()
        assert again.people.item_aspects.counts.tolist() == grown.people.item_aspects.counts.tolist()


def test_what_people_say_is_saved_with_the_model_and_grows_with_it(tmp_path: Path) -> None:
    rows = one_time_per_record(some_rows(80, 2))
    model = COUNTS(user_smoothing=1.0, item_smoothing=1.0, power=1.0).fit(Triplets.from_frame(table(rows)))
    back = load(model.save(tmp_path / "model"))
    check(back.catalog_, rows)
    assert back.digest() == model.digest()
    new: list[Row] = [("eve", "i0", "bed|hard|-", 9, "an unusually hard bed, as hard as a stone")]
    check(back.fold_in(Triplets.from_frame(table(new))).catalog_, rows + new)
    assert back.digest() != model.digest()


def test_a_folder_without_what_people_say_still_loads(tmp_path: Path, tiny: Triplets) -> None:
    folder = POP().fit(Triplets.from_frame(tiny.frame().drop("time"))).save(tmp_path / "model")
    assert not list(folder.glob("*/*people*"))
    assert not list(folder.glob("*/*quotes*"))
    catalog = load(folder).catalog_
    assert catalog.people.supporting.tolist() == catalog.item_explanations.counts.tolist()
    assert len(catalog.people.latest) == len(catalog.people.quotes) == len(catalog.aspects) == 0


@pytest.mark.parametrize(
    "name", ["supporting", "latest", "praising", "item_aspects.indices", "user_aspects.indptr", "quote_starts"]
)
def test_damaged_counts_of_people_are_refused(tmp_path: Path, name: str) -> None:
    model = POP().fit(Triplets.from_frame(table(some_rows(80, 3), record=True), record="record"))
    arrays = dict(model.catalog_.arrays())
    damaged = arrays[f"people.{name}"].copy()
    damaged = damaged[:-1] if name in ("supporting", "latest", "praising") else damaged + 1000
    with pytest.raises(ValueError, match=r"size|number|follow"):
        Catalog.restore({**arrays, f"people.{name}": damaged}, model.catalog_.tables())


def test_aspects_and_quotes_are_saved_whole_or_not_at_all() -> None:
    catalog = POP().fit(Triplets.from_frame(table(some_rows(80, 3)))).catalog_
    arrays, tables = catalog.arrays(), catalog.tables()
    for name in ("praising", "blaming", "item_aspects.indptr", "user_aspects.counts", "quote_starts"):
        with pytest.raises((ValueError, KeyError)):
            Catalog.restore({each: array for each, array in arrays.items() if each != f"people.{name}"}, tables)
    for name in ("aspects", "quotes"):
        with pytest.raises(ValueError, match="whole"):
            Catalog.restore(arrays, {each: found for each, found in tables.items() if each != name})


@pytest.mark.parametrize("column", ["text", "user"])
def test_damaged_quotes_are_refused(tmp_path: Path, column: str) -> None:
    catalog = POP().fit(Triplets.from_frame(table(some_rows(80, 3)))).catalog_
    quotes = catalog.people.quotes.with_columns(pl.lit(None).cast(catalog.people.quotes[column].dtype).alias(column))
    with pytest.raises(ValueError, match="quotes"):
        Catalog.restore(catalog.arrays(), {**catalog.tables(), "quotes": quotes})


def test_sentiment_is_what_is_known_and_otherwise_neutral(tiny: Triplets, monkeypatch: pytest.MonkeyPatch) -> None:
    known = Catalog.of(Triplets.from_frame(table(some_rows(60, 4))))
    assert known.sentiment_source == "polarity"
    assert known.signs.tolist() == [POOL[e][2] for e in known.ids_listed]
    assert Catalog.of(tiny).sentiment_source == "ratings and words"
    assert Catalog.of(Triplets.from_frame(tiny.frame().drop("text"))).sentiment_source == "ratings"
    assert Catalog.of(Triplets.from_frame(tiny.frame().drop("rating"))).sentiment_source == "words"
    tags = Catalog.of(Triplets.from_frame(tiny.frame().drop("rating", "text")))
    assert tags.sentiment_source is None
    assert not tags.sentiment.any()
    monkeypatch.setitem(__import__("sys").modules, "vaderSentiment.vaderSentiment", None)
    assert not Catalog.of(Triplets.from_frame(tiny.frame().drop("rating"))).sentiment.any()


def test_an_unreadable_model_is_an_artifact_error(tmp_path: Path) -> None:
    model = POP().fit(Triplets.from_frame(table(some_rows(80, 3))))
    model.catalog_.people.supporting[:] = 0  # changed on purpose: it then differs from the records and is saved
    folder = model.save(tmp_path / "model")
    np.save(folder / "arrays" / "catalog.people.supporting.npy", np.zeros(3, np.int32))
    with pytest.raises(ArtifactError):
        load(folder)


def test_long_quotes_are_cut_after_a_word_and_blanks_are_single() -> None:
    rows: list[Row] = [("ann", "inn", "nice|", 1, "very  nice\n" + "really " * 80), ("bob", "inn", "nice|", 1, "  \n ")]
    texts = Catalog.of(Triplets.from_frame(table(rows))).people.quotes["text"].to_list()
    assert len(texts) == 1
    assert len(texts[0]) <= CUT
    assert texts[0].endswith("really…")
    assert texts[0].startswith("very nice really")
