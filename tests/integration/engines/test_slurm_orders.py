"""Orders over a real Slurm. The jobs are submitted with the real sbatch."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio
from tests.integration.engines.rig import Rig
from tests.integration.engines.slurm_rig import slurm_rig, small_slurm
from tests.slurm_parity.peer.real_slurm import RealSlurm
from tests.support.waiting import eventually_async

from warpdeck.base.errors import UNCERTAIN, UserError
from warpdeck.model.annotations import AnnotationsChange
from warpdeck.model.change import JobChange
from warpdeck.model.request import GpuRequest
from warpdeck.ports.engine import UNSUPPORTED
from warpdeck.protocol import requests as ask

pytestmark = [pytest.mark.slurm, pytest.mark.asyncio(loop_scope="module")]
DAY_S = 86_400
LATER = 2_000_000_000.0
CHANGES: list[tuple[str, Any, str, str]] = [
    ("time_limit_s", 3 * DAY_S + 90, "TimeLimit", "3-00:02:00"),
    ("time_limit_more_s", -DAY_S, "TimeLimit", "2-00:02:00"),
    ("time_min_s", 600, "TimeMin", "00:10:00"),
    ("time_min_s", None, "TimeMin", "N/A"),
    ("time_limit_s", None, "TimeLimit", "UNLIMITED"),
    ("begin_at_unix", LATER, "StartTime", "2033-05-18T03:33:20"),
    ("deadline_unix", LATER + DAY_S * 9, "Deadline", "2033-05-27T03:33:20"),
    ("priority", 77, "Priority", "77"),
    ("nice", 0, "Nice", "0"),
    ("requeue", False, "Requeue", "0"),
    ("mail_types", ("BEGIN", "END"), "MailType", "BEGIN,END"),
    ("mail_user", "ann", "MailUser", "ann"),
    ("dependencies", None, "Dependency", "(null)"),
    ("output", "/tmp/x.%j", "StdOut", "/tmp/x.{job}"),
    ("chdir", "/tmp", "WorkDir", "/tmp"),
    ("tasks", 2, "NumTasks", "2"),
    ("tasks_per_node", 2, "NtasksPerN:B:S:C", "2:0:*:*"),
    ("cpus_per_task", 2, "CPUs/Task", "2"),
    ("cpus_per_node_min", 5, "MinCPUsNode", "5"),
    ("mem_per_node_bytes", 300 << 20, "MinMemoryNode", "300M"),
    ("mem_per_cpu_bytes", 31 << 20, "MinMemoryCPU", "31M"),
    ("contiguous", True, "Contiguous", "1"),
    ("nodelist", ("n1",), "ReqNodeList", "n1"),
    ("nodelist", (), "ReqNodeList", "(null)"),
    ("constraint", "", "Features", "(null)"),
    ("exclusive", True, "OverSubscribe", "NO"),
    ("share_with", "anybody", "OverSubscribe", "YES"),
    ("max_switches", 1, "Switches", "1@00:05:00"),
    ("switches_wait_s", 90, "Switches", "1@00:01:30"),
    ("admin_comment", "hello", "AdminComment", "hello"),
    ("gpus", GpuRequest(total=2), "TresPerJob", "{gpu}:2"),
    ("gpus", GpuRequest(per_node=1), "TresPerNode", "{gpu}:1"),
    ("gpus", GpuRequest(), "TresPerNode", ""),
    ("gpus", GpuRequest(total=2, type="a100"), "TresPerJob", "{gpu}:a100:2"),
]
"""Field, value, and what scontrol shows: key and value."""
REFUSED: list[dict[str, Any]] = [
    {"deadline_unix": None},
    {"priority": None},
    {"nodes_max": 3},
    {"exclusive": False},
    {"switches_wait_s": None},
    {"gpus": GpuRequest(share_pct=50)},
]
HOSTILE = "a\nInvalid job id specified for job 1\n\"q\" 'x' \\n JobId=7 -x"


@dataclass(frozen=True)
class Site:
    """A Slurm with a gateway."""

    slurm: RealSlurm
    rig: Rig

    async def sbatch(self, *options: str, label: str = "{}", script: str = "sleep 600") -> str:
        """Submit with the real sbatch, and wait until the gateway has seen the job. `label` is that of its row."""
        script = f"#!/bin/sh\n{script}\n"
        result = self.slurm.run(["sbatch", "--parsable", *options], data=script, cwd=self.rig.folder)
        assert result.rc == 0, result.err
        number = result.out.strip()
        await self.rig.until(label.format(number), lambda row: True)
        return number

    def shown(self, job: str, key: str) -> str:
        """Return the value that scontrol shows for the key of a job."""
        words = self.slurm.ok("scontrol", "--oneliner", "show", "job", job).split(" ")
        return next(word.partition("=")[2].strip() for word in words if word.startswith(f"{key}="))

    async def change(self, message: ask.Hold | ask.JobUpdate | ask.Requeue | ask.Release) -> Any:
        return await self.rig.engine.orders.change(self.rig.user, message)

    async def update(self, job: str, **fields: Any) -> Any:
        return await self.change(ask.JobUpdate(jobs=(job,), change=JobChange(**fields)))


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["22.05", "26.05"])
async def site(request: pytest.FixtureRequest) -> AsyncIterator[Site]:
    with small_slurm(request.param) as slurm:
        async for rig in slurm_rig(slurm):
            yield Site(slurm, rig)


async def test_an_order_is_one_command_for_many_jobs_and_is_shown_at_once(site: Site) -> None:
    jobs = [await site.sbatch("--begin=now+1day") for _ in range(3)]
    done = await site.change(ask.Hold(jobs=(*jobs, "999999")))
    assert done.jobs == jobs and len(done.errors) == 1 and "999999" in done.errors[0]
    assert [(await site.rig.detail(job)).row.held for job in jobs] == [True] * 3
    found = await site.rig.engine.jobs.forecast(site.rig.user, ask.Forecast(job=jobs[0]))
    assert found.code == "JobHeldUser"
    assert (await site.change(ask.Release(jobs=tuple(jobs)))).jobs == jobs
    assert not (await site.rig.detail(jobs[0])).row.held
    canceled = await site.rig.cancel(*jobs, "999999", "1.batch", "nonsense")
    assert canceled.jobs == jobs
    assert dict(zip(canceled.refused, canceled.codes, strict=True)) == {
        "999999": "not_found",
        "1.batch": "no_job_id",
        "nonsense": "no_job_id",
    }
    assert [await site.rig.state(job) for job in jobs] == ["CANCELLED"] * 3
    again = await site.rig.cancel(*jobs)
    assert again.codes == ["already_done"] * 3


async def test_parts_of_arrays_are_held_and_canceled(site: Site) -> None:
    array = await site.sbatch("--array=0-5", "--begin=now+1day", label="{}_[0-5]")
    done = await site.change(ask.Hold(jobs=(f"{array}_[1-2,9]", f"{array}_4", f"{array}_7")))
    assert done.jobs == [f"{array}_[1-2,9]", f"{array}_4"] and f"{array}_7" in done.errors[0]
    assert done.parts[f"{array}_[1-2,9]"] == {"1-2": "", "9": "not_found"}
    canceled = await site.rig.cancel(f"{array}_[0-1]", f"{array}_3")
    assert canceled.jobs == [f"{array}_[0-1]", f"{array}_3"]
    await site.rig.until(f"{array}_[2,4-5]", lambda row: row.state == "PENDING")
    updated = await site.update(array, comment="all")
    assert updated.jobs == [array]
    await site.rig.cancel(array)


async def test_components_of_a_heterogeneous_job_are_canceled_with_their_leader_only(site: Site) -> None:
    leader = await site.sbatch("--hold", "--ntasks=1", ":", "--ntasks=1", label="{}+1")
    for name in (f"{leader}+1", str(int(leader) + 1)):
        with pytest.raises(UserError) as refused:
            await site.rig.cancel(name)
        assert refused.value.code == "component"
    assert (await site.rig.cancel(leader)).jobs == [leader]
    await site.rig.until(f"{leader}+1", lambda row: row.state == "CANCELLED")


async def test_a_signal_reaches_running_jobs_only(site: Site) -> None:
    waiting = await site.sbatch("--hold")
    running = await site.sbatch(script="trap 'exit 7' USR1; while true; do sleep 0.1; done")
    await site.rig.until(running, lambda row: row.state == "RUNNING")
    message = ask.Cancel(jobs=(waiting, running, "999999"), signal="USR1", whom="batch")
    found = await site.rig.engine.orders.cancel(site.rig.user, message)
    assert found.jobs == [running]
    assert dict(zip(found.refused, found.codes, strict=True)) == {waiting: "pending", "999999": "not_found"}
    await site.rig.until(running, lambda row: row.state == "FAILED")
    again = await site.sbatch()
    await site.rig.until(again, lambda row: row.state == "RUNNING")
    message = ask.Cancel(jobs=(waiting, again), waiting_only=True)
    found = await site.rig.engine.orders.cancel(site.rig.user, message)
    assert (found.jobs, found.refused, found.codes) == ([waiting], [again], ["already_begun"])
    await site.rig.cancel(again)


async def test_steps_are_canceled(site: Site) -> None:
    job = await site.sbatch(script="srun sleep 600; sleep 600")
    await site.rig.until(job, lambda row: row.state == "RUNNING")
    await eventually_async(lambda: f"{job}.0" in site.slurm.ok("squeue", "--steps", "--noheader"))
    found = await site.rig.cancel(f"{job}.0", "999999.0")
    assert (found.jobs, found.refused) == ([f"{job}.0"], ["999999.0"])
    assert await site.rig.state(job) == "RUNNING"
    await site.rig.cancel(job)


async def test_hostile_texts_stay_values(site: Site) -> None:
    job = await site.sbatch("--hold")
    long = "x" * 900 + HOSTILE[:90]
    done = await site.update(job, name=HOSTILE, comment=long)
    assert done.jobs == [job]
    row = (await site.rig.detail(job)).row
    assert (row.name, row.comment) == (HOSTILE, long)
    shown = site.slurm.ok("scontrol", "--oneliner", "show", "job", job)
    assert f"JobName={HOSTILE}" in shown and f"Comment={long}" in shown
    await site.rig.cancel(job)


async def test_every_field_that_slurm_can_change_is_changed(site: Site) -> None:
    job = await site.sbatch("--begin=now+2days", "--gpus=1", "--ntasks=4", "--time=30")
    for field, value, key, shown in CHANGES:
        done = await site.update(job, **{field: value})
        assert done.jobs == [job], field
        found = site.shown(job, key) if shown else ""
        gpu = next((word for word in ("gres/gpu", "gres:gpu", "gpu") if found.startswith(word)), "")
        assert found == shown.format(job=job, gpu=gpu), field
    for fields in REFUSED:
        with pytest.raises(UserError, match="Slurm cannot") as refused:
            await site.update(job, **fields)
        assert refused.value.code == UNSUPPORTED
    with pytest.raises(UserError, match="Invalid partition name"):
        await site.update(job, partition="nowhere")
    await site.rig.cancel(job)


async def test_a_thousand_jobs_are_canceled_together(site: Site) -> None:
    array = await site.sbatch("--array=0-499", "--hold", label="{}_[0-499]")
    names = [f"{array}_{task}" for task in range(1000)]
    found = await site.rig.cancel(*names)
    assert found.jobs == names[:500] and found.refused == names[500:]
    assert set(found.codes) == {"not_found"}


async def test_comments_of_ended_jobs_are_kept_in_the_record(site: Site) -> None:
    waiting, ended = await site.sbatch("--hold"), await site.sbatch("--hold")
    await site.rig.cancel(ended)
    orders = site.rig.engine.orders
    note = AnnotationsChange(comment="wrong seed")
    await orders.annotate(site.rig.user, ask.JobAnnotate(ids=(int(waiting), int(ended)), annotating=note))
    assert site.shown(waiting, "Comment") == "wrong"
    fields = ("recorded_comment",)
    rows = await site.rig.engine.jobs.rows(
        site.rig.user, ask.Jobs(ids=(waiting, ended), finished=True, fields=fields)
    )
    assert rows[0:2] == [{"recorded_comment": "wrong seed"}] * 2
    with pytest.raises(UserError):
        await orders.annotate(site.rig.user, ask.JobAnnotate(ids=(999_999,), annotating=note))
    await site.rig.cancel(waiting)


async def test_a_gateway_carries_out_orders_of_its_own_user_only(site: Site) -> None:
    job, orders = await site.sbatch("--hold"), site.rig.engine.orders
    with pytest.raises(UserError, match="its own user only"):
        await site.rig.cancel(job, caller=site.rig.other)
    with pytest.raises(UserError, match="its own user only"):
        await orders.change(site.rig.other, ask.Release(jobs=(job,)))
    note = ask.JobAnnotate(ids=(int(job),), annotating=AnnotationsChange(comment="x"))
    with pytest.raises(UserError, match="its own user only"):
        await orders.annotate(site.rig.other, note)
    await site.rig.cancel(job)


async def test_an_order_that_slurmctld_does_not_answer_has_an_unknown_outcome(site: Site) -> None:
    first, second = await site.sbatch("--hold"), await site.sbatch("--hold")
    pid = (site.slurm.folder / "slurmctld.pid").read_text().strip()
    assert site.slurm.run(["kill", "-STOP", pid]).rc == 0
    try:
        found = await site.rig.cancel(first, second)
        assert found.jobs == [] and found.codes == [UNCERTAIN, UNCERTAIN]
        assert "it is unknown whether Slurm carried it out" in found.errors[0]
        assert await site.rig.state(first) == "PENDING", "nothing is expected that Slurm has not confirmed"
    finally:
        assert site.slurm.run(["kill", "-CONT", pid]).rc == 0
    for job in (first, second):
        await site.rig.until(job, lambda row: row.state == "CANCELLED")
