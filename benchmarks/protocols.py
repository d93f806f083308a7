"""How well models rank under every protocol of the field: one table per protocol and data set, as Markdown.

    python benchmarks/protocols.py DATA... -o FOLDER [--protocols pool,item,item-all,time,leave-last]
        [--models pop,counts] [--splits 3] [--trials 4] [--most-epochs 200] [--min-uses 5] [--min-user-pairs 3]
        [--columns user=0,item=1,explanation=2,time=3] [--tables]

pool, item, item-all: random splits (70% training), and what is ranked for a pair. time: the latest 30% are the test.
leave-last: the last record of every user.

Every model with something to tune has the same budget: its defaults and `--trials` settings drawn from the space of
`whyrank tune`, all measured on validation, each kind of candidates choosing for itself. Random splits are tuned on one
more split, which is not in the means (random splits overlap, so that its validation records are test records of
others); by time or last records, where there is one split, on its own validation part. Models with mu have it chosen
together with the rest. Profile learns item-all with
`candidates="item-all"`. `--most-epochs` bounds what factor models may have.

Each fit is a file of the folder: a run that was stopped goes on, and `--tables` prints what is there.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import optuna

import whyrank as wr
from whyrank.atomic import new_file
from whyrank.cli.app import parse_columns
from whyrank.errors import TrainingError
from whyrank.evaluation.candidates import Kind
from whyrank.evaluation.comparison import Comparison, Row, test_ratio
from whyrank.evaluation.evaluator import Evaluation, evaluate
from whyrank.lab.experiments.spaces import SPACES
from whyrank.lab.experiments.tuning import Watch, suggest
from whyrank.training import Run

MODELS = "profile,counts,pop,userpop,itempop,share,pitf,bper,ricf,rucf,cd"
KINDS: tuple[Kind, ...] = ("pool", "item", "item-all")
PROTOCOLS = (*KINDS, "time", "leave-last")
SHOWN = ("ndcg_paper", "ndcg", "recall", "ndcg_propensity")
SAVED = ("ndcg_paper", "ndcg", "recall", "hit")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--protocols", default=",".join(PROTOCOLS))
    parser.add_argument("--models", default=MODELS)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--trials", type=int, default=4)
    parser.add_argument("--most-epochs", type=int, default=200)
    parser.add_argument("--min-uses", type=int, default=1)
    parser.add_argument("--min-user-pairs", type=int, default=1)
    parser.add_argument("--columns")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--tables", action="store_true")
    arguments = parser.parse_args()
    protocols = arguments.protocols.split(",")
    if unknown := set(protocols) - set(PROTOCOLS):
        parser.error(f"unknown protocol {unknown.pop()}; use some of {', '.join(PROTOCOLS)}")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    arguments.output.mkdir(parents=True, exist_ok=True)
    for path in arguments.data:
        data = wr.read(path, columns=parse_columns(arguments.columns))
        if max(arguments.min_uses, arguments.min_user_pairs) > 1:
            data = data.filtered(user_pairs=arguments.min_user_pairs, explanation_uses=arguments.min_uses)
        print(f"\n## {path.parent.name}/{path.name}: {data!r}", flush=True)
        for method in ("random", "time", "leave-last"):
            kinds = (
                [kind for kind in KINDS if kind in protocols] if method == "random" else cast("list[Kind]", ["pool"])
            )
            if not kinds or (method != "random" and (method not in protocols or data.time is None)):
                continue
            runs = Runs(data, cast(Any, method), arguments)
            if not arguments.tables:
                for name in arguments.models.split(","):
                    runs.run(name, kinds)
            for kind in kinds:
                runs.table(kind)


class Runs:
    """All fits to the splits of one method, each in a file."""

    def __init__(self, data: wr.Triplets, method: Any, arguments: argparse.Namespace) -> None:
        self.method, self.arguments, self.data = method, arguments, data
        count = arguments.splits if method == "random" else 1
        *self.splits, self.tuned = wr.splits(data, count + (method == "random"), method=method)
        if method != "random":
            self.splits = [self.tuned]

    def file(self, name: str, kind: Kind, number: int) -> Path:
        facts = (self.data.digest(), self.method, self.arguments.trials, self.arguments.most_epochs)
        digest = hashlib.sha256(repr(facts).encode()).hexdigest()[:12]
        return cast(Path, self.arguments.output) / f"{digest}-{self.method}-{kind}-{name}-{number}.npz"

    def run(self, name: str, kinds: Sequence[Kind]) -> None:
        """Tune once, then fit and measure on every split what is not there yet."""
        missing = [
            kind for kind in kinds if not all(self.file(name, kind, s.info["number"]).exists() for s in self.splits)
        ]
        for alike in dict.fromkeys(json.dumps(own(name, kind)) for kind in missing):
            group = [kind for kind in missing if json.dumps(own(name, kind)) == alike]
            begin, chosen = time.perf_counter(), self.chosen(name, group)
            print(f"{name} {self.method}: tuned in {time.perf_counter() - begin:.0f} s", flush=True)
            for split in self.splits:
                for kind, model, seconds in self.fitted(name, split, chosen):
                    found = evaluate(model, split, candidates=kind, items=False, threads=self.arguments.threads)
                    save(self.file(name, kind, split.info["number"]), found, seconds, chosen[kind])
                    value = 100 * found.explanation["ndcg_paper"]
                    print(f"{name} {kind} split {split.info['number']}: {value:.3f} ({seconds:.1f} s)", flush=True)

    def chosen(self, name: str, kinds: Sequence[Kind]) -> dict[Kind, dict[str, Any]]:
        """The settings that validation of the tuned split ranks best, for every kind of candidates."""
        kind_of, best = wr.MODELS[name], {kind: (-1.0, own(name, kind)) for kind in kinds}
        space = dict(SPACES.get(name, {}).get("tpe", {}))
        if not space and "mu" not in kind_of.__dataclass_fields__:
            return {kind: settings for kind, (_, settings) in best.items()}
        looks: list[int] = []
        if name in ("cd", "pitf", "bper"):
            looks = [epochs for epochs in space.pop("epochs") if epochs <= self.arguments.most_epochs]
        for settings in drawn(space, self.arguments.trials):
            settings |= own(name, kinds[0]) | ({"epochs": looks[-1]} if looks else {})
            model = kind_of(**settings, **({"refit": False} if name == "profile" else {}))
            watches = {kind: Watch(model, self.tuned, looks, None, self.arguments.threads, kind) for kind in kinds}
            run = Run(threads=self.arguments.threads, monitors=tuple(watches.values()))
            try:
                model.fit(self.tuned.train, self.tuned.validation, run)
            except TrainingError:  # it diverged; what was seen before counts
                if not looks:
                    continue
            for kind, watch in watches.items():
                if not looks:
                    watch.look(model)
                value, epochs, mu = watch.best or (0.0, 0, None)
                if value > best[kind][0]:
                    more = ({"epochs": epochs} if looks else {}) | ({} if mu is None else {"mu": mu})
                    best[kind] = value, settings | more
        return {kind: settings for kind, (_, settings) in best.items()}

    def fitted(
        self, name: str, split: wr.Split, chosen: dict[Kind, dict[str, Any]]
    ) -> Iterator[tuple[Kind, wr.Model, float]]:
        """The model for every kind of candidates; those that differ in mu alone share a fit."""
        models: dict[str, tuple[Any, float]] = {}
        for kind, settings in chosen.items():
            fit = json.dumps({key: value for key, value in settings.items() if key != "mu"}, sort_keys=True)
            if fit not in models:
                begin = time.perf_counter()
                model = wr.MODELS[name](**settings).fit(split, run=Run(threads=self.arguments.threads))
                models[fit] = model, time.perf_counter() - begin
            model, seconds = models[fit]
            if "mu" in settings:
                model.mu = settings["mu"]
            yield kind, model, seconds

    def table(self, kind: Kind) -> None:
        rows = []
        for name in wr.MODELS:
            files = [self.file(name, kind, split.info["number"]) for split in self.splits]
            if all(file.exists() for file in files):
                found = [load(file) for file in files]
                rows.append(Row(name, [each for each, _ in found], [seconds for _, seconds in found]))
        if not rows:
            return
        rows.sort(key=lambda row: -row.mean("ndcg_paper"))
        result = Comparison(rows, 10, rows[min(1, len(rows) - 1)].name, ratio=test_ratio(self.splits))
        title = kind if self.method == "random" else self.method
        print(f"\n### {title}\n\n{result.markdown(SHOWN)}", flush=True)


def own(name: str, kind: Kind) -> dict[str, Any]:
    """What a model has to know about what is ranked."""
    among = wr.MODELS[name]().suited_to(kind).learned_among
    return {} if among == "pool" else {"candidates": among}


def drawn(space: dict[str, Any], trials: int) -> Iterator[dict[str, Any]]:
    """The defaults, and random settings."""
    yield {}
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    for _ in range(trials if space else 0):
        trial = study.ask()
        yield {name: suggest(trial, name, values) for name, values in space.items()}


def save(file: Path, found: Evaluation, seconds: float, settings: dict[str, Any]) -> None:
    facts = {"seconds": seconds, "settings": settings, "evaluation": found.as_dict()}
    pairs = {name: found.per_pair[name].astype(np.float32) for name in SAVED}
    assert found.users is not None
    with new_file(file) as aside, aside.open("wb") as stream:
        np.savez_compressed(stream, facts=np.array(json.dumps(facts)), users=found.users, **pairs)


def load(file: Path) -> tuple[Evaluation, float]:
    with np.load(file) as arrays:
        facts, users = json.loads(str(arrays["facts"])), arrays["users"]
        pairs = {name: arrays[name].astype(np.float64) for name in SAVED}
    about: dict[str, Any] = facts["evaluation"]
    return Evaluation(**about, per_pair=pairs, users=users), facts["seconds"]


if __name__ == "__main__":
    main()
