"""What goes wrong on a cluster, on purpose: workers read the plan before every task they do.

A plan is a folder of files. `kill-NAME` or `stop-NAME`: the next worker that gets the task NAME dies by SIGKILL, or is
stopped, inside of it, once. `full-NAME`: the disk is full for all tasks NAME.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

PLAN = "WHYRANK_TEST_FAULTS"


def install() -> None:
    """Called by Ray in every new worker."""
    from whyrank.lab.ray import session

    plan, run = Path(os.environ[PLAN]), session.run

    def faulty(function: Callable[..., Any], *arguments: Any) -> Any:
        for fault, kind in (("kill", signal.SIGKILL), ("stop", signal.SIGSTOP)):
            try:
                (plan / f"{fault}-{function.__name__}").unlink()
            except FileNotFoundError:
                continue
            os.kill(os.getpid(), kind)
        if (plan / f"full-{function.__name__}").exists():
            return run(no_space, function.__name__)
        return run(function, *arguments)

    session.run = faulty


def no_space(name: str) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)
