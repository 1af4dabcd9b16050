"""Parts of a GPU: the jobs that share it, the facts given to a job, and the rest for others."""

from __future__ import annotations

from tests.support.core import BOB, GIB, Core, make_request

from warpdeck.config import Config
from warpdeck.controller.launch.environment import job_environment
from warpdeck.controller.launch.launching import build_launch
from warpdeck.model import GpuRequest, JobState, Request, Resources


def gpu_share(pct: int) -> Request:
    return make_request(resources=Resources(gpus=GpuRequest(share_pct=pct)))


def gpu_of(core: Core, job_id: int) -> tuple[int, ...]:
    allocation = core.job(job_id).allocation
    return () if allocation is None else allocation.shares[0].gpus


def test_shares_fill_one_gpu_before_the_next() -> None:
    core = Core("a")
    first, second, third = core.run(gpu_share(60)), core.run(gpu_share(40), BOB), core.run(gpu_share(40))
    assert gpu_of(core, first) == gpu_of(core, second) != gpu_of(core, third)
    whole, none_left = core.run(make_request(gpus=2)), core.run(make_request(gpus=1))
    assert core.job(whole).state is JobState.RUNNING
    assert core.job(none_left).state is JobState.PENDING
    core.end(third)
    core.launch(core.plan().effects)
    assert core.job(none_left).state is JobState.RUNNING


def test_a_job_gets_the_size_of_its_gpu_share() -> None:
    core = Core("a")
    job = core.job(core.run(gpu_share(25)))
    env = job_environment(job, 0, submit_host="h")
    assert (env["WARPDECK_GPU_SHARE_PCT"], env["SLURM_GPUS_ON_NODE"]) == ("25", "1")
    assert build_launch(job, 0, submit_host="h", config=Config()).gpu_share_pct == 25
    assert job.request.resources.gpu_count() == 1


def test_an_exclusive_job_gets_all_resources_in_its_environment() -> None:
    core = Core("a")
    whole = Resources(gpus=GpuRequest(per_node=1), exclusive=True)
    job = core.job(core.run(make_request(resources=whole)))
    env = job_environment(job, 0, submit_host="h")
    assert (env["SLURM_GPUS_ON_NODE"], env["SLURM_JOB_GPUS"]) == ("4", "0,1,2,3")
    assert (env["SLURM_CPUS_ON_NODE"], env["SLURM_MEM_PER_CPU"]) == ("16", str(4 * 1024))
    launch = build_launch(job, 0, submit_host="h", config=Config())
    assert (launch.cpus, launch.mem_bytes, len(launch.gpus)) == (16, 64 * GIB, 4)


def test_only_a_restarted_job_gets_a_restart_count() -> None:
    core = Core("a")
    job = core.job(core.run())
    assert "SLURM_RESTART_COUNT" not in job_environment(job, 0, submit_host="h")
    core.end(job.id, cause="node_fail", exit_code=1)
    core.launch(core.plan().effects)
    again = core.job(job.id)
    assert job_environment(again, 0, submit_host="h")["SLURM_RESTART_COUNT"] == "1"
