"""The small files in a home that say which machine serves the site, and which machine keeps a copy.

    standby.json          on the controller's machine: the standby, as `warpdeck standby USER@HOST` set it up
    successor.json        on the controller's machine: the standby has taken over, and no controller starts here
    standby-of.json       on the standby: the controller whose database is copied here
    standby-contact.json  on the standby: the last message of this controller, written once a second
    taken-over.json       on the standby: it has taken over, and its controller serves the site

Each takeover has a generation, which is higher by one than that of the controller before. So two machines that have both
taken over agree which of them was the last.

The command line imports this module, so it uses only the standard library.
"""

from __future__ import annotations

import os

from .errors import UserError
from .paths import Paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_BYTES = 64 * 1024
"""Largest size of one of these files."""
FOR_ALL = 0o644
"""Mode of the files that tell users which machine serves the site."""
MOVED = "moved"
"""Code of the error that the site is served by another machine now."""


def read(path: str) -> dict[str, Any] | None:
    """Return the content of one of these files, or None if there is none. Raises UserError."""
    if not os.path.exists(path):
        return None
    import json  # This import takes longer than looking for the files, which usually do not exist.

    try:
        with open(path, "rb") as file:
            found = json.loads(file.read(MAX_BYTES))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {path}: {error}", "check the file, or remove it") from error
    if not isinstance(found, dict):
        raise UserError(f"cannot read {path}: it holds no object", "check the file, or remove it")
    return found


def write(path: str, content: dict[str, Any], *, durable: bool = True, mode: int = 0o600) -> None:
    """Write one of these files completely or not at all. Raises OSError."""
    import json

    temporary = f"{path}.{os.getpid()}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        os.fchmod(descriptor, mode)
        os.write(descriptor, json.dumps(content).encode())
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.replace(temporary, path)


def generation(paths: Paths) -> int:
    """Return the number of takeovers before the controller of this home began to serve the site. Raises UserError."""
    found = read(paths.taken_over)
    return int(found["generation"]) if found else 0


def is_standby(paths: Paths) -> bool:
    """Return whether this home is the standby of a controller."""
    return os.path.exists(paths.standby_role)


def serving_elsewhere(paths: Paths) -> UserError | None:
    """Return the sentence that names the machine which serves the site, or None if this home may serve it."""
    if found := read(paths.successor):
        host = found["host"]
        return UserError(
            f"the controller of this site now runs on {host}, which took over from this machine",
            f"use warpdeck on {host}; `warpdeck standby` there makes this machine its standby",
            code=MOVED,
        )
    if found := read(paths.standby_role):
        host = found["host"]
        return UserError(
            f"{paths.home} is the standby of the controller on {host}",
            f"use warpdeck on {host}; if that machine is lost, run `warpdeck takeover` here",
            code=MOVED,
        )
    return None
