"""Failures attributed to a node: its jobs are requeued, and it accepts no more jobs."""

from __future__ import annotations

from typing import Literal

import pytest
from tests.support.core import ANN, Core, make_request

from warpdeck.config import Config, build_site
from warpdeck.config.node_tables import Containment, Gpus, Health, Hooks
from warpdeck.controller.events.events import HealthReported, LaunchRefused, Released, Reported
from warpdeck.controller.launch.environment import job_environment
from warpdeck.controller.launch.launching import build_launch
from warpdeck.controller.presenters.reasons import reason_of
from warpdeck.controller.presenters.row_context import RowContext
from warpdeck.model import Container, JobId, JobState, NodeName, PtySize
from warpdeck.model.request import ContainerMount
from warpdeck_agent.wire import messages as wire

A, B = NodeName("a"), NodeName("b")


def refused(core: Core, job_id: int, node: NodeName = A, **fields: object) -> None:
    failed = wire.LaunchFailed(job_id=job_id, restarts=0, message="GPU 0 is held by bob", **fields)  # type: ignore[arg-type]
    core.apply(LaunchRefused(name=node, failed=failed))


def test_a_job_whose_launch_the_node_cannot_start_waits_again() -> None:
    core = Core("a")
    job_id = core.submit(make_request(gpus=1, requeue=False))
    core.plan()
    refused(core, job_id, again=True)
    job = core.job(job_id)
    assert (job.state, job.restarts, job.held) == (JobState.PENDING, 1, False)
    assert not core.state.nodes[A].drained
    assert core.reload().jobs[job_id] == job


def test_a_failed_prolog_drains_the_node_and_holds_the_job() -> None:
    core = Core("a", "b")
    job_id = core.submit()
    core.plan()
    refused(core, job_id, again=True, drain="the prolog /p failed (exit 1)")
    assert (core.job(job_id).state, core.job(job_id).held) == (JobState.PENDING, True)
    node = core.state.nodes[A]
    assert (node.drained, node.reason) == (True, "the prolog /p failed (exit 1)")
    assert not core.state.nodes[B].drained


def test_a_full_disk_drains_the_node_and_the_job_starts_elsewhere() -> None:
    """This is the behavior of Slurm's slurmd. A node with a full disk would otherwise end all jobs of the queue."""
    core = Core("a", "b")
    job_id = core.submit(make_request())
    core.plan()
    refused(core, job_id, check="disk")
    assert (core.job(job_id).state, core.job(job_id).held) == (JobState.PENDING, False)
    node = core.state.nodes[A]
    assert (node.drained, node.drain_checks, node.reason) == (True, ("disk",), "GPU 0 is held by bob")
    core.plan()
    assert [share.node for share in core.job(job_id).shares] == [B]
    well = wire.Health(at_unix=1.0, checks=[wire.Check("disk", "ok")])
    core.apply(HealthReported(name=A, health=well, received_unix=1.0))
    assert not core.state.nodes[A].drained


def test_a_launch_fails_if_the_site_ignores_full_disks() -> None:
    core = Core("a")
    core.state.site = build_site(Config(health=Health(ignore=("disk",))))
    job_id = core.submit(make_request())
    core.plan()
    refused(core, job_id, check="disk")
    assert core.job(job_id).state is JobState.FAILED
    assert not core.state.nodes[A].drained


def test_a_gang_waits_again_as_a_whole_if_one_node_refuses_it() -> None:
    core = Core("a", "b")
    job_id = core.submit(make_request(nodes=2))
    core.plan()
    core.apply(Reported(name=A, report=core.agents[A].begin((job_id, 0))))
    refused(core, job_id, B, again=True)
    assert core.job(job_id).state is JobState.COMPLETING
    core.apply(Reported(name=A, report=core.agents[A].end((job_id, 0), cause="requeued", signal=9)))
    assert (core.job(job_id).state, core.job(job_id).restarts) == (JobState.PENDING, 1)


@pytest.mark.parametrize("case", ["its own fault", "interactive"])
def test_a_faulty_or_interactive_launch_fails_its_job(case: str) -> None:
    core = Core("a")
    job_id = core.submit(make_request(pty=PtySize() if case == "interactive" else None))
    core.plan()
    refused(core, job_id, again=case == "interactive")
    job = core.job(job_id)
    assert job.exit is not None
    assert (job.state, job.exit.cause) == (JobState.FAILED, "launch_failed")


def test_a_failed_epilog_drains_the_node_once_and_keeps_the_jobs_end() -> None:
    core = Core("a")
    first, second = core.run(), core.run()
    for job_id in (first, second):
        report = core.agents[A].end((job_id, 0), drain=f"the epilog failed after {job_id}")
        core.apply(Reported(name=A, report=report))
        assert core.job(job_id).state is JobState.COMPLETED
    assert core.state.nodes[A].reason == f"the epilog failed after {first}"


