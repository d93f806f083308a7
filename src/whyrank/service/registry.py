"""The models a worker serves, each as new as its folder."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.data.csr import CSR
from whyrank.errors import ParameterError, WhyrankError
from whyrank.explain.options import Options
from whyrank.explain.rank import rank_items
from whyrank.explain.reasons import rows_of
from whyrank.explain.result import explain
from whyrank.explain.words import word_rows
from whyrank.index.form import given_mu
from whyrank.models import Model, load
from whyrank.service.problems import Problem
from whyrank.service.report import ModelReport, report_files, shown_report
from whyrank.service.settings import free_name

Stamp = tuple[tuple[int, int, int] | None, ...]
AGAIN = 60.0  # seconds after which a folder is tried again that failed for a reason that may pass, such as memory
UNEXPECTED = (Exception, pl.exceptions.PanicException)  # the latter is no Exception
log = logging.getLogger("uvicorn.error")


@dataclass(eq=False)
class ServedModel:
    """A model in memory, and what else is shown of it. Never changed after it is on the shelf."""

    id: str
    folder: Path
    model: Model
    report: ModelReport | None
    stamp: Stamp
    titles: pl.Series | None  # by item number
    aspects: pl.Series | None  # by explanation number
    groups: Mapping[str, str]  # by item id, where there are any
    since: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"))

    @property
    def mu(self) -> float | None:
        return own_mu(self.model)

    @property
    def sentiment(self) -> NDArray[np.float32] | None:
        """By explanation number; None when neither ratings nor words tell."""
        catalog = self.model.catalog_
        return None if catalog.sentiment_source is None else catalog.sentiment

    def title(self, item: str) -> str | None:
        """An item's title by its id, where both are known."""
        number = int(self.model.catalog_.items.numbers([item], missing="negative")[0])
        return None if self.titles is None or number < 0 else self.titles[number]

    @cached_property
    def words(self) -> CSR:
        """Explanation -> numbers of its content words."""
        return word_rows(self.model.catalog_)

    @cached_property
    def average_popularity(self) -> list[float]:
        """The popularity part of scores, averaged over the pool, with mu 0 and with mu 1: it is linear in mu."""
        nobody, keys = np.full(1, -1, np.int32), self.model.keys()
        ends = np.cumsum([block.width for block in self.model.blocks()]).tolist()
        columns = [
            slice(end - block.width, end)
            for block, end in zip(self.model.blocks(), ends, strict=True)
            if block.name == "popularity"
        ]
        mean = keys.mean(0, dtype=np.float64)
        queries = [
            self.model.queries(nobody, nobody, **given_mu(None if self.mu is None else mu))[0] for mu in (0.0, 1.0)
        ]
        return [float(sum(query[place] @ mean[place] for place in columns)) for query in queries]

    def sentiments(self, explanations: NDArray[np.int32]) -> list[float | None]:
        """Sentiments of explanations by number, to two digits."""
        return [None] * len(explanations) if self._rounded is None else self._rounded[explanations].tolist()

    @cached_property
    def _rounded(self) -> NDArray[np.float64] | None:
        return None if self.sentiment is None else self.sentiment.astype(np.float64).round(2)

    @cached_property
    def digest(self) -> str:
        """What the log calls this model."""
        return self.model.digest()

    def warm(self) -> None:
        """Do now what the first requests would wait for: prepare the search, load compiled kernels."""
        zero = np.zeros(1, np.int32)
        self.model.search()
        assert self.digest
        pair = [(self.model.catalog_.users.ids[0], self.model.catalog_.items.ids[0])]
        against, mu = Options(polarity="negative"), Options(mu=self.mu)
        for options in (Options(), against, mu, Options.plain(), Options.plain(specificity=0.1)):
            list(rows_of(explain(self.model, pair, options, 1, threads=1)))
        if self.model.ranks_items:
            rank_items(self.model, zero, 1, 1)


Models = Mapping[str, ServedModel]


def find(models: Models, id_: str | None) -> ServedModel:
    """Find a model by id, or the default one."""
    if id_ is None:
        return next(iter(models.values()))
    if id_ not in models:
        raise Problem("unknown-model", 404, f"no model {id_!r} here; there is {', '.join(models)}", models=list(models))
    return models[id_]


def own_mu(model: Model) -> float | None:
    """The `mu` of models that weigh the user's and the item's part."""
    mu = getattr(model, "mu", None)
    return float(mu) if isinstance(mu, int | float) else None


