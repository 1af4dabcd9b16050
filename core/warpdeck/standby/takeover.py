"""Make this standby the controller of the site.

`refusal` is the one decision: a takeover is refused while the old controller still sends, unless it is forced. The order of
the steps makes a kill at any moment harmless: the role is given up first, so that no receiver writes any more. Then the
receiver ends, and then the controller starts. A takeover that was interrupted is finished by `warpdeck up`.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable
from typing import NamedTuple

from warpdeck.base import standby_files
from warpdeck.base.controller_daemon import ensure_running, running_pid
from warpdeck.base.errors import UserError
from warpdeck.base.paths import Paths

from .receiver import is_receiver

ALIVE_S = 5.0
"""A controller counts as alive for this number of seconds after its last message."""
RECEIVER_ENDS_S = 10.0
POLL_S = 0.2


class Contact(NamedTuple):
    """The last message that this standby has got from the controller."""

    age_s: float
    missing: int
    """Number of batches that the controller had and this machine lacked at that time."""
    is_orderly: bool
    """Whether the controller was stopped by a person."""


def last_contact(paths: Paths) -> Contact | None:
    """Return the last message of the controller, or None if there was none. Raises UserError."""
    found = standby_files.read(paths.standby_contact)
    if found is None:
        return None
    return Contact(
        age_s=max(0.0, time.time() - float(found["at_unix"])),
        missing=max(0, int(found["number"]) - int(found["own_number"])),
        is_orderly=bool(found["orderly"]),
    )


def refusal(contact: Contact | None, host: str, *, has_database: bool) -> UserError | None:
    """Return why the machine must not take over, or None."""
    if not has_database:
        return UserError("this standby has no complete copy yet", f"start the controller on {host}")
    if contact is not None and contact.age_s < ALIVE_S and not contact.is_orderly:
        return UserError(
            f"the controller on {host} is alive: its last message came {contact.age_s:.0f} s ago",
            f"stop it there with `warpdeck down`, or take over all the same with --force; then agents no longer obey {host}",
        )
    return None


def take_over(paths: Paths, *, force: bool) -> None:
    """Start the controller of the site here. Raises UserError."""
    role = standby_files.read(paths.standby_role)
    if role is None:
        raise _no_standby(paths)
    refused = refusal(
        None if force else last_contact(paths),
        str(role["host"]),
        has_database=os.path.exists(paths.database),
    )
    if refused is not None:
        raise refused
    content = {
        "from_host": role["host"],
        "generation": int(role["generation"]) + 1,
        "since_unix": time.time(),
        "host": socket.gethostname(),
    }
    standby_files.write(paths.taken_over, content)
    os.unlink(paths.standby_role)
    _end_receiver(paths)
    ensure_running(paths, local_node=False)


def watch(paths: Paths, *, after_s: float, say: Callable[[str], None]) -> None:
    """Return when the controller has been silent for so long. A controller that a person stopped is waited for.

    Raises UserError.
    """
    seen, changed_at = "", time.monotonic()
    is_told = False
    while True:
        role = standby_files.read(paths.standby_role)
        if role is None:
            raise _no_standby(paths)
        content = standby_files.read(paths.standby_contact)
        text = str(content)
        if text != seen:
            seen, changed_at, is_told = text, time.monotonic(), False
        silent_s = time.monotonic() - changed_at
        is_orderly = content is None or bool(content["orderly"])
        if is_orderly and not is_told:
            say(f"the controller on {role['host']} was stopped or has not answered yet; waiting for it")
            is_told = True
        if silent_s >= after_s and not is_orderly:
            say(f"no message from the controller on {role['host']} for {silent_s:.0f} s; taking over")
            return
        time.sleep(POLL_S)


def _no_standby(paths: Paths) -> UserError:
    if found := standby_files.read(paths.taken_over):
        return UserError(
            f"this machine has already taken over from {found['from_host']}",
            "start its controller: warpdeck up",
        )
    return UserError(
        f"{paths.home} is no standby", "set it up on the controller's machine: warpdeck standby USER@HOST"
    )


def _end_receiver(paths: Paths) -> None:
    """End the receiver. A kill at any moment leaves complete batches only. Raises UserError."""
    deadline = time.monotonic() + RECEIVER_ENDS_S
    while pid := running_pid(paths):
        if time.monotonic() > deadline:
            raise UserError(
                f"the process {pid} that writes the copy does not end", "end it, then run `warpdeck up`"
            )
        if is_receiver(pid):
            os.kill(pid, signal.SIGTERM)
        time.sleep(0.02)
