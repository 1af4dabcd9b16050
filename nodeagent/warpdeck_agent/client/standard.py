"""Standard input, output and error, where whoever started us has closed some."""

from __future__ import annotations

import os
import sys

NAMES = ("stdin", "stdout", "stderr")


def hold_standard_streams() -> None:
    """Those that are closed lead nowhere: the next file or socket would have their numbers, and be read and written for them."""
    opened = os.open(os.devnull, os.O_RDWR)
    while opened < len(NAMES):  # the lowest that is free
        opened = os.dup(opened)
    os.close(opened)
    for number, name in enumerate(NAMES):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))
