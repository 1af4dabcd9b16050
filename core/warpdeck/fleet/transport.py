"""The byte stream that carries an agent's frames, and the answers of `agent.pyz` commands."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import msgspec

from warpdeck.base.errors import RemoteError
from warpdeck_agent.wire.frames import SENTINEL

MAX_LINE_CHARS = 200
"""Maximum length of a failing host's output in an error message."""


class Outgoing(Protocol):
    """The write buffer below the writer. It may hold data that the agent has not received yet."""

    def get_write_buffer_size(self) -> int: ...
    def abort(self) -> None: ...


class Transport(msgspec.Struct, frozen=True, kw_only=True):
    """An open byte stream to an agent, and the build that should run there."""

    reader: Any
    writer: Any
    outgoing: Outgoing
    build: str
    close: Callable[[], object]
    is_local: bool = False
    address: str = ""
    """The address of the node to which the connection was made; "" if unknown."""


Progress = Callable[[str], Awaitable[None]]
"""A function that shows a step of a connection to the administrator who waits for it."""

ClaimMachine = Callable[[str], None]
"""A function that records a machine's name before the agent is started there.

It raises UserError if the machine is already a node.
"""


def machine_name(boot_id: str, hostname: str) -> str:
    """Return a name that identifies a machine, independent of the host's name in the cluster and of the SSH
    user.

    Containers on the same kernel differ in their host names.
    """
    return f"{boot_id.strip()} {hostname.strip()}"


def agent_answer(output: str) -> dict[str, Any] | None:
    """Return the answer of the agent's command, or None if there is none.

    Other output of startup files is skipped.
    """
    for line in output.splitlines():
        # A shell prompt does not end with a line break, so the sentinel may follow it.
        _, sentinel, word = line.partition(SENTINEL)
        if sentinel:
            try:
                found = json.loads(word)
            except ValueError:
                continue
            return found if isinstance(found, dict) else None
    return None


def last_line(out: str, err: str) -> str:
    """Return the last line of a command's output, or the end of that line."""
    lines = (err.strip() or out.strip() or "no output").splitlines()
    return lines[-1][-MAX_LINE_CHARS:]


def start_result(node: str, out: str, err: str) -> None:
    """Raise RemoteError unless the agent reported that it runs."""
    answer = agent_answer(out)
    if answer is None:
        raise RemoteError(node, f"the agent did not start: {last_line(out, err)}")
    if not answer.get("ok"):
        raise RemoteError(node, str(answer.get("error", "the agent did not start")))
