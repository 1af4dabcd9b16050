"""Replace the requests of existing jobs. The store keeps each new request beside the original one."""

from __future__ import annotations

from warpdeck.base.errors import UserError
from warpdeck.model import Job, JobId, Request

from .state import replace
from .transaction import Transaction

MAX_REVISIONS = 2**20
"""Maximum number of request changes for one job."""


class RequestRevisions:
    """Creates changed requests. Jobs that shared the old request also share the new one.

    The request of an array is thus stored only once after a change.
    """

    def __init__(self) -> None:
        self._made: dict[int, tuple[Request, Request, int]] = {}

    def of(self, txn: Transaction, job: Job, request: Request) -> Job:
        """Return the job with `request` in place of its own request.

        Raises UserError if the job's request was changed too often.
        """
        known = self._made.get(id(job.request))
        if known is None or known[1] != request:
            number = job.request_revisions + 1
            if number >= MAX_REVISIONS:
                raise UserError(f"job {job.label()} was already changed {number:,} times", "submit a new job")
            # Submissions have positive numbers, so a negative key is unique.
            key = -(job.id * MAX_REVISIONS + number)
            known = self._made[id(job.request)] = (job.request, request, key)
            txn.add_request(JobId(key), request)
        return replace(
            job, request=known[1], request_key=known[2], request_revisions=job.request_revisions + 1
        )
