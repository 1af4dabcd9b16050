"""Start background processes of the user that outlive their starter and hold none of its files.

They must not keep the starter's output open, because a shell may wait for the end of that output. The thin
client of sbatch uses this module, so it imports next to nothing.
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
    """Run the module's `main` with these arguments in a new process, which writes its errors to `log`.

    Raises OSError.
    """
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
