"""What carries an agent's frames, and the words with which `agent.pyz` answers on the way there."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from warpdeck.base.errors import RemoteError
from warpdeck_agent.wire.frames import SENTINEL

LAST_WORDS_CHARS = 200
"""How much of what a failing host said goes into the error."""


class Outgoing(Protocol):
    """What is below the writer: it may have taken more than the agent has."""

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
    """The node's own, at which we reached it; "" if it does not say."""


Claim = Callable[[str], None]
"""Takes a machine's name before anything is started there; raises UserError if the machine is a node already."""


def machine_name(boot_id: str, hostname: str) -> str:
    """One machine, however it is called and whoever logs in; containers on one kernel differ in their host names."""
    return f"{boot_id.strip()} {hostname.strip()}"


def said(output: str) -> dict[str, Any] | None:
    """What the agent's command said, among whatever a shell's start files printed; None if it said nothing."""
    for line in output.splitlines():
        _, sentinel, word = line.partition(SENTINEL)  # a prompt has no line break
        if sentinel:
            try:
                found = json.loads(word)
            except ValueError:
                continue
            return found if isinstance(found, dict) else None
    return None


def last_words(out: str, err: str) -> str:
    """The last line of what a command said, or the end of that."""
    lines = (err.strip() or out.strip() or "it said nothing").splitlines()
    return lines[-1][-LAST_WORDS_CHARS:]


def start_result(node: str, out: str, err: str) -> None:
    """Raises RemoteError unless the agent said that it runs."""
    answer = said(out)
    if answer is None:
        raise RemoteError(node, f"the agent did not start: {last_words(out, err)}")
    if not answer.get("ok"):
        raise RemoteError(node, str(answer.get("error", "the agent did not start")))
