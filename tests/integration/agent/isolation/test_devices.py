"""GPU isolation: a job can open only its own GPUs.

cgroup v2 enforces this with a device program, cgroup v1 with the devices controller. The test machine has no
GPU,
so the tests create device nodes with NVIDIA's numbers. Opening one fails in either case, but with different
errors.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.agent.conftest import Gpus
from tests.integration.agent.isolation.test_containment import WITHOUT
from tests.support.agent import FROM_SOURCE, AgentProcess

pytestmark = pytest.mark.lab
NODES = """
mount -t tmpfs tmpfs "$0" && for minor in 0 1 2; do mknod "$0/nvidia$minor" c 195 $minor || exit 1; done
mknod "$0/nvidiactl" c 195 255 && mknod "$0/null" c 1 3 && chmod 666 "$0"/* && mount --bind "$0" /dev || exit 1
"""
TRY = "for name in nvidia0 nvidia1 nvidia2 nvidiactl null; do (exec 3<>/dev/$name) 2>&1; echo $name; done"


@pytest.fixture(params=["", "cgroup2", "cgroup cgroup2"], ids=["v2", "v1", "none"])
def agent(request: pytest.FixtureRequest, short_tmp: Path, gpus: Gpus) -> Iterator[AgentProcess]:
    """An agent on a node with three GPUs."""
    (short_tmp / "dev").mkdir()
    gpus.show(*(f"gpu {index} uuid=GPU-{index} minor={index}" for index in range(3)))
    hide = ["sh", "-c", WITHOUT, request.param]
    program = ["unshare", "--mount", *hide, "sh", "-c", NODES + 'exec "$@"', str(short_tmp / "dev")]
    new_agent_process = AgentProcess(short_tmp / "agent", program=[*program, *FROM_SOURCE], **gpus.environ)
    new_agent_process.start()
    yield new_agent_process
    new_agent_process.close()


def reached(agent: AgentProcess, job: int, **fields: object) -> set[str]:
    """Return the device nodes that a job was allowed to open. Most of them have no device behind them."""
    agent.run(job, TRY, **fields)
    found, refused = set(), False
    for line in agent.text(job).splitlines():
        if " " in line:
            refused = "Operation not permitted" in line
        else:
            found |= set() if refused else {line}
            refused = False
    return found


def test_a_job_can_open_only_its_own_gpus(agent: AgentProcess) -> None:
    shared, cards = {"nvidiactl", "null"}, {"nvidia0", "nvidia1", "nvidia2"}
    devices = agent.connect().inventory.facilities[-1]
    others = set() if devices.strength == "enforced" else cards
    assert reached(agent, 1, gpus=["GPU-1"]) == shared | {"nvidia1"} | others
    assert reached(agent, 2, gpus=["GPU-0", "GPU-2"]) == shared | {"nvidia0", "nvidia2"} | others
    assert reached(agent, 3) == shared | others, "a job without a GPU request gets none"
    assert reached(agent, 4, confine=["memory"]) == shared | cards
    assert devices.how.startswith(("cgroup v", "CUDA_VISIBLE_DEVICES"))


VARIABLES = 'echo "$CUDA_VISIBLE_DEVICES $GPU_DEVICE_ORDINAL $SLURM_JOB_GPUS"'


def test_gpu_indices_count_only_the_visible_gpus(agent: AgentProcess) -> None:
    """Indices start at 0 if the other GPUs are closed to the job, as in Slurm with ConstrainDevices.

    Otherwise they are the node's indices. The tasks of a step use the same indices as their job.
    """
    alone = agent.connect().inventory.facilities[-1].strength == "enforced"
    reported = {
        "PATH": os.environ["PATH"],
        "CUDA_VISIBLE_DEVICES": "GPU-0,GPU-2",
        "GPU_DEVICE_ORDINAL": "0,2",
        "SLURM_JOB_GPUS": "0,2",
    }
    given = {"gpus": ["GPU-0", "GPU-2"], "env": reported}
    agent.run(1, VARIABLES, cuda_visible_devices="index", **given)
    own = "0,1" if alone else "0,2"
    assert agent.text(1) == f"{own} {own} 0,2"
    agent.run(2, VARIABLES, cuda_visible_devices="uuid", **given)
    assert agent.text(2) == "GPU-0,GPU-2 0,2 0,2"
    agent.run(3, VARIABLES, cuda_visible_devices="index", confine=["memory"], **given)
    assert agent.text(3) == "0,2 0,2 0,2"
    agent.launch(4, "sleep 1000", cuda_visible_devices="index", **given)
    agent.link.report(4, "running")
    message = agent.folder.parent / "said"
    agent.begin_step(4, 0, f"({VARIABLES}) > {message}", env={**reported, "CUDA_VISIBLE_DEVICES": "GPU-2"})
    agent.step_end(4, 0)
    assert message.read_text() == ("1 1 0,2\n" if alone else "2 2 0,2\n")
