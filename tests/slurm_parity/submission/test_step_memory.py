"""The memory that a step gets from its job, beside a real Slurm."""

from __future__ import annotations

import msgspec
import pytest
from tests.slurm_parity.peer.pair import H100_GRES, H100_SITE
from tests.slurm_parity.peer.real_slurm import RealSlurm
from tests.support.command_lines import parse_srun
from tests.support.waiting import eventually

from warpdeck.base.errors import UserError
from warpdeck.controller.presenters.step_records import step_tres
from warpdeck.model import Allocation, GpuUuid, NodeName, Resources, Share
from warpdeck.model.step import StepOptions
from warpdeck.policy.step_placement import Busy, lay_out

pytestmark = pytest.mark.slurm
MIB = 1 << 20
CPUS, JOB_MIB, GPUS = 4, 4000, 4
STEPS = (
    "",
    "--exact -n1",
    "--exact -n2 --mem=0",
    "--exact -n1 --gpus=1",
    "--mem=1000",
    "--mem=0",
    "--mem=5000",
    "--mem-per-cpu=100 -n1",
    "--mem-per-cpu=100 -n1 --exact",
    "--mem-per-cpu=900 -n4",
    "--mem-per-cpu=900 -n1",
    "--mem=500 -n2 --exact",
    "--mem-per-gpu=300 --gpus=2",
    "--mem-per-gpu=300 --gpus=2 -n1 --exact",
    "--mem-per-gpu=300 -n2 --gpus-per-task=1",
)
REFUSED = "refused"


def memory_by_slurm(slurm: RealSlurm) -> list[str]:
    """Return the memory of each step in MiB."""
    output, lines = slurm.folder / "out", ["unset SLURM_MEM_PER_NODE SLURM_MEM_PER_CPU"]
    lines += [f"srun {step} -J step{at} true" for at, step in enumerate(STEPS)]
    argv = [f"-o{output}", f"-n{CPUS}", f"--mem={JOB_MIB}", f"--gres=gpu:{GPUS}"]
    slurm.ok("sbatch", "-t5", *argv, "--wrap", "\n".join([*lines, "echo over"]))
    eventually(lambda: output.exists() and output.read_text().endswith("over\n"), what="the job has ended")

    def recorded_tres() -> dict[str, str]:
        rows = slurm.run(["sacct", "-nPo", "JobName,AllocTRES,State"]).out.split()
        return {row.split("|")[0]: row.split("|")[1] for row in rows if row.endswith("|COMPLETED")}

    eventually(lambda: f"step{len(STEPS) - 1}" in recorded_tres(), what="its steps are recorded")
    found = recorded_tres()
    tres = [
        dict(tres_of_step.split("=") for tres_of_step in found.get(f"step{at}", "mem=").split(","))
        for at in range(len(STEPS))
    ]
    return [tres_of_step["mem"].rstrip("M") or REFUSED for tres_of_step in tres]


def memory_by_warpdeck(step: str) -> str:
    uuids = tuple(GpuUuid(f"g{index}") for index in range(GPUS))
    share = Share(
        node=NodeName("n1"),
        cpus=CPUS,
        mem_bytes=JOB_MIB * MIB,
        tasks=CPUS,
        gpus=tuple(range(GPUS)),
        gpu_uuids=uuids,
    )
    request = msgspec.convert(parse_srun([*step.split(), "true"], {}, files={}).ask, StepOptions)
    try:
        layout = lay_out(request, Allocation(shares=(share,)), job=Resources(tasks=CPUS), running=())
    except UserError:
        return REFUSED
    assert not isinstance(layout, Busy)
    return str(step_tres(Allocation(shares=(share,)), layout.shares)["mem"])


def test_steps_get_the_memory_that_slurm_gives_them() -> None:
    with RealSlurm(H100_SITE, gres=H100_GRES, accounting=True) as slurm:
        slurm_memory = dict(zip(STEPS, memory_by_slurm(slurm), strict=True))
    assert {step: memory_by_warpdeck(step) for step in STEPS} == slurm_memory
    assert REFUSED in slurm_memory.values()
