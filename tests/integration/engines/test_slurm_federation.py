"""A gateway to a cluster of a federation whose daemons, users and this process have different time zones.

The federation has one cluster, so its job ids have the number of the cluster in their upper six bits. The site lets Slurm's
commands show the whole federation (fed_display).
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
import pytest_asyncio
from tests.integration.engines.rig import Rig
from tests.integration.engines.slurm_rig import GRES, NODE, SITE, slurm_rig
from tests.slurm_parity.peer.real_slurm import RealSlurm
from tests.support.waiting import eventually, eventually_awaited

from warpdeck.engines.slurm.cluster.questions import COMMANDS, Question
from warpdeck.engines.slurm.commands import SlurmCommands
from warpdeck.model import ArraySpec, Reservation
from warpdeck.protocol import requests as ask

pytestmark = [pytest.mark.slurm]
CLUSTER_BIT = 26
"""The first bit of the number of the cluster in a job id (FED_MGR_CLUSTER_ID_BEGIN in Slurm's fed_mgr.h)."""
DAEMONS, USER = "Asia/Kolkata", "America/New_York"
"""Neither is a whole number of hours away from the other. The user's zone has a change of the clock each November."""
SECOND_S = 1.0


@pytest.fixture(scope="module")
def slurm() -> Iterator[RealSlurm]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", DAEMONS)
        site = f"FederationParameters=fed_display\n{SITE}"
        with RealSlurm(site, nodes=(NODE,), gres=GRES, accounting=True) as running:
            running.ok("sacctmgr", "-i", "add", "federation", "atlas", "clusters=warpdeck")
            eventually(lambda: "atlas" in running.ok("scontrol", "show", "federation"), what="the federation")
            patch.setenv("TZ", USER)
            yield running


@pytest.fixture(scope="module")
def sent(slurm: RealSlurm) -> dict[Question, int]:
    """Return the requests that slurmctld has counted for each question, before a gateway asks, too."""
    found: dict[Question, int] = {}
    # Without a running job, nothing is asked about the nodes of jobs.
    job = slurm.ok("sbatch", "--parsable", "--wrap=sleep 600").strip()
    eventually(lambda: "RUNNING" in slurm.ok("squeue", "-h", "-j", job, "-o", "%T"), what="the job runs")
    for question, command in COMMANDS.items():
        if question is not Question.LOAD:  # sdiag itself is not counted.
            before = slurm.rpcs()
            slurm.run(command.words("M"), env=SlurmCommands({}).environ)
            found[question] = slurm.rpcs() - before
    slurm.ok("scancel", job)
    return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(slurm: RealSlurm, sent: dict[Question, int]) -> AsyncIterator[Rig]:
    async for made in slurm_rig(slurm):
        yield made


def origin(job: str) -> int:
    """Return the number of the cluster to which the job was submitted."""
    return int(job) >> CLUSTER_BIT


@pytest.mark.asyncio(loop_scope="module")
async def test_a_job_keeps_the_large_id_of_the_federation(rig: Rig) -> None:
    job = await rig.ran("true")
    assert origin(job) == 1
    assert (await rig.detail(job)).row.label == job
    assert await rig.state(job) == "COMPLETED"


@pytest.mark.asyncio(loop_scope="module")
async def test_a_task_of_an_array_is_named_by_the_large_id(rig: Rig) -> None:
    job = await rig.submit("true", hold=True, array=ArraySpec(ranges=((1, 5, 2),)))
    assert origin(job.partition("_")[0]) == 1
    number = job.partition("_")[0]
    await rig.cancel(f"{number}_3")

    async def is_left() -> bool:
        """Return whether the tasks 1 and 5 wait, as the queue tells after the next look."""
        return (await rig.detail(number)).row.label == f"{number}_[1,5]"

    await eventually_awaited(is_left, what="the other tasks")
    await rig.cancel(number)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_component_of_a_heterogeneous_job_is_named_by_the_large_id_of_its_leader(rig: Rig) -> None:
    message = ask.Submit(
        request=rig.request("sleep 600", hold=True), components=(rig.request("sleep 600", hold=True),)
    )
    leader = (await rig.engine.submissions.submit(rig.user, message)).label.partition("+")[0]
    assert origin(leader) == 1
    labels = [(await rig.detail(f"{leader}+{offset}")).row.label for offset in (0, 1)]
    assert labels == [f"{leader}+0", f"{leader}+1"]
    await rig.cancel(leader)


def test_a_question_asks_this_cluster_only(sent: dict[Question, int]) -> None:
    assert sent == {question: COMMANDS[question].rpcs for question in sent}


@pytest.mark.asyncio(loop_scope="module")
async def test_times_do_not_depend_on_time_zones(rig: Rig) -> None:
    before = time.time()
    job = await rig.running()
    row = (await rig.detail(job)).row
    assert row.start is not None and before - SECOND_S <= row.start <= time.time()
    assert before - SECOND_S <= row.submit <= time.time()
    await rig.cancel(job)
    later = float(int(time.time()) + 7200)
    waits = await rig.submit("true", begin_at_unix=later)
    await rig.until(waits, lambda row: row.why is not None and row.why.code == "BeginTime")
    why = (await rig.detail(waits)).row.why
    assert why is not None and why.expected_start == later
    await rig.cancel(waits)
    row_of_node = await rig.engine.nodes.drain(rig.admin, ask.NodeDrain(name=rig.node, reason="a fan"))
    assert row_of_node.reason_at is not None
    assert before - SECOND_S <= row_of_node.reason_at <= time.time()
    await rig.engine.nodes.resume(rig.admin, ask.NodeResume(name=rig.node))


@pytest.mark.asyncio(loop_scope="module")
async def test_the_hour_that_occurs_twice_has_an_hour_between_its_beginnings(rig: Rig) -> None:
    first = datetime(2027, 11, 7, 5, 30, tzinfo=UTC)
    second = datetime(2027, 11, 7, 6, 30, tzinfo=UTC)
    local = [each.astimezone(ZoneInfo(USER)).strftime("%H:%M") for each in (first, second)]
    assert local[0] == local[1], "the clock is set back in this hour"
    start, end = first.timestamp(), second.timestamp()
    made = Reservation(name="twice", start_unix=start, end_unix=end, users=(rig.user.who.user,))
    await rig.engine.nodes.reserve(rig.admin, ask.ReservationMake(reservation=made))
    [row] = (await rig.engine.site.reservations(rig.user, ask.Reservations())).reservations
    assert (row.start, row.end) == (start, end)
    await rig.engine.nodes.unreserve(rig.admin, ask.ReservationRemove(name="twice"))
