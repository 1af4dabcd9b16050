"""A launch without a report is sent again to a node that stayed up, and fails on a rebooted node."""

from __future__ import annotations

from warpdeck.controller.events.effects import LaunchShare
from warpdeck.controller.events.events import NodeUp
from warpdeck.controller.reducers.reduce import reduce
from warpdeck.controller.state.state import State
from warpdeck.controller.state.transaction import Transaction
from warpdeck.model import Allocation, Job, JobId, JobState, Node, NodeName, Request, Share, ShareStatus
from warpdeck_agent.wire import messages as wire

NAME = NodeName("n1")
JOB = JobId(7)


def settle(boot_id: str) -> tuple[Job, list[LaunchShare]]:
    """Return the result when the node's agent reconnects without a record of the launch."""
    state = State()
    txn = Transaction(state, 100.0)
    txn.put_node(Node(name=NAME, cpus=4, mem_bytes=1, boot_id="first"))
    request = Request(script="#!/bin/sh\ntrue\n", requeue=False)
    job = Job(
        id=JOB,
        array_job_id=JOB,
        request=request,
        user="ann",
        uid=1,
        state=JobState.CONFIGURING,
        allocation=Allocation(shares=(Share(node=NAME, cpus=1, mem_bytes=0),)),
        shares=(ShareStatus(node=NAME),),
    )
    txn.put_job(job)
    found = wire.Inventory(hostname="n1", boot_id=boot_id, cpus=4, mem_bytes=1)
    welcome = wire.Welcome(build="x", inventory=found)
    outcome = reduce(txn, NodeUp(name=NAME, welcome=welcome))
    return state.jobs[JOB], [effect for effect in outcome.effects if isinstance(effect, LaunchShare)]


def test_a_launch_without_a_record_is_sent_again() -> None:
    job, launches = settle("first")
    assert job.state is JobState.CONFIGURING
    assert [launch.job_id for launch in launches] == [JOB]


def test_a_launch_interrupted_by_a_reboot_is_not_sent_again() -> None:
    job, launches = settle("second")
    assert job.state is JobState.NODE_FAIL
    assert launches == []
