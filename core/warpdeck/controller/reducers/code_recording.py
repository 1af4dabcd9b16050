"""Handler for recorded code.

The code of a job is recorded after its submission, so that sbatch returns at once. The job waits until its
code is recorded. The snapshot therefore contains the code as it was submitted, and no file that the job
writes.
"""

from __future__ import annotations

from warpdeck.base.errors import UserError
from warpdeck.controller.events.effects import Effect, Outcome
from warpdeck.controller.events.events import CodeRecorded
from warpdeck.controller.state.deadlines import is_held
from warpdeck.controller.state.state import replace
from warpdeck.controller.state.transaction import Transaction
from warpdeck.model import Job, JobId, Request
from warpdeck.ports.caller import may_access

from .job_commands import on_each


def record(txn: Transaction, event: CodeRecorded) -> Outcome:
    """Store the code snapshot in the jobs, or end their wait without one.

    Raises UserError for a job that does not wait for a snapshot.
    """
    made: dict[int, tuple[Request, Request]] = {}
    """Old and new requests by the identity of the old request.

    The jobs of an array thus still share one request.
    """
    released: list[JobId] = []

    def take(job: Job) -> list[Effect]:
        before = job.request
        if before.code_due_unix is None:
            raise UserError(f"job {job.label()} does not wait for a code snapshot", code="not_recording")
        if id(before) not in made:
            request = replace(before, snapshot=event.snapshot, code_due_unix=None)
            made[id(before)] = before, request
            # It replaces the submitted request, because the snapshot belongs to the submission.
            txn.add_request(JobId(job.request_key or job.array_job_id), request)
        txn.put_job(replace(job, request=made[id(before)][1]))
        found = event.snapshot
        message = f"code snapshot saved as tree {found.tree[:12]}" if found else ""
        txn.log(job.id, "; ".join(filter(None, (message, event.note))) or "no code to save")
        if not is_held(job):
            released.append(job.id)
        return []

    return replace(on_each(txn, event, take, may=may_access), replan=bool(released))
