"""The records of jobs that were submitted a moment ago."""

from __future__ import annotations

import msgspec

from warpdeck.engines.slurm.cluster.cluster import Cluster
from warpdeck.engines.slurm.cluster.job_changes import JobChanges
from warpdeck.engines.slurm.reading.job_table import known_request
from warpdeck.engines.slurm.reading.reasons import sentence
from warpdeck.model import Component, Job, JobId, PendingReason, Request, count_tasks
from warpdeck.model.created_by_nonce import CreatedObject, RequestId

from .job_folder import Intent

NO_REQUEST_ID = RequestId("", "")


def created_object(intent: Intent, job_id: JobId, *, now: float) -> CreatedObject:
    """Return the answer to a request that has become this job."""
    first = new_jobs(intent, job_id, now=now)[0]
    array = first.request.array
    return CreatedObject(
        uid=intent.uid,
        request_id=intent.request_id or NO_REQUEST_ID,
        at_unix=now,
        job_id=job_id,
        label=first.label(),
        tasks=count_tasks(array.ranges) if array else 1,
    )


def new_jobs(intent: Intent, job_id: JobId, *, now: float) -> list[Job]:
    """Return the waiting jobs of a submission. The components of a heterogeneous job have consecutive ids."""
    size = len(intent.requests)
    return [
        _new_job(
            intent,
            request,
            JobId(job_id + offset),
            component=Component(leader=job_id, offset=offset, size=size) if size > 1 else None,
            now=now,
        )
        for offset, request in enumerate(intent.requests)
    ]


async def record(cluster: Cluster, intent: Intent, made: CreatedObject) -> None:
    """Put the jobs of a submission into the record, with the answer to its request. Raises StoreError.

    The queue may have shown them before. Then they keep their state, and get the request.
    """
    default = next((row.name for row in cluster.partitions if row.default), "")
    first, *others = (
        job if job.request.partition else msgspec.structs.replace(job, partition=default)
        for job in new_jobs(intent, JobId(made.job_id), now=made.at_unix)
    )
    created = made if intent.request_id is not None else None
    text = f"submitted by {intent.user}" + (", held" if first.request.hold else "")
    await cluster.add(_seen(cluster, first), journal=text, created=created)
    tasks = [
        job
        for job in cluster.state.array_members(first.id)
        if job.id != first.id and job.component is None and job.uid == intent.uid
    ]
    known = [_with_request(job, first.request) for job in tasks]
    rest = [*(_seen(cluster, job) for job in others), *known]
    reasons = {
        job.id: reason
        for job in (first, *others)
        if job.id not in cluster.state.planned.pending_reasons and (reason := _reason(job)) is not None
    }
    if rest or reasons:
        await cluster.change(JobChanges(jobs=rest, reasons=reasons))
        cluster.touch([first.id])


def _reason(job: Job) -> PendingReason | None:
    """Return the reason why a new job does not start at once, as far as its request tells it before Slurm does."""
    request = job.request
    code = "JobHeldUser" if request.hold else "Dependency" if request.dependencies else ""
    if not code and max(request.begin_at_unix or 0.0, request.code_due_unix or 0.0) > job.submit_at_unix:
        code = "BeginTime"
    return PendingReason(code=code, sentence=sentence(code)[1]) if code else None


def _seen(cluster: Cluster, job: Job) -> Job:
    """Return a new job in the state that the queue has shown already, if any."""
    known = cluster.state.jobs.get(job.id)
    if known is None or known.uid != job.uid:
        return job
    return msgspec.structs.replace(_with_request(known, job.request), component=job.component)


def _with_request(known: Job, request: Request) -> Job:
    return msgspec.structs.replace(known, request=known_request(request, known.request))


def _new_job(
    intent: Intent, request: Request, job_id: JobId, *, component: Component | None, now: float
) -> Job:
    ranges = request.array.ranges if request.array else ()
    is_one_task = count_tasks(ranges) == 1
    has_leader = component is not None and component.offset > 0
    return Job(
        id=job_id,
        array_job_id=component.leader if component is not None else job_id,
        component=component,
        request=request,
        request_key=job_id if has_leader else 0,
        user=intent.user,
        uid=intent.uid,
        array_task_id=ranges[0][0] if is_one_task else None,
        pending_tasks=() if is_one_task else ranges,
        submit_at_unix=now,
        eligible_at_unix=max(now, request.begin_at_unix or 0.0),
        held=request.hold,
    )
