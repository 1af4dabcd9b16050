"""The unfinished jobs of each user, and the size of their requests.

`check_quota` is the one decision: it refuses a submission that would exceed the site's [quotas]. As in Slurm, the
waiting tasks of an array count as one job. A request that several jobs share counts once.
"""

from __future__ import annotations

from warpdeck.base.errors import UserError
from warpdeck.config.tables import Quotas
from warpdeck.model import Job
from warpdeck.notation.request.large_parts import size_of

MIB = 2**20


class UserUse:
    """The unfinished jobs and the bytes of their requests, by uid."""

    def __init__(self) -> None:
        self.jobs: dict[int, int] = {}
        self.request_bytes: dict[int, int] = {}
        self._requests: dict[int, tuple[int, int]] = {}
        """Key of a request in the store -> the number of its unfinished jobs, and its size."""

    def add(self, job: Job) -> None:
        """Count a job. A finished job does not count."""
        if job.is_finished:
            return
        key = job.request_key or job.array_job_id
        count, size = self._requests.get(key, (0, 0))
        if not count:
            size = size_of(job.request)
            self.request_bytes[job.uid] = self.request_bytes.get(job.uid, 0) + size
        self._requests[key] = count + 1, size
        self.jobs[job.uid] = self.jobs.get(job.uid, 0) + 1

    def remove(self, job: Job) -> None:
        """Stop counting a job that was counted with `add`."""
        if job.is_finished:
            return
        key = job.request_key or job.array_job_id
        count, size = self._requests.pop(key)
        if count > 1:
            self._requests[key] = count - 1, size
        else:
            _subtract(self.request_bytes, job.uid, size)
        _subtract(self.jobs, job.uid, 1)


def _subtract(counts: dict[int, int], uid: int, number: int) -> None:
    """Subtract from a user's count, and forget a count of 0. A request may have the size 0."""
    left = counts.pop(uid, 0) - number
    if left:
        counts[uid] = left


def check_quota(use: UserUse, quotas: Quotas, uid: int, *, jobs: int, request_bytes: int) -> None:
    """Raise UserError if the user may not submit this many jobs with requests of this size. A quota of 0 is no limit."""
    known = use.jobs.get(uid, 0)
    if quotas.max_jobs and known + jobs > quotas.max_jobs:
        raise UserError(
            f"you have {known:,} unfinished jobs; the limit is {quotas.max_jobs:,}",
            "wait until some have ended, cancel some, or submit an array, which counts as one job until its tasks start",
            code="QuotaMaxJobs",
        )
    known_bytes = use.request_bytes.get(uid, 0)
    if quotas.max_request_size and known_bytes + request_bytes > quotas.max_request_size:
        raise UserError(
            f"the scripts, arguments and environments of your unfinished jobs take {known_bytes / MIB:,.1f} MiB, and "
            f"this job's {request_bytes / MIB:,.1f} MiB; the limit is {quotas.max_request_size / MIB:,.0f} MiB",
            "submit with a smaller environment (--export), or cancel some jobs",
            code="QuotaRequestSize",
        )
