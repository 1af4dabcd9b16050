"""Build the PMI values for the ranks of an MPI program that srun starts directly. Pure functions.

PMI_process_mapping has the format of MPICH's own launcher: "(vector,(FIRST,NODES,EACH),...)". Each group
stands for NODES nodes, beginning with the node of index FIRST, with EACH ranks per node, in the order of
ranks. MPI libraries use it to find the ranks of the same node, which communicate over shared memory. Without
it, the ranks exchange this information themselves.
"""

from __future__ import annotations

from collections.abc import Sequence

from warpdeck.model.step import Step
from warpdeck_agent.wire.steps import Pmi

PMI_VARIABLES = frozenset(
    {"PMI_FD", "PMI_PORT", "PMI_ID", "PMI_RANK", "PMI_SIZE", "PMI_JOBID", "PMI_SPAWNED"}
)
"""Variables that a step started inside a rank must not inherit, because it is not that rank."""
MAX_MAPPING = 1024
"""Maximum length of a value that PMI passes on."""


def pmi_of(step: Step) -> Pmi:
    """Return the PMI values for all nodes of the step."""
    return Pmi(
        name=f"{step.job_id}.{step.number}.{step.restarts}",
        size=step.task_count(),
        nodes=len(step.shares),
        mapping=process_mapping([share.ranks for share in step.shares]),
    )


def process_mapping(ranks: Sequence[Sequence[int]]) -> str:
    """Return the process mapping for the ranks of each node; "" if it is too long for PMI."""
    node_of = {rank: at for at, own in enumerate(ranks) for rank in own}
    blocks: list[tuple[int, int, int]] = []
    for node, each in _runs([node_of[rank] for rank in sorted(node_of)]):
        first, nodes, size = blocks[-1] if blocks else (0, 0, 0)
        if blocks and size == each and first + nodes == node:
            blocks[-1] = (first, nodes + 1, each)
        else:
            blocks.append((node, 1, each))
    text = "".join(f",({first},{nodes},{each})" for first, nodes, each in blocks)
    return f"(vector{text})" if len(text) + len("(vector)") <= MAX_MAPPING else ""


def _runs(nodes: Sequence[int]) -> list[tuple[int, int]]:
    """Return the runs of equal values with their lengths: [0, 0, 1] gives [(0, 2), (1, 1)]."""
    made: list[tuple[int, int]] = []
    for node in nodes:
        if made and made[-1][0] == node:
            made[-1] = (node, made[-1][1] + 1)
        else:
            made.append((node, 1))
    return made
