"""The part of a user's gateway that asks the site gateway, and decides when Slurm itself is to be asked instead.

The site gateway is left out for a while if it does not answer, answers slowly, does not belong to a trusted account, serves
another cluster, or has reported the same problem for too long. The gateway then reads Slurm with its usual limits.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import time
import zlib
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.engines.slurm.cluster.answers import AnswerLost, Reading
from warpdeck.engines.slurm.cluster.questions import Question, form_of
from warpdeck.engines.slurm.commands import MAX_OUTPUT_BYTES, UNREACHABLE
from warpdeck.protocol.site_rows import SiteGatewayRow

from .trust import name_of, peer_uid, trusted_uids
from .wire import MAX_REPLY_BYTES, Asked, Outcome, Reply, cluster_of

SOCKET = "answers.sock"
REPLY_S = 15.0
"""Maximum seconds until the first line of a reply. The site gateway waits for Slurm for half of this time."""
BODY_S = 60.0
"""Maximum seconds for the rest of a reply."""
AGAIN_S, MAX_AGAIN_S = 30.0, 300.0
"""Seconds for which a site gateway that does not answer is left out. They double each time."""
WITHHELD_AGAIN_S = 300.0
"""Seconds after which a question that the site gateway refuses is asked again."""
PROBLEM_S = 120.0
"""Seconds after which Slurm is asked in spite of a problem of the site gateway. The problem may be its own."""
CHUNK_BYTES = 256 * 1024


class SiteGatewayLost(Exception):
    """The site gateway does not answer as it should. The text says why."""


@dataclass(kw_only=True)
class SiteGateway:
    """The site gateway of this machine, if there is one. `monotonic` returns seconds of a clock that never jumps."""

    folder: str
    owner: str
    """The account that the settings name, or ""."""
    config: Callable[[], Mapping[str, str]]
    """The configuration of this user's slurmctld; {} until it is known."""
    monotonic: Callable[[], float] = time.monotonic
    _server: str = field(default="", init=False)
    """The name of the account that answered last."""
    _rate: float = field(default=0.0, init=False)
    _problem: str = field(default="", init=False)
    """The reason why the site gateway is left out, or ""."""
    _losses: int = field(default=0, init=False)
    _again: float = field(default=0.0, init=False)
    """Time from which on the site gateway is asked again."""
    _refused: dict[Question, tuple[str, float]] = field(default_factory=dict, init=False)
    """Questions that the site gateway does not answer: the reason, and the time until which they are not asked."""

    def serves(self, question: Question) -> bool:
        """Return whether the site gateway is to be asked."""
        now = self.monotonic()
        if not self.folder or not self.config() or now < self._again:
            return False
        _, until = self._refused.get(question, ("", 0.0))
        if now < until:
            return False
        if os.path.exists(self._path):
            return True
        self._problem = "it does not run" if self._server else ""
        self._again = now + AGAIN_S
        return False

    async def ask(
        self, question: Question, *, newer_than: float | None, looking: bool, is_urgent: bool
    ) -> Reading | None:
        """Return a newer answer, or None. Raises UserError if Slurm does not answer the site gateway."""
        asked = Asked(
            question=question,
            form=form_of(question),
            newer_than_s=None if newer_than is None else max(0.0, self.monotonic() - newer_than),
            looking=looking,
            urgent=is_urgent,
        )
        try:
            reader, writer, reply = await self._exchange(asked)
        except SiteGatewayLost as error:
            self._lose(str(error))
            return None
        if reply.outcome is Outcome.ANSWER:
            self._refused.pop(question, None)
            begun = self.monotonic() - reply.age_s
            pieces = self._body(reader, writer, reply.size_bytes)
            return Reading(begun=begun, took_s=reply.took_s, mark=reply.mark, pieces=pieces)
        writer.transport.abort()
        self._note_refusal(question, reply)
        return None

    def row(self) -> SiteGatewayRow | None:
        """Return a description for users, or None if this machine has no site gateway."""
        if not self._server and not self._problem:
            return None
        now = self.monotonic()
        own = {question: reason for question, (reason, until) in self._refused.items() if now < until}
        return SiteGatewayRow(
            owner=self._server,
            requests_a_minute=self._rate,
            problem=self._problem,
            own={str(question): reason for question, reason in own.items()},
        )

    @property
    def _path(self) -> str:
        return os.path.join(self.folder, SOCKET)

    def _lose(self, why: str) -> None:
        """Leave the site gateway out for a while."""
        pause_s = min(MAX_AGAIN_S, AGAIN_S * 2**self._losses)
        self._losses = min(self._losses + 1, 10)
        self._problem, self._again = why, self.monotonic() + pause_s

    def _note_refusal(self, question: Question, reply: Reply) -> None:
        """Handle a reply without an answer. Raises UserError for a problem of Slurm."""
        now = self.monotonic()
        match reply.outcome:
            case Outcome.WITHHELD | Outcome.OTHER_VERSION:
                self._refused[question] = (reply.reason, now + WITHHELD_AGAIN_S)
            case Outcome.BUSY:
                self._refused[question] = ("this user asks too often", now + AGAIN_S)
            case Outcome.PROBLEM if reply.age_s >= PROBLEM_S:
                self._refused[question] = (reply.reason, now + AGAIN_S)
            case Outcome.PROBLEM:
                raise UserError(reply.reason, reply.hint, code=UNREACHABLE)
            case _:
                pass

    async def _exchange(self, asked: Asked) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, Reply]:
        """Send a question, and return the first line of the reply. Raises SiteGatewayLost."""
        writer = None
        try:
            async with asyncio.timeout(REPLY_S):
                reader, writer = await asyncio.open_unix_connection(self._path, limit=MAX_REPLY_BYTES)
                self._check_server(peer_uid(writer))
                writer.write(msgspec.json.encode(asked) + b"\n")
                line = await reader.readline()
            reply = msgspec.json.decode(line, type=Reply)
            self._check_cluster(reply)
        except TimeoutError as error:
            _abort(writer)
            raise SiteGatewayLost(f"it did not answer within {REPLY_S:.0f} s") from error
        except ValueError as error:  # also the errors of msgspec
            _abort(writer)
            raise SiteGatewayLost("its reply is cut off or unreadable") from error
        except OSError as error:
            _abort(writer)
            raise SiteGatewayLost(f"it does not answer: {error.strerror or error}") from error
        except BaseException:
            _abort(writer)
            raise
        self._problem, self._rate, self._losses = "", reply.requests_a_minute, 0
        return reader, writer, reply

    def _check_server(self, uid: int) -> None:
        """Raise SiteGatewayLost unless the server belongs to a trusted account."""
        if uid not in trusted_uids(self.folder, owner=self.owner, uid=os.geteuid()):
            raise SiteGatewayLost(f"it is ignored, because it belongs to {name_of(uid)}")
        self._server = name_of(uid)

    def _check_cluster(self, reply: Reply) -> None:
        own = cluster_of(self.config())
        if reply.cluster and reply.cluster != own:
            raise SiteGatewayLost(f"it serves another cluster: {reply.cluster[:200]}")

    async def _body(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, left: int
    ) -> AsyncGenerator[str, None]:
        """Yield the output of the command. Raises AnswerLost if it is cut off."""
        unpacker, decoder = zlib.decompressobj(), codecs.getincrementaldecoder("utf-8")(errors="replace")
        printed, deadline = 0, asyncio.get_running_loop().time() + BODY_S
        try:
            while left > 0:
                async with asyncio.timeout_at(deadline):
                    data = await reader.read(min(CHUNK_BYTES, left))
                if not data:
                    raise zlib.error("it ended")
                left -= len(data)
                while data:
                    text = unpacker.decompress(data, CHUNK_BYTES)
                    data = unpacker.unconsumed_tail
                    printed += len(text)
                    if printed > MAX_OUTPUT_BYTES:
                        raise zlib.error("it is too long")
                    yield decoder.decode(text)
            if not unpacker.eof:
                raise zlib.error("it ended")
        except (OSError, TimeoutError, zlib.error) as error:
            self._lose(f"its answer was cut off: {error}")
            raise AnswerLost from error
        finally:
            _abort(writer)


def _abort(writer: asyncio.StreamWriter | None) -> None:
    if writer is not None:
        with suppress(OSError):
            writer.transport.abort()
