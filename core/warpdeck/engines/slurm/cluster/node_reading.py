"""Reads the reasons of nodes that the text of scontrol does not tell clearly, with one sinfo for all of them."""

from __future__ import annotations

import logging
from collections.abc import Callable

from warpdeck.base.errors import UserError
from warpdeck.engines.slurm.commands import SlurmCommands, new_mark
from warpdeck.engines.slurm.reading.marked_table import MalformedTable
from warpdeck.engines.slurm.reading.node_reasons import read_reasons, sinfo_arguments, unclear

log = logging.getLogger("warpdeck.slurm")

SINFO_RPCS = 2
"""sinfo asks for the partitions and for the nodes."""
MAX_UNCLEAR = 200
"""Maximum number of nodes with odd reasons, because their names are arguments."""


async def told_reasons(commands: SlurmCommands, text: str, *, count: Callable[[int], None]) -> dict[str, str]:
    """Return the reasons of the nodes for which the text of scontrol is unclear, by node.

    Such nodes are rare, so usually no command is run. `count` counts its requests. If it fails, the reasons may be cut.
    """
    odd = unclear(text)[:MAX_UNCLEAR]
    if not odd:
        return {}
    count(SINFO_RPCS)
    mark = new_mark()
    try:
        return read_reasons(await commands.read(*sinfo_arguments(odd, mark)), mark)
    except (UserError, MalformedTable) as error:
        log.info("cannot read the reasons of %d nodes: %s", len(odd), error)
        return {}
