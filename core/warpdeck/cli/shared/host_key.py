"""Ask a person to confirm the unknown key of a host."""

from __future__ import annotations

import sys
from collections.abc import Callable

from warpdeck.base.errors import UserError
from warpdeck.base.output import print_note

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def with_host_key(ask: Callable[[str], dict[str, Any]], accepted: str, *, command: str) -> dict[str, Any]:
    """Return the answer to a request that connects to a host. `ask` gets the fingerprint that is accepted.

    An unknown key is shown to the user. `command` is the command that a script repeats with the accepted fingerprint.
    """
    while True:  # a jump host's key comes first, then the target's
        try:
            return ask(accepted)
        except UserError as error:
            if error.code != "host_key":
                raise
            accepted = _confirm(error, command)


def _confirm(error: UserError, command: str) -> str:
    """Show the host key's fingerprint, and return it if the user accepts it."""
    fingerprint = error.details["fingerprint"]
    if not sys.stdin.isatty():
        raise UserError(error.message, f"{command} --accept-host-key {fingerprint}", code="host_key")
    print_note(f"Unknown host key of {error.details['host']}:")
    print_note(f"  {error.details['key_type']}  {fingerprint}")
    try:
        answer = input("Accept this key? Type yes: ")
    except EOFError:
        answer = ""
    if answer.strip() != "yes":
        raise UserError("host key not accepted; nothing was changed", "compare it with the key on the host")
    return fingerprint
