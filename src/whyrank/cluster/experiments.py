"""The runs of experiments as tasks: each is done by the lab's own code and remembered in the lab's own cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from whyrank.cluster.session import Cluster
from whyrank.experiments.cache import Cache
from whyrank.experiments.jobs import Job
from whyrank.experiments.lab import Lab


def run_jobs(
    cluster: Cluster, lab: Lab, jobs: Sequence[Job], tell: Callable[[str, int, int], None] | None = None
) -> None:
    """Do what is not in the cache yet, a task for all that shares a fit; models that cannot run are skipped.

    The cache's folder must be one that all machines see. What is missing there afterwards is run where it is asked for.
    """
    missing = lab.missing(jobs)
    there = replace(lab, cache=Cache(Path(lab.cache.folder).resolve()), threads=1, skipped={}, _warm=set(), _last=None)
    shared = cluster.put(there)
    waiting = [cluster.submit(run_fit, shared, list(same)) for _, same in groupby(missing, key=lambda job: job.fit)]
    total = len(waiting)
    while waiting:
        done, waiting = cluster.first(waiting)
        for skipped in cluster.gather(done):
            lab.skipped.update(skipped)
        if tell:
            tell("runs on the cluster", total - len(waiting), total)


def run_fit(lab: Lab, jobs: list[Job]) -> dict[str, str]:
    """Jobs that share a fit; the models that could not run, and why."""
    mine = replace(lab, skipped={}, _warm=set(), _last=None)
    mine.run(jobs)
    return mine.skipped
