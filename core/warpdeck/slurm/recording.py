"""Has the user's recorder (snapshots/recorder) take the snapshot of a job's code: tells the one that runs, or starts one.

For the thin client of sbatch, which imports next to nothing.
"""

from __future__ import annotations

import os
import sys

from warpdeck.paths import Paths
from warpdeck_agent.client.access import connect_path
from warpdeck_agent.wire import jsontext

ANSWER_S = 2.0
"""In which a recorder says that it has taken an order. It does nothing else in that thread."""
BEGIN = """import sys
sys.path[:] = {folders!r}
from warpdeck.snapshots.recorder import main
main({home!r}, {line!r})
"""


def order(paths: Paths, job: int, folder: str) -> str:
    """Returns when the order is taken, long before it is done; in words why it is not, else ""."""
    line = jsontext.dumps({"job": job, "folder": folder}) + "\n"
    try:
        if not hand_over(paths, line):
            _start(paths, line)
    except OSError as error:
        return f"no snapshot: the recorder cannot be started: {error.strerror or error}"
    return ""


def hand_over(paths: Paths, line: str) -> bool:
    """Whether a recorder that runs has taken the order."""
    try:
        link = connect_path(socket_of(paths))
    except OSError:
        return False
    try:
        link.settimeout(ANSWER_S)
        link.sendall(line.encode())
        return bool(link.recv(1))
    except OSError:
        return False
    finally:
        link.close()


def socket_of(paths: Paths) -> str:
    """Of this machine: others may share the folder."""
    return os.path.join(paths.recorder, f"{os.uname().nodename}.sock")


def _start(paths: Paths, line: str) -> None:
    """A process of its own that outlives us and holds nothing of ours: a shell may wait for the end of our output.

    The folder that it needs is made here, where somebody can say that it cannot be.
    """
    os.makedirs(paths.recorder, mode=0o700, exist_ok=True)
    program = BEGIN.format(folders=[path for path in sys.path if path], home=paths.home, line=line)
    nothing = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]
    os.posix_spawn(
        sys.executable,
        [sys.executable, "-IS", "-c", program],
        os.environ,
        file_actions=nothing,
        setsid=True,
    )
