"""The part of a gateway that asks slurmrestd for the queue, and decides when squeue is to be run instead."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Sequence

from warpdeck.base.chunking import ROWS_A_TURN
from warpdeck.engines.slurm.cluster.answers import Reading
from warpdeck.engines.slurm.cluster.questions import Question
from warpdeck.engines.slurm.commands import new_mark
from warpdeck.protocol.site_rows import RestRow

from .job_fields import VERSIONS, write_table
from .server import Address, HttpReply, RestLost, check_token, get, read_address

log = logging.getLogger("warpdeck.slurm")

AGAIN_S = 300.0
"""Seconds for which slurmrestd is left out after an answer that cannot be used."""
OK, NOT_FOUND = 200, 404
DENIED = {401, 403, 511}
"""Statuses with which slurmrestd refuses a token."""


class RestSource:
    """The slurmrestd that the setting `rest_url` names; "" for none. `token` is the value of SLURM_JWT."""

    rpcs = 1
    """The requests to slurmctld that one answer causes."""

    def __init__(self, url: str, token: str, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._url = url
        self._token = token
        self._monotonic = monotonic
        self._version = ""
        """The version of data_parser that has answered last."""
        self._problem = ""
        self._again = 0.0
        """Time from which on slurmrestd is asked again."""
        self._address: Address | None = None
        if not url:
            return
        try:
            check_token(token)
            self._address = read_address(url)
        except RestLost as error:
            self._problem = str(error)

    def serves(self, question: Question) -> bool:
        """Return whether slurmrestd is to be asked. It answers for the queue only."""
        return question is Question.QUEUE and self._address is not None and self._monotonic() >= self._again

    async def read(self, question: Question) -> Reading | None:
        """Return a complete answer, or None. Then slurmrestd is left out for a while."""
        assert question is Question.QUEUE and self._address is not None, question
        begun, mark = self._monotonic(), new_mark()
        try:
            version, reply = await self._ask(self._address)
            records = await asyncio.to_thread(write_table, reply.body, version, mark)
        except RestLost as error:
            self._version, self._problem = "", str(error)
            self._again = self._monotonic() + AGAIN_S
            log.info("slurmrestd is left out for %.0f s: %s", AGAIN_S, error)
            return None
        self._version, self._problem = version, ""
        return Reading(begun=begun, took_s=self._monotonic() - begun, mark=mark, pieces=_pieces(records))

    async def _ask(self, address: Address) -> tuple[str, HttpReply]:
        """Return the answer of the newest version that both know. Raises RestLost."""
        for version in (self._version,) if self._version else VERSIONS:
            reply = await get(address, f"/slurm/{version}/jobs/", self._token)
            if reply.status == OK:
                return version, reply
            if reply.status in DENIED:
                raise RestLost("it refuses the token in SLURM_JWT, which may be too old")
            if reply.status != NOT_FOUND:
                raise RestLost(f"it answers with the HTTP status {reply.status}")
        raise RestLost(f"it has no version of data_parser from {VERSIONS[-1]} to {VERSIONS[0]}")

    def row(self) -> RestRow | None:
        """Return a description for users, or None if no server is named."""
        if not self._url:
            return None
        # An address that is refused may contain a password.
        url = self._url if self._address is not None else ""
        return RestRow(url=url, version=self._version, problem=self._problem)


async def _pieces(records: Sequence[str]) -> AsyncGenerator[str, None]:
    for start in range(0, len(records), ROWS_A_TURN):
        yield "".join(records[start : start + ROWS_A_TURN])
