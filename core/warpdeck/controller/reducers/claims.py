"""The wait of a new start of the controller for the first answers of its nodes, and the launches that it postpones.

A launch that a node does not know is sent again, but not before all nodes have answered: one of them may know that another controller
has taken over. The job may end meanwhile, because another node has lost its share. The postponed share then ends, too. A node
answers no kill of a launch that it does not know, so nothing else would end it.
"""

from __future__ import annotations

from warpdeck.controller.events.effects import Effect, LaunchShare, Outcome
from warpdeck.controller.events.events import ClaimEnded, Reported
from warpdeck.controller.state.transaction import Transaction
from warpdeck.model import Link, NodeName

from .progress import apply_report, lose_share, starts_are_awaited

ABSENT = object()


def report(txn: Transaction, event: Reported) -> Outcome:
    """Apply an agent's report on a launch. If the launch is outdated, it is ended or forgotten on the node."""
    effects = (*apply_report(txn, event.name, event.report), *claim(txn, event.name))
    return Outcome(effects=effects, replan=event.report.phase != "running" or starts_are_awaited(txn))


def end_claim(txn: Transaction, event: ClaimEnded) -> Outcome:
    """Wait no longer for the first answers of nodes since this start."""
    unclaimed = txn.state.starts.unclaimed
    if event.start != txn.state.starts.own or not unclaimed:
        return Outcome(replan=False)
    unclaimed.clear()
    return Outcome(effects=tuple(_carry_out_postponed(txn)))


def claim(txn: Transaction, name: NodeName) -> list[Effect]:
    """Note that a node has answered, or cannot be reached. After the last one, the postponed launches are sent."""
    unclaimed = txn.state.starts.unclaimed
    if unclaimed.pop(name, ABSENT) is ABSENT or unclaimed:
        return []
    return _carry_out_postponed(txn)


def _carry_out_postponed(txn: Transaction) -> list[Effect]:
    """End the postponed shares of jobs that end, and return the other launches. Repeating one is harmless."""
    state = txn.state
    postponed = sorted(state.starts.postponed)
    state.starts.postponed.clear()
    if not state.may_start:
        return []
    effects: list[Effect] = []
    for job_id, name in postponed:
        job = state.jobs.get(job_id)
        if job is None or not job.ending_cause or state.node_status.links.get(name) is not Link.UP:
            continue
        if any(share.node == name and share.phase == "launching" for share in job.shares):
            effects += lose_share(txn, job, name, "", cause=job.ending_cause)
    launches = [
        LaunchShare(node=share.node, job_id=job_id)
        for job_id in (*state.index.active, *state.index.successor.values())
        for share in state.jobs[job_id].shares
        if share.phase == "launching"
        and not state.jobs[job_id].ending_cause
        and state.node_status.links.get(share.node) is Link.UP
    ]
    return [*effects, *launches]
