"""From new reviews to a served model: mine, fit, compare with the model in service, swap. Safe to run from cron.

Everything of a run is in a folder whose name is a hash of what the run depends on. Every step is written aside and
renamed, so a run that was killed goes on with the step it was in; the swap is one rename, and the account of it comes
after it, so that nothing is lost or done twice.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np

from whyrank.atomic import json_object, new_file, sole_writer
from whyrank.data.tables import COMPRESSIONS, FORMS
from whyrank.data.triplets import Triplets
from whyrank.errors import DataError, ParameterError
from whyrank.evaluation.gate import compare_on, knows_less
from whyrank.mining import Mined, mine
from whyrank.mining.drift import Drift, drift
from whyrank.models import MODELS, Model, load, parameters
from whyrank.models.learned import LearnedModel, carried_over
from whyrank.places import refresh_folder, register_refresh_folder
from whyrank.service.refresh_log import add_refresh
from whyrank.training import Monitor, Run
from whyrank.version import __version__

Outcome = Literal["swapped", "refused", "nothing new"]
STATE = "state.json"
MOST = 20_000  # held-out records
FEW = 100  # held-out records below which a comparison says little


@dataclass(frozen=True)
class Recipe:
    """How a refresh mines, fits and decides."""

    model: Model | None = None  # not fitted; None: as the model in service was
    rules: Mapping[str, object] = field(default_factory=dict)  # of mining, as keywords of `mine`
    columns: Mapping[str, str] | None = None
    titles: Mapping[str, str] = field(default_factory=dict)
    on_error: Literal["raise", "skip"] = "raise"
    trim: bool = False  # remove blanks around ids
    holdout: float = 0.1  # share of the new records that the new model is measured on and not fitted to
    tolerance: float = 0.02  # share of the served model's figure that may be lost
    least: int = 0  # held-out records below which nothing is swapped
    reactions: bool = True  # the new model keeps what the served one learned from reactions
    threads: int | None = None

    def __post_init__(self) -> None:
        for name, most in (("holdout", 0.5), ("tolerance", 1.0)):
            if not 0 <= getattr(self, name) <= most:
                raise ParameterError(f"{name} is {getattr(self, name)}; use a share from 0 to {most}")
        if self.least < 0 or (self.least and not self.holdout):
            raise ParameterError(f"least is {self.least}; use 0 or more records, and a holdout above 0")


@dataclass(frozen=True)
class Refreshed:
    """What came of a refresh."""

    outcome: Outcome
    model: str
    reviews: list[str]  # files that were taken in
    pool: str | None  # the mined folder that they were added to; None: a new pool was begun
    gate: dict[str, object] | None  # None: there was nothing to compare with, or on
    drift: dict[str, object] | None
    report: str | None  # a Markdown file: what new reviews say
    seconds: float

    def as_dict(self) -> dict[str, object]:
        return vars(self)


def refresh(
    model: str | Path,
    reviews: Sequence[str | Path],
    *,
    work: str | Path | None = None,
    pool: str | Path | None = None,
    fresh: bool = False,
    recipe: Recipe | None = None,
    again: bool = False,
    tell: Callable[[str], None] = lambda text: None,
    mined: Callable[[str, int, int | None], None] | None = None,
    monitors: Sequence[Monitor] = (),
) -> Refreshed:
    """Take reviews that were not seen before into the pool, fit a model, and put it in service if it is no worse.

    Args:
        model: The folder that is served; made by the first refresh.
        reviews: Files, or folders of files. Files are known by their content: one that was taken in is not read again.
        work: Where the pool and the account are; `<model>.refresh` beside the model unless given.
        pool: For the first refresh of a model that is there: the mined folder that it was fitted to. It is remembered;
            once a refresh has put a model in service, the pool in `work` goes on and this one is not read.
        fresh: Begin a new pool with these reviews alone, and let the new model know far less than the one in service.
        recipe: How to mine, fit and decide.
        again: Try once more what was refused.
        tell: Called with a line for every step.
        mined: Progress of mining, as in `mine`.
        monitors: Watch the fit.

    Returns:
        The outcome: "swapped", "refused" (the model in service stays: the new one is worse, or knows less than half as
        much, or too few records are held out to tell) or "nothing new".

    Raises:
        ArtifactError: Another process refreshes the same model.
        DataError: Reviews cannot be read, or there are none.
        ParameterError: The model is there, but what it was fitted to is not known: neither `pool` nor `fresh` is given.
    """
    if fresh and pool is not None:
        raise ParameterError("--fresh begins a new pool, --pool goes on with one; give one of them")
    begin, model, recipe = time.perf_counter(), Path(model), recipe or Recipe()
    work = Path(work) if work is not None else refresh_folder(model)
    with sole_writer(work):
        work.mkdir(parents=True, exist_ok=True)
        register_refresh_folder(model, work)
        state = json_object(work / STATE)
        known = {} if fresh else state
        seen: dict[str, str] = known.get("reviews", {})
        files = {digest: file for file in _files(reviews) if (digest := _digest(file)) not in seen}
        before = _pool(work, known, pool, tell)
        on = None if before is None else str(before)
        if not files and model.is_dir():
            return Refreshed("nothing new", str(model), [], on, None, None, None, time.perf_counter() - begin)
        if before is None and model.is_dir() and not fresh:
            raise ParameterError(
                f"{model}: what it was fitted to is not known, and a model of new reviews alone would replace it; "
                "name --pool (the mined folder that it was fitted to), or give --fresh to begin with these alone"
            )
        step = _Step(work, model, recipe, _name(files, before, recipe), before, fresh, tell)
        if state.get("refused") == step.name and not again:
            tell("these reviews were refused before; nothing was done")
            outcome: Outcome = "refused"
        else:
            outcome = step.run(files, mined, monitors)
            step.log(outcome, len(files))
            taken = {digest: file.name for digest, file in files.items()}
            _write(
                work / STATE,
                state | {"refused": step.name} | ({} if pool is None else {"pool": str(Path(pool).resolve())})
                if outcome == "refused"
                else {"reviews": seen | taken, "run": step.name, "version": __version__},
            )
            if outcome == "swapped":
                step.sweep()
        report = step.folder / "drift.md"
        return Refreshed(
            outcome,
            str(model),
            sorted(str(file) for file in files.values()),
            on,
            json_object(step.folder / "gate.json") or None,
            json_object(step.folder / "drift.json") or None,
            str(report) if report.is_file() else None,
            time.perf_counter() - begin,
        )


@dataclass
class _Step:
    """One run: its folder, and what it does in it, unless that was done before."""

    work: Path
    model: Path
    recipe: Recipe
    name: str
    before: Path | None  # the pool so far
    fresh: bool  # the new model may know far less than the served one
    tell: Callable[[str], None]

    @property
    def folder(self) -> Path:
        return self.work / "runs" / self.name

    def run(
        self,
        files: Mapping[str, Path],
        progress: Callable[[str, int, int | None], None] | None,
        monitors: Sequence[Monitor],
    ) -> Outcome:
        self.folder.mkdir(parents=True, exist_ok=True)
        pool = self._mined(sorted(files.values()), progress)
        served = load(self.model) if self.model.is_dir() else None
        candidate = self.folder / "model"
        if candidate.is_dir() and served is not None and load(candidate).digest() == served.digest():
            return "swapped"  # killed between the swap and the account of it
        triplets = pool.triplets
        held_out = self._held_out(triplets, served)
        if not candidate.is_dir():
            self._fit(triplets, held_out, served, candidate, monitors)
        fitted = load(candidate)
        gate = None
        if served is not None and len(held_out):
            gate = compare_on(triplets.take(held_out), served, fitted, self.recipe.tolerance, self.recipe.threads)
            _write(self.folder / "gate.json", gate.as_dict())
            self.tell(gate.summary())
        if served is not None and not self._enough(len(held_out)):
            return "refused"
        if gate is not None and not gate.passed:
            return "refused"
        if served is not None and not self.fresh and (less := knows_less(served, fitted)):
            self.tell(f"refused: {less}; check --pool and --rule (--fresh begins with these reviews alone)")
            return "refused"
        fitted.save(self.model)
        return "swapped"

    def _enough(self, count: int) -> bool:
        """Whether so many held-out records are enough to swap; says so where they are few."""
        more = "take in more reviews at a time, or raise --holdout"
        if count < self.recipe.least:
            self.tell(f"refused: {count:,} held-out records, at least {self.recipe.least:,} are asked for; {more}")
            return False
        if count < FEW:
            self.tell(f"warning: {count:,} held-out records say little about which model is better; {more}")
        return True

    def _mined(self, files: list[Path], progress: Callable[[str, int, int | None], None] | None) -> Mined:
        target = self.folder / "pool"
        old = None if self.before is None else Mined.read(self.before)
        if not target.is_dir():
            recipe, given = self.recipe, dict[str, Any](self.recipe.rules)
            given |= {"columns": recipe.columns, "titles": recipe.titles, "on_error": recipe.on_error}
            given["trim"] = recipe.trim
            self.tell(f"mining {len(files):,} new file{'s' * (len(files) != 1)} of reviews")
            found = mine(list(files), pool=old, threads=recipe.threads, progress=progress, **given)
            if not found.explanations.height:
                raise DataError("no explanation was found in the reviews", expected="more reviews, or other rules")
            found.write(target)
        pool = Mined.read(target)
        report: Drift = drift(old, pool)
        _write(self.folder / "drift.json", report.as_dict())
        with new_file(self.folder / "drift.md") as aside:
            aside.write_text(report.markdown(), encoding="utf-8")
        self.tell(report.summary())
        return pool

    def _held_out(self, triplets: Triplets, served: Model | None) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Records to measure on: some of those that the served model does not know, drawn by the name of the run."""
        if served is None:
            return np.empty(0, np.int64)
        fresh = np.flatnonzero(~served.catalog_.knows(*served.catalog_.numbers_of(triplets)))
        count = min(int(self.recipe.holdout * len(fresh)), MOST)
        return np.sort(np.random.default_rng(int(self.name, 16)).choice(fresh, count, replace=False))

    def _fit(
        self,
        triplets: Triplets,
        held_out: np.ndarray[Any, np.dtype[np.int64]],
        served: Model | None,
        target: Path,
        monitors: Sequence[Monitor],
    ) -> None:
        chosen = self.recipe.model
        if chosen is None:
            if served is None:
                raise ParameterError(f"{self.model}: there is no model yet; say which one to fit")
            chosen = MODELS[served.id](**parameters.values(served))
        checkpoint = self.folder / "checkpoint"
        run = Run(
            threads=self.recipe.threads, monitors=tuple(monitors), checkpoint=checkpoint, resume=checkpoint.exists()
        )
        rest = np.setdiff1d(np.arange(triplets.records), held_out)
        self.tell(f"fitting {chosen.id} to {len(rest):,} records, {len(held_out):,} held out")
        fitted = chosen.fit(triplets.take(rest), run=run)
        if isinstance(served, LearnedModel):
            fitted = self._with_reactions(served, fitted)
        fitted.save(target)

    def _with_reactions(self, served: LearnedModel, fitted: Model) -> Model:
        """The new model with what the served one learned from reactions, if that is wanted and fits."""
        if not self.recipe.reactions or fitted.id != served.id:
            why = (
                "as asked for" if not self.recipe.reactions else f"a correction of {served.id} does not fit {fitted.id}"
            )
            self.tell(f"what {served.id} learned from reactions is left out ({why}); `whyrank learn` learns it again")
            return fitted
        self.tell("what the served model learned from reactions is kept; `whyrank learn` learns it anew from the log")
        return carried_over(served, fitted)

    def log(self, outcome: Outcome, files: int) -> None:
        """Leave a line beside the model: the page shows it in the model's history."""
        fitted = load(self.folder / "model")
        catalog = fitted.catalog_
        sizes = {name: len(getattr(catalog, name)) for name in ("users", "items", "explanations")}
        about = {"digest": fitted.digest(), "kind": fitted.id, "data": fitted.data_digest_, "files": files}
        add_refresh(
            self.model,
            {
                "time": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
                "outcome": outcome,
                "run": self.name,
                **about,
                "sizes": {**sizes, "triplets": int(catalog.popularity.sum()), "pairs": len(catalog.user_items.indices)},
                "gate": json_object(self.folder / "gate.json") or None,
            },
        )

    def sweep(self) -> None:
        """Remove earlier runs: this one's pool holds all that they took in."""
        for folder in (self.work / "runs").iterdir():
            if folder != self.folder:
                shutil.rmtree(folder, ignore_errors=True)


