"""Reads nodes with scontrol, and with sinfo the reasons that scontrol does not tell clearly."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from warpdeck.base.errors import UserError
from warpdeck.engines.slurm.commands import SlurmCommands, new_mark
from warpdeck.engines.slurm.reading.marked_table import MalformedTable
from warpdeck.engines.slurm.reading.node_reasons import read_reasons, sinfo_arguments, unclear
from warpdeck.engines.slurm.reading.node_table import read_nodes
from warpdeck.protocol.node_rows import NodeRow

log = logging.getLogger("warpdeck.slurm")

NODES = ("scontrol", "--oneliner", "--details", "show", "node")
SINFO_RPCS = 2
"""sinfo asks for the partitions and for the nodes."""
MAX_UNCLEAR = 200
"""Maximum number of nodes with odd reasons, because their names are arguments."""


class NodesRead(NamedTuple):
    """The text that scontrol printed, and its nodes."""

    text: str
    rows: list[NodeRow]


async def read_node_rows(
    commands: SlurmCommands, *names: str, clock: Callable[[], float], count: Callable[[int], None]
) -> NodesRead:
    """Return all nodes, or the node with this name. `count` counts further requests. Raises UserError."""
    text = await commands.read(*NODES, *names)
    at, reasons = clock(), dict[str, str]()
    if odd := unclear(text)[:MAX_UNCLEAR]:
        count(SINFO_RPCS)
        mark = new_mark()
        try:
            reasons = read_reasons(await commands.read(*sinfo_arguments(odd, mark)), mark)
        except (UserError, MalformedTable) as error:
            log.info("cannot read the reasons of %d nodes: %s", len(odd), error)
    return NodesRead(text, read_nodes(text, at=at, reasons=reasons))
