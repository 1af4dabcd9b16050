"""The output files of commands and sessions, output/NAME below the gateway's folder on the shared file system.

A command of `warpdeck run` has no file of its own, but its output must reach the client, and `warpdeck logs` afterwards.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import time
from contextlib import suppress
from typing import NamedTuple

from warpdeck.base.errors import UserError
from warpdeck.model.created_by_nonce import RequestId

KEEP_S = 30 * 86_400.0
"""Seconds after which a file is removed that nobody has written to."""


class OutputPaths(NamedTuple):
    """The files of one job. `over` appears when its command has ended."""

    out: str
    err: str
    over: str


def make_paths(folder: str, uid: int, request_id: RequestId | None) -> OutputPaths:
    """Return the paths for a request, the same for a repeated one, and make their folder. Raises UserError."""
    name = (
        secrets.token_hex(12)
        if request_id is None
        else hashlib.sha256(f"{uid}:{request_id.nonce}".encode()).hexdigest()[:24]
    )
    base = os.path.join(folder, "output")
    try:
        os.makedirs(base, 0o700, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"cannot make {base}: {error.strerror}",
            "Set the key folder in the table [slurm] of config.toml to a folder that all nodes share.",
        ) from error
    return OutputPaths(*(os.path.join(base, f"{name}.{kind}") for kind in ("out", "err", "over")))


def over_path(out: str) -> str:
    """Return the path of the file that appears at the end of the command with this output file."""
    return f"{out.removesuffix('.out')}.over"


def pattern_of(path: str) -> str:
    """Return the path as a pattern of Slurm that stands for itself."""
    return path.replace("%", "%%")


def remove_old(folder: str) -> None:
    """Remove the files of jobs that ended long ago."""
    before = time.time() - KEEP_S
    with suppress(OSError):
        for entry in os.scandir(os.path.join(folder, "output")):
            if entry.stat(follow_symlinks=False).st_mtime < before:
                os.unlink(entry.path)