def test_a_launch_contains_the_sites_limits_and_hooks() -> None:
    core = Core("a")
    job = core.job(core.run(make_request(gpus=1, env={"SLURM_JOB_ID": "forged", "LD_PRELOAD": "evil"})))
    config = Config(
        containment=Containment(cpus=False, max_processes=50, tmp_dir="/scratch", private_dirs=("/tmp",)),
        hooks=Hooks(epilog="/e", timeout_s=7.0),
    )
    made = build_launch(job, 0, submit_host="h", config=config)
    assert (made.confine, made.max_processes, made.tmp_dir) == (["memory", "devices"], 50, "/scratch")
    assert made.private_dirs == ["/tmp"] and "/tmp/nvidia-mps" in made.shared_dirs
    assert made.empty_gpus and made.hooks is not None
    assert (made.hooks.prolog, made.hooks.epilog, made.hooks.timeout_s) == ("", "/e", 7.0)
    env = made.hooks.env
    assert env["SLURM_JOB_ID"] == str(job.id) and env["SLURM_JOB_USER"] == "ann" and "LD_PRELOAD" not in env
    assert not any(name.startswith("SLURM_STEP_") for name in env)


@pytest.mark.parametrize(("how", "hook"), [("index", "0,1"), ("uuid", "a-0,a-1")])
def test_the_configuration_decides_how_jobs_name_their_gpus(how: Literal["index", "uuid"], hook: str) -> None:
    """The agent inserts the names, because it knows a job's GPUs. Hooks see all GPUs of the node."""
    core = Core("a")
    config = Config(gpus=Gpus(cuda_visible_devices=how), hooks=Hooks(prolog="/p"))
    made = build_launch(core.job(core.run(make_request(gpus=2))), 0, submit_host="h", config=config)
    assert (made.cuda_visible_devices, made.env["CUDA_VISIBLE_DEVICES"]) == (how, "a-0,a-1")
    assert made.hooks is not None and made.hooks.env["CUDA_VISIBLE_DEVICES"] == hook
    assert Config().gpus.cuda_visible_devices == "index"


def test_a_container_request_reaches_the_node_unchanged() -> None:
    core = Core("a")
    container = Container(
        image="r#a/b:1", mounts=(ContainerMount(source="/d", target="/in", flags=("ro",)),), mount_home=True
    )
    made = build_launch(
        core.job(core.run(make_request(container=container))), 0, submit_host="h", config=Config()
    )
    mounts = [wire.Mount(source="/d", target="/in", flags=["ro"])]
    assert made.container == wire.Container(image="r#a/b:1", mounts=mounts, mount_home=True)
    assert core.reload().jobs[JobId(1)].request.container == container


def test_hooks_and_the_check_for_foreign_processes_are_optional() -> None:
    core = Core("a")
    job = core.job(core.run(make_request(gpus=1)))
    made = build_launch(job, 0, submit_host="h", config=Config(gpus=Gpus(avoid_foreign_processes=False)))
    assert made.hooks is None and not made.empty_gpus
    assert made.confine == ["memory", "cpus", "devices"]


def test_the_limits_that_a_node_enforces_are_stored() -> None:
    core = Core("a")
    agent = core.agents[A]
    welcome = agent.welcome()
    welcome.inventory.facilities.append(wire.Facility(name="memory", strength="watched", how="by the agent"))
    agent.welcome = lambda: welcome  # type: ignore[method-assign]
    core.up("a")
    assert [(each.name, each.strength) for each in core.reload().nodes[A].facilities] == [
        ("memory", "watched")
    ]


def test_a_broken_agent_drains_its_node_and_counts_no_user_restart() -> None:
    core = Core("a", "b")
    job_id = core.submit(make_request(requeue=False))
    core.plan()
    refused(core, job_id, check="agent")
    node = core.state.nodes[A]
    assert (node.drained, node.drain_checks) == (True, ("agent",))
    job = core.job(job_id)
    assert (job.state, job.restarts, job.user_restarts, job.held) == (JobState.PENDING, 1, 0, False)
    core.plan()
    assert "SLURM_RESTART_COUNT" not in job_environment(core.job(job_id), 0, submit_host="")
    well = wire.Health(at_unix=1.0, checks=[wire.Check("disk", "ok"), wire.Check("agent", "ok")])
    core.apply(HealthReported(name=A, health=well, received_unix=1.0))
    assert not core.state.nodes[A].drained
    assert core.reload().jobs[job_id] == core.job(job_id)


def test_a_job_that_three_nodes_cannot_start_is_held() -> None:
    core = Core("a", "b", "c", "d")
    job_id = core.submit()
    for restarts in range(3):
        core.plan()
        (share,) = core.job(job_id).shares
        failed = wire.LaunchFailed(
            job_id=job_id, restarts=restarts, message="its folder is gone", check="agent"
        )
        core.apply(LaunchRefused(name=share.node, failed=failed))
    job = core.job(job_id)
    assert (job.held, job.failed_nodes) == (True, ("a", "b", "c"))
    assert job.notice == "held: 3 nodes could not start the job (a, b, c)"
    assert reason_of(RowContext(core.state, core.now), job) == "launch failed requeued held"
    core.apply(Released(principal=ANN, jobs=(str(job_id),)))
    assert (core.job(job_id).held, core.job(job_id).failed_nodes) == (False, ())
