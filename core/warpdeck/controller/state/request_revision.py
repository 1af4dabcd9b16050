"""Other requests for jobs that are there already: each is kept beside the one it was made from."""

from __future__ import annotations

from warpdeck.base.errors import UserError
from warpdeck.model import Job, JobId, Request

from .state import amend
from .transaction import Transaction

MAX_AMENDMENTS = 2**20
"""Of one job."""


class RequestRevisions:
    """Jobs that had one request have one again afterwards, so that an array's stays one in the store."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[Request, Request, int]] = {}

    def of(self, txn: Transaction, job: Job, request: Request) -> Job:
        """The job with this request in place of its own."""
        known = self._made.get(id(job.request))
        if known is None or known[1] != request:
            number = job.amendments + 1
            if number >= MAX_AMENDMENTS:
                raise UserError(f"job {job.label()} was changed {number:,} times", "submit a new one")
            # Below zero no submission has its number.
            key = -(job.id * MAX_AMENDMENTS + number)
            known = self._made[id(job.request)] = (job.request, request, key)
            txn.add_request(JobId(key), request)
        return amend(job, request=known[1], request_key=known[2], amendments=job.amendments + 1)
