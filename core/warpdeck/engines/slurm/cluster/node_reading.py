"""Reads the nodes and partitions of an answer, which scontrol has printed, or which is a table of slurmrestd.

The reasons of nodes that the text of scontrol does not tell clearly are read with one sinfo for all of them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from warpdeck.base.errors import UserError
from warpdeck.engines.slurm.commands import SlurmCommands, new_mark
from warpdeck.engines.slurm.reading.marked_table import MalformedTable
from warpdeck.engines.slurm.reading.node_reasons import read_reasons, sinfo_arguments, unclear
from warpdeck.engines.slurm.reading.node_table import NodeFields, marked_node_fields, node_fields
from warpdeck.engines.slurm.reading.partition_table import (
    PartitionFields,
    marked_partition_fields,
    partition_fields,
)

log = logging.getLogger("warpdeck.slurm")

SINFO_RPCS = 2
"""sinfo asks for the partitions and for the nodes."""
MAX_UNCLEAR = 200
"""Maximum number of nodes with odd reasons, because their names are arguments."""


class Answer(NamedTuple):
    """The text of an answer, and the mark behind each of its fields if it is a table."""

    text: str
    mark: str

    @property
    def is_table(self) -> bool:
        return bool(self.mark) and self.mark in self.text


async def nodes_of(
    answer: Answer, commands: SlurmCommands, *, count: Callable[[int], None]
) -> list[NodeFields]:
    """Return the nodes of an answer. `count` counts the requests of a sinfo. Raises MalformedTable."""
    if answer.is_table:
        return marked_node_fields(answer.text, answer.mark)
    return node_fields(answer.text, await told_reasons(commands, answer.text, count=count))


def partitions_of_answer(answer: Answer) -> list[PartitionFields]:
    """Return the partitions of an answer. Raises MalformedTable."""
    if answer.is_table:
        return marked_partition_fields(answer.text, answer.mark)
    return partition_fields(answer.text)


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
