"""Orders for jobs: cancel, hold, release, requeue, suspend, resume, update, and comments.

Slurm decides about the rights. A result that Slurm has confirmed is put into the copy of the cluster at once, and the
queue is read again soon.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from warpdeck.base.errors import UNCERTAIN, UserError
from warpdeck.controller.reducers.comment_update import NONE, check_rights
from warpdeck.engines.slurm.capabilities import IMPOSSIBLE
from warpdeck.engines.slurm.cluster.cluster import Cluster
from warpdeck.engines.slurm.cluster.job_changes import JobChanges
from warpdeck.engines.slurm.cluster.poller import Poller
from warpdeck.engines.slurm.commands import SlurmCommands, command_error
from warpdeck.engines.slurm.own_user import require_own_user
from warpdeck.engines.slurm.submitting.recorded_code import RecordedCode
from warpdeck.engines.slurm.versions import Version
from warpdeck.model import Job, JobId
from warpdeck.model.change import JobChange
from warpdeck.notation.values.signals import parse_signal
from warpdeck.ports.caller import Caller, Principal
from warpdeck.ports.engine import UNSUPPORTED, Action, JobOrder
from warpdeck.ports.store import JournalEntry
from warpdeck.protocol import requests as ask
from warpdeck.protocol import results

from . import expected
from .commands import OrderCommands, Results
from .expected import Expected
from .job_keys import update_words
from .names import is_whole, jobs_of, slurm_name, step_name

WHOM = {"all": ["--full"], "batch": ["--batch"], "programs": []}
"""The options of scancel for the recipients of a signal."""
IN_SLURM = frozenset({"comment", "admin_comment"})
"""Comments that the queue of Slurm shows."""
SACCTMGR_KEYS = {
    "comment": "Comment",
    "admin_comment": "AdminComment",
    "system_comment": "SystemComment",
    "derived_exit": "DerivedExitCode",
}


@dataclass(frozen=True, kw_only=True)
class SlurmOrders:
    """The `EngineOrders` of a gateway."""

    cluster: Cluster
    poller: Poller
    commands: SlurmCommands
    version: Version
    runs: OrderCommands
    code: RecordedCode

    async def cancel(self, caller: Caller, message: ask.Cancel) -> results.Canceled:
        require_own_user(caller.who, self.cluster.uid)
        number = parse_signal(message.signal) if message.signal else 0
        found = Results()
        jobs = _names([word for word in message.jobs if "." not in word], found, steps=False)
        steps = _names([word for word in message.jobs if "." in word], found, steps=True)
        signal = [f"--signal={number}"] if number else []
        if jobs and number:
            options = [*signal, *WHOM[message.whom], "--state=RUNNING"]
            await self.runs.scancel(options, jobs, found, selected="not_running")
        elif jobs and message.waiting_only:
            await self.runs.scancel(["--state=PENDING"], jobs, found, selected="already_begun")
        elif jobs:
            await self.runs.scancel([], jobs, found)
        if steps:
            await self.runs.scancel(signal, steps, found)
        found.sort(message.jobs)
        after = None if number else expected.canceled(caller.who)
        text = f"signal {number} sent" if number else f"canceled by {caller.who.user}"
        await self._confirmed([word for word in found.done if "." not in word], found, after, text)
        if len(message.jobs) == 1 and found.refused:
            raise found.refused[0][1]
        return results.Canceled(
            jobs=found.done,
            refused=[word for word, _ in found.refused],
            errors=[error.line for _, error in found.refused],
            codes=[error.code for _, error in found.refused],
            parts=found.parts,
        )

    async def change(self, caller: Caller, message: JobOrder) -> results.Changed:
        require_own_user(caller.who, self.cluster.uid)
        found = Results()
        names = _names(message.jobs, found, steps=False)
        match message:
            case ask.JobUpdate():
                words = update_words(message.change, self.version)
                await self.runs.scontrol(
                    lambda some: ["update", f"JobId={','.join(some)}", *words], names, found
                )
            case ask.Tell() | ask.Pause():
                action = Action.TELL if isinstance(message, ask.Tell) else Action.PAUSE
                raise UserError(IMPOSSIBLE[action], code=UNSUPPORTED)
            case _:
                verb = _verb(message, caller.who)
                await self.runs.scontrol(lambda some: [*verb, *some], names, found)
        found.sort(message.jobs)
        after, text = _expectation(message, caller.who, uid=self.cluster.uid)
        await self._confirmed(found.done, found, after, text)
        if found.refused and not found.done:
            first, error = found.refused[0]
            lines = "; ".join(each.line for _, each in found.refused)
            raise UserError(lines, code=error.code, details=found.parts.get(first, {}))
        return results.Changed(
            jobs=found.done,
            errors=[error.line for _, error in found.refused],
            parts=found.parts,
            refused=[word for word, _ in found.refused],
            codes=[error.code for _, error in found.refused],
        )

    async def record_code(self, caller: Caller, message: ask.CodeRecorded) -> results.Changed:
        return await self.code.record_code(caller, message)

    async def annotate(self, caller: Caller, message: ask.JobAnnotate) -> results.Result:
        require_own_user(caller.who, self.cluster.uid)
        wanted = message.annotating.changed_fields()
        if not wanted:
            raise UserError("nothing to change", "give a comment or a derived exit code")
        jobs = await self._recorded(message.ids)
        for job in jobs:
            check_rights(caller.who, job, wanted)
        if message.only_asks:
            return results.Result()
        await self._annotate_in_slurm(jobs, wanted)
        now = self.cluster.clock()
        given = {"derived_at_unix": now} if "derived_exit" in wanted else {}
        changes = JobChanges()
        for job in jobs:
            annotations = msgspec.structs.replace(job.annotations or NONE, **wanted, **given)
            changes.jobs.append(msgspec.structs.replace(job, annotations=annotations))
            text = f"record changed by {caller.who.user}: {', '.join(sorted(wanted))}"
            changes.journal.append(JournalEntry(at_unix=now, job_id=job.id, text=text))
        await self.cluster.change(changes)
        self.poller.hurry()
        return results.Result()

    async def _annotate_in_slurm(self, jobs: Sequence[Job], wanted: dict[str, str | int]) -> None:
        """Change the comments of jobs in Slurm's queue, and those of ended jobs in its accounting. Raises UserError."""
        waiting = {str(job.id): job.label() for job in jobs if not job.is_finished}
        ended = [job for job in jobs if job.is_finished]
        if ended and self.cluster.has_accounting:
            ids = ",".join(str(job.id) for job in ended)
            pairs = [f"{SACCTMGR_KEYS[name]}={value}" for name, value in wanted.items()]
            argv = ["sacctmgr", "--immediate", "modify", "job", "where", f"jobid={ids}", "set", *pairs]
            code, out, err = await self.commands.change(argv)
            if code:
                raise command_error("sacctmgr", err or out)
        queued = {name: value for name, value in wanted.items() if name in IN_SLURM}
        if waiting and queued:
            words = update_words(JobChange(**queued), self.version)  # type: ignore[arg-type]
            found = Results()
            await self.runs.scontrol(
                lambda some: ["update", f"JobId={','.join(some)}", *words], waiting, found
            )
            if found.refused:
                raise found.refused[0][1]

    async def _recorded(self, ids: Iterable[int]) -> list[Job]:
        """Return the jobs with these numbers. Raises UserError."""
        state, found = self.cluster.state, []
        for number in map(JobId, ids):
            job = state.jobs.get(number) or await self.cluster.store.job(number)
            if job is None:
                raise UserError(f"there is no job {number}", code="not_found")
            found.append(job)
        return found

    async def _confirmed(
        self, done: Iterable[str], found: Results, after: Expected | None, text: str
    ) -> None:
        """Put the certain results of an order into the copy, and read the queue soon.

        A record with several tasks stays as it is if the order was for some of them only.
        """
        if not found.done and all(error.code != UNCERTAIN for _, error in found.refused):
            return
        now, changes = self.cluster.clock(), JobChanges()
        for reference in done if after is not None else ():
            name = slurm_name(reference)
            for job in jobs_of(self.cluster.state, name):
                if after is not None and reference not in found.parts and is_whole(job, name):
                    expected.add(changes, job, after(job, now), text=text, now=now)
        if changes.jobs:
            await self.cluster.change(changes)
        self.poller.hurry()


