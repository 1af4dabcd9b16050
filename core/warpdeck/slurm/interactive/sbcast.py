"""sbcast from a shell.

It runs the sbcast program of the nodes, with steps that are started from this machine.
"""

from __future__ import annotations

import os

from warpdeck.base.errors import UserError
from warpdeck_agent.client import sbcast
from warpdeck_agent.client.access import CommandRefused

from .srun import step


def main(name: str, words: list[str]) -> int:
    """Copy the file and return the exit code."""
    try:
        return sbcast.main(words, os.environ, lambda asked, environ: step(name, asked, environ))
    except CommandRefused as refused:
        raise UserError(refused.message, refused.hint, exit_code=refused.exit_code) from refused
