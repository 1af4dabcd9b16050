"""Comments and derived exit codes for records of jobs of any age. Either all named jobs are changed or none.

The caller needs the right to change each of them.
"""

from __future__ import annotations

from typing import Any

from warpdeck.base.errors import UserError
from warpdeck.controller.events.events import CommentUpdated
from warpdeck.controller.reducers.comment_update import check_rights
from warpdeck.model import JobId
from warpdeck.protocol.job_requests import JobAnnotate
from warpdeck.server.connection import Connection


async def answer(connection: Connection, message: JobAnnotate) -> dict[str, Any]:
    """Change the records, or only check the caller's rights if `only_asks` is set. Raises UserError."""
    controller, who = connection.server.controller, connection.who
    ids = tuple(JobId(number) for number in message.ids)
    wanted = message.annotating.changed_fields()
    if not wanted:
        raise UserError("nothing to change", "give a comment or a derived exit code")
    ended = await controller.store.jobs([number for number in ids if number not in controller.state.jobs])
    if message.only_asks:
        here = (controller.state.jobs[number] for number in ids if number in controller.state.jobs)
        for job in (*ended, *here):
            check_rights(who, job, wanted)
    else:
        await controller.apply(
            CommentUpdated(principal=who, ids=ids, ended=tuple(ended), changes=message.annotating)
        )
    return {}