def _names(references: Iterable[str], found: Results, *, steps: bool) -> dict[str, str]:
    """Return the ids in Slurm's form with the references. Those that are no ids are refused."""
    names: dict[str, str] = {}
    for reference in references:
        try:
            names.setdefault(step_name(reference) if steps else slurm_name(reference), reference)
        except UserError as error:
            found.refused.append((reference, error))
    return names


def _verb(message: JobOrder, who: Principal) -> list[str]:
    """Return the words of scontrol in front of the ids. Raises UserError."""
    match message:
        case ask.Hold():
            return ["uhold" if message.for_owner or not who.admin else "hold"]
        case ask.Release():
            return ["release"]
        case ask.Requeue():
            verb = "requeuehold" if message.hold or message.special_exit else "requeue"
            special = ["State=SpecialExit"] if message.special_exit else []
            return [verb, *(["Incomplete"] if message.unfinished_only else []), *special]
        case ask.Suspend() | ask.Resume():
            if not who.admin:
                raise UserError(
                    "only admins can suspend and resume jobs", "ask an administrator", code="denied"
                )
            return ["suspend" if isinstance(message, ask.Suspend) else "resume"]
    raise AssertionError(message)


def _expectation(message: JobOrder, who: Principal, *, uid: int) -> tuple[Expected | None, str]:
    """Return the state of a job after the order, and the line for its history."""
    match message:
        case ask.Hold():
            by_admin = who.admin and not message.for_owner and uid == 0
            return expected.held(by_admin=by_admin), f"held by {who.user}"
        case ask.Release():
            return expected.released, f"released by {who.user}"
        case ask.Suspend():
            return expected.suspended, f"suspended by {who.user}"
        case ask.Resume():
            return expected.resumed, f"resumed by {who.user}"
        case ask.JobUpdate():
            fields = ", ".join(sorted(message.change.changed_fields()))
            return expected.updated(message.change), f"changed by {who.user}: {fields}"
    return None, ""
