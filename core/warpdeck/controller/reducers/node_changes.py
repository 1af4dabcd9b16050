"""Handlers for nodes that are added, removed, drained, lost or connected.

After an agent's Welcome message, its list of launches is reconciled with the controller's state.
"""

from __future__ import annotations

import dataclasses
import re

from warpdeck.base.errors import UserError
from warpdeck.controller.events.effects import DropNode, Effect, KillShare, LaunchShare, Outcome
from warpdeck.controller.events.events import (
    NodeAdded,
    NodeDrained,
    NodeLost,
    NodeRemoved,
    NodeResumed,
    NodeUp,
)
from warpdeck.controller.state.state import replace
from warpdeck.controller.state.transaction import Transaction
from warpdeck.model import Facility, Gpu, GpuDrain, GpuUuid, Job, JobId, Link, Node, NodeName, Topology
from warpdeck_agent.wire import messages as wire

from . import step_commands
from .claims import claim
from .progress import apply_report, lose_share
from .unknown_launches import drop_unreported, has_lost_start, note_past

_GPU_WORDS = {"nvidia", "geforce", "tesla", "quadro", "graphics", "device", "rtx", "gtx"}


def add(txn: Transaction, event: NodeAdded) -> Outcome:
    """Add a new node. Raises UserError if a node of that name exists."""
    if event.node.name in txn.state.nodes:
        raise UserError(
            f"node {event.node.name} already exists", "choose another --name, or remove the old node first"
        )
    txn.put_node(replace(event.node, added_at_unix=txn.now))
    txn.put_created_by_name(event.node.name, uid=event.uid, request_id=event.request_id)
    return Outcome()


def drain(txn: Transaction, event: NodeDrained) -> Outcome:
    """Drain a node, or some of its GPUs: no new jobs start there, and running jobs continue.

    A drain by an administrator stays until an administrator resumes the node.
    """
    node = known(txn, event.name)
    if event.gpus:
        drains = {each.uuid: each for each in node.gpu_drains}
        for uuid in _gpus_named(node, event.gpus):
            drains[uuid] = GpuDrain(uuid=uuid, reason=event.reason, at_unix=txn.now, user=event.user)
        txn.put_node(replace(node, gpu_drains=tuple(drains.values())))
    else:
        txn.put_node(
            replace(
                node,
                drained=True,
                drain_checks=(),
                reason=event.reason,
                reason_at_unix=txn.now,
                reason_user=event.user,
            )
        )
    return Outcome()


def resume(txn: Transaction, event: NodeResumed) -> Outcome:
    """Resume a node, or some of its GPUs.

    When the whole node is resumed, its present GPUs become its expected GPUs.
    """
    node = known(txn, event.name)
    if event.gpus:
        resumed_gpus = _gpus_named(node, event.gpus)
        left = tuple(each for each in node.gpu_drains if each.uuid not in resumed_gpus)
        txn.put_node(replace(node, gpu_drains=left))
    else:
        known_gpus = tuple(gpu.uuid for gpu in node.gpus)
        resumed = replace(node, drained=False, drain_checks=(), gpu_drains=(), known_gpus=known_gpus)
        txn.put_node(replace(resumed, reason="", reason_at_unix=txn.now, reason_user=""))
    return Outcome()


def _gpus_named(node: Node, indices: tuple[int, ...]) -> list[GpuUuid]:
    """Return the UUIDs of the GPUs with these indices.

    Raises UserError for an index that the node does not have.
    """
    uuids = {gpu.index: gpu.uuid for gpu in node.gpus}
    for index in indices:
        if index not in uuids:
            raise UserError(f"{node.name} has no GPU {index}", f"see `warpdeck node show {node.name}`")
    return [uuids[index] for index in indices]


def remove(txn: Transaction, event: NodeRemoved) -> Outcome:
    """Remove a node.

    Raises UserError if jobs hold it, unless `force` is set. With `force`, these jobs end as NODE_FAIL or are
    requeued.
    """
    known(txn, event.name)
    jobs = [*txn.state.jobs_on(event.name), *txn.state.prefetched_to(event.name)]
    if jobs and not event.force:
        labels = ", ".join(job.label() for job in jobs[:5]) + (" ..." if len(jobs) > 5 else "")
        raise UserError(
            f"jobs are running on {event.name}: {labels}",
            "cancel them first, or use --force to end them (NODE_FAIL, or requeued)",
        )
    effects: list[Effect] = [
        KillShare(node=event.name, job_id=job.id, restarts=job.restarts, at_once=True) for job in jobs
    ]
    for job in jobs:
        effects += lose_share(txn, job, event.name, f"node {event.name} was removed")
    drop_unreported(txn, event.name, set(), with_past=True)
    txn.drop_node(event.name)
    return Outcome(effects=(*effects, DropNode(node=event.name)))


def lost(txn: Transaction, event: NodeLost) -> Outcome:
    """Record that the link to a node broke. Its jobs stay, because they may still be running."""
    if event.name in txn.state.nodes:
        txn.state.node_status.links[event.name] = Link.LOST
        txn.state.node_status.link_reasons[event.name] = event.reason
        txn.state.node_status.readings.pop(event.name, None)
        txn.record_condition(event.name)
    return Outcome(effects=tuple(claim(txn, event.name)))