def _pool(work: Path, state: Mapping[str, Any], named: str | Path | None, tell: Callable[[str], None]) -> Path | None:
    """The pool to go on with: that of earlier refreshes, the one that is named, or the one that was named before."""
    remembered = Path(state["pool"]) if "pool" in state else None
    if "run" not in state:
        return remembered if named is None else Path(named)
    if named is not None:
        tell(f"--pool {named} is not used: the pool of earlier refreshes goes on; remove {work} to begin with {named}")
    return work / "runs" / str(state["run"]) / "pool"


def _files(reviews: Sequence[str | Path]) -> list[Path]:
    """Files of reviews, those of folders as well."""
    found: list[Path] = []
    for path in map(Path, reviews):
        if not path.exists():
            raise DataError("no such file or folder", path=path)
        inside = sorted(path.iterdir()) if path.is_dir() else [path]
        known = {*FORMS, *COMPRESSIONS}
        found += [each for each in inside if each.is_file() and (each == path or each.suffix.lower() in known)]
    if not found:
        raise DataError("no files of reviews", path=Path(reviews[0]), expected=".jsonl, .csv, .tsv or .parquet")
    return found


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _name(files: Mapping[str, Path], before: Path | None, recipe: Recipe) -> str:
    """A hash of what a run depends on: the reviews, the pool so far, and the recipe but for its threads."""
    model = None if recipe.model is None else [recipe.model.id, parameters.values(recipe.model)]
    account = None if before is None else json_object(before / "mining.json").get("sha256")
    how = [recipe.rules, recipe.columns, recipe.titles, recipe.on_error, recipe.holdout, recipe.tolerance]
    how += [recipe.least, recipe.reactions, recipe.trim]
    facts = [sorted(files), account, model, how, __version__]
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _write(file: Path, document: Mapping[str, object]) -> None:
    with new_file(file) as aside:
        aside.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
