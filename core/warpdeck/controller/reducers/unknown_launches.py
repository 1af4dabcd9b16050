"""Launches on a node that the database does not explain.

The decision about a launch that a node reports, by the job with its id in the state:

  job in the state                  launch                                          verdict
  none                              its row of the database is unreadable           UNREADABLE
  none                              an id that was not given yet, or a lost one     UNKNOWN
  none                              any other id: ended long ago, or never begun    OUTDATED
  of another submission             any                                             UNKNOWN
  any                               an earlier start                                OUTDATED
  any                               a later start than any that is known            UNKNOWN
  finished                          this start                                      OUTDATED
  unfinished, has a share there     this start                                      CURRENT
  unfinished, has no share there    this start                                      UNKNOWN

An outdated launch is ended and forgotten, as after an ordinary crash: a job that was ended while its node was unreachable,
or an earlier start of a requeued job. An UNKNOWN launch can exist only if the database is older than the launch, because a
start is committed before it is sent. It continues, and its controller starts no job until a person has run
`warpdeck recover`. If the proof of such a launch is missing or wrong, the verdict is UNPROVEN: the launch continues, and
only its node is drained. A compromised node therefore cannot stop the site.

An agent also lists the launches that it was told to forget. One that is unknown, or that is unfinished in the database,
shows that the database is older than the end of the launch.
"""

from __future__ import annotations

from enum import StrEnum

from warpdeck.controller.launch.launch_records import identity_of, is_proven, parse_proof
from warpdeck.controller.state.state import State, replace
from warpdeck.controller.state.transaction import Transaction
from warpdeck.model import Job, JobId, NodeName
from warpdeck.model.recovery import ENDED, FORGOTTEN, RUNNING, UnknownLaunch
from warpdeck_agent.wire import messages as wire
from warpdeck_agent.wire.past_launches import parse_past


class Verdict(StrEnum):
    """The relation of a launch that a node reports to the jobs in the state."""

    CURRENT = "current"
    OUTDATED = "outdated"
    UNREADABLE = "unreadable"
    UNKNOWN = "unknown"
    UNPROVEN = "unproven"


def classify(state: State, name: NodeName, *, job_id: int, restarts: int, proof: str) -> Verdict:
    """Return the verdict on a launch that the node reports."""
    found = _by_state(state, name, job_id=job_id, restarts=restarts, identity=parse_proof(proof).identity)
    if found is not Verdict.UNKNOWN:
        return found
    proven = is_proven(state.starts.seal, proof, node=name, job_id=job_id, restarts=restarts)
    return Verdict.UNKNOWN if proven else Verdict.UNPROVEN


def _by_state(state: State, name: NodeName, *, job_id: int, restarts: int, identity: str) -> Verdict:
    job = state.jobs.get(JobId(job_id))
    if job is None:
        if any(row.table == "jobs" and row.key == str(job_id) for row in state.unreadable):
            return Verdict.UNREADABLE
        is_lost = job_id >= state.next_job_id or state.recovery.lost(job_id)
        return Verdict.UNKNOWN if is_lost else Verdict.OUTDATED
    if identity and identity != identity_of(job):
        return Verdict.UNKNOWN
    if restarts != job.restarts:
        return Verdict.OUTDATED if restarts < job.restarts else Verdict.UNKNOWN
    if job.is_finished:
        return Verdict.OUTDATED
    return Verdict.CURRENT if any(share.node == name for share in job.shares) else Verdict.UNKNOWN


def note(txn: Transaction, name: NodeName, report: wire.JobReport) -> None:
    """Record an unknown launch. No job starts until it was recovered, and its id is not given again."""
    phase = RUNNING if report.phase == "running" else ENDED
    _put(txn, UnknownLaunch(node=name, job_id=JobId(report.job_id), restarts=report.restarts, phase=phase))


def note_past(txn: Transaction, name: NodeName, past: str) -> None:
    """Record the forgotten launches of a Welcome that the state does not know to have ended."""
    for (job_id, restarts), proof in parse_past(past):
        verdict = classify(txn.state, name, job_id=job_id, restarts=restarts, proof=proof)
        if verdict is Verdict.UNKNOWN or (verdict is Verdict.CURRENT and _is_open(txn.state, name, job_id)):
            launch = UnknownLaunch(node=name, job_id=JobId(job_id), restarts=restarts, phase=FORGOTTEN)
            _put(txn, launch)


def drop_unreported(
    txn: Transaction, name: NodeName, reported: set[tuple[int, int]], *, with_past: bool = False
) -> None:
    """Drop the unknown launches of a node that it does not report any more, for example after its disk was lost."""
    recovery = txn.state.recovery
    gone = tuple(
        each
        for each in recovery.launches
        if each.node == name
        and (each.job_id, each.restarts) not in reported
        and (with_past or each.phase != FORGOTTEN)
    )
    if gone:
        txn.put_recovery(recovery.without(gone))


def drain_for(txn: Transaction, name: NodeName, job_id: int, why: str) -> None:
    """Drain a node on which a job runs that the controller can neither follow nor end."""
    node = txn.state.nodes[name]
    if not node.drained:
        reason = f"Job {job_id} runs here, but {why}. Resume the node when it has ended."
        txn.put_node(
            replace(
                node, drained=True, drain_checks=(), reason=reason, reason_at_unix=txn.now, reason_user=""
            )
        )


def has_lost_start(state: State, name: NodeName, starting: list[list[int]]) -> bool:
    """Return whether one of these launches, which the node is about to start, is not known to be there."""
    for job_id, restarts in starting:
        job = state.jobs.get(JobId(job_id))
        if job is None or job.restarts != restarts or not _has_share(job, name):
            return True
    return False


def _is_open(state: State, name: NodeName, job_id: int) -> bool:
    shares = state.jobs[JobId(job_id)].shares
    return any(share.node == name and share.phase != "exited" for share in shares)


def _has_share(job: Job, name: NodeName) -> bool:
    return any(share.node == name for share in job.shares)


def _put(txn: Transaction, launch: UnknownLaunch) -> None:
    recovery = txn.state.recovery
    if launch not in recovery.launches:
        recovery = recovery.with_launch(launch, now=txn.now)
    if launch.job_id >= txn.state.next_job_id:
        recovery = recovery.with_lost_ids(txn.state.next_job_id, launch.job_id)
        txn.raise_job_ids(launch.job_id)
    if recovery is not txn.state.recovery:
        txn.put_recovery(recovery)
