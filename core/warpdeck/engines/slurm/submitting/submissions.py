"""New jobs over Slurm: each is submitted once, and on disk before the answer."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from warpdeck.base.background_task import cancel
from warpdeck.base.errors import StoreError, UserError
from warpdeck.controller.launch.code_trees import TreeFiles
from warpdeck.engines.shared.job_lookup import JobLookup
from warpdeck.engines.shared.resubmit import asked_again
from warpdeck.engines.slurm.cluster.cluster import Cluster
from warpdeck.engines.slurm.cluster.job_changes import is_ours
from warpdeck.engines.slurm.cluster.poller import Poller
from warpdeck.engines.slurm.own_user import require_own_user
from warpdeck.engines.slurm.programs import Programs
from warpdeck.model import JobId, Request
from warpdeck.model.created_by_nonce import CreatedObject, RequestId, find_created
from warpdeck.ports.caller import Caller, Principal
from warpdeck.ports.engine import TreeUpload
from warpdeck.protocol import requests as ask
from warpdeck.protocol import results
from warpdeck.protocol.nonces import mark_of
from warpdeck.protocol.site_rows import ForecastRow

from .dry_run import forecast
from .job_folder import Intent, JobFolder, JobFolders
from .new_jobs import created_object, record
from .sbatch import Outcome, Sbatch, outcome, refusal, withheld
from .unsettled import Search
from .wrapper import CODE, SCRIPT, START, code_text, has_tasks, run_text, start_command, start_text

log = logging.getLogger("warpdeck.slurm")
SUBMIT_RPCS = 1
StartCommand = Callable[[JobFolder], Sequence[str]]
"""Returns the command that the job becomes. It may name files in the job's folder."""


