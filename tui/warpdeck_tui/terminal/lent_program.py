"""Runs a program on the terminal that the app has left."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Mapping, Sequence

LOOK_UP_S = 0.2
"""Seconds between two checks for signals while the program runs."""


def run_program(command: Sequence[str], *, env: Mapping[str, str] | None = None) -> int:
    """Return the exit code of the program. Raises OSError.

    If anything is raised meanwhile, for example by a signal handler, the program is killed. The function
    waits in short intervals, because the kernel may deliver a signal to another thread, and then the Python
    handler runs only when this thread continues.
    """
    with subprocess.Popen(command, env=env) as program:
        try:
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    return program.wait(timeout=LOOK_UP_S)
        except BaseException:
            program.kill()
            raise
