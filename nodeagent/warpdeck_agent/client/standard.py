"""Prepares standard input, output and error.

It handles streams that the caller has closed, and streams that are a terminal.
"""

from __future__ import annotations

import os
import sys

NAMES = ("stdin", "stdout", "stderr")


def prepare_standard_streams() -> None:
    """Open /dev/null in place of closed standard streams, and filter output to a terminal.

    Otherwise the next opened file or socket would get the number of a closed stream, and be read or written
    as that stream. Text that is printed on a terminal is made visible (see `visible`). The app and the output of
    jobs write to the descriptors directly.
    """
    opened = os.open(os.devnull, os.O_RDWR)
    while opened < len(NAMES):  # the lowest free number
        opened = os.dup(opened)
    os.close(opened)
    for number, name in enumerate(NAMES):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))
    if sys.stdout.isatty() or sys.stderr.isatty():
        from .visible import VisibleStream  # Most commands print into a pipe or a file.

        sys.stdout, sys.stderr = VisibleStream.of(sys.stdout), VisibleStream.of(sys.stderr)
