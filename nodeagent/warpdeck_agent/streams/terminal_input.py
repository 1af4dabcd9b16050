"""Passes typed keys into a terminal.

The host of a terminal (ptyhost) and a task on a terminal of its own (ptytask) use it.
"""

from __future__ import annotations

import errno
import os


def write_keys(master: int, keys: bytearray) -> None:
    """Write as many keys as fit into the terminal's buffer, and remove them from `keys`.

    If the command reads none, the rest stays, and output can continue meanwhile. If the terminal's last
    process has ended, the keys are dropped. Raises OSError.
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
