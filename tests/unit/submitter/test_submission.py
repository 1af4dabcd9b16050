"""The result that a shell gets if the answer arrives after its submission has exited."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path
from typing import Any, cast

import pytest

from warpdeck.base.errors import UNCERTAIN
from warpdeck.base.paths import Paths
from warpdeck.client.blocking_client import SyncClient
from warpdeck.slurm.shims.sbatch_script import DONE, REFUSED, SENT
from warpdeck.submitter.caller import CallingShell
from warpdeck.submitter.request_fifos import Slot
from warpdeck.submitter.submission import SubmissionProgress, submit
from warpdeck_agent.wire.frames import FrameDecoder, json_frame, parse_json

SCRIPT = b"#!/bin/sh\ntrue\n"


class Shell:
    """The facts about a shell that submits a script, as CallingShell collects them."""

    def __init__(self, folder: str) -> None:
        self.words = ["job.sh"]
        self.env: dict[str, str] = {}
        self.folder = folder

    def read(self, path: str, size: int) -> bytes:
        return SCRIPT[:size]


def answers(link: socket.socket, answer: dict[str, Any]) -> None:
    """Answer the first request with this message."""
    reader = FrameDecoder()
    while not (frames := list(reader.feed(link.recv(1 << 16)))):
        pass
    request = parse_json(frames[0][1])
    link.sendall(json_frame({**answer, "id": request["id"]}))


@pytest.mark.parametrize(
    ("answer", "last"),
    [
        ({"t": "ok", "result": {"job_id": 7, "label": "7", "tasks": 1, "notes": []}}, DONE),
        ({"t": "error", "message": "there is no partition x", "code": "PartitionConfig"}, REFUSED),
        ({"t": "error", "message": "a bug", "code": UNCERTAIN}, "2sbatch: error: Batch job submission failed: a bug"),
    ],
    ids=["taken", "refused by a rule", "failed after it may have been taken"],
)  # fmt: skip
def test_a_late_answer_makes_the_shell_retry_only_after_a_refusal(
    short_tmp: Path, answer: dict[str, Any], last: str
) -> None:
    ours, theirs = socket.socketpair()
    slot = Slot(str(short_tmp / "a.slot"))
    reading = os.open(short_tmp / "a.slot", os.O_RDONLY | os.O_NONBLOCK)
    controller = threading.Thread(target=answers, args=(theirs, answer))
    controller.start()
    with theirs, SyncClient.greeted(ours, {"user": "me"}) as link:
        submit(
            cast(CallingShell, Shell(str(short_tmp))),
            slot,
            link,
            paths=Paths(str(short_tmp)),
            record=lambda job, folder: None,
            progress=SubmissionProgress(),
        )
        controller.join()
    received = os.read(reading, 1 << 16).decode().splitlines()
    os.close(reading)
    slot.close()
    assert (received[0], received[-1]) == (SENT, last)
