"""Priorities, limits, forecasts, nodes and reservations over a real Slurm with accounting."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.integration.engines.rig import Rig, nonce
from tests.integration.engines.slurm_rig import GRES, NODE, SITE, slurm_rig
from tests.slurm_parity.peer.real_slurm import RealSlurm

from warpdeck.base.errors import UserError
from warpdeck.model import NodeName, Reservation
from warpdeck.model.request import GpuRequest, Resources
from warpdeck.ports.engine import UNSUPPORTED
from warpdeck.protocol import requests as ask
from warpdeck.protocol.job_rows import JobRow
from warpdeck.protocol.node_rows import NodeFacts

pytestmark = [pytest.mark.slurm, pytest.mark.asyncio(loop_scope="module")]
POLICY = """
AccountingStorageEnforce=associations,limits,qos
PriorityType=priority/multifactor
PriorityWeightAge=100
PriorityWeightJobSize=1000
PriorityWeightQOS=5000
Licenses=matlab:5
"""
ACCOUNTS = (
    "add account lab grpjobs=10",
    "add user root account=lab defaultaccount=lab",
    "add qos fast",
    "modify user root set qos+=fast",
)
QOS = ("priority=10", "maxtrespu=gres/gpu=2", "maxwall=2:00:00", "gracetime=30")
"""Is set when slurmctld has told slurmdbd that there are GPUs."""
LATER = 2_000_000_000.0


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["22.05", "26.05"])
async def rig(request: pytest.FixtureRequest) -> AsyncIterator[Rig]:
    site = POLICY.strip() + SITE
    with RealSlurm(
        site, nodes=(NODE,), gres=GRES, accounting=True, accounts=ACCOUNTS, version=request.param
    ) as slurm:
        slurm.ok("sacctmgr", "--immediate", "modify", "qos", "fast", "set", *QOS)
        async for made in slurm_rig(slurm):
            yield made


def gpus(count: int) -> Resources:
    return Resources(gpus=GpuRequest(total=count))


def code_of(row: JobRow) -> str:
    """Return the code of the reason of a waiting job."""
    return row.why.code if row.why is not None else ""


async def test_a_limit_that_holds_a_job_is_named_with_its_use(rig: Rig) -> None:
    running = await rig.running(qos="fast", resources=gpus(2), time_limit_s=3600)
    waiting = await rig.submit("true", qos="fast", resources=gpus(1), time_limit_s=3600)
    await rig.until(waiting, lambda row: code_of(row).startswith("QOS"))
    found = await rig.engine.jobs.forecast(rig.user, ask.Forecast(job=waiting))
    assert found.verdict == "later" and found.code == "QOSMaxGRESPerUser"
    assert "2 of 2 GPUs in use by QoS fast, user root" in found.sentence
    uses = (await rig.engine.accounting.limit_use(rig.user, ask.LimitUse())).uses
    own = next(row for row in uses if row.qos == "fast" and row.user == "root")
    assert own.tres["gres/gpu"] == 2 and own.jobs == 1
    lab = next(row for row in uses if (row.account, row.user) == ("lab", "root"))
    assert lab.jobs >= 1 and lab.tres["gres/gpu"] == 2
    await rig.cancel(running, waiting)
    await rig.reached(running)


async def test_a_waiting_job_tells_its_place_its_start_and_smaller_requests(rig: Rig) -> None:
    running = await rig.running(resources=gpus(3), time_limit_s=7200)
    first = await rig.submit("sleep 600", resources=gpus(2), time_limit_s=3600)
    second = await rig.submit("sleep 600", resources=gpus(2), time_limit_s=3600)
    for job in (first, second):
        await rig.until(job, lambda row: code_of(row).startswith(("Resources", "Priority")))
    found = await rig.engine.jobs.forecast(rig.user, ask.Forecast(job=second))
    assert (found.verdict, found.ahead) == ("later", 1) and found.leaders[0].label == first
    assert found.priority > 0 and found.sentence
    own = await rig.engine.jobs.forecast(rig.user, ask.Forecast(job=first))
    assert own.ahead == 0 and own.changes == ["starts now with --gpus=1"]
    rows = (await rig.engine.accounting.priorities(rig.user, ask.Priorities())).jobs
    assert [row.label for row in rows if row.label in (first, second)] == [first, second]
    [row] = (await rig.engine.accounting.priorities(rig.user, ask.Priorities(ids=(first,)))).jobs
    assert row.job_size_part > 0 and row.priority > 0
    await rig.cancel(running, first, second)
    await rig.reached(running)


async def test_the_tables_of_the_accounting_are_read(rig: Rig) -> None:
    accounting, site = rig.engine.accounting, rig.engine.site
    qos = {row.name: row for row in (await accounting.qos(rig.user, ask.QosList())).qos}
    assert qos["fast"].priority == 10 and qos["fast"].grace_s == 30
    assert qos["fast"].limits == {"max_tres_per_user": {"gres/gpu": 2}, "max_wall_s": 7200}
    shares = (await accounting.shares(rig.user, ask.Shares())).shares
    assert any((row.account, row.user, row.parent, row.depth) == ("lab", "", "root", 1) for row in shares)
    assert any((row.account, row.user) == ("lab", "root") for row in shares)
    weights = (await accounting.priorities(rig.user, ask.Priorities())).weights
    assert weights == {"age": 100.0, "job_size": 1000.0, "qos": 5000.0}
    [license] = (await site.licenses(rig.user, ask.Licenses())).licenses
    assert (license.name, license.total) == ("matlab", 5)
    statistics = await site.diagnosis(rig.user, ask.Diagnosis())
    assert statistics.passes.count > 0 and statistics.jobs["submitted"] > 0
    assert (await site.settings(rig.user, ask.Settings())).settings["PriorityWeightQOS"] == "5000"


@pytest.mark.parametrize(
    "fields",
    [
        {"nodes": (NodeName(NODE),), "maintenance": True},
        {"node_count": 1, "partition": "gpu", "repeat": "daily", "magnetic": True, "purge_after_s": 300},
        {"nodes": (NodeName(NODE),), "flex": True, "any_nodes": True, "hold_jobs_after": False},
        {"node_count": 1, "replace": "busy", "end_unix": None},
    ],
)
async def test_a_reservation_is_shown_as_it_was_made(rig: Rig, fields: dict[str, object]) -> None:
    made = {"name": "r1", "start_unix": LATER, "end_unix": LATER + 3600, "users": ("root",), **fields}
    reservation = Reservation(**made)  # type: ignore[arg-type]
    await rig.engine.nodes.reserve(rig.admin, ask.ReservationMake(reservation=reservation, nonce=nonce()))
    [row] = (await rig.engine.site.reservations(rig.user, ask.Reservations())).reservations
    assert (row.state, row.node_list, row.start, row.users) == ("future", NODE, LATER, ["root"])
    assert row.end == reservation.end_unix
    for name in fields.keys() - {"nodes", "end_unix"}:
        assert getattr(row, name) == fields[name], name
    await rig.engine.nodes.unreserve(rig.admin, ask.ReservationRemove(name="r1"))
    with pytest.raises(UserError) as unknown:
        await rig.engine.nodes.unreserve(rig.admin, ask.ReservationRemove(name="r1"))
    assert unknown.value.code == "not_found"


async def test_a_node_is_drained_with_a_hostile_reason(rig: Rig) -> None:
    nodes = rig.engine.nodes
    row = await nodes.drain(rig.admin, ask.NodeDrain(name=NODE, reason='"a fan"\nis=off\n"'))
    assert row.state.startswith("drain") and row.reason == '"a fan" is=off "'
    [facts] = (await nodes.rows(rig.user, ask.Nodes(name=NODE, facts=True)))[0:1]
    assert isinstance(facts, NodeFacts)
    assert facts.drained and facts.base in ("idle", "mixed") and facts.partitions == ["gpu"]
    assert facts.gpus == {"a100": 4}
    assert not (await nodes.resume(rig.admin, ask.NodeResume(name=NODE))).state.startswith("drain")
    with pytest.raises(UserError, match="not single GPUs") as refused:
        await nodes.drain(rig.admin, ask.NodeDrain(name=NODE, reason="x", gpus=(0,)))
    assert refused.value.code == UNSUPPORTED
    for name in ("ALL", "n[1-2]", "--help", ""):
        with pytest.raises(UserError) as unknown:
            await nodes.drain(rig.admin, ask.NodeDrain(name=name, reason="x"))
        assert unknown.value.code == "not_found"
    with pytest.raises(UserError, match="acts for its own user only"):
        await nodes.drain(rig.other, ask.NodeDrain(name=NODE, reason="x"))