@dataclass(frozen=True, kw_only=True)
class SlurmSubmissions:
    """The `EngineSubmissions` of a gateway. It submits for its own user only."""

    cluster: Cluster
    poller: Poller
    sbatch: Sbatch
    search: Search
    folders: JobFolders
    trees: TreeFiles
    lookup: JobLookup
    programs: Programs
    clock: Callable[[], float]
    unsettled: set[JobFolder] = field(default_factory=set, init=False)
    """Folders of submissions that were interrupted. `upkeep` finds out which jobs they have become."""
    _running: set[asyncio.Task[CreatedObject]] = field(default_factory=set, init=False)

    async def submit(self, caller: Caller, message: ask.Submit) -> results.SubmittedJob:
        requests = (message.request, *message.components)
        return _answer(await self.create(caller.who, requests, mark_of(message)))

    async def rerun(self, caller: Caller, message: ask.Rerun) -> results.SubmittedJob:
        task = message.job.partition("_")[2]
        number = int(task) if task.isdecimal() else None
        family = await self.lookup.components_of(await self.lookup.find(message.job))
        recorded = is_ours(family[0])
        settings = message.settings if recorded else ()
        requests = [asked_again(each, who=caller.who, task=number, settings=settings) for each in family]
        if not recorded:
            raise UserError(
                f"job {family[0].label()} was not submitted with warpdeck, so its script is not recorded",
                "submit its script with `warpdeck submit`; `scontrol write batch_script` may still have it",
            )
        return _answer(await self.create(caller.who, requests, mark_of(message)))

    async def dry_run(self, caller: Caller, message: ask.DryRun) -> ForecastRow:
        require_own_user(caller.who, self.cluster.uid)
        requests = [_checked(each) for each in (message.request, *message.components)]
        self.search.allowance.count_action(SUBMIT_RPCS, time.monotonic())
        return await forecast(self.sbatch.commands, requests, self.sbatch.version, now=self.clock())

    async def find_tree(self, caller: Caller, message: ask.HaveTree) -> results.StoredTree:
        found = self.trees.find(caller.who.uid, message.tree)
        if found is None:
            return results.StoredTree(have=False)
        return results.StoredTree(have=True, sha256=found.sha256, size_bytes=found.size_bytes)

    async def receive_tree(self, caller: Caller, message: ask.PutTree) -> TreeUpload:
        require_own_user(caller.who, self.cluster.uid)
        return self.trees.receive(
            caller.who.uid, message.tree, sha256=message.sha256, size_bytes=message.size_bytes
        )

    async def create(
        self,
        who: Principal,
        requests: Sequence[Request],
        request_id: RequestId | None,
        *,
        start: StartCommand | None = None,
    ) -> CreatedObject:
        """Submit a job once, with all of its components, and return it when it is on disk.

        `start` is the command that the job becomes instead of the script or program of the request. The job's folder is
        given to it before sbatch runs. If the caller is cancelled, the submission goes on.
        """
        require_own_user(who, self.cluster.uid)
        work = self._create(who, tuple(map(_checked, requests)), request_id, start)
        return await self._to_the_end(work)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Cancel submissions at the end of the block. The next gateway continues with them."""
        try:
            yield
        finally:
            await cancel(*self._running)

    async def _to_the_end(self, work: Coroutine[Any, Any, CreatedObject]) -> CreatedObject:
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    def _ended(self, task: asyncio.Task[CreatedObject]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            # If the caller has left, nobody else tells the error.
            log.info("a submission ended with an error: %s", error)

    async def _create(
        self,
        who: Principal,
        requests: tuple[Request, ...],
        request_id: RequestId | None,
        start: StartCommand | None,
    ) -> CreatedObject:
        if (found := find_created(self.cluster.state.created, who.uid, request_id)) is not None:
            return found
        self.sbatch.arguments(requests)
        own = tuple(self._with_tree(who, each) for each in requests)
        folder = self.folders.of(who.uid, request_id)
        while True:
            intent = Intent(
                user=who.user, uid=who.uid, request_id=request_id, at_unix=self.clock(), requests=own
            )
            if start is None and own[0].pty is not None:
                start = await self._on_terminal(own[0])
            if not folder.exists():
                files = self._files(folder, own[0], start)
                await asyncio.to_thread(self.folders.make, folder, intent, files)
            async with folder.locked() as lock:
                if lock is not None:
                    try:
                        return await self._submit_once(folder, lock, request_id)
                    except BaseException:
                        self.unsettled.add(folder)
                        raise

    async def _submit_once(self, folder: JobFolder, lock: int, request_id: RequestId | None) -> CreatedObject:
        """Submit the job of a locked folder, unless this has happened. Raises UserError."""
        intent = folder.intent()
        _refuse_changed(folder, intent, request_id)
        if found := find_created(self.cluster.state.created, intent.uid, request_id):
            return found
        if (made := await self._settle_or_note(folder, intent)) is not None:
            return made
        self.search.allowance.count_action(SUBMIT_RPCS, time.monotonic())
        failure: UserError | None = None
        try:
            state = await self.sbatch.submit(folder, intent.requests, lock=lock)
        except UserError as error:
            state, failure = outcome(folder), error
        if state is not Outcome.REFUSED and (made := await self._settle_or_note(folder, intent)) is not None:
            return made
        refused = failure or refusal(folder)
        folder.remove()
        raise refused

    async def settle(self, folder: JobFolder, intent: Intent) -> CreatedObject | None:
        """Return the job that a locked folder has become, or None if it is certain that nothing was submitted."""
        job_id = folder.job_id()
        if job_id is None and outcome(folder) is Outcome.UNKNOWN:
            job_id = await self.search.find(folder, since_unix=intent.at_unix)
        return await self.complete(folder, intent, job_id) if job_id is not None else None

    async def _settle_or_note(self, folder: JobFolder, intent: Intent) -> CreatedObject | None:
        """Settle a folder. If the record cannot be written, the answer says so, and the upkeep writes it later.

        The folder is on disk, so a repeated request finds the job. An error would make users submit it again.
        """
        try:
            return await self.settle(folder, intent)
        except StoreError as error:
            job_id = folder.job_id()
            if job_id is None:
                raise
            self.unsettled.add(folder)
            self.poller.hurry(job_id)
            note = f"Slurm has the job, but warpdeck cannot record it now: {error}. It tries again by itself."
            return msgspec.structs.replace(created_object(intent, job_id, now=self.clock()), notes=(note,))

    async def complete(self, folder: JobFolder, intent: Intent, job_id: JobId) -> CreatedObject:
        """Record the job of a folder and return it. Raises StoreError."""
        made = find_created(self.cluster.state.created, intent.uid, intent.request_id)
        if made is None:
            made = created_object(intent, job_id, now=self.clock())
            await record(self.cluster, intent, made)
        self.cluster.scripts[folder.run] = job_id
        folder.settled(job_id)
        self.poller.hurry(job_id)
        return made

    async def _on_terminal(self, request: Request) -> StartCommand:
        """Return the command for a job with a terminal. Raises UserError."""
        terminal = await self.programs.terminal(request)
        return lambda folder: [*terminal, *start_command(folder.path, request)]

    def _files(self, folder: JobFolder, request: Request, start: StartCommand | None) -> dict[str, str]:
        command = start(folder) if start is not None else start_command(folder.path, request)
        if not command:
            raise UserError("the job has neither a script nor a command", "submit a script with a #! line")
        srun = self.sbatch.commands.program("srun") if start is None and has_tasks(request) else ""
        files = {"run": run_text(folder.path), START: start_text(command, withheld(request), srun=srun)}
        if request.script:
            files[SCRIPT] = request.script
        if request.snapshot is not None:
            packed = self.trees.path(self.cluster.uid, request.snapshot.tree)
            files[CODE] = code_text(request.snapshot, packed, request)
        return files

    def _with_tree(self, who: Principal, request: Request) -> Request:
        """Return the request with the facts of its uploaded code. Raises UserError if it was not uploaded."""
        if request.snapshot is None:
            return request
        found = self.trees.uploaded(who.uid, request.snapshot)
        # The upkeep removes code that was not used for long.
        os.utime(self.trees.path(who.uid, found.tree))
        return msgspec.structs.replace(request, snapshot=found)


def _answer(made: CreatedObject) -> results.SubmittedJob:
    return results.SubmittedJob(job_id=made.job_id, label=made.label, tasks=made.tasks, notes=[*made.notes])


def _checked(request: Request) -> Request:
    """Return the request if a process can receive all of its texts. Raises UserError."""
    words = (request.script, request.submit_dir, *request.script_args, *request.argv)
    if any("\0" in word for word in (*words, *request.env, *request.env.values())):
        raise UserError(
            "the request contains a NUL character", "remove it from the script, arguments and environment"
        )
    return request


def _refuse_changed(folder: JobFolder, intent: Intent, request_id: RequestId | None) -> None:
    """Refuse a request with the nonce of another one that is being submitted. Raises UserError."""
    if intent.request_id is None or request_id is None or intent.request_id == request_id:
        return
    raise UserError(
        "the nonce of this request was used by another request",
        "create a new nonce for each request",
        code="nonce",
    )
