"""How many CPUs and tasks the nodes of a job get, and which ranks of a step go where, beside a real Slurm.

Left out is what follows from threads and cores, which are one here, what Slurm does with GPUs of a node (policy.filling), and
-m Pack, for which it takes now more nodes and now fewer.
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
from tests.slurm_parity.ours import OurSlurm
from tests.slurm_parity.peer import RealSlurm
from tests.support.waiting import eventually

from warpdeck.controller.launch.environment import made_environment
from warpdeck.model.step import StepOptions
from warpdeck.notation.step.srun import parse_srun
from warpdeck.policy.step_placement import StepLayout, lay_out

pytestmark = pytest.mark.slurm
TOLD = ("SLURM_JOB_CPUS_PER_NODE", "SLURM_NTASKS", "SLURM_TASKS_PER_NODE")
OWN = ("",)
"""A step without options."""
ASKED: dict[str, tuple[str, ...]] = {
    "-n20": OWN,
    "-N2 -n20": (
        "", "-n6", "-n18", "-n18 -m cyclic", "-m cyclic", "-m plane=4", "-n8 -m plane=3", "-N1 -n4", "-n2", "-n5 -c3",
        "-c2 -n8", "-n8 -N1-2",
    ),
    "-N2 -n20 -m cyclic": ("", "-n6", "-m block"),
    "-N2 -n20 -m plane=4": OWN,
    "-n40": ("", "-m cyclic", "-n10", "-n10 -m plane=2", "-N2 -n8", "-n1"),
    "-n6 -c4 -N2-3": (),
    "-n5 -c4 -N2": (),
    "-n10 -c2": (),
    "-N2 -n20 --ntasks-per-node=12": ("-n20",),
    "-n7 --ntasks-per-node=4": ("-n7",),
    "-N3 --ntasks-per-node=4": ("", "-n7", "-n2"),
    "-N2 -n20 --mincpus=12": OWN,
    "-n20 --exclusive": OWN,
    "-N2 --exclusive": ("-n6", "-n20 -m plane=4", "-n20 -m cyclic", "-n6 -c3 -m plane=2", "-n3 -N1-2"),
    "-n6 --gpus-per-task=1": OWN,
    "-n10 -N2 --mem-per-cpu=8000": OWN,
    "-n20 -w n2": OWN,
    "-N1-4 -n20 --use-min-nodes": (),
    "-N1-4 -n4 --use-min-nodes": (),
    "-n4 -B 1": (),
}  # fmt: skip
_TASK = "echo task $SLURM_PROCID $SLURM_NODEID $SLURM_LOCALID"
_TASK_LINE = re.compile(r"task (\d+) (\d+) (\d+)")


class Laid(NamedTuple):
    """What a job was told, and the ranks of each step on each of its nodes, in the order of their local numbers."""

    told: dict[str, str | None]
    steps: dict[str, str]


@pytest.fixture(scope="module")
def ours() -> Iterator[OurSlurm]:
    with tempfile.TemporaryDirectory(prefix="wdo", dir="/tmp") as folder, OurSlurm(Path(folder)) as running:
        yield running


def laid_by_slurm(slurm: RealSlurm, job: str, steps: tuple[str, ...]) -> Laid:
    lines = [f"env | grep -E '^({'|'.join(TOLD)})='"]
    lines += [f"echo step '{step}'; srun {step} sh -c '{_TASK}'" for step in steps]
    output = slurm.folder / f"{uuid4()}.out"
    slurm.ok("sbatch", "-t5", f"-o{output}", *job.split(), "--wrap", "\n".join([*lines, "echo over"]))
    eventually(lambda: output.exists() and output.read_text().endswith("over\n"), what=f"{job} is over")
    told, *parts = re.split(r"^step (.*)\n", output.read_text(), flags=re.M)
    given = dict(line.split("=", 1) for line in told.splitlines() if "=" in line)
    found = {}
    for step, text in zip(parts[::2], parts[1::2], strict=True):
        tasks = sorted((int(node), int(local), int(rank)) for rank, node, local in _TASK_LINE.findall(text))
        nodes = sorted({node for node, _, _ in tasks})
        found[step] = _shown([[rank for at, _, rank in tasks if at == node] for node in nodes])
    eventually(lambda: not slurm.run(["squeue", "-h"]).out, what="its nodes are free again")
    return Laid({name: given.get(name) for name in TOLD}, found)


def laid_by_us(ours: OurSlurm, job: str, steps: tuple[str, ...]) -> Laid:
    number = ours.submit("-t5", "-o/dev/null", *job.split())
    ours.runs(number)
    assert ours.served is not None
    held = ours.served.controller.state.jobs[number]  # type: ignore[index]
    assert held.allocation is not None
    environ = made_environment(held, 0, submit_host="login")
    found = {}
    for step in steps:
        ask = msgspec.convert(parse_srun([*step.split(), "true"], environ, files={}).ask, StepOptions)
        layout = lay_out(ask, held.allocation, job=held.request.resources, running=())
        assert isinstance(layout, StepLayout)
        found[step] = _shown([share.ranks for share in layout.shares])
    ours.ends(number)
    return Laid({name: environ.get(name) for name in TOLD}, found)


def _shown(nodes: Sequence[Sequence[int]]) -> str:
    return " | ".join(" ".join(map(str, ranks)) for ranks in nodes)


@pytest.mark.parametrize("job", ASKED)
def test_tasks_are_laid_out_as_slurm_lays_them(slurm: RealSlurm, ours: OurSlurm, job: str) -> None:
    assert laid_by_us(ours, job, ASKED[job]) == laid_by_slurm(slurm, job, ASKED[job])
