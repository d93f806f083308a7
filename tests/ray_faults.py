"""What goes wrong on a cluster, on purpose: workers read the plan before every task they do.

A plan is a folder of files. `kill-NAME`: the next worker that gets the task NAME dies by SIGKILL inside of it, once.
`slow`: the node that next learns an epoch is slow from then on. `full`: the disk of the node that next writes a state
is full from then on.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PLAN = "WHYRANK_TEST_FAULTS"


def install() -> None:
    """Called by Ray in every new worker."""
    from whyrank import atomic
    from whyrank.lab.ray import session

    plan, run, sync = Path(os.environ[PLAN]), session.run, atomic._sync

    def no_space(file: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file))

    def faulty(function: Callable[..., Any], *arguments: Any) -> Any:
        import ray

        node = ray.get_runtime_context().get_node_id()
        fault = {"epoch": "slow", "write": "full"}.get(function.__name__, "none")
        with contextlib.suppress(FileNotFoundError):
            (plan / fault).rename(plan / f"{fault}-{node}")
        if (plan / f"slow-{node}").exists():
            time.sleep(0.1)
        atomic._sync = no_space if (plan / f"full-{node}").exists() else sync
        try:
            (plan / f"kill-{function.__name__}").unlink()
        except FileNotFoundError:
            return run(function, *arguments)
        os.kill(os.getpid(), signal.SIGKILL)
        return None

    session.run = faulty
