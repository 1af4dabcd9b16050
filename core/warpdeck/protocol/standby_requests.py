"""Requests about the standby; part of the protocol."""

from __future__ import annotations

from . import results
from .request_base import Name, Reference, RequestMessage
from .standby_rows import StandbyMode


class Standby(RequestMessage[results.StandbyInfo], frozen=True, kw_only=True, tag="standby"):
    """Ask for the standby, and how far its copy is behind.

    Answer: {"standby": StandbyRow or null}
    """


class StandbySet(RequestMessage[results.StandbyInfo], frozen=True, kw_only=True, tag="standby_set"):
    """Set up the standby `target`: [USER@]HOST[:PORT], in place of an earlier one. Progress lines come before the answer.

    The copy is in the folder `home` there, by default the same path as here. With `keys` the private keys for the nodes are
    copied, too. The error code "host_key" is answered as for `node_add`.

    Answer: {"standby": StandbyRow}
    """

    target: Reference
    home: Reference = ""
    mode: StandbyMode = StandbyMode.SYNC
    keys: bool = False
    accept_host_key: Name = ""


class StandbyRemove(RequestMessage[results.Result], frozen=True, kw_only=True, tag="standby_rm"):
    """Stop copying to the standby. Its files stay there."""
