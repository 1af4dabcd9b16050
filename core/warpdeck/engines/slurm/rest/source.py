"""The part of a gateway that asks slurmrestd for the queue, the nodes and the partitions.

It decides when Slurm's commands are to be run instead, for each of these questions on its own.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import NamedTuple

from warpdeck.base.chunking import ROWS_A_TURN
from warpdeck.engines.slurm.cluster.answers import Reading
from warpdeck.engines.slurm.cluster.questions import Question
from warpdeck.engines.slurm.commands import new_mark
from warpdeck.protocol.site_rows import RestRow

from .job_fields import VERSIONS
from .node_fields import PARTITION_VERSIONS
from .server import Address, HttpReply, RestLost, check_token, get, read_address
from .tables import write_table

log = logging.getLogger("warpdeck.slurm")

AGAIN_S = 300.0
"""Seconds for which slurmrestd is left out after an answer that cannot be used."""
OK, NOT_FOUND = 200, 404
DENIED = {401, 403, 511}
"""Statuses with which slurmrestd refuses a token."""


class Resource(NamedTuple):
    """The path of an answer, the requests to slurmctld that it causes, and the versions of data_parser that are complete."""

    path: str
    rpcs: int
    versions: Sequence[str]


RESOURCES = {
    Question.QUEUE: Resource("jobs/", 1, VERSIONS),
    Question.NODES: Resource("nodes/", 2, VERSIONS),
    Question.PARTITIONS: Resource("partitions/", 1, PARTITION_VERSIONS),
}
"""slurmrestd asks slurmctld for the partitions, too, when it is asked for the nodes."""


class RestSource:
    """The slurmrestd that the setting `rest_url` names; "" for none. `token` is the value of SLURM_JWT.

    `preempts` returns the cluster's mode of preemption, which slurmrestd does not tell.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        preempts: Callable[[], str] = lambda: "",
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url = url
        self._token = token
        self._preempts = preempts
        self._monotonic = monotonic
        self._version = ""
        """The version of data_parser that has answered last."""
        self._problem = ""
        """The reason why there is no token or no address."""
        self._lost: dict[Question, tuple[float, str]] = {}
        """Questions that are not asked until that time, and why."""
        self._address: Address | None = None
        if not url:
            return
        try:
            check_token(token)
            self._address = read_address(url)
        except RestLost as error:
            self._problem = str(error)

    def serves(self, question: Question) -> bool:
        """Return whether slurmrestd is to be asked."""
        if self._address is None or question not in RESOURCES:
            return False
        again, _ = self._lost.get(question, (0.0, ""))
        is_told = not self._version or self._version in RESOURCES[question].versions
        return is_told and self._monotonic() >= again

    def rpcs(self, question: Question) -> int:
        """Return the number of requests to slurmctld that an answer causes."""
        return RESOURCES[question].rpcs

    async def read(self, question: Question) -> Reading | None:
        """Return a complete answer, or None. Then slurmrestd is left out for a while."""
        assert self._address is not None, question
        begun, mark = self._monotonic(), new_mark()
        try:
            version, reply = await self._ask(self._address, RESOURCES[question])
            records = await asyncio.to_thread(
                write_table, question, reply.body, version=version, mark=mark, preempts=self._preempts()
            )
        except RestLost as error:
            self._version = "" if question is Question.QUEUE else self._version
            self._lost[question] = self._monotonic() + AGAIN_S, str(error)
            log.info("slurmrestd is left out for the %s for %.0f s: %s", question, AGAIN_S, error)
            return None
        self._version = version
        self._lost.pop(question, None)
        return Reading(begun=begun, took_s=self._monotonic() - begun, mark=mark, pieces=_pieces(records))

    async def _ask(self, address: Address, resource: Resource) -> tuple[str, HttpReply]:
        """Return the answer of the newest version that both know. Raises RestLost."""
        for version in (self._version,) if self._version else resource.versions:
            reply = await get(address, f"/slurm/{version}/{resource.path}", self._token)
            if reply.status == OK:
                return version, reply
            if reply.status in DENIED:
                raise RestLost("it refuses the token in SLURM_JWT, which may be too old")
            if reply.status != NOT_FOUND:
                raise RestLost(f"it answers with the HTTP status {reply.status}")
        oldest, newest = resource.versions[-1], resource.versions[0]
        raise RestLost(f"it has no version of data_parser from {oldest} to {newest}")

    def row(self) -> RestRow | None:
        """Return a description for users, or None if no server is named."""
        if not self._url:
            return None
        # An address that is refused may contain a password.
        url = self._url if self._address is not None else ""
        problem = self._problem or next((why for _, why in self._lost.values()), "")
        return RestRow(
            url=url,
            version=self._version,
            problem=problem,
            answers=[each.value for each in RESOURCES if self._version and self.serves(each)],
        )


async def _pieces(records: Sequence[str]) -> AsyncGenerator[str, None]:
    for start in range(0, len(records), ROWS_A_TURN):
        yield "".join(records[start : start + ROWS_A_TURN])
