"""`whyrank fit --ray`: a model fitted on a cluster and written to a folder."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import polars as pl

from whyrank.data.triplets import Triplets
from whyrank.errors import ClusterError, ParameterError
from whyrank.lab.ray.dataset import Dataset
from whyrank.lab.ray.export import factors_of, write_model
from whyrank.lab.ray.session import Cluster
from whyrank.lab.ray.shard_worker import FactorJob
from whyrank.lab.ray.store import StateStore
from whyrank.lab.ray.training import train
from whyrank.models import Model, parameters
from whyrank.models.factors import FactorModel
from whyrank.training import Run
from whyrank.training.passes import Pass
from whyrank.training.shards import default_shards
from whyrank.version import __version__

PROBE = "probe"
PARTS = 16  # files that a data set which fits one machine is cut into


def fit(
    cluster: Cluster,
    model: Model,
    data: Dataset,
    output: Path,
    run: Run | None = None,
    *,
    report: Callable[[], Mapping[str, object]] | None = None,
) -> Path:
    """Fit a model and write its folder: the one that fitting and saving here would write.

    States are saved every `run.checkpoint_seconds`. `report` is asked after training for what `Model.save` takes under
    this name.
    """
    parameters.check(model)
    if not isinstance(model, FactorModel) or model.solver != "blocks":
        raise ParameterError(
            f"{model.id} with these settings trains on one machine; leave out --ray, "
            "or choose bper, pitf, cd or one of their joint forms (--model bper-j)"
        )
    run = run or Run()
    cluster.require_cpus(run.threads or 1)
    data = replace(data, store=data.store.claimed())
    require_same(cluster, data.store)
    state = train(cluster, job_of(model, data), run)
    learned = factors_of(model, data, state)
    return write_model(cluster, model, data, learned, output, data.store, report() if report else None)


def require_same(cluster: Cluster, store: StateStore) -> None:
    """Raise unless all machines have this version and see this store: they would fail later, or wait for ever."""
    note = secrets.token_hex(8)
    store.write_document(PROBE, {"note": note})
    for machine, (version, seen) in cluster.on_each(look, store):
        if version != __version__:
            raise ClusterError(f"{machine.host} has whyrank {version}, not {__version__}; install the same everywhere")
        if seen != note:
            raise ClusterError(
                f"{machine.host} does not see {store.url} as this machine does; give a --store that all machines share"
            )


def look(store: StateStore) -> tuple[str, str | None]:
    """This machine's version, and what it finds in the store."""
    return __version__, (store.read_document(PROBE) or {}).get("note")


def job_of(model: FactorModel, data: Dataset) -> FactorJob:
    """What workers have to know of a fit."""
    tables, passes = model.tables(data), passes_of(model)  # type: ignore[arg-type]  # asks for sizes only
    shards = model.shards or default_shards(tables, passes, data.triplets)
    return FactorJob(data, tables, passes, replace(model.settings(), shards=shards))


def passes_of(model: FactorModel) -> tuple[Pass, ...]:
    """What a model's passes are made of, seen on the smallest data set there is."""
    one = pl.DataFrame({"user": ["u"], "item": ["i"], "explanation": ["e"]})
    return model.passes(Triplets.from_frame(one))


def put_data(triplets: Triplets, store: StateStore) -> Dataset:
    """Triplets that fit this machine as a data set of the cluster; what is already there is not written again."""
    there = Dataset.load(store)
    if there is not None and there.digest == triplets.digest():
        return there
    return Dataset.of(triplets, store, PARTS)
