"""Standard input, output and error, where whoever started us has closed some, or where they are a terminal."""

from __future__ import annotations

import os
import sys

NAMES = ("stdin", "stdout", "stderr")


def prepare_standard_streams() -> None:
    """Those that are closed lead nowhere: the next file or socket would have their numbers, and be read and written for them.
    What is printed on a terminal is made visible (visible.py); the app and the output of jobs write to the descriptors."""
    opened = os.open(os.devnull, os.O_RDWR)
    while opened < len(NAMES):  # the lowest that is free
        opened = os.dup(opened)
    os.close(opened)
    for number, name in enumerate(NAMES):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))
    if sys.stdout.isatty() or sys.stderr.isatty():
        from .visible import VisibleStream  # Most commands print into a pipe or a file.

        sys.stdout, sys.stderr = VisibleStream.of(sys.stdout), VisibleStream.of(sys.stderr)
