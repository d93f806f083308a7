"""What `fuzz.py` damages: for every reader, sound files, how they are read, and what a valid result must stand."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import whyrank as wr
from whyrank.data import Triplets, read, read_split
from whyrank.data.problems import Problems
from whyrank.data.split import read_index
from whyrank.data.tables import write_table
from whyrank.errors import DataError, ParameterError
from whyrank.lab.extra import write_extra
from whyrank.training import Run

Files = dict[str, bytes]  # by name below one folder


@dataclass(frozen=True)
class Reader:
    """`corpus` makes sound samples in a folder, one each call; `read` reads one and uses what it got."""

    name: str
    weight: int  # share of the inputs: quick readers get more
    corpus: Callable[[Path], list[Files]]
    read: Callable[[Path], object]
    mend: Callable[[Files], Files] | None = None  # makes checksums right again, so that damage gets deeper
    around: Callable[[Path], AbstractContextManager[None]] | None = None


def make_corpus(reader: Reader, folder: Path) -> list[Files]:
    folder.mkdir(parents=True)
    return reader.corpus(folder)


def files_of(folder: Path) -> Files:
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def some(seed: int = 0) -> Triplets:
    """Triplets with ratings, times and texts, as few as a model can be fitted to."""
    return wr.simulate("small", users=12, items=6, explanations=8, records=30, triplets=50, seed=seed)


TINY = pl.DataFrame(
    {
        "user": ["ann", "ann", "bob", "cat é", "1"],
        "item": ["inn", "inn", "spa", "inn", "2"],
        "explanation": ["quiet", "clean", "warm, wet", 'so "good"', "3"],
        "text": ["Quiet rooms", "Clean", "Warm water", "So good", None],
        "rating": [5.0, 5.0, None, 1.5, 3.0],
        "time": ["2020-01-01", "2020-01-01", "2021-05-06", "2022-02-02", "2020-12-31"],
    }
)


# -- tables ------------------------------------------------------------------------------------------------------------


def table_corpus(name: str, folder: Path) -> list[Files]:
    write_table(TINY, folder / name)
    sound = [(folder / name).read_bytes()]
    write_table(TINY.select("user", "item", "explanation"), folder / name)
    sound.append((folder / name).read_bytes())
    return [{name: content} for content in sound]


def read_triplets(name: str, folder: Path) -> None:
    """Strictly, now and then leniently or by position; what is taken can be described and split."""
    size = (folder / name).stat().st_size
    if size % 8 < 2:
        by_place = {"columns": {"user": 0, "item": 1, "explanation": 2}}
        with suppress(DataError):
            assert len(read(folder / name, **(by_place if size % 8 else {"on_error": "skip"}))) > 0
    taken = read(folder / name)
    assert len(taken) > 0
    taken.split(seed=0).train.digest()


def table(name: str, weight: int) -> Reader:
    return Reader(name.partition(".")[2], weight, partial(table_corpus, name), partial(read_triplets, name))


# -- folders -----------------------------------------------------------------------------------------------------------


def extra_corpus(form: str, folder: Path) -> list[Files]:
    return [files_of(write_extra(each, folder / str(n), form)) for n, each in enumerate((some(), some(1)))]


def read_extra_folder(folder: Path) -> None:
    with suppress(DataError):
        read(folder, on_error="skip")
    assert len(read(folder)) > 0


def index_corpus(folder: Path) -> list[Files]:
    return [{"train.index": b"0 1 2 3 4 5 6 7 8 9"}, {"train.index": b"10\n200\n 3"}, {"train.index": b""}]


def read_index_file(folder: Path) -> None:
    numbers = read_index(folder / "train.index", 250)
    assert ((numbers >= 0) & (numbers < 250)).all()


def split_corpus(folder: Path) -> list[Files]:
    return [files_of(some(seed).split(seed=seed).write(folder / str(seed))) for seed in (0, 1)]


def read_split_folder(folder: Path) -> None:
    split = read_split(folder)
    assert split.train.records + split.validation.records + split.test.records <= split.data.records


def mined_corpus(folder: Path) -> list[Files]:
    from whyrank.mining import mine

    said = ["The bed was comfortable. The room was clean."] * 4
    reviews = pl.DataFrame({"user": list("abcd"), "item": list("xyxy"), "text": said})
    mine(reviews, min_count=2).write(folder / "mined")
    return [files_of(folder / "mined")]


def mend_mined(files: Files) -> Files:
    try:
        account = json.loads(files["mining.json"])
        account["sha256"] = {name: hashlib.sha256(files[name]).hexdigest() for name in account["sha256"]}
    except (ValueError, KeyError, TypeError, RecursionError):
        return files
    return files | {"mining.json": json.dumps(account).encode()}


def read_mined(folder: Path) -> None:
    from whyrank.mining import Mined

    mined = Mined.read(folder)
    assert len(mined.triplets) > 0
    mined.summary()


def review_corpus(folder: Path) -> list[Files]:
    from whyrank.mining import Mined, write_review

    mined_corpus(folder)
    write_review(Mined.read(folder / "mined"), folder / "review.csv")
    sound = (folder / "review.csv").read_bytes()
    return [{"review.csv": sound}, {"review.csv": sound.replace(b"accept", b"reject", 1)}]


@contextmanager
def mined_beside(folder: Path) -> Iterator[None]:
    from whyrank.mining import Mined

    mined_corpus(folder / "beside")
    _beside["mined"] = Mined.read(folder / "beside" / "mined")
    yield


def read_review(folder: Path) -> None:
    from whyrank.mining import apply_review

    apply_review(_beside["mined"], folder / "review.csv")


def reviews_corpus(folder: Path) -> list[Files]:
    rows = [{"reviewerID": "u", "asin": "i", "reviewText": "Great location. Bad food!", "overall": 4}] * 2
    rows += [{"reviewerID": "v", "asin": "é", "reviewText": "Clean rooms\n\nbut noisy", "unixReviewTime": 1400000000}]
    return [{"reviews.jsonl": "\n".join(json.dumps(row, ensure_ascii=False) for row in rows).encode()}]


def read_review_file(folder: Path) -> None:
    from whyrank.mining.reviews import Reading, read_reviews

    (path,) = folder.iterdir()
    for on_error in ("raise", "skip"):
        for each in read_reviews(path, None, Reading(Problems(on_error))):
            assert set(each.columns) >= {"user", "item", "text"}


def review_tables_corpus(name: str, folder: Path) -> list[Files]:
    rows = {"user": ["u", "v"], "item": ["i", "j"], "text": ['Great "location"', "Clean\nroom"], "rating": [4, None]}
    write_table(pl.DataFrame(rows | {"date": ["2016-03-09T22:12:11+01:00", "2016-03-09"]}), folder / name)
    return [{name: (folder / name).read_bytes()}]


# -- pairs to explain, and texts to show -------------------------------------------------------------------------------


def pairs_corpus(folder: Path) -> list[Files]:
    pairs = _sample().frame().select("user", "item").head(6)
    for name in ("pairs.parquet", "pairs.csv", "pairs.jsonl", "pairs.tsv.gz"):
        write_table(pairs, folder / name)
    return [{name: content} for name, content in files_of(folder).items()]


@contextmanager
def model_beside(folder: Path) -> Iterator[None]:
    _beside["pop"] = wr.POP().fit(_sample())
    yield


def read_pairs(folder: Path) -> None:
    from whyrank.explain.bulk import explain_file

    (path,) = folder.iterdir()
    try:
        assert explain_file(_beside["pop"], path, folder / "out.parquet", 2).pairs > 0
    finally:
        left = {each.name for each in folder.iterdir()} - {path.name, "out.parquet"}
        assert not left, f"left behind: {left}"


def shown_corpus(folder: Path) -> list[Files]:
    texts = ["[/b] closed", "[sic]", "\x1b[31mred\x1b[0m", "\x9b31m", "\u202eback", ":smile:", "\ud83d\ude00"]
    rows = [{"user": text, "item": text, "explanation": text} for text in texts]
    return [
        {"t.jsonl": "\n".join(json.dumps(row, ensure_ascii=ascii_) for row in rows).encode("utf-8", "replace")}
        for ascii_ in (True, False)
    ]


def read_shown(folder: Path) -> None:
    """What a terminal gets of texts from anybody: each as it is, and nothing to obey."""
    from whyrank.cli.app import UNSAFE, console, safe
    from whyrank.cli.data import _most_said
    from whyrank.data.describe import describe

    taken = read(folder / "t.jsonl", on_error="skip")
    out = console()
    with out.capture() as captured:
        out.print(_most_said(describe(taken)))
        for text in taken.users.ids.to_list():
            out.print(text, soft_wrap=True)
    assert not UNSAFE.search(captured.get())
    assert safe(taken.users.ids[0]).split("\n")[0].expandtabs(8)[:20] in captured.get().expandtabs(8)


# -- models ------------------------------------------------------------------------------------------------------------


def model_corpus(folder: Path) -> list[Files]:
    data = some()
    models = (wr.POP(), wr.COUNTS(), wr.RUCF(), wr.BPER(epochs=1, factors=2), wr.PITFJ(epochs=1, factors=2))
    models += (wr.ProfileJ(epochs=1, factors=2),)
    return [files_of(model.fit(data).save(folder / model.id)) for model in models]


def mend_model(files: Files) -> Files:
    try:
        manifest = json.loads(files["manifest.json"])
        manifest["files"] = {name: hashlib.sha256(files[name]).hexdigest() for name in manifest["files"]}
    except (ValueError, KeyError, TypeError, RecursionError, AttributeError):
        return files
    return files | {"manifest.json": json.dumps(manifest).encode()}


def read_model(folder: Path) -> None:
    """Load and rank with every user and item; numbers out of range would be looked up outside of arrays."""
    model = wr.load(folder)
    catalog = model.catalog_
    pairs = [(user, item) for user in catalog.users.ids[:3] for item in catalog.items.ids[:3]]
    model.explain_many(pairs, 3, grounded=True)
    model.explain(catalog.users.ids[0], catalog.items.ids[0], 3)
    if model.ranks_items:
        model.recommend(catalog.users.ids[0], 2)


def checkpoint_corpus(folder: Path) -> list[Files]:
    wr.BPER(epochs=2, factors=2).fit(some(), run=Run(checkpoint=folder / "checkpoint", threads=1))
    return [{"checkpoint": (folder / "checkpoint").read_bytes()}]


def read_checkpoint(folder: Path) -> None:
    run = Run(checkpoint=folder / "checkpoint", resume=True, threads=1)
    wr.BPER(epochs=2, factors=2).fit(_sample(), run=run)


def cache_corpus(folder: Path) -> list[Files]:
    from whyrank.lab.experiments.cache import Cache, Result

    key = {"model": "pop"}
    Cache(folder).save(key, Result({"ndcg": 0.5}, {"values": np.arange(5.0)}))
    return [{Cache(folder).path(key).name: Cache(folder).path(key).read_bytes()}]


def read_cache(folder: Path) -> None:
    from whyrank.lab.experiments.cache import Cache

    if Cache(folder).load({"model": "pop"}) is None:
        raise ParameterError("counts as missing")


# -- settings ----------------------------------------------------------------------------------------------------------

CONFIG = {"model": "bper", "parameters": {"factors": 20, "learning_rate": 0.01, "mu": 0.7, "solver": "blocks"}}
SPACE = {"factors": [10, 20], "learning_rate": {"low": 0.001, "high": 0.1, "log": True}, "epochs": [1, 2]}


def config_corpus(folder: Path) -> list[Files]:
    return [{"c.json": json.dumps(each).encode()} for each in (CONFIG, {"model": "profile", "parameters": {}})]


def read_config(folder: Path) -> None:
    from whyrank.cli.fit import make_model
    from whyrank.lab.experiments.lab import read_configs
    from whyrank.models import parameters

    read_configs(folder)
    parameters.check(make_model(None, None, folder / "c.json"))


def space_corpus(folder: Path) -> list[Files]:
    return [{"space.json": json.dumps(each).encode()} for each in (SPACE, {"mu": [0.1, 0.5]})]


def read_space(folder: Path) -> None:
    from whyrank.lab.experiments.spaces import space_of

    for sampler in ("tpe", "grid"):
        space_of("bper", sampler, folder / "space.json")


def keys_corpus(folder: Path) -> list[Files]:
    return [{"keys": b"# ours\n" + hashlib.sha256(b"k").hexdigest().encode() + b" page ask,log\n"}]


def read_keys_file(folder: Path) -> None:
    from whyrank.service.limits import ApiKeys
    from whyrank.service.settings import read_keys

    assert ApiKeys(read_keys(folder / "keys"))


def metrics_corpus(folder: Path) -> list[Files]:
    report = {"evaluation": {"k": 10, "explanation": {"ndcg": 0.1}}, "training": [{"epoch": 1, "loss": 0.5}]}
    return [{"metrics.json": json.dumps(each).encode()} for each in (report, report["evaluation"])]


def read_metrics(folder: Path) -> None:
    from whyrank.service.report import shown_report

    if shown_report(folder) is None:
        raise ParameterError("left out")


# -- the service -------------------------------------------------------------------------------------------------------

_beside: dict[str, Any] = {}
REQUESTS: list[tuple[str, object]] = [
    ("POST /v1/explain", {"user": "u000001", "item": "i00001", "n": 3, "grounded": False, "diversity": 0.3}),
    ("POST /v1/explain", {"pairs": [{"user": "u000001", "item": "i00002"}], "polarity": "negative", "banned": ["bad"]}),
    ("POST /v1/recommend", {"user": "u000002", "n": 2, "reasons": 1, "specificity": 0.5, "exclude": ["e00001"]}),
    ("POST /v1/pairs", {"user": "u000003", "n": 3, "weight": 0.5}),
    ("POST /v1/feedback", {"events": [{"event": "clicked", "user": "u", "item": "i", "rank": 1, "id": "x"}]}),
    ("POST /v1/studies", {"a": "pop", "b": "profile-j", "cases": 2, "participants": 1, "n": 2, "seed": 3}),
    ("POST /v1/take/token", {"case": 1, "choice": "left"}),
    ("GET /v1/users?q=u0&limit=3&offset=1", None),
    ("GET /v1/items/i00001", None),
    ("GET /v1/explanations?sort=popularity&limit=2", None),
    ("GET /v1/studies/none/results.csv", None),
    ("GET /assets/../../settings.py", None),
]


def request_corpus(folder: Path) -> list[Files]:
    return [{"request": f"{line}\n{json.dumps(body) if body else ''}".encode()} for line, body in REQUESTS]


@contextmanager
def running(folder: Path) -> Iterator[None]:
    from starlette.testclient import TestClient

    from whyrank.service.app import create_app
    from whyrank.service.settings import Settings

    split = some().split(seed=0)
    split.write(folder / "split")
    models = [str(each.fit(split).save(folder / each.id)) for each in (wr.POP(), wr.ProfileJ(epochs=1, factors=2))]
    store = f"sqlite:///{folder}/store.db"
    settings = Settings(tuple(models), store, str(folder / "split"), rate=0.0, reload_seconds=0.0, body_limit=30_000)
    with TestClient(create_app(settings), raise_server_exceptions=False) as client:
        _beside["client"] = client
        yield


def read_request(folder: Path) -> None:
    """Everything but an error of the server's own is an answer; refusals are problem documents."""
    line, _, body = (folder / "request").read_bytes().partition(b"\n")
    method, _, target = line.decode("latin-1").partition(" ")
    method = method if method in ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS") else "POST"
    path = "/" + "".join(each for each in target if " " < each < "\x7f" and each not in "#\\").lstrip("/")
    headers = {"content-type": "application/json"}
    answer = _beside["client"].request(method, f"http://testserver{path}", content=body, headers=headers)
    assert answer.status_code < 500, answer.text
    if answer.status_code >= 400:
        assert method == "HEAD" or answer.headers["content-type"] == "application/problem+json", answer.text
        raise ParameterError(str(answer.status_code))


