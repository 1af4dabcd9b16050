"""Submits one job for a shell.

It uses the usual command (slurm/submit/sbatch), with a console that represents the calling shell. The shell gets an
answer only for a job that was submitted. Until then, any problem is left to the client in Python. The mark
SENT is written before the request is sent. After this mark, a missing or inconclusive answer means that the
job may have been submitted, and the client in Python could submit it twice.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from typing import Any

from warpdeck.base.errors import UNCERTAIN, UserError
from warpdeck.base.paths import Paths
from warpdeck.client.blocking_client import SyncClient
from warpdeck.slurm.console.console import Console, ControllerAccess, StandardStreams
from warpdeck.slurm.runtime.commands import run
from warpdeck.slurm.shims.sbatch_script import DONE, ERR, OUT, REFUSED, SENT

from .caller import CallingShell, LeftToClient
from .request_fifos import Slot

Record = Callable[[int, str], None]


class Unanswered(Exception):
    """A request was sent but not answered. The connection must not be used any more."""


class SubmissionProgress:
    """Whether a submission was sent to the controller, and whether its answer has arrived."""

    def __init__(self) -> None:
        self.is_sent = False
        self.is_answered = True
        self.is_uncertain = False

    @property
    def is_open(self) -> bool:
        """Whether the job may have been created, but this is not known yet."""
        return self.is_sent and not self.is_answered


class _SubmittingClient(SyncClient):
    """The connection of one submission.

    It writes the mark SENT before the request, and notes whether an answer has arrived. A lost answer is
    requested again over another connection.
    """

    slot: Slot
    progress: SubmissionProgress
    _kind = ""

    def begin(self, kind: str, **fields: Any) -> int:
        self._kind = kind
        return super().begin(kind, **fields)

    def _send(self, frame: bytes) -> None:
        if self._kind == "submit" and not self.progress.is_sent:
            self.slot.say(f"{SENT}\n")
            self.progress.is_sent = True
        self.progress.is_answered = False
        super()._send(frame)

    def _say(self, line: str) -> None:
        self.slot.say(f"{ERR}{line}\n")

    def _deliver(self, event: tuple[int, str, Any]) -> tuple[int, str, Any]:
        self.progress.is_answered = True
        try:
            return super()._deliver(event)
        except UserError as error:
            self.progress.is_uncertain = self._kind == "submit" and error.code == UNCERTAIN
            raise


class _PrefixedLines(io.StringIO):
    """Output stream that collects lines, each with a prefix for its destination."""

    def __init__(self, lines: list[str], sign: str) -> None:
        super().__init__()
        self._lines = lines
        self._sign = sign
        self._open = ""

    def write(self, text: str) -> int:
        *whole, self._open = (self._open + text).split("\n")
        self._lines += [f"{self._sign}{line}" for line in whole]
        return len(text)


def submit(
    caller: CallingShell,
    slot: Slot,
    link: SyncClient,
    *,
    paths: Paths,
    record: Record,
    progress: SubmissionProgress,
) -> None:
    """Run sbatch and write the answer for the shell. Raises LeftToClient and Unanswered.

    After an exception the caller only has to close the slot.
    """

    def connect() -> SyncClient:
        asking = _SubmittingClient.greeted(link.duplicate(), link.welcome, paths)
        asking.slot, asking.progress = slot, progress
        return asking

    lines: list[str] = []
    console = Console(
        streams=StandardStreams(io.StringIO(), _PrefixedLines(lines, OUT), _PrefixedLines(lines, ERR)),
        controller=ControllerAccess(connect, mark_idle=_leave_to_client),
        env=caller.env,
        folder=caller.folder,
        user=link.welcome["user"],
        host=os.uname().nodename,
        read_file=_reader(caller),
        record=record,
    )
    code = run("sbatch", caller.words, console)
    if not progress.is_answered:
        raise Unanswered
    if progress.is_sent and code == 0:
        slot.say("".join(f"{line}\n" for line in [*lines, DONE]))
    elif progress.is_uncertain:
        slot.say("".join(f"{line}\n" for line in lines))
    elif progress.is_sent:
        slot.say(f"{REFUSED}\n")


def _reader(caller: CallingShell) -> Callable[[str, int], bytes]:
    def read(path: str, size: int) -> bytes:
        if path == "-":
            raise LeftToClient("its script is read from standard input")
        return caller.read(path, size)

    return read


def _leave_to_client() -> None:
    raise LeftToClient("it waits for the end of its job")
