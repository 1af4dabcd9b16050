"""Going on in the background: the verb returns, what it began stays."""

from __future__ import annotations

import os


def go_on_behind() -> bool:
    """Forks. False in the process that returns to the shell, True in the one that goes on, with no terminal and no output."""
    if os.fork():
        os.wait()
        return False
    os.setsid()
    if os.fork():
        os._exit(0)
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)
    return True
