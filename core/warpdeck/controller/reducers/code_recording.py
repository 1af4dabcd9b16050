"""The record of a job's code comes after its submission (sbatch answers first): until then the job waits, so that the record is of
the code as it was submitted, and nothing that the job writes is in it. Handler of the reducer.
"""

from __future__ import annotations

from warpdeck.base.errors import UserError
from warpdeck.controller.events.events import CodeRecorded, Effect, Outcome
from warpdeck.controller.state.deadlines import rests
from warpdeck.controller.state.state import amend
from warpdeck.controller.state.transaction import Transaction
from warpdeck.model import Job, JobId, Request

from .job_commands import on_each


def record(txn: Transaction, event: CodeRecorded) -> Outcome:
    """The jobs have their snapshot, or wait no longer for one. A job that could not wait so long has it from here on."""
    made: dict[int, tuple[Request, Request]] = {}
    """By the identity of the request that jobs of one array share, so that they still do."""
    freed: list[JobId] = []

    def take(job: Job) -> list[Effect]:
        before = job.request
        if before.code_due_unix is None:
            raise UserError(f"job {job.label()} waits for no record of its code", code="not_recording")
        if id(before) not in made:
            request = amend(before, snapshot=event.snapshot, code_due_unix=None)
            made[id(before)] = before, request
            # In place of what was submitted: it is what was to be submitted.
            txn.add_request(JobId(job.request_key or job.array_job_id), request)
        txn.put_job(amend(job, request=made[id(before)][1]))
        found = event.snapshot
        said = f"its code is recorded as tree {found.tree[:12]}" if found else ""
        txn.log(job.id, "; ".join(filter(None, (said, event.note))) or "there is no code to record")
        if not rests(job):
            freed.append(job.id)
        return []

    return amend(on_each(txn, event, take), replan=bool(freed))
