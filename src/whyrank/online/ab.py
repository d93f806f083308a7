"""Experiments in the store."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import sqlalchemy as sa

from whyrank.errors import ParameterError
from whyrank.online.assignment import Arm, Experiment
from whyrank.online.store import NotInStore, Store
from whyrank.online.tables import experiments


class NoSuchExperiment(NotInStore):
    """No experiment has this name."""


def create(store: Store, experiment: Experiment) -> Experiment:
    """Store a new experiment, which runs from then on; names are never used twice.

    Raises:
        ParameterError: there is one of this name.
    """
    row = {name: getattr(experiment, name) for name in experiments.c.keys() if name != "arms"}  # noqa: SIM118
    arms = json.dumps([arm.as_dict() for arm in experiment.arms])
    try:
        with store.writing() as connection:
            connection.execute(experiments.insert(), {**row, "arms": arms})
    except sa.exc.IntegrityError:
        raise ParameterError(f"there is an experiment {experiment.name!r} already; use another name") from None
    return experiment


def listed(store: Store) -> list[Experiment]:
    """All experiments, the newest first."""
    query = sa.select(experiments).order_by(experiments.c.created.desc(), experiments.c.name)
    with store.reading() as connection:
        return [_experiment(row._mapping) for row in connection.execute(query)]


def found(store: Store, name: str) -> Experiment:
    """An experiment by name; raises NoSuchExperiment."""
    with store.reading() as connection:
        row = connection.execute(sa.select(experiments).where(experiments.c.name == name)).first()
    if row is None:
        known = ", ".join(each.name for each in listed(store)) or "none"
        raise NoSuchExperiment(f"no experiment {name!r} in this store; there is {known}")
    return _experiment(row._mapping)


def ramp(store: Store, name: str, share: float) -> Experiment:
    """Set the share of users who take part. Nobody changes arms: those who leave when it falls come back to theirs."""
    return _change(store, replace(_running(store, name), ramp=share))


def stop(store: Store, name: str) -> Experiment:
    """End an experiment: everybody gets the default model again. It cannot be started again."""
    return _change(store, replace(_running(store, name), stopped=int(time.time())))


def _running(store: Store, name: str) -> Experiment:
    experiment = found(store, name)
    if experiment.stopped is not None:
        raise _stopped(name)
    return experiment


def _change(store: Store, experiment: Experiment) -> Experiment:
    running = (experiments.c.name == experiment.name) & experiments.c.stopped.is_(None)
    with store.writing() as connection:
        changed = {"ramp": experiment.ramp, "stopped": experiment.stopped}
        if not connection.execute(experiments.update().where(running), changed).rowcount:
            raise _stopped(experiment.name)  # by somebody else, since it was read
    return experiment


def _stopped(name: str) -> ParameterError:
    return ParameterError(f"experiment {name!r} is stopped; create another one")


def _experiment(row: sa.RowMapping) -> Experiment:
    given = {name: row[name] for name in experiments.c.keys() if name != "arms"}  # noqa: SIM118
    return Experiment(**given, arms=tuple(Arm(**each) for each in json.loads(row["arms"])))
