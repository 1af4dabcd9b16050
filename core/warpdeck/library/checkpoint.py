"""`warpdeck.Checkpoint`: a program saves its state in time, and continues from it when its job starts again.

    checkpoint = warpdeck.Checkpoint("run.pt")
    state = checkpoint.load(torch.load) or {"step": 0, "model": model.state_dict()}
    for step in range(state["step"], STEPS):
        ...
        if checkpoint.is_due():
            checkpoint.save(lambda path: torch.save({"step": step + 1, "model": model.state_dict()}, path))

A checkpoint is due after some time, and when the job has to leave its GPUs: it is paused or preempted, or reaches its time
limit. In this case `save` ends the program. A job with --requeue=limit learns of each checkpoint and returns to the queue at
its limit. All of this works without a controller, too: the checkpoints are then written and announced to nobody.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import TypeVar

VARIABLE = "WARPDECK_CHECKPOINT"
"""Variable with the path of the file that the agent of the node looks at."""
T = TypeVar("T")


def checkpointed(path: str | os.PathLike[str] = "") -> None:
    """Announce that a checkpoint is complete, at `path` if it is given. Without an agent, this does nothing."""
    announced = os.environ.get(VARIABLE, "")
    if announced:
        with contextlib.suppress(OSError):  # A program must not fail because of an announcement.
            Path(announced).write_text(f"{os.fspath(path)}\n", encoding="utf-8")


class Checkpoint:
    """The checkpoint of a program in the file `path`.

    It is due every `every_s` seconds, and when one of the `signals` has arrived. The handlers of the signals are set here,
    which only the main thread of a program may do.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        every_s: float = 600.0,
        signals: tuple[int, ...] = (signal.SIGTERM, signal.SIGUSR1),
    ) -> None:
        self.path = Path(path)
        self.must_leave = False
        """Whether the program was asked to save its state and to exit."""
        self._every_s = every_s
        self._saved_at = time.monotonic()
        for number in signals:
            signal.signal(number, self._leave)

    def load(self, read: Callable[[str], T]) -> T | None:
        """Return `read(path)`, or None if there is no checkpoint yet."""
        return read(str(self.path)) if self.path.exists() else None

    def is_due(self) -> bool:
        """Return whether it is time to save the state."""
        return self.must_leave or time.monotonic() - self._saved_at >= self._every_s

    def save(self, write: Callable[[str], object]) -> None:
        """Call `write` with the path of a new file, which then replaces the checkpoint at once, and announce it.

        Raises SystemExit(0) if the program was asked to leave.
        """
        new = self.path.with_name(self.path.name + ".new")
        write(str(new))
        descriptor = os.open(new, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        new.replace(self.path)
        self._saved_at = time.monotonic()
        checkpointed(self.path)
        if self.must_leave:
            raise SystemExit(0)

    def _leave(self, number: int, frame: FrameType | None) -> None:
        self.must_leave = True
