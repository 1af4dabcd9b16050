"""Keys on their way into a terminal: for its host (ptyhost) and for a task on a terminal of its own (ptytask)."""

from __future__ import annotations

import errno
import os


def give(master: int, keys: bytearray) -> None:
    """Takes from the keys as many as the terminal has room for: none while its command reads none, and output goes on meanwhile.

    Keys for a terminal whose last process is gone go too. Raises OSError.
    """
    try:
        while keys:
            del keys[: os.write(master, keys)]
    except BlockingIOError:
        return
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        keys.clear()
