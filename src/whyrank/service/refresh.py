"""From new reviews to a served model: mine, fit, compare with the one in service, swap.

Safe to run from cron. Everything of a run is in a folder whose name is a hash of what the run
depends on. Every step is written aside and renamed, so a run that was killed goes on with the step
it was in; the swap is one rename, and the account of it comes after it, so that nothing is lost or
done twice.
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
from numpy.typing import NDArray

from whyrank.atomic import json_object, sole_writer, write_text
from whyrank.data.tables import COMPRESSIONS, FORMS
from whyrank.data.triplets import Triplets
from whyrank.errors import DataError, ParameterError
from whyrank.evaluation.gate import compare_on, knows_less
from whyrank.mining import Mined, mine
from whyrank.mining.drift import drift
from whyrank.models import MODELS, Model, load, parameters
from whyrank.models.learned import LearnedModel, carried_over
from whyrank.places import refresh_folder, register_refresh_folder
from whyrank.render import number_of
from whyrank.service.refresh_log import add_refresh
from whyrank.training import Monitor, Run
from whyrank.version import __version__

Outcome = Literal["swapped", "refused", "nothing new"]
Progress = Callable[[str, int, int | None], None]
Rows = NDArray[np.int64]
STATE = "state.json"
LARGEST_HOLDOUT = 20_000  # records
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
    mined: Progress | None = None,
    monitors: Sequence[Monitor] = (),
) -> Refreshed:
    """Take reviews that were not seen before into the pool, fit a model, and put it in service if it is no worse.

    Args:
        model: The folder that is served; made by the first refresh.
        reviews: Files, or folders of files. Files are known by their content: one that was taken in
            is not read again.
        work: Where the pool and the account are; `<model>.refresh` beside the model unless given.
        pool: For the first refresh of a model that is there: the mined folder that it was fitted
            to. It is remembered; once a refresh has put a model in service, the pool in `work` goes
            on and this one is not read.
        fresh: Begin a new pool with these reviews alone, and let the new model know far less than
            the one in service.
        recipe: How to mine, fit and decide.
        again: Try once more what was refused.
        tell: Called with a line for every step.
        mined: Progress of mining, as in `mine`.
        monitors: Watch the fit.

    Returns:
        The outcome: "swapped", "refused" (the model in service stays: the new one is worse, or
        knows less than half as much, or too few records are held out to tell) or "nothing new".

    Raises:
        ArtifactError: Another process refreshes the same model.
        DataError: Reviews cannot be read, or there are none.
        ParameterError: The model is there, but what it was fitted to is not known: neither `pool`
            nor `fresh` is given.
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
            seconds = time.perf_counter() - begin
            return Refreshed("nothing new", str(model), [], on, None, None, None, seconds)
        if before is None and model.is_dir() and not fresh:
            raise ParameterError(
                f"{model}: what it was fitted to is not known, and a model of new reviews alone "
                "would replace it; name --pool (the mined folder that it was fitted to), "
                "or give --fresh to begin with these alone"
            )
        step = _Step(work, model, recipe, _name(files, before, recipe), before, fresh, tell)
        outcome: Outcome = "refused"
        if state.get("refused") == step.name and not again:
            tell("these reviews were refused before; nothing was done")
        else:
            outcome = step.run(list(files.values()), mined, monitors)
            step.log(outcome, len(files))
            if outcome == "swapped":
                taken = seen | {digest: file.name for digest, file in files.items()}
                _write(work / STATE, {"reviews": taken, "run": step.name, "version": __version__})
                step.sweep()
            else:
                named = {} if pool is None else {"pool": str(Path(pool).resolve())}
                _write(work / STATE, state | {"refused": step.name} | named)
        report = step.folder / "drift.md"
        return Refreshed(
            outcome=outcome,
            model=str(model),
            reviews=sorted(str(file) for file in files.values()),
            pool=on,
            gate=json_object(step.folder / "gate.json") or None,
            drift=json_object(step.folder / "drift.json") or None,
            report=str(report) if report.is_file() else None,
            seconds=time.perf_counter() - begin,
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

    def run(self, files: list[Path], progress: Progress | None, monitors: Sequence[Monitor]) -> Outcome:
        """Mine, fit, compare, and swap unless the new model is worse."""
        self.folder.mkdir(parents=True, exist_ok=True)
        triplets = self._mined(sorted(files), progress).triplets
        served = load(self.model) if self.model.is_dir() else None
        candidate = self.folder / "model"
        if candidate.is_dir() and served and load(candidate).digest() == served.digest():
            return "swapped"  # killed between the swap and the account of it
        held_out = self._held_out(triplets, served)
        if not candidate.is_dir():
            self._fit(triplets, held_out, served, monitors).save(candidate)
        fitted = load(candidate)
        if served is not None and not self._may_replace(served, fitted, triplets.take(held_out)):
            return "refused"
        fitted.save(self.model)
        return "swapped"

    def _may_replace(self, served: Model, fitted: Model, held_out: Triplets) -> bool:
        """Whether a new model may take the place of the served one; says why not."""
        recipe, count, passed = self.recipe, held_out.records, True
        if count:
            gate = compare_on(held_out, served, fitted, recipe.tolerance, recipe.threads)
            _write(self.folder / "gate.json", gate.as_dict())
            self.tell(gate.summary())
            passed = gate.passed
        records = f"{count:,} held-out records"
        more = "take in more reviews at a time, or raise --holdout"
        if count < recipe.least:
            self.tell(f"refused: {records}, at least {recipe.least:,} are asked for; {more}")
            return False
        if count < FEW:
            self.tell(f"warning: {records} say little about which model is better; {more}")
        less = None if self.fresh or not passed else knows_less(served, fitted)
        if less:
            hint = "check --pool and --rule (--fresh begins with these reviews alone)"
            self.tell(f"refused: {less}; {hint}")
        return passed and not less

    def _mined(self, files: list[Path], progress: Progress | None) -> Mined:
        """Add new reviews to the pool, unless that was done, and say what is new in them."""
        target, recipe = self.folder / "pool", self.recipe
        old = None if self.before is None else Mined.read(self.before)
        if not target.is_dir():
            names = ("columns", "titles", "on_error", "trim", "threads")
            given: dict[str, Any] = {name: getattr(recipe, name) for name in names}
            self.tell(f"mining {number_of(len(files), 'new file')} of reviews")
            found = mine(list(files), pool=old, progress=progress, **given | dict(recipe.rules))
            if not found.explanations.height:
                expected = "more reviews, or other rules"
                raise DataError("no explanation was found in the reviews", expected=expected)
            found.write(target)
        pool = Mined.read(target)
        report = drift(old, pool)
        _write(self.folder / "drift.json", report.as_dict())
        write_text(self.folder / "drift.md", report.markdown())
        self.tell(report.summary())
        return pool

    def _held_out(self, triplets: Triplets, served: Model | None) -> Rows:
        """Draw records to measure on, by the name of the run, that the served model does not know."""
        if served is None:
            return np.empty(0, np.int64)
        fresh = np.flatnonzero(~served.catalog_.knows(*served.catalog_.numbers_of(triplets)))
        count = min(int(self.recipe.holdout * len(fresh)), LARGEST_HOLDOUT)
        rng = np.random.default_rng(int(self.name, 16))
        return np.sort(rng.choice(fresh, count, replace=False))

    def _fit(
        self,
        triplets: Triplets,
        held_out: Rows,
        served: Model | None,
        monitors: Sequence[Monitor],
    ) -> Model:
        chosen = self.recipe.model
        if chosen is None:
            if served is None:
                raise ParameterError(f"{self.model}: there is no model yet; say which one to fit")
            chosen = MODELS[served.id](**parameters.values(served))
        run = Run(
            threads=self.recipe.threads,
            monitors=tuple(monitors),
            checkpoint=self.folder / "checkpoint",
            resume=(self.folder / "checkpoint").exists(),
        )
        rest = np.setdiff1d(np.arange(triplets.records), held_out)
        self.tell(f"fitting {chosen.id} to {len(rest):,} records, {len(held_out):,} held out")
        fitted = chosen.fit(triplets.take(rest), run=run)
        return self._with_reactions(served, fitted) if isinstance(served, LearnedModel) else fitted

    def _with_reactions(self, served: LearnedModel, fitted: Model) -> Model:
        """Carry over what the served model learned from reactions, if that is wanted and fits."""
        if self.recipe.reactions and fitted.id == served.id:
            anew = "`whyrank learn` learns it anew from the log"
            self.tell(f"what the served model learned from reactions is kept; {anew}")
            return carried_over(served, fitted)
        why = "as asked for"
        if self.recipe.reactions:
            why = f"a correction of {served.id} does not fit {fitted.id}"
        left = f"what {served.id} learned from reactions is left out ({why})"
        self.tell(f"{left}; `whyrank learn` learns it again")
        return fitted

    def log(self, outcome: Outcome, files: int) -> None:
        """Leave a line beside the model: the page shows it in the model's history."""
        fitted = load(self.folder / "model")
        catalog = fitted.catalog_
        names = ("users", "items", "explanations")
        sizes = {name: len(getattr(catalog, name)) for name in names}
        sizes |= {"triplets": int(catalog.popularity.sum()), "pairs": len(catalog.user_items.indices)}
        entry = {
            "time": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
            "outcome": outcome,
            "run": self.name,
            "digest": fitted.digest(),
            "kind": fitted.id,
            "data": fitted.data_digest_,
            "files": files,
            "sizes": sizes,
            "gate": json_object(self.folder / "gate.json") or None,
        }
        add_refresh(self.model, entry)

    def sweep(self) -> None:
        """Remove earlier runs: this one's pool holds all that they took in."""
        for folder in (self.work / "runs").iterdir():
            if folder != self.folder:
                shutil.rmtree(folder, ignore_errors=True)


def _pool(work: Path, state: Mapping[str, Any], named: str | Path | None, tell: Callable[[str], None]) -> Path | None:
    """Return the pool of earlier refreshes, the one that is named, or that was named before."""
    if "run" not in state:
        remembered = Path(state["pool"]) if "pool" in state else None
        return remembered if named is None else Path(named)
    if named is not None:
        instead = f"remove {work} to begin with {named}"
        tell(f"--pool {named} is not used: the pool of earlier refreshes goes on; {instead}")
    return work / "runs" / str(state["run"]) / "pool"


def _files(reviews: Sequence[str | Path]) -> list[Path]:
    """Return files of reviews, those of folders as well."""
    found: list[Path] = []
    known = {*FORMS, *COMPRESSIONS}
    for path in map(Path, reviews):
        if not path.exists():
            raise DataError("no such file or folder", path=path)
        inside = sorted(path.iterdir()) if path.is_dir() else [path]
        ours = (each == path or each.suffix.lower() in known for each in inside)
        found += [each for each, is_one in zip(inside, ours, strict=True) if is_one and each.is_file()]
    if not found:
        expected = ".jsonl, .csv, .tsv or .parquet"
        raise DataError("no files of reviews", path=Path(reviews[0]), expected=expected)
    return found


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _name(files: Mapping[str, Path], before: Path | None, recipe: Recipe) -> str:
    """Hash what a run depends on: reviews, the pool so far, the recipe but for its threads."""
    how = {name: value for name, value in vars(recipe).items() if name != "threads"}
    if recipe.model is not None:
        how["model"] = [recipe.model.id, parameters.values(recipe.model)]
    account = None if before is None else json_object(before / "mining.json").get("sha256")
    facts = [sorted(files), account, how, __version__]
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _write(file: Path, document: Mapping[str, object]) -> None:
    write_text(file, json.dumps(document, indent=1, ensure_ascii=False) + "\n")
