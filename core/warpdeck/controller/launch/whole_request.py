"""Read the large parts of a job's request from the store, for code that needs the whole request."""

from __future__ import annotations

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.model import Job
from warpdeck.notation.request.large_parts import join
from warpdeck.ports.store import Store


async def with_whole_request(job: Job, store: Store) -> Job:
    """Return the job with its script, arguments and environment, which the store may keep apart from it.

    Raises UserError if the store has removed them, and StoreError if it cannot be read.
    """
    key = job.request.parts
    if key is None:
        return job
    content = await store.parts(job.uid, key.sha256)
    if content is None:
        raise UserError(
            f"the script and environment of job {job.label()} are not stored any more",
            "submit the script again",
            code="not_found",
        )
    try:
        return msgspec.structs.replace(job, request=join(job.request, content))
    except msgspec.MsgspecError as error:
        raise UserError(
            f"the script and environment of job {job.label()} cannot be read: {error}",
            "submit the script again",
        ) from error


async def with_stored_parts(job: Job, store: Store) -> Job:
    """Return the job with its whole request, or with the extracts of the parts that are not stored any more."""
    try:
        return await with_whole_request(job, store)
    except UserError:
        return job
