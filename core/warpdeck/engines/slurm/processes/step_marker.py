"""Learns from a running srun which step it has created.

srun tells nobody the number of its step. Its prolog (SLURM_PROLOG) runs on this machine just before the tasks start and
knows it, so we give srun a prolog that writes the number into a pipe, and then runs the prolog of the site, if it has one.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import tempfile
from typing import NamedTuple

_PROLOG = """\
#!/bin/sh
echo "$SLURM_JOB_ID $SLURM_STEP_ID" >{pipe}
{rest}
"""


class StepId(NamedTuple):
    """The number of a step. It is 0.0 if srun has a prolog of its user, who then is the only one to know."""

    job_id: int
    number: int

    @property
    def is_known(self) -> bool:
        return self.job_id > 0

    def __str__(self) -> str:
        return f"{self.job_id}.{self.number}"


UNKNOWN = StepId(0, 0)


class StepMarker:
    """The pipe and the prolog of one srun. `site_prolog` is SrunProlog of slurm.conf."""

    def __init__(self, site_prolog: str) -> None:
        self._folder = tempfile.mkdtemp(prefix="warpdeck-step-")
        pipe, self.prolog = os.path.join(self._folder, "step"), os.path.join(self._folder, "prolog")
        os.mkfifo(pipe, 0o600)
        # It is opened for writing, too, so that reading does not end before srun has written.
        self._pipe = os.open(pipe, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        rest = f'exec {shlex.quote(site_prolog)} "$@"' if site_prolog else ""
        with open(self.prolog, "w", encoding="utf-8") as file:
            file.write(_PROLOG.format(pipe=shlex.quote(pipe), rest=rest))
        os.chmod(self.prolog, 0o700)

    async def written(self) -> None:
        """Return when srun has created its step."""
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        loop.add_reader(self._pipe, ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_reader(self._pipe)

    def step(self) -> StepId | None:
        """Return the step that srun has created, or None if it has created none yet."""
        try:
            words = os.read(self._pipe, 4096).decode(errors="replace").split()
        except BlockingIOError:
            return None
        numbers = [int(word) for word in words[:2] if word.isdecimal()]
        return StepId(*numbers) if len(numbers) == 2 else UNKNOWN

    def close(self) -> None:
        os.close(self._pipe)
        shutil.rmtree(self._folder, ignore_errors=True)
