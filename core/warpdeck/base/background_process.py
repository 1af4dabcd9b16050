"""A process of the user's own that outlives who starts it and holds nothing of theirs: a shell may wait for the end of our output.

For the thin client of sbatch, which imports next to nothing.
"""

from __future__ import annotations

import os
import sys

BEGIN = """import sys
sys.path[:] = {folders!r}
from {module} import main
main(*{arguments!r})
"""


def start(module: str, *arguments: str, log: str = os.devnull) -> None:
    """Runs the module's `main` with these arguments. What it says of its own bugs goes to `log`. Raises OSError."""
    program = BEGIN.format(
        folders=[path for path in sys.path if path], module=module, arguments=list(arguments)
    )
    fresh = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    nothing = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1)]
    os.posix_spawn(
        sys.executable,
        [sys.executable, "-IS", "-c", program],
        os.environ,
        file_actions=[*nothing, (os.POSIX_SPAWN_OPEN, 2, log, fresh, 0o600)],
        setsid=True,
    )
