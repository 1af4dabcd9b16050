"""The messages of the app while the server starts, and when it cannot start."""

from __future__ import annotations

import os

from warpdeck.base.controller_daemon import is_running
from warpdeck.base.errors import UserError
from warpdeck.base.paths import Paths

STARTING = "Starting the server"
READ_BYTES = 4096
"""Number of bytes at the end of the log among which its last line is searched."""
MOST_CHARACTERS = 160
"""Largest length of a line of the log on the screen."""


def start_words(paths: Paths) -> str:
    """Return the message if a server must be started now, or "" if one answers."""
    return "" if is_running(paths) else STARTING


def late_words(paths: Paths) -> str:
    """Return the message if the start takes long, with the last line of the server's log."""
    line = last_log_line(paths)
    return f"{STARTING}; still waiting" + (f". Its log: {line}" if line else "")


def failure_words(paths: Paths, error: UserError) -> str:
    """Return why the server did not start, with the last line of its log if the error does not contain it."""
    line = last_log_line(paths)
    log = f". Its log: {line}" if line and line not in error.message else ""
    return f"{' '.join(error.message.split())}{log}; trying again"


def last_log_line(paths: Paths) -> str:
    """Return the last line of the server's log that is not empty, or "" if there is none."""
    try:
        with open(paths.log, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - READ_BYTES))
            lines = file.read(READ_BYTES).decode("utf-8", "replace").splitlines()
    except (OSError, UserError):
        return ""
    return next((line.strip()[:MOST_CHARACTERS] for line in reversed(lines) if line.strip()), "")