class ModelRegistry:
    """Models by id. Readers take `models` once per request; it is replaced as a whole, never changed."""

    def __init__(
        self,
        folders: Sequence[tuple[str | None, Path]],
        titles: pl.DataFrame | None = None,
        aspects: pl.DataFrame | None = None,
        reloaded: Callable[[str, str], None] = lambda model, outcome: None,
        groups: Mapping[str, str] | None = None,
    ) -> None:
        if not folders:
            raise ParameterError("no model to serve; give at least one model folder")
        self._titles, self._aspects, self._reloaded, self.groups = titles, aspects, reloaded, groups or {}
        self.problems: dict[str, str] = {}
        self._refused: dict[str, tuple[Stamp, float, str]] = {}  # what is left alone, until when, and why
        self._gone: frozenset[str] = frozenset()
        self.models: dict[str, ServedModel] = {}
        for name, folder in folders:
            loaded = self._load(name, folder)
            loaded.id = name or free_name(loaded.model.id, self.models)
            if loaded.id in self.models:
                raise ParameterError(f"two models would be called {loaded.id!r}; name them, as in new={folder}")
            self.models = self.models | {loaded.id: loaded}

    @property
    def default(self) -> ServedModel:
        return next(iter(self.models.values()))

    def refresh(self) -> None:
        """Load folders that were replaced; one that cannot be loaded, for whatever reason, leaves the old model in
        service. Never raises."""
        for id_, old in list(self.models.items()):
            try:
                self._refresh(id_, old)
            except UNEXPECTED as error:
                log.exception("model %s: its folder could not be looked at", id_)
                self._tell(id_, f"its folder could not be looked at: {_line(error)}", "failed")

    def not_watched(self, error: BaseException) -> None:
        """Say that folders are not looked at."""
        for id_ in self.models:
            self._tell(id_, f"folders are not looked at: {_line(error)}", "failed")

    def _refresh(self, id_: str, old: ServedModel) -> None:
        stamp, (refused, until, why) = _stamp(old.folder), self._refused.get(id_, (None, 0.0, ""))
        if stamp[0] is None or stamp == old.stamp:
            # A folder is away for a moment while another one takes its place; not for two looks.
            gone = stamp[0] is None
            if gone and id_ in self._gone:
                self._tell(id_, "its folder is gone; the model in memory stays", "failed")
            elif not gone:
                self._tell(id_, None, "recovered")
            self._gone = self._gone | {id_} if gone else self._gone - {id_}
            return
        self._gone -= {id_}
        if stamp == refused and time.monotonic() < until:
            self._tell(id_, why, "refused")
            return
        try:
            fresh = self._load(id_, old.folder)
        except UNEXPECTED as error:
            # A folder that was replaced while it was read fails its checksums; the next look sees another stamp.
            if _stamp(old.folder) == stamp:
                ours = isinstance(error, WhyrankError)
                self._refused[id_] = stamp, math.inf if ours else time.monotonic() + AGAIN, _line(error)
                self._tell(id_, _line(error), "refused")
                if not ours:
                    log.exception("model %s: loading the new folder failed", id_)
            return
        self.models = {**self.models, id_: fresh}
        self._tell(id_, None, "recovered")
        self._reloaded(id_, "loaded")
        log.info("model %s: loaded anew from %s", id_, old.folder)

    def _tell(self, id_: str, problem: str | None, outcome: str) -> None:
        """Set or clear the problem of a model; what is new about it is logged and counted."""
        if problem == self.problems.get(id_):
            return
        problems = {name: text for name, text in self.problems.items() if name != id_}
        self.problems = problems if problem is None else {**problems, id_: problem}
        if problem is not None:
            log.warning("model %s: %s, so the model in memory stays in service: %s", id_, outcome, problem)
        self._reloaded(id_, outcome)

    def _load(self, id_: str | None, folder: Path) -> ServedModel:
        stamp, model = _stamp(folder), load(folder)
        catalog = model.catalog_
        named = catalog.tables()["explanations"].get_column("aspect", default=None)
        loaded = ServedModel(
            id_ or model.id,
            folder,
            model,
            shown_report(folder),
            stamp,
            _aligned(catalog.items.ids, self._titles, "item", "title"),
            _aligned(catalog.explanations.ids, self._aspects, "id", "aspect") if self._aspects is not None else named,
            self.groups,
        )
        for pair in [] if loaded.report is None else loaded.report.missed:
            pair.title = loaded.title(pair.item)
        loaded.warm()
        return loaded


def _stamp(folder: Path) -> Stamp:
    """Changes whenever a folder is replaced, or the report beside it."""
    return tuple(_stat(file) for file in (folder / "manifest.json", *report_files(folder)))


def _line(error: BaseException) -> str:
    """An error in one line; those that are not ours with their kind."""
    text = (str(error).strip().splitlines() or [""])[0]
    return text if isinstance(error, WhyrankError) else f"{type(error).__name__}: {text}"


def _stat(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _aligned(ids: pl.Series, table: pl.DataFrame | None, key: str, value: str) -> pl.Series | None:
    """The values of a table in the order of `ids`."""
    if table is None:
        return None
    wanted = pl.DataFrame({key: ids})
    return wanted.join(table.unique(key, keep="first"), on=key, how="left", maintain_order="left")[value]
