"""srun and salloc over Slurm, for `warpdeck run`, the app and the library.

Slurm's own commands run as children of the gateway, in the environment and the folder of the client. Users who type srun or
salloc in a shell get Slurm's own. A step or an allocation ends when its client leaves. Unlike a session, it does not
survive the gateway, because srun and salloc themselves hold it.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from warpdeck.base.background_task import cancel
from warpdeck.base.errors import VERBATIM, UserError
from warpdeck.engines.slurm.cluster.cluster import Cluster
from warpdeck.engines.slurm.cluster.polling import Allowance
from warpdeck.engines.slurm.cluster.quick_looks import SlurmWaits
from warpdeck.engines.slurm.commands import SlurmCommands
from warpdeck.engines.slurm.own_user import require_own_user
from warpdeck.model import JobId
from warpdeck.notation.options.getopt import given_words
from warpdeck.notation.options.option_table import SRUN
from warpdeck.notation.step.salloc_line import SallocOptions, read_salloc, salloc_options
from warpdeck.notation.values.hostlist import expand
from warpdeck.ports.caller import Caller
from warpdeck.ports.engine import Progress
from warpdeck.ports.engine_streams import CommandText, EndedStep, HeldAllocation
from warpdeck.protocol import requests as ask

from .allocations import HOLDER, REVOKED, Allocation, granted, left_alone, without_command
from .launcher import Launcher, start
from .sessions import source_of
from .step_marker import UNKNOWN, StepId, StepMarker
from .step_streams import SlurmStep

RPCS = 4
"""Requests of srun or salloc: the allocation, the step, and the ends of both."""
END_S = 20.0
"""Seconds for which the end of a released allocation is awaited."""
LOOK_S = 4.0
"""Seconds for which the end of a job is awaited that srun has made, so that the queue shows it."""
_WAITS = ("job ", "Job ", "Pending job allocation", "Step created", "step creation", "Required node")
"""Beginnings of messages with which srun reports that it waits."""


@dataclass(kw_only=True)
class SlurmSteps:
    """The `EngineSteps` of a gateway."""

    cluster: Cluster
    waits: SlurmWaits
    commands: SlurmCommands
    allowance: Allowance
    clock: Callable[[], float]
    _launched: set[Launcher] = field(default_factory=set, init=False)
    _held: dict[int, Allocation] = field(default_factory=dict, init=False)
    _tasks: set[asyncio.Task[Any]] = field(default_factory=set, init=False)

    def start(self) -> None:
        """Do nothing, because nothing of an earlier gateway runs on."""

    def stop(self) -> None:
        """Do nothing: srun and salloc end with this process."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """End all steps and allocations at the end of the block."""
        try:
            yield
        finally:
            held = [each.launcher for each in self._held.values()]
            await asyncio.gather(*(each.end() for each in [*self._launched, *held]))

    async def srun(
        self, caller: Caller, message: ask.Srun, progress: Progress
    ) -> SlurmStep | CommandText | EndedStep:
        require_own_user(caller.who, self.cluster.uid)
        _refuse_terminal(message.words)
        self.allowance.count_action(RPCS, time.monotonic())
        own_prolog = "SLURM_PROLOG" in message.env or any(
            word.startswith("--prolog") for word in message.words
        )
        marker = None if own_prolog else StepMarker(_path(self.cluster.config.get("SrunProlog", "")))
        try:
            environ = message.env if marker is None else {**message.env, "SLURM_PROLOG": marker.prolog}
            launcher = await start(self.commands, ["srun", *message.words], environ=environ, cwd=message.cwd)
            if not message.has_input:
                launcher.stdin.close()
            found = (UNKNOWN, b"") if marker is None else await _created(launcher, marker, progress)
        finally:
            if marker is not None:
                marker.close()
        if isinstance(found, CommandText):
            return found
        step, said = found
        is_new = await self._learn(step.job_id)
        self._launched.add(launcher)
        return SlurmStep(
            launcher,
            step,
            said=said,
            reads=message.has_input,
            commands=self.commands,
            allowance=self.allowance,
            forget=partial(self._forget, launcher, step.job_id if is_new else 0),
        )

    async def srun_attach(self, caller: Caller, message: ask.SrunAttach) -> SlurmStep:
        raise UserError(
            f"step {message.step} no longer exists",
            "srun ends with its client or with the gateway; run it again",
        )

    async def salloc(self, caller: Caller, message: ask.Salloc, progress: Progress) -> HeldAllocation:
        require_own_user(caller.who, self.cluster.uid)
        asked = salloc_options(read_salloc(message.words, source_of(caller, message, now=self.clock())))
        self.allowance.count_action(RPCS, time.monotonic())
        words = ["salloc", *without_command(message.words, asked.command)]
        if asked.has_shell:
            words += HOLDER
        launcher = await start(self.commands, words, environ=message.env, cwd=message.cwd)
        if not asked.has_shell:
            job_id = await left_alone(launcher, progress)
            return self._answer(Allocation(launcher, {"SLURM_JOB_ID": str(job_id)}), asked)
        made = await granted(launcher, message.env, progress)
        self._held[made.job_id] = made
        await self._learn(made.job_id)
        self._spawn(self._watch(made))
        return self._answer(made, asked)

    async def salloc_attach(self, caller: Caller, message: ask.SallocAttach) -> HeldAllocation:
        require_own_user(caller.who, self.cluster.uid)
        if message.job not in self._held:
            raise UserError(
                f"allocation {message.job} no longer exists",
                "salloc ends with its client or with the gateway",
            )
        return self._answer(self._held[message.job], None)

    def _answer(self, made: Allocation, asked: SallocOptions | None) -> HeldAllocation:
        answer: dict[str, Any] = {}
        if asked is not None:
            answer = {
                "job_id": made.job_id,
                "env": made.env,
                "command": asked.command,
                "has_shell": asked.has_shell,
                "kill_signal": asked.kill_signal,
                "bell": asked.bell,
                "quiet": asked.quiet,
                "chdir": asked.chdir,
                "nodes": expand(made.env.get("SLURM_JOB_NODELIST", "")),
                "own_commands": False,
            }
        return HeldAllocation(
            answer,
            partial(self._revoked, made),
            partial(self._release, made),
            lambda: self._spawn(self._leave(made)),
            is_held=asked is None or asked.has_shell,
        )

    async def _revoked(self, made: Allocation) -> str:
        """Return salloc's message about the end of the allocation, when Slurm has ended it."""
        await made.over.wait()
        await self._ended(made.job_id, END_S)
        if REVOKED in made.said:
            return made.said
        return f"Job allocation {made.job_id} has been revoked."

    async def _release(self, made: Allocation, code: int) -> None:
        made.release(code)

    async def _leave(self, made: Allocation) -> None:
        """End an allocation because its client has disconnected."""
        made.give_up()
        await made.over.wait()
        await self._ended(made.job_id, LOOK_S)

    async def _watch(self, made: Allocation) -> None:
        taking = asyncio.create_task(self._give_up_with(made))
        try:
            await made.watch()
        finally:
            taking.cancel()
            self._held.pop(made.job_id, None)

    async def _give_up_with(self, made: Allocation) -> None:
        """End salloc when its job has ended, which it does not tell if it is quiet."""
        job = self.cluster.state.jobs.get(JobId(made.job_id))
        if job is not None:
            with suppress(UserError):
                await self.waits.waits.until(job, lambda now: now.is_finished)
            made.give_up()

    async def _learn(self, job_id: int) -> bool:
        """Read a job that srun or salloc has made, so that it is known before its client is answered.

        Returns whether it was unknown until now.
        """
        if not job_id or JobId(job_id) in self.cluster.state.jobs:
            return False
        with suppress(UserError):
            await self.waits.poller.look(JobId(job_id))
        return True

    def _forget(self, launcher: Launcher, own_job: int) -> None:
        """Forget an srun that has ended, and look at the job that it has made."""
        self._launched.discard(launcher)
        if own_job:
            self._spawn(self._ended(own_job, LOOK_S))

    async def _ended(self, job_id: int, limit_s: float) -> None:
        """Wait a moment until the end of a job is known."""
        job = self.cluster.state.jobs.get(JobId(job_id))
        if job is not None:
            with suppress(TimeoutError, UserError):
                async with asyncio.timeout(limit_s):
                    await self.waits.until(job, lambda now: now.is_finished)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _created(
    launcher: Launcher, marker: StepMarker, progress: Progress
) -> tuple[StepId, bytes] | CommandText:
    """Wait until srun has created its step, or has ended without one. Raises UserError in srun's words.

    The result is the step, and the text that srun has printed on its standard error meanwhile.
    """
    said: list[bytes] = []
    written = asyncio.create_task(marker.written())
    ended = asyncio.create_task(launcher.wait())
    telling = asyncio.create_task(_tell(launcher, progress, said))
    try:
        await asyncio.wait([written, ended], return_when=asyncio.FIRST_COMPLETED)
        if (step := marker.step()) is not None:
            return step, b"".join(said)
        await telling
        code, out = ended.result(), await launcher.stdout.read()
    except asyncio.CancelledError:
        await launcher.end()
        raise
    finally:
        await cancel(written, ended, telling)
    text = b"".join(said).decode(errors="replace")
    if code and not out:
        raise UserError(text.rstrip("\n"), code=VERBATIM, exit_code=max(code, 1))
    return CommandText(out.decode(errors="replace") + text, max(code, 0))


async def _tell(launcher: Launcher, progress: Progress, said: list[bytes]) -> None:
    """Report why srun waits, and keep its other messages."""
    while line := await launcher.stderr.readline():
        text = launcher.without_name(line)
        if text.startswith(_WAITS):
            await progress(text)
        else:
            said.append(line)


def _path(text: str) -> str:
    """Return the path of a program in slurm.conf, or "" if there is none."""
    return text if text.startswith("/") and os.access(text, os.X_OK) else ""


def _refuse_terminal(words: tuple[str, ...]) -> None:
    """Refuse a terminal in a step, because this srun has none. Raises UserError."""
    options, _ = given_words(words, SRUN, "srun")
    if any(each.option == "pty" for each in options):
        raise UserError(
            "a step with a terminal needs Slurm's own srun",
            "run `srun --pty` in the shell of the allocation, or open a session with `warpdeck run --pty`",
        )
