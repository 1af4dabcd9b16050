"""Plays consecutive passes: starts, preemptions, resumptions and ends of jobs happen as in the controller."""

from __future__ import annotations

import msgspec

from warpdeck.model import Allocation, JobId
from warpdeck.policy import PendingJob, Plan, PlannerSettings, PlannerView, Preempt, RunningJob, Start, plan


class PassPlayer:
    """A site with a clock. Jobs use their whole time limit, and preempted jobs use their whole grace time."""

    def __init__(self, view: PlannerView, settings: PlannerSettings, now: float) -> None:
        self.view = view
        self.settings = settings
        self.now = now
        self.origin: dict[JobId, PendingJob] = {job.id: job for job in view.pending}
        self.preemptions: list[tuple[float, Preempt]] = []
        self.limits: dict[JobId, float | None] = {}

    def step(self) -> Plan:
        """Run one pass and execute its plan."""
        made = plan(self.view, self.now, self.settings)
        running = {job.id: job for job in self.view.running}
        waiting = {job.id: job for job in self.view.pending}
        for order in made.preempts:
            assert order.job_id in running, f"{order.job_id} does not run"
            self.preemptions.append((self.now, order))
            waiting[order.for_job_id] = with_claims(waiting[order.for_job_id], order)
            running[order.job_id] = self._preempted(running[order.job_id], order)
        for resumed in made.resumes:
            job = running[resumed.job_id]
            assert job.suspended and job.resumes_to is not None
            running[job.id] = msgspec.structs.replace(
                job, suspended=False, allocation=job.resumes_to, resumes_to=None
            )
        members = {part.id: part for job in waiting.values() for part in (job, *job.components)}
        for start in made.starts:
            waiting.pop(start.job_id, None)
            running[start.job_id] = started_job(members[start.job_id], start, self.now)
        for end in made.ends:
            waiting.pop(end.job_id)
        self._set(running, waiting)
        return made

    def wait(self) -> bool:
        """Advance to the next end of a job; return False if no job ever ends."""
        ends = [
            max(job.ends_by_unix, self.now)
            for job in self.view.running
            if job.ends_by_unix is not None and not job.suspended
        ]
        if not ends:
            return False
        self.now = max(self.now, min(ends)) + 0.5
        running = {job.id: job for job in self.view.running}
        waiting = {job.id: job for job in self.view.pending}
        for job in list(running.values()):
            if job.suspended or job.ends_by_unix is None or job.ends_by_unix > self.now:
                continue
            del running[job.id]
            if job.ending and job.requeue and job.id in self.origin:
                waiting[job.id] = self.origin[job.id]
        self._set(running, waiting)
        return True

    def _preempted(self, job: RunningJob, order: Preempt) -> RunningJob:
        if order.mode != "suspend":
            requeue = order.mode == "requeue"
            return msgspec.structs.replace(
                job, ending=True, requeue=requeue, ends_by_unix=self.now + order.grace_s
            )
        kept = tuple(
            msgspec.structs.replace(
                share,
                cpus=0,
                gpus=share.gpus if order.keeps_gpus else (),
                gpu_uuids=share.gpu_uuids if order.keeps_gpus else (),
            )
            for share in job.allocation.shares
        )
        return msgspec.structs.replace(
            job, suspended=True, resumes_to=job.allocation, allocation=Allocation(shares=kept)
        )

    def _set(self, running: dict[JobId, RunningJob], waiting: dict[JobId, PendingJob]) -> None:
        self.view = msgspec.structs.replace(
            self.view,
            running=tuple(running[number] for number in sorted(running)),
            pending=tuple(waiting[number] for number in sorted(waiting)),
        )


def with_claims(job: PendingJob, order: Preempt) -> PendingJob:
    """Return the job and its components with the resources that preempted jobs clear for them."""
    claims = dict(order.component_claims)
    parts = tuple(
        msgspec.structs.replace(part, preempted_claim=claims.get(part.id, part.preempted_claim))
        for part in job.components
    )
    return msgspec.structs.replace(job, preempted_claim=order.preempted_claim, components=parts)


def started_job(job: PendingJob, start: Start, now: float) -> RunningJob:
    """Return the started job."""
    return RunningJob(
        id=job.id,
        array_job_id=job.array_job_id,
        allocation=start.allocation,
        ends_by_unix=None if start.time_limit_s is None else now + start.time_limit_s,
        user=job.user,
        account=job.account,
        qos=job.qos,
        partition=start.partition,
        start_at_unix=now,
        excludes_users=job.resources.share_with == "user",
    )
