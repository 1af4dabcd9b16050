"""What the programs of jobs do: main(NAME, ARGUMENTS)."""

from __future__ import annotations

import os
import sys
from typing import List

from .access import Refused, connect, patiently
from .step import StepClient

OUTSIDE_EXIT = 1


def main(name: str, words: List[str]) -> int:
    """Runs the program of that name; its exit code."""
    if "WARPDECK_TOKEN" not in os.environ:
        sys.stderr.write(f"{name}: error: this is no process of a warpdeck job: its variables are not set\n")
        return OUTSIDE_EXIT
    try:
        client = StepClient(lambda: patiently(lambda: connect(os.environ), name), name=name)
        return client.run(words, dict(os.environ), os.getcwd())
    except Refused as refused:
        sys.stderr.write(
            f"{name}: error: {refused.message}\n" + (f"  {refused.hint}\n" if refused.hint else "")
        )
        return refused.exit_code
    except KeyboardInterrupt:
        return 130
