"""CPUs and tasks per node of a job, and the placement of ranks of its steps, beside a real Slurm.

The cases leave out threads and cores, which are the same here, Slurm's treatment of GPUs of a node
(policy.filling), and -m Pack, for which Slurm's number of nodes varies.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import msgspec
import pytest
from tests.slurm_parity.peer.real_slurm import RealSlurm
from tests.slurm_parity.peer.warpdeck_cluster import WarpdeckCluster
from tests.support.command_lines import parse_srun
from tests.support.waiting import eventually

from warpdeck.controller.launch.environment import made_environment
from warpdeck.model.step import StepOptions
from warpdeck.policy.step_placement import StepLayout, lay_out

pytestmark = pytest.mark.slurm
LAYOUT_VARIABLES = ("SLURM_JOB_CPUS_PER_NODE", "SLURM_NTASKS", "SLURM_TASKS_PER_NODE")
DEFAULT_STEP = ("",)
"""A single step without options."""
CASES: dict[str, tuple[str, ...]] = {
    "-n20": DEFAULT_STEP,
    "-N2 -n20": (
        "", "-n6", "-n18", "-n18 -m cyclic", "-m cyclic", "-m plane=4", "-n8 -m plane=3", "-N1 -n4", "-n2", "-n5 -c3",
        "-c2 -n8", "-n8 -N1-2",
    ),
    "-N2 -n20 -m cyclic": ("", "-n6", "-m block"),
    "-N2 -n20 -m plane=4": DEFAULT_STEP,
    "-n40": ("", "-m cyclic", "-n10", "-n10 -m plane=2", "-N2 -n8", "-n1"),
    "-n6 -c4 -N2-3": (),
    "-n5 -c4 -N2": (),
    "-n10 -c2": (),
    "-N2 -n20 --ntasks-per-node=12": ("-n20",),
    "-n7 --ntasks-per-node=4": ("-n7",),
    "-N3 --ntasks-per-node=4": ("", "-n7", "-n2"),
    "-N2 -n20 --mincpus=12": DEFAULT_STEP,
    "-n20 --exclusive": DEFAULT_STEP,
    "-N2 --exclusive": ("-n6", "-n20 -m plane=4", "-n20 -m cyclic", "-n6 -c3 -m plane=2", "-n3 -N1-2"),
    "-n6 --gpus-per-task=1": DEFAULT_STEP,
    "-n10 -N2 --mem-per-cpu=8000": DEFAULT_STEP,
    "-n20 -w n2": DEFAULT_STEP,
    "-N1-4 -n20 --use-min-nodes": (),
    "-N1-4 -n4 --use-min-nodes": (),
    "-n4 -B 1": (),
}  # fmt: skip
_TASK = "echo task $SLURM_PROCID $SLURM_NODEID $SLURM_LOCALID"
_TASK_LINE = re.compile(r"task (\d+) (\d+) (\d+)")


class JobLayout(NamedTuple):
    """StepLayout variables of a job, and the ranks of each step on each of its nodes in the order of their local
    ids.
    """

    variables: dict[str, str | None]
    steps: dict[str, str]


@pytest.fixture(scope="module")
def warpdeck() -> Iterator[WarpdeckCluster]:
    with (
        tempfile.TemporaryDirectory(prefix="wdo", dir="/tmp") as folder,
        WarpdeckCluster(Path(folder)) as running,
    ):
        yield running


def layout_by_slurm(slurm: RealSlurm, job: str, steps: tuple[str, ...]) -> JobLayout:
    lines = [f"env | grep -E '^({'|'.join(LAYOUT_VARIABLES)})='"]
    lines += [f"echo step '{step}'; srun {step} sh -c '{_TASK}'" for step in steps]
    output = slurm.folder / f"{uuid4()}.out"
    slurm.ok("sbatch", "-t5", f"-o{output}", *job.split(), "--wrap", "\n".join([*lines, "echo over"]))
    eventually(lambda: output.exists() and output.read_text().endswith("over\n"), what=f"{job} has ended")
    environ_text, *parts = re.split(r"^step (.*)\n", output.read_text(), flags=re.M)
    variables = dict(line.split("=", 1) for line in environ_text.splitlines() if "=" in line)
    ranks = {}
    for step, text in zip(parts[::2], parts[1::2], strict=True):
        tasks = sorted((int(node), int(local), int(rank)) for rank, node, local in _TASK_LINE.findall(text))
        nodes = sorted({node for node, _, _ in tasks})
        ranks[step] = _ranks_text(
            [[rank for task_node, _, rank in tasks if task_node == node] for node in nodes]
        )
    eventually(lambda: not slurm.run(["squeue", "-h"]).out, what="its nodes are free again")
    return JobLayout({name: variables.get(name) for name in LAYOUT_VARIABLES}, ranks)


def layout_by_warpdeck(warpdeck: WarpdeckCluster, job: str, steps: tuple[str, ...]) -> JobLayout:
    job_id = warpdeck.submit("-t5", "-o/dev/null", *job.split())
    warpdeck.wait_until_running(job_id)
    assert warpdeck.served is not None
    job_record = warpdeck.served.controller.state.jobs[job_id]  # type: ignore[index]
    assert job_record.allocation is not None
    environ = made_environment(job_record, 0, submit_host="login")
    ranks = {}
    for step in steps:
        request = msgspec.convert(parse_srun([*step.split(), "true"], environ, files={}).ask, StepOptions)
        layout = lay_out(request, job_record.allocation, job=job_record.request.resources, running=())
        assert isinstance(layout, StepLayout)
        ranks[step] = _ranks_text([share.ranks for share in layout.shares])
    warpdeck.report_job_end(job_id)
    return JobLayout({name: environ.get(name) for name in LAYOUT_VARIABLES}, ranks)


def _ranks_text(nodes: Sequence[Sequence[int]]) -> str:
    return " | ".join(" ".join(map(str, ranks)) for ranks in nodes)


@pytest.mark.parametrize("job", CASES)
def test_tasks_are_laid_out_as_in_slurm(slurm: RealSlurm, warpdeck: WarpdeckCluster, job: str) -> None:
    assert layout_by_warpdeck(warpdeck, job, CASES[job]) == layout_by_slurm(slurm, job, CASES[job])
