"""What ranks of an MPI program that srun starts directly are told of each other. Pure.

PMI_process_mapping, as MPICH's own launcher says it: "(vector,(FIRST,NODES,EACH),...)", groups of NODES nodes from FIRST on that
have EACH ranks, ranks in their order. Libraries of one node use shared memory by it; without one they ask each other.
"""

from __future__ import annotations

from collections.abc import Sequence

from warpdeck.model.step import Step
from warpdeck_agent.wire.steps import Pmi

PMI_VARIABLES = frozenset(
    {"PMI_FD", "PMI_PORT", "PMI_ID", "PMI_RANK", "PMI_SIZE", "PMI_JOBID", "PMI_SPAWNED"}
)
"""A step that is started inside a rank is not that rank."""
MAX_MAPPING = 1024
"""The longest value that PMI passes on."""


def pmi_of(step: Step) -> Pmi:
    """For all nodes of the step."""
    return Pmi(
        name=f"{step.job_id}.{step.number}.{step.restarts}",
        size=step.task_count(),
        nodes=len(step.shares),
        mapping=process_mapping([share.ranks for share in step.shares]),
    )


def process_mapping(ranks: Sequence[Sequence[int]]) -> str:
    """`ranks` of each node; "" where it is too long to be said."""
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
    """[0, 0, 1] -> [(0, 2), (1, 1)]."""
    made: list[tuple[int, int]] = []
    for node in nodes:
        if made and made[-1][0] == node:
            made[-1] = (node, made[-1][1] + 1)
        else:
            made.append((node, 1))
    return made
