"""Progress for logs: where nothing can be drawn, a line now and then."""

from __future__ import annotations

import time
from typing import Any

from rich.console import Console
from rich.progress import Progress, TaskID

EVERY = 10.0  # seconds


class Lines(Progress):
    """A progress bar that is never drawn; it says in lines how far each task is."""

    def __init__(self, console: Console) -> None:
        super().__init__(console=console, disable=True)
        self._said = time.monotonic()

    def update(self, task_id: TaskID, **changes: Any) -> None:
        super().update(task_id, **changes)
        now = time.monotonic()
        if now - self._said >= EVERY:
            self._said = now
            self.console.print(line(self, task_id), style="dim", soft_wrap=True)


def line(progress: Progress, task_id: TaskID) -> str:
    """What is done of a task, and of how much."""
    task = next(each for each in progress.tasks if each.id == task_id)
    done, elapsed = f"{task.completed:,.0f}", task.elapsed or 0.0
    if task.total is not None:
        done += f" of {task.total:,.0f}"
    if task.total is not None and task.completed:
        done += f", about {elapsed / task.completed * (task.total - task.completed):,.0f} s left"
    remark = task.fields.get("remark")
    return f"{task.description}: {done}" + (f", {remark}" if remark else "")
