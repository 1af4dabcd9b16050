"""Continue in the background after the verb has returned."""

from __future__ import annotations

import os


def continue_in_background() -> bool:
    """Fork. Return False in the process that returns to the shell, and True in the background process, which
    has no terminal.
    """
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