def _sample() -> Triplets:
    if "sample" not in _beside:
        _beside["sample"] = some()
    return _beside["sample"]


# Weights are thousands of a million inputs: what takes a tenth of the time gets more.
READERS = (
    table("t.csv", 40),
    table("t.tsv", 30),
    table("t.jsonl", 50),
    table("t.parquet", 80),
    table("t.csv.gz", 78),
    table("t.jsonl.zst", 40),
    Reader("extra-text", 10, partial(extra_corpus, "text"), read_extra_folder),
    Reader("extra-pickle", 15, partial(extra_corpus, "pickle"), read_extra_folder),
    Reader("index", 115, index_corpus, read_index_file),
    Reader("split", 6, split_corpus, read_split_folder),
    Reader("reviews", 10, reviews_corpus, read_review_file),
    Reader("reviews.csv", 10, partial(review_tables_corpus, "reviews.csv"), read_review_file),
    Reader("reviews.parquet", 10, partial(review_tables_corpus, "reviews.parquet"), read_review_file),
    Reader("pairs", 15, pairs_corpus, read_pairs, around=model_beside),
    Reader("terminal", 20, shown_corpus, read_shown),
    Reader("mined", 5, mined_corpus, read_mined, mend_mined),
    Reader("review-table", 3, review_corpus, read_review, around=mined_beside),
    Reader("model", 8, model_corpus, read_model, mend_model),
    Reader("checkpoint", 5, checkpoint_corpus, read_checkpoint),
    Reader("run-cache", 50, cache_corpus, read_cache),
    Reader("config", 100, config_corpus, read_config),
    Reader("space", 100, space_corpus, read_space),
    Reader("keys", 105, keys_corpus, read_keys_file),
    Reader("metrics", 80, metrics_corpus, read_metrics),
    Reader("api", 15, request_corpus, read_request, around=running),
)
