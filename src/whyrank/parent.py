"""Processes that others were started by."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from multiprocessing.connection import wait


def end_with_parent() -> None:
    """From now on be told to stop (SIGTERM) when the process that started this one is no more, however it ended.

    Without it, workers of a process that was killed outright live on, and a service's workers go on answering.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def follow() -> None:
        wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=follow, daemon=True).start()
