"""Restores and backups that are killed with SIGKILL at one line of their code, each in a forked process.

Usage: killed_restores.py restore|backup BACKUP HOME LINE [HOME LINE ...]. LINE follows the name of a new backup.

Each line of the output tells how the work for a home ended: the number of lines that it ran, or -9. Lines are counted in
the code that writes, decides and moves.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import Any

from warpdeck.backup import archive, counters, create, pending, restore, source, staging
from warpdeck.base.errors import UserError
from warpdeck.base.paths import Paths
from warpdeck.store import database_copy

FILES = {
    module.__file__
    for module in (archive, counters, create, database_copy, pending, restore, source, staging)
}


def run(verb: str, backup: str, home: str, last: int) -> int:
    """Restore or back up in this process, and return the number of lines."""
    count = 0

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal count
        if frame.f_code.co_filename not in FILES:
            return None
        if event == "line":
            count += 1
            if count == last:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)
    try:
        if verb == "restore":
            restore.restore(Paths(home), backup, show=lambda text: None)
        else:
            create.make_backup(Paths(home), f"{backup}{last}", show=lambda text: None)
    except UserError as error:
        print(error, file=sys.stderr)
        return -1
    finally:
        sys.settrace(None)
    return count


def main() -> None:
    verb, backup, *pairs = sys.argv[1:]
    for home, last in zip(pairs[::2], pairs[1::2], strict=True):
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            print(run(verb, backup, home, int(last)), flush=True)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        if os.WIFSIGNALED(status):
            print(-os.WTERMSIG(status), flush=True)


if __name__ == "__main__":
    main()
