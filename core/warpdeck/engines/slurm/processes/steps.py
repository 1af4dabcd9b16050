"""srun and salloc over Slurm, for `warpdeck run`, the app and the library.

Slurm's own commands run in the environment and the folder of the client. Users who type srun or salloc in a shell get
Slurm's own. A step or an allocation ends when its client leaves. It survives the gateway, because a process of its own
keeps srun or salloc (`kept_commands`), and its client comes back to it.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
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
from warpdeck_agent.wire.steps import ERR, OUT, TASK_HEADER

from .allocations import HOLDER, REVOKED, Allocation, granted, left_alone, without_command
from .kept_commands import KeptCommand, KeptCommands, StepId, Wanted, label_of
from .sessions import source_of
from .step_streams import SlurmStep

RPCS = 4
"""Requests of srun or salloc: the allocation, the step, and the ends of both."""
END_S = 20.0
"""Seconds for which the end of a released allocation is awaited."""
KILL_S = 5.0
"""Seconds after which an srun is killed whose client has left."""
KILL_SALLOC_S = 120.0
"""The same of salloc, which releases its allocation only when slurmctld answers."""
LOOK_S = 4.0
"""Seconds for which the end of a job is awaited that srun has made, so that the queue shows it."""
_STEP = re.compile(r"\d{1,10}\.\d{1,10}")
COME_BACK_S = 60.0
"""Seconds after the start of a gateway until the steps of clients that did not connect again end, as with the native engine."""


@dataclass(kw_only=True)
class SlurmSteps:
    """The `EngineSteps` of a gateway."""

    cluster: Cluster
    waits: SlurmWaits
    commands: SlurmCommands
    allowance: Allowance
    clock: Callable[[], float]
    kept: KeptCommands
    come_back_s: float = COME_BACK_S
    _held: dict[int, Allocation] = field(default_factory=dict, init=False)
    _joined: set[str] = field(default_factory=set, init=False)
    """The folders of the kept commands with a connected client, and of those that this gateway has started."""
    _tasks: set[asyncio.Task[Any]] = field(default_factory=set, init=False)
    _attaching: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _is_serving: bool = field(default=True, init=False)

    def start(self) -> None:
        """Wait for the clients of an earlier gateway's steps to connect again."""
        self._spawn(self._end_abandoned(self.kept.folders()))

    def stop(self) -> None:
        """From now on no step and no allocation ends because its client leaves."""
        self._is_serving = False

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Leave all steps and allocations to their keepers at the end of the block."""
        try:
            yield
        finally:
            self._is_serving = False
            await cancel(*self._tasks)

    async def srun(
        self, caller: Caller, message: ask.Srun, progress: Progress
    ) -> SlurmStep | CommandText | EndedStep:
        require_own_user(caller.who, self.cluster.uid)
        self.allowance.count_action(RPCS, time.monotonic())
        wanted = _wanted(caller, message)
        site_prolog = _path(self.cluster.config.get("SrunProlog", ""))
        kept = await self.kept.open(wanted, message.nonce, site_prolog=site_prolog)
        self._joined.add(kept.folder)
        try:
            found = await _created(kept, progress)
        except asyncio.CancelledError:
            self._leave_waiting(kept)
            raise
        if not isinstance(found, StepId):
            return found
        is_new = await self._learn(found.job_id)
        return self._step(kept, found, message.has_input, wanted.has_terminal, own_job=is_new)

    def _step(
        self, kept: KeptCommand, step: StepId, reads: bool, has_terminal: bool, *, own_job: bool
    ) -> SlurmStep:
        return SlurmStep(
            kept,
            step,
            reads=reads,
            has_terminal=has_terminal,
            commands=self.commands,
            allowance=self.allowance,
            leaves=lambda: self._is_serving,
            forget=partial(self._forget, kept.folder, step.job_id if own_job else 0),
        )

    async def srun_attach(self, caller: Caller, message: ask.SrunAttach) -> SlurmStep:
        require_own_user(caller.who, self.cluster.uid)
        is_step = _STEP.fullmatch(message.step) is not None
        folder = await asyncio.to_thread(self.kept.folder_of, message.step) if is_step else ""
        have = {key.rpartition(".")[2]: size for key, size in message.have.items()}
        kept = await self.kept.join(folder, have=have) if folder else None
        if kept is None:
            raise UserError(
                f"step {message.step} no longer exists", "see `warpdeck queue` for the state of the job"
            )
        job_id, number = (int(word) for word in message.step.split("."))
        self._joined.add(folder)
        # The client knows the form of its step already.
        return self._step(kept, StepId(job_id, number), True, False, own_job=bool(job_id))

    async def _end_abandoned(self, folders: Sequence[str]) -> None:
        """End the steps and allocations of an earlier gateway if their clients do not connect again in time."""
        await asyncio.sleep(self.come_back_s)
        for folder in folders:
            if folder in self._joined:
                continue
            kept = await self.kept.join(folder)
            if kept is None:
                await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
            else:
                kept.tell("abandon")
                kept.close()

    async def salloc(self, caller: Caller, message: ask.Salloc, progress: Progress) -> HeldAllocation:
        require_own_user(caller.who, self.cluster.uid)
        asked = salloc_options(read_salloc(message.words, source_of(caller, message, now=self.clock())))
        self.allowance.count_action(RPCS, time.monotonic())
        words = [*without_command(message.words, asked.command), *(HOLDER if asked.has_shell else ())]
        wanted = Wanted(
            program="salloc",
            words=words,
            environ=message.env,
            cwd=message.cwd,
            has_input=True,
            client=_client(caller),
            end_s=KILL_SALLOC_S,
        )
        kept = await self.kept.open(wanted, message.nonce, site_prolog="")
        self._joined.add(kept.folder)
        try:
            if not asked.has_shell:
                job_id = await left_alone(kept, progress)
                return self._answer(Allocation(kept, job_id, {"SLURM_JOB_ID": str(job_id)}), asked)
            made = await granted(kept, message.env, progress)
            await self.kept.note_allocation(kept.folder, made.job_id)
            await self._hold(made)
        except BaseException:
            self._leave_waiting(kept)
            raise
        return self._answer(made, asked)

    def _leave_waiting(self, kept: KeptCommand) -> None:
        """End a command because its client disconnected before the step or the allocation was created.

        If the gateway itself is stopping, the command goes on, because its client connects to the next gateway.
        """
        if self._is_serving:
            kept.tell("leave")
            self._joined.discard(kept.folder)
        kept.close()

    async def salloc_attach(self, caller: Caller, message: ask.SallocAttach) -> HeldAllocation:
        require_own_user(caller.who, self.cluster.uid)
        async with self._attaching:
            if message.job not in self._held:
                await self._hold(await self._found(message.job))
        return self._answer(self._held[message.job], None)

    async def _found(self, job_id: int) -> Allocation:
        """Return the allocation that an earlier gateway has made. Raises UserError if it has ended."""
        folder = await asyncio.to_thread(self.kept.folder_of, label_of(job_id))
        kept = await self.kept.join(folder) if folder else None
        if kept is None:
            raise UserError(
                f"allocation {job_id} no longer exists", "see `warpdeck queue` for the state of the job"
            )
        self._joined.add(folder)
        return Allocation(kept, job_id)

    async def _hold(self, made: Allocation) -> None:
        await self._learn(made.job_id)
        self._held[made.job_id] = made
        self._spawn(self._watch(made))

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
        """End an allocation because its client has disconnected. While the gateway stops, it is kept."""
        if not self._is_serving:
            return
        made.give_up()
        await made.over.wait()
        await self._ended(made.job_id, LOOK_S)

    async def _watch(self, made: Allocation) -> None:
        taking = asyncio.create_task(self._give_up_with(made))
        try:
            with suppress(UserError):  # Without its keeper, salloc ends, too.
                await made.watch()
        finally:
            taking.cancel()
            self._held.pop(made.job_id, None)
            self._joined.discard(made.kept.folder)

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

    def _forget(self, folder: str, own_job: int) -> None:
        """Forget an srun that has ended, and look at the job that it has made."""
        self._joined.discard(folder)
        if own_job and self._is_serving:
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


async def _created(kept: KeptCommand, progress: Progress) -> StepId | CommandText:
    """Wait until srun has created its step, or has ended without one. Raises UserError in srun's words."""
    said = {OUT: b"", ERR: b""}
    while True:
        match await kept.read():
            case bytes() as piece:
                _, channel, _ = TASK_HEADER.unpack_from(piece)
                said[channel] += piece[TASK_HEADER.size :]
            case {"t": "waits", "line": str() as line}:
                await progress(line)
            case {"t": "step", "job_id": int() as job_id, "number": int() as number}:
                return StepId(job_id, number)
            case {"t": "exit", "code": int() as code}:
                break
    text = said[ERR].decode(errors="replace")
    kept.tell("forget")
    kept.close()
    if code and not said[OUT]:
        raise UserError(text.rstrip("\n"), code=VERBATIM, exit_code=max(code, 1))
    return CommandText(said[OUT].decode(errors="replace") + text, max(code, 0))


def _path(text: str) -> str:
    """Return the path of a program in slurm.conf, or "" if there is none."""
    return text if text.startswith("/") and os.access(text, os.X_OK) else ""


def _client(caller: Caller) -> int:
    """Return the process of a client on this machine, or 0."""
    return caller.client.pid if caller.client is not None else 0


def _wanted(caller: Caller, message: ask.Srun) -> Wanted:
    """Return the srun of a client. An option that we do not know, such as one of a plug-in of the site, is left to srun."""
    try:
        names = {each.option for each in given_words(message.words, SRUN, "srun")[0]}
    except UserError:
        names = {word.removeprefix("--").partition("=")[0] for word in message.words if word.startswith("--")}
    return Wanted(
        program="srun",
        words=message.words,
        environ=message.env,
        cwd=message.cwd,
        has_input=message.has_input,
        client=_client(caller),
        end_s=KILL_S,
        tells_step="prolog" not in names and "SLURM_PROLOG" not in message.env,
        has_terminal="pty" in names,
        size=(message.rows, message.cols),
    )
