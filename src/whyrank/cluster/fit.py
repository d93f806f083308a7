"""`whyrank fit --ray`: a model fitted on a cluster and written to a folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from whyrank.cluster.dataset import Dataset
from whyrank.cluster.export import write_model
from whyrank.cluster.session import Cluster
from whyrank.cluster.store import Store
from whyrank.cluster.training import State, train
from whyrank.data.triplets import Triplets
from whyrank.errors import ParameterError
from whyrank.models import Model, parameters
from whyrank.models.factors import FactorModel
from whyrank.training import Monitor, Run
from whyrank.training.passes import Pass

PARTS = 16  # files that a data set which fits one machine is cut into


def fit(
    cluster: Cluster,
    model: Model,
    data: Dataset,
    output: Path,
    *,
    resume: bool = False,
    monitors: Sequence[Monitor] = (),
    checkpoint_seconds: float | None = None,
) -> Path:
    """Fit a model of the engine and write its folder: the one that fitting and saving here would write."""
    parameters.check(model)
    if not isinstance(model, FactorModel) or model.solver != "blocks":
        raise ParameterError(f"{model.id} with these settings does not train in blocks; leave out --ray")
    return write_model(cluster, model, data, learn(cluster, model, data, resume, monitors, checkpoint_seconds), output)


def learn(
    cluster: Cluster,
    model: FactorModel,
    data: Dataset,
    resume: bool = False,
    monitors: Sequence[Monitor] = (),
    checkpoint_seconds: float | None = None,
) -> State:
    """The tables of a model of the engine, in the data's store."""
    settings = model.settings(Run())
    if checkpoint_seconds is not None:
        settings = replace(settings, checkpoint_seconds=checkpoint_seconds)
    tables = model.tables(data)  # type: ignore[arg-type]  # asks for sizes only
    return train(cluster, data, tables, passes_of(model), settings, resume=resume, monitors=monitors)


def passes_of(model: FactorModel) -> tuple[Pass, ...]:
    """What a model's passes are made of, seen on the smallest data set there is."""
    one = pl.DataFrame({"user": ["u"], "item": ["i"], "explanation": ["e"]})
    return model.passes(Triplets.from_frame(one))


def put_data(triplets: Triplets, store: Store) -> Dataset:
    """Triplets that fit this machine as a data set of the cluster; what is already there is not written again."""
    there = Dataset.load(store)
    if there is not None and there.digest == triplets.digest():
        return there
    return Dataset.of(triplets, store, PARTS)
