"""Records of jobs of any age are annotated, as whoever asks may: all of those that are named, or none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from warpdeck.controller.annotating import check_rights
from warpdeck.controller.events import Annotated
from warpdeck.errors import UserError
from warpdeck.model import JobId

from .joborders import JobAnnotate

if TYPE_CHECKING:
    from .connection import Connection


async def answer(connection: Connection, message: JobAnnotate) -> dict[str, Any]:
    """Raises UserError."""
    controller, who = connection.server.controller, connection.who
    ids = tuple(JobId(number) for number in message.ids)
    wanted = message.annotating.asked()
    if not wanted:
        raise UserError("nothing is to be written", "name a comment, or a derived exit code")
    ended = await controller.store.jobs([number for number in ids if number not in controller.state.jobs])
    if message.only_asks:
        here = (controller.state.jobs[number] for number in ids if number in controller.state.jobs)
        for job in (*ended, *here):
            check_rights(who, job, wanted)
    else:
        await controller.apply(Annotated(who=who, ids=ids, ended=tuple(ended), annotating=message.annotating))
    return {}
