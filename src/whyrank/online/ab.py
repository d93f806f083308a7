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
    arms = json.dumps([arm.as_dict() for arm in experiment.arms])
    try:
        with store.writing() as connection:
            connection.execute(experiments.insert(), vars(experiment) | {"arms": arms})
    except sa.exc.IntegrityError:
        named = f"there is an experiment {experiment.name!r} already"
        raise ParameterError(f"{named}; use another name") from None
    return experiment


def listed(store: Store) -> list[Experiment]:
    """Return all experiments, the newest first."""
    query = sa.select(experiments).order_by(experiments.c.created.desc(), experiments.c.name)
    with store.reading() as connection:
        rows = [dict(row._mapping) for row in connection.execute(query)]
    return [Experiment(**row | {"arms": tuple(Arm(**each) for each in json.loads(row["arms"]))}) for row in rows]


def found(store: Store, name: str) -> Experiment:
    """Return an experiment by name; raises NoSuchExperiment."""
    known = {each.name: each for each in listed(store)}
    if name not in known:
        there = ", ".join(known) or "none"
        raise NoSuchExperiment(f"no experiment {name!r} in this store; there is {there}")
    return known[name]


def ramp(store: Store, name: str, share: float) -> Experiment:
    """Set the share of users who take part. Nobody changes arms, whoever leaves or comes back."""
    return _change(store, replace(found(store, name), ramp=share), ramp=share)


def stop(store: Store, name: str) -> Experiment:
    """End an experiment for ever: everybody gets the default model again."""
    now = int(time.time())
    return _change(store, replace(found(store, name), stopped=now), stopped=now)


def _change(store: Store, changed: Experiment, **values: float) -> Experiment:
    """Change an experiment unless it is stopped, by somebody else since it was read perhaps."""
    running = (experiments.c.name == changed.name) & experiments.c.stopped.is_(None)
    with store.writing() as connection:
        if not connection.execute(experiments.update().where(running).values(**values)).rowcount:
            raise ParameterError(f"experiment {changed.name!r} is stopped; create another one")
    return changed
