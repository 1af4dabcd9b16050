"""Gateways in processes of their own that are killed with SIGKILL while they submit a job.

The program reads orders as lines of JSON: [number of the line of code at which it kills itself, name of the job, nonce,
whether the job is held]. For each order it forks a process with a gateway, and prints how that process ended: the number
of lines that it counted, or -9. Lines are counted in the code that submits, from the request on. The modules are imported
once.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from warpdeck.base.paths import Paths
from warpdeck.engines.slurm import submitting
from warpdeck.engines.slurm.cluster import cluster
from warpdeck.engines.slurm.commands import SlurmCommands
from warpdeck.engines.slurm.engine import gateway
from warpdeck.engines.slurm.programs import Programs
from warpdeck.engines.slurm.settings import SlurmSettings
from warpdeck.engines.slurm.submitting.opening import open_submissions, shared_folder
from warpdeck.model import Request
from warpdeck.ports.caller import Caller, Principal
from warpdeck.protocol import requests as ask

CODE = os.path.dirname(submitting.__file__)
OFTEN = 6000.0


class LineCounter:
    """Counts lines, and kills this process at one of them."""

    def __init__(self, last: int) -> None:
        self._last = last
        self.count = 0

    def start(self) -> None:
        threading.settrace(self._enter)
        sys.settrace(self._enter)

    def _enter(self, frame: FrameType, event: str, arg: Any) -> Callable[..., Any] | None:
        code = frame.f_code
        is_ours = code.co_filename.startswith(CODE)
        return (
            self._line if is_ours or (code.co_filename, code.co_name) == (cluster.__file__, "add") else None
        )

    def _line(self, frame: FrameType, event: str, arg: Any) -> Callable[..., Any]:
        if event == "line":
            self.count += 1
            if self.count == self._last:
                os.kill(os.getpid(), signal.SIGKILL)
        return self._line


def submission(folder: Path, name: str, nonce: str, *, hold: bool = True) -> ask.Submit:
    """Return the request for a job that stays in the queue, at least while it is held."""
    request = Request(
        name=name,
        script="#!/bin/sh\ntrue\n",
        hold=hold,
        submit_dir=str(folder),
        env={"PATH": "/usr/bin:/bin"},
    )
    return ask.Submit(request=request, nonce=nonce)


async def _submit(home: Path, last: int, message: ask.Submit) -> int:
    settings = SlurmSettings(
        requests_per_minute=OFTEN, idle_requests_per_minute=OFTEN, folder=str(home.parent / "shared")
    )
    counter = LineCounter(last)
    async with gateway(Paths(str(home)), settings, clock=time.time, commands=SlurmCommands()) as made:
        submissions = open_submissions(
            made.cluster,
            made.poller,
            made.commands,
            made.allowance,
            made.settings,
            made.lookup,
            made.site.version,
            Programs(shared_folder(made.settings)),
        )
        counter.start()
        await submissions.submit(Caller(Principal(user="root", uid=os.geteuid())), message)
        sys.settrace(None)
    return counter.count


def main() -> None:
    home = Path(sys.argv[1])
    for line in sys.stdin:
        last, name, nonce, hold = json.loads(line)
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            count = asyncio.run(_submit(home, last, submission(home.parent, name, nonce, hold=hold)))
            os.write(write, str(count).encode())
            os._exit(0)
        os.close(write)
        _, status = os.waitpid(pid, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        with open(read, "rb", closefd=True) as result:
            # The pipe of a killed process may stay open in its sbatch, so only a process that ended itself is read.
            print(-9 if killed else result.read().decode() or "failed", flush=True)


if __name__ == "__main__":
    main()
