"""The closed list of questions about the whole cluster. Their answers are the same for every user.

Each question is one command line of Slurm. Nothing in it comes from a user. Therefore a site gateway may ask it once
for all users (`site_gateway`), except where Slurm shows users different parts of the cluster.
"""

from __future__ import annotations

import hashlib
from enum import StrEnum
from typing import NamedTuple

from warpdeck.engines.slurm.reading.job_table import COLUMNS
from warpdeck.engines.slurm.reading.marked_table import Column, format_argument

SQUEUE = ("squeue", "--noheader", "--all", "--states=all")
NODES = ("scontrol", "--oneliner", "--details", "show", "node")
SHOW_JOB = ("scontrol", "--oneliner", "--details", "show", "job")
CONFIG = ("scontrol", "show", "config")
PARTITIONS = ("scontrol", "--oneliner", "show", "partition")
RESERVATIONS = ("scontrol", "--oneliner", "show", "reservation")
LICENSES = ("scontrol", "--oneliner", "show", "licenses")
SDIAG = ("sdiag",)


class Question(StrEnum):
    """A part of the cluster's state that one command prints."""

    QUEUE = "queue"
    NODES = "nodes"
    ALLOCATIONS = "allocations"
    CONFIG = "config"
    PARTITIONS = "partitions"
    RESERVATIONS = "reservations"
    LICENSES = "licenses"
    LOAD = "load"


class Command(NamedTuple):
    """A command line, its columns if it is a table of squeue, and the requests (RPCs) that it causes."""

    argv: tuple[str, ...]
    rpcs: int
    columns: tuple[Column, ...] = ()

    def words(self, mark: str) -> list[str]:
        """Return the words of the command line. `mark` ends each field of a table."""
        return [*self.argv, *(("-O", format_argument(self.columns, mark)) if self.columns else ())]


COMMANDS = {
    Question.QUEUE: Command(SQUEUE, 2, COLUMNS),
    Question.NODES: Command(NODES, 2),
    Question.ALLOCATIONS: Command(SHOW_JOB, 2),
    Question.CONFIG: Command(CONFIG, 1),
    Question.PARTITIONS: Command(PARTITIONS, 1),
    Question.RESERVATIONS: Command(RESERVATIONS, 1),
    Question.LICENSES: Command(LICENSES, 1),
    Question.LOAD: Command(SDIAG, 1),
}
"""squeue asks for jobs and partitions, `scontrol show node` for nodes and partitions, and `scontrol --details show job`
for jobs and nodes.
"""


def form_of(question: Question) -> str:
    """Return a short text that two versions of warpdeck have in common if they ask the question in the same way."""
    words = "\0".join(COMMANDS[question].words("M"))
    return hashlib.sha256(words.encode()).hexdigest()[:16]
