"""Decides which answers Slurm would give to every user in the same way. Only these are shared.

Slurm hides jobs, nodes, partitions and reservations of others with PrivateData, with its multi-category security (MCS), and
by partitions that are hidden or open to some groups only. With --all, squeue of 20.11 to 26.05 also shows the jobs of hidden
partitions, so the queue depends on PrivateData and MCS alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from warpdeck.engines.slurm.cluster.questions import Question
from warpdeck.engines.slurm.reading.partition_table import PARTITION

PRIVATE = {
    Question.QUEUE: ("jobs",),
    Question.NODES: ("nodes", "partitions"),
    Question.ALLOCATIONS: ("jobs",),
    Question.PARTITIONS: ("partitions",),
    Question.RESERVATIONS: ("reservations",),
}
"""The subjects of PrivateData that each question is about. The other questions are about none."""
MCS = frozenset({Question.QUEUE, Question.NODES, Question.ALLOCATIONS})
BY_PARTITION = frozenset({Question.NODES, Question.ALLOCATIONS, Question.PARTITIONS})
"""Questions whose answers leave out the partitions that the user may not see, with their nodes and jobs."""


def withheld(config: Mapping[str, str], partitions: str) -> dict[Question, str]:
    """Return the questions that each user must ask, with the reason.

    `partitions` is the output of `scontrol --all --oneliner show partition`, which has the hidden ones.
    """
    if not config:
        return dict.fromkeys(Question, "the configuration of Slurm is unknown")
    private = {word.strip().lower() for word in config.get("PrivateData", "").split(",")}
    has_mcs = "privatedata" in config.get("MCSParameters", "").lower()
    by_partition = _differing_partition(partitions)
    found: dict[Question, str] = {}
    for question in Question:
        hidden = [word for word in (*PRIVATE.get(question, ()), "all") if word in private]
        if hidden and question in PRIVATE:
            found[question] = f"PrivateData={hidden[0]}"
        elif has_mcs and question in MCS:
            found[question] = "MCSParameters=privatedata"
        elif by_partition and question in BY_PARTITION:
            found[question] = by_partition
    return found


def _differing_partition(text: str) -> str:
    """Return the setting of the first partition that some users do not see, or ""."""
    for line in text.splitlines():
        if not line.startswith("PartitionName="):
            continue
        fields = PARTITION.fields(line)
        if fields.get("Hidden", "NO").upper() == "YES":
            return f"partition {fields['PartitionName']} is hidden"
        if fields.get("AllowGroups", "ALL").upper() != "ALL":
            return f"partition {fields['PartitionName']} has AllowGroups"
    return ""