def up(txn: Transaction, event: NodeUp) -> Outcome:
    """Record that an agent has connected.

    Its inventory is stored, and all launches known to either side are reconciled.
    """
    name, welcome = event.name, event.welcome
    node = txn.state.nodes.get(name)
    if node is None:
        return Outcome()
    txn.state.node_status.links[name] = Link.UP
    txn.state.node_status.link_reasons.pop(name, None)
    txn.record_condition(name)
    rebooted = bool(node.boot_id) and node.boot_id != welcome.inventory.boot_id
    described = describe(node, welcome.inventory)
    if described != node:
        txn.put_node(described)
    effects: list[Effect] = []
    reported = {(job_report.job_id, job_report.restarts) for job_report in welcome.jobs}
    drop_unreported(txn, name, reported)
    for job_report in welcome.jobs:
        if rebooted and job_report.phase != "exited":
            effects += _end_before_boot(job_report, name)
            job_report = dataclasses.replace(
                job_report, phase="lost", cause="node_fail", message=f"{name} was rebooted", exit_code=1
            )
        effects += apply_report(txn, name, job_report)
    note_past(txn, name, welcome.past)
    here = (*txn.state.jobs_on(name), *txn.state.prefetched_to(name))
    unreported = [job for job in here if (job.id, job.restarts) not in reported]
    # A lost share may end other components of its job, which must then not be launched again. So lost shares come first.
    for job in sorted(unreported, key=lambda each: _waits_for_launch(each, name)):
        is_starting = [job.id, job.restarts] in welcome.starting
        effects += _handle_unreported(
            txn, txn.state.jobs[job.id], name, rebooted=rebooted, is_starting=is_starting
        )
    effects += step_commands.reconcile_steps(txn, name, welcome.steps)
    if not has_lost_start(txn.state, name, welcome.starting):
        effects += claim(txn, name)  # Otherwise the report of that start is waited for.
    return Outcome(effects=tuple(effects))


def _end_before_boot(job_report: wire.JobReport, name: NodeName) -> list[Effect]:
    """Return the effect that releases a launch that started before a reboot and is still reported as running.

    Only launches that merely hold resources of the node survive a reboot, and only as a record.
    """
    if job_report.phase != "running":
        return []
    return [KillShare(node=name, job_id=JobId(job_report.job_id), restarts=job_report.restarts, at_once=True)]


def _waits_for_launch(job: Job, name: NodeName) -> bool:
    return not job.ending_cause and any(
        share.node == name and share.phase == "launching" for share in job.shares
    )


def _handle_unreported(
    txn: Transaction, job: Job, name: NodeName, *, rebooted: bool, is_starting: bool
) -> list[Effect]:
    """Handle a share of a job that the node does not report, because it does not know it or is only starting it.

    The share never started, or was lost with the node's disk or power. After a reboot it is unknown whether
    the share had started. It is therefore not launched again with the same start count.
    """
    share = next((share for share in job.shares if share.node == name), None)
    recovery = txn.state.recovery
    if share is None or share.phase == "exited":
        return []
    if any(each.job_id == job.id for each in recovery.launches) or (recovery.is_needed and not rebooted):
        return []  # An older database does not say whether the share ran. After the recovery the node reports again.
    if rebooted:
        return lose_share(txn, job, name, f"{name} was rebooted", cause=job.ending_cause or "node_fail")
    if share.phase == "launching" and job.ending_cause:
        # The report of a start that is under way follows, and is answered with a kill.
        return [] if is_starting else lose_share(txn, job, name, "", cause=job.ending_cause)
    if share.phase == "launching" and txn.state.starts.unclaimed:
        txn.state.starts.postponed.add((job.id, name))
        return []
    if share.phase == "launching":
        return [LaunchShare(node=name, job_id=job.id)]
    return lose_share(txn, job, name, f"{name} has no record of the job any more")


def known(txn: Transaction, name: NodeName) -> Node:
    """Return the node of that name. Raises UserError if there is none."""
    node = txn.state.nodes.get(name)
    if node is None:
        raise UserError(f"there is no node {name}", "see `warpdeck node ls`", code="not_found")
    return node


def describe(node: Node, found: wire.Inventory) -> Node:
    """Return the node with the inventory that its agent found.

    If some of the earlier GPUs are missing now, they stay in the list of expected GPUs.
    """
    uuids = tuple(GpuUuid(gpu.uuid) for gpu in found.gpus)
    return replace(
        node,
        known_gpus=uuids if len(uuids) >= len(node.known_gpus) else node.known_gpus,
        hostname=found.hostname,
        address=found.address,
        arch=found.arch,
        boot_id=found.boot_id,
        booted_at_unix=found.booted_unix,
        agent_at_unix=found.agent_unix,
        cpus=found.cpus,
        mem_bytes=found.mem_bytes,
        topology=Topology(
            sockets=found.sockets, cores=found.cores_per_socket, threads=found.threads_per_core
        ),
        tmp_disk_bytes=found.tmp_disk_bytes,
        gpus=tuple(
            Gpu(
                index=gpu.index,
                uuid=GpuUuid(gpu.uuid),
                name=gpu.name,
                type=gpu_type(gpu.name),
                mem_bytes=gpu.mem_bytes,
                numa_node=gpu.numa_node,
                island=gpu.island,
                isolation=gpu.isolation,
            )
            for gpu in found.gpus
        ),
        driver=found.driver,
        kernel=found.kernel,
        containment=found.containment,
        facilities=tuple(
            Facility(name=each.name, strength=each.strength, how=each.how) for each in found.facilities
        ),
        containers=tuple(found.containers),
        gpu_error=found.gpu_error,
    )


def gpu_type(name: str) -> str:
    """Return the short type that --gres=gpu:TYPE matches.

    For example, "NVIDIA H100 80GB HBM3" gives h100, and "NVIDIA GeForce RTX 3090" gives 3090.
    """
    for word in re.split(r"[\s\-_]+", name.lower()):
        if word and word not in _GPU_WORDS and not re.fullmatch(r"\d+g[bi]?b?", word):
            return word
    return name.lower().replace(" ", "_") or "gpu"
