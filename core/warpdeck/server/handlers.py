"""Handlers of the client API's requests.

An answer is a dictionary or a struct. None means that the handler has sent its answer itself, as streams do.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections import ChainMap
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from itertools import chain
from typing import Any, TypeVar

import msgspec

from warpdeck._version import __version__
from warpdeck.base.errors import UserError
from warpdeck.controller.events.events import (
    Cancelled,
    CodeRecorded,
    Event,
    Held,
    NotifyJob,
    Outcome,
    Released,
    Requeued,
    Resumed,
    StepEndAsked,
    Submitted,
    Suspended,
    Updated,
)
from warpdeck.controller.launch.resubmission import nested_submission
from warpdeck.controller.presenters.job_columns import shower
from warpdeck.controller.presenters.job_detail import job_detail
from warpdeck.controller.presenters.step_rows import BATCH, live_steps, step_rows
from warpdeck.controller.presenters.terminal_watchers import may_watch
from warpdeck.model import Job, JobId, Request, Snapshot, count_tasks, has_task
from warpdeck.notation.values.job_ids import is_job_id, may_mean, parse_job_id
from warpdeck.notation.values.signals import parse_signal
from warpdeck.ports.caller import may_touch, whose
from warpdeck.protocol import requests as ask
from warpdeck.server.jobs.resubmit import asked_again, variables_of

from . import administration, commands, end_subscriptions, health_check, streams
from .chunking import TESTS_A_TURN, in_slices
from .connection import Connection
from .jobs import allocations, runs, sessions
from .jobs import annotations as annotating
from .nonces import marked
from .queries import curves, history, node_list, past_nodes, policy_queries
from .selection import Selection
from .steps import step_requests as steps
from .tunnels import tunnel_requests

_T = TypeVar("_T")

MAX_ROWS = 100_000
"""Maximum number of jobs in one answer."""
JOB_PAGE_ROWS = 1000
"""Number of jobs in one frame."""
MOST_UNREADABLE = 20
"""Maximum number of unreadable database rows that `status` lists."""
ORDERED_AT_ONCE = 100
"""Maximum number of jobs named in one event.

Each takes about a millisecond if it is an array with many records.
"""


_SUBMITS: dict[type, Callable[[Connection, Any, Any], Awaitable[None]]] = {
    ask.Run: runs.run,
    ask.Srun: steps.run,
    ask.Salloc: allocations.hold,
}
"""Streams that may submit a job."""
_STREAMS: dict[type, Callable[[Connection, Any], Awaitable[None]]] = {
    ask.SrunAttach: steps.attach,
    ask.SallocAttach: allocations.attach,
    ask.Command: commands.run,
    ask.PutTree: streams.receive_tree,
    ask.Subscribe: streams.subscribe,
}
_STREAMS_OF_JOB: dict[type, Callable[[Connection, Any, Job], Awaitable[None]]] = {
    ask.Log: streams.send_log,
    ask.Attach: streams.attach,
    ask.Tunnel: tunnel_requests.open_tunnel,
    ask.Forward: tunnel_requests.keep_forward,
}
"""Streams of one job, which the user must be allowed to see."""


class Handlers:
    """Request handlers of one connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._server = connection.server
        self._controller = connection.server.controller

    async def handle(self, message: Any) -> Any:
        """Return the answer to a request. Raises UserError."""
        who = self._connection.who
        match message:
            case ask.Status():
                return self._status()
            case ask.Submit():
                return await self._submit(message, *self._carried_on(message))
            case ask.Rerun():
                return await self._rerun(message)
            case ask.DryRun():
                asked = await self.submission(*self._carried_on(message))
                return await self._controller.forecaster.of_request(self._controller.state, asked)
            case ask.Forecast():
                job = await self.find_job(message.job)
                return await self._controller.forecaster.of_job(self._controller.state, job)
            case ask.HaveTree():
                found = self._server.trees.find(who.uid, message.tree)
                return {"have": found is not None} | (
                    {"sha256": found.sha256, "size_bytes": found.size_bytes} if found else {}
                )
            case ask.Jobs():
                show = shower(self._controller.state, message.fields, now=self._controller.clock())
                jobs = await self._jobs(message)
                return await self._paged(message.id, "jobs", jobs, show=show, page_rows=JOB_PAGE_ROWS)
            case ask.Records():
                return await history.answer(self._connection, message)
            case ask.JobEnvironment():
                return variables_of(await self.find_job(message.job), who=who)
            case ask.JobInfo():
                return await self._detail(message.job)
            case ask.Settle():
                return await end_subscriptions.settle(self._connection, JobId(message.job))
            case _:
                return await self._ask_nodes(message)

    async def _ask_nodes(self, message: Any) -> Any:
        """Answer requests about nodes, measurements, and the policy."""
        who = self._connection.who
        match message:
            case ask.Nodes():
                named, shown = node_list.shown(self._controller, message.name, facts=message.facts)
                return await self._paged(message.id, "nodes", named, show=shown, page_rows=ask.NODE_PAGE_ROWS)
            case ask.NodesAt():
                then = await past_nodes.look(self._server, message, uid=who.uid)
                show_then = past_nodes.rows
                return await self._paged(
                    message.id, "nodes", then, show=show_then, page_rows=ask.NODE_PAGE_ROWS
                )
            case ask.NodeCheck():
                return await health_check.answer(self._controller, message, anew=who.admin)
            case ask.Curves():
                return await self._curves(message)
            case ask.Priorities():
                return await self._priorities(message)
            case ask.Diagnosis():
                return policy_queries.diagnose(self._controller, reset=message.reset, admin=who.admin)
            case ask.Steps():
                rows = live_steps(self._controller.state, Selection(message))
                return await self._paged(message.id, "steps", rows, show=list, page_rows=JOB_PAGE_ROWS)
            case _ if isinstance(message, policy_queries.Question):
                return await policy_queries.answer(self._controller, message, ())
            case _:
                return await self._connect(message)

    async def _connect(self, message: Any) -> Any:
        """Answer requests that open a stream and requests about forwarded ports."""
        who = self._connection.who
        match message:
            case ask.PutTree() | ask.Log() | ask.Attach() | ask.Subscribe() | ask.Tunnel() | ask.Forward():
                return await self._stream(message)
            case ask.AwaitEnds():
                return await end_subscriptions.tell_ends(self._connection, message)
            case ask.Session():
                return await sessions.open_session(self._connection, message, self.submission)
            case (
                ask.Run() | ask.Srun() | ask.SrunAttach() | ask.Salloc() | ask.SallocAttach() | ask.Command()
            ):
                return await self._stream(message)
            case ask.Forwards():
                return {"forwards": self._server.forwards.rows(who)}
            case ask.ForwardPage():
                return {"page": self._server.forwards.page(who, message.number)}
            case ask.ForwardEnd():
                self._server.forwards.end(who, message.number)
                return {}
            case _:
                return await self._order(message)

    async def _order(self, message: Any) -> Any:
        """Answer requests that change jobs and requests that only an admin may make."""
        match message:
            case ask.Cancel():
                return await self._cancel(message)
            case ask.Hold():
                return await self._change(message.jobs, partial(Held, for_owner=message.for_owner))
            case ask.Release():
                return await self._change(message.jobs, Released)
            case ask.Requeue():
                return await self._change(
                    message.jobs,
                    partial(
                        Requeued,
                        hold=message.hold,
                        special_exit=message.special_exit,
                        unfinished_only=message.unfinished_only,
                    ),
                )
            case ask.Tell():
                return await self._change(message.jobs, partial(NotifyJob, text=message.text))
            case ask.Suspend():
                return await self._change(message.jobs, Suspended)
            case ask.Resume():
                return await self._change(message.jobs, Resumed)
            case ask.JobUpdate():
                return await self._change(message.jobs, partial(Updated, change=message.change))
            case ask.JobAnnotate():
                return await annotating.answer(self._connection, message)
            case ask.CodeRecorded(snapshot=snapshot, note=note):
                recorded = partial(CodeRecorded, snapshot=self._uploaded(snapshot), note=note)
                return await self._change(message.jobs, recorded)
            case _:
                return await administration.answer(self._connection, message)

    async def _paged(
        self,
        number: int,
        key: str,
        things: Sequence[_T],
        *,
        show: Callable[[Sequence[_T]], Sequence[Any]],
        page_rows: int,
    ) -> dict[str, Any]:
        """Send all pages but the last and return the last one as the answer.

        Other clients are served between two pages, and this client can decode a page meanwhile. A connection
        builds one page at a time, after the client has read the earlier ones. Otherwise its answers would
        fill memory.
        """
        while True:
            async with self._connection.page():
                page = await in_slices(things[:page_rows], show)
                things = things[page_rows:]
                if not things:
                    return {key: page}
                self._connection.send({"t": "rows", "id": number, "part": {key: page}})
            await asyncio.sleep(0)

    async def _stream(self, message: Any) -> None:
        kind = type(message)
        if kind in _SUBMITS:
            await _SUBMITS[kind](self._connection, message, self.submission)
        elif kind in _STREAMS:
            await _STREAMS[kind](self._connection, message)
        else:
            watches = isinstance(message, ask.Attach) and message.watch
            job = await (self._watched_job if watches else self._visible_job)(message.job)
            await _STREAMS_OF_JOB[kind](self._connection, message, job)

    def _status(self) -> dict[str, Any]:
        state = self._controller.state
        counts = {job_state.value: count for job_state, count in state.index.in_state.items() if count}
        return {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "home": self._server.paths.home,
            "version": __version__,
            "uptime_s": self._controller.clock() - self._server.started_at,
            "user": self._connection.who.user,
            "jobs": counts,
            "nodes": len(state.nodes),
            "log": self._server.paths.log,
            "clients": len(self._server.connections),
            "unreadable": [row.words for row in state.unreadable[:MOST_UNREADABLE]],
        }

    async def _submit(
        self, message: ask.Submit | ask.Rerun, request: Request, *components: Request
    ) -> dict[str, Any]:
        own = [
            msgspec.structs.replace(each, snapshot=self._uploaded(each.snapshot))
            for each in (request, *components)
        ]
        event = marked(await self.submission(*own), message)
        made = (await self._controller.apply(event)).made
        assert made is not None
        return {"job_id": made.job_id, "label": made.label, "tasks": made.tasks, "notes": [*made.notes]}

    def _uploaded(self, snapshot: Snapshot | None) -> Snapshot | None:
        return self._server.trees.uploaded(self._connection.who.uid, snapshot) if snapshot else None

    async def _rerun(self, message: ask.Rerun) -> dict[str, Any]:
        """Submit a job, or one task of an array, again as it was.

        All components of a heterogeneous job are submitted.
        """
        reference = message.job
        task = reference.partition("_")[2]
        number = int(task) if task.isdecimal() else None
        family = await self._components(await self.find_job(reference))
        who = self._connection.who
        return await self._submit(message, *(asked_again(each, who=who, task=number) for each in family))

    def _carried_on(self, message: ask.Submit | ask.DryRun) -> Sequence[Request]:
        """Return the requests of all components.

        If a job's process submits, they are adapted to the submit host.
        """
        caller, requests = self._connection.caller, (message.request, *message.components)
        job = self._controller.state.jobs.get(caller.job_id) if caller is not None else None
        if caller is None or job is None:
            return requests
        return [nested_submission(each, job, caller.node) for each in requests]

    async def submission(self, request: Request, *components: Request) -> Submitted:
        """Return the submission event together with the data that must be looked up for it.

        Raises UserError.
        """
        requests = (request, *components)
        for each in requests:
            _refuse_nul(each)
        asked = dict.fromkeys(each.dependencies for each in requests if each.dependencies)
        clauses = [clause for dependencies in asked for clause in dependencies.clauses]
        ended = await self._ended(clause.job_id for clause in clauses if clause.kind != "singleton")
        await self._controller.rules.learn_groups([self._connection.who.user])
        return Submitted(who=self._connection.who, request=request, components=components, ended=ended)

    async def _ended(self, numbers: Iterable[JobId]) -> tuple[Job, ...]:
        """Return the finished jobs with these ids that are not in memory.

        Some members of an array may be in memory and others not, so the store is also asked for arrays.
        """
        state, found = self._controller.state, {}
        for number in dict.fromkeys(numbers):
            members = state.named(number)
            if not members or members[0].request.array is not None:
                found.update({job.id: job for job in await self._controller.store.named(number)})
        return tuple(job for job in found.values() if job.is_finished and job.id not in state.jobs)

    async def _jobs(self, message: ask.Jobs) -> list[Job]:
        """Return the newest jobs that match the request, oldest first."""
        state, limit = self._controller.state, min(message.limit, MAX_ROWS)
        wanted = Selection(message)
        if message.ids and not message.finished:
            found = {job.id: job for number in wanted.numbers for job in state.named(JobId(number))}
        else:
            found = dict(state.jobs)
        if message.finished:
            by_name = len(message.users) == 1 and not message.users[0].isdigit()
            only = message.users[0] if by_name else None
            for job in await self._controller.store.finished_jobs(user=only, limit=limit):
                found.setdefault(job.id, job)
        ids = sorted(found)
        chosen = await in_slices(
            ids,
            lambda some: [found[job_id] for job_id in some if wanted.has(found[job_id])],
            rows=TESTS_A_TURN,
        )
        return chosen[-limit:]

    async def _priorities(self, message: ask.Priorities) -> dict[str, Any]:
        named = [(await self.find_job(word)).id for word in message.ids]
        answer = await policy_queries.answer(self._controller, message, named)
        page = await self._paged(message.id, "jobs", answer["jobs"], show=list, page_rows=JOB_PAGE_ROWS)
        return {**answer, **page}

    async def _detail(self, reference: str) -> Any:
        job = await self._visible_job(reference)
        journal = await self._controller.store.journal(job.id)
        if job.id != job.array_job_id:
            journal = [*await self._controller.store.journal(job.array_job_id), *journal][-200:]
        detail = job_detail(self._controller.state, job, journal)
        steps = step_rows(job, await self._controller.store.steps(job.id))
        return msgspec.structs.replace(detail, steps=steps)

    async def _curves(self, message: ask.Curves) -> dict[str, Any]:
        if bool(message.job) == bool(message.node):
            raise UserError("metrics need either a job or a node", "give one of them")
        if message.node:
            return await curves.of_node(self._controller, message.node, step_s=message.step_s)
        job_word, dot, number = message.job.partition(".")
        if dot and not number.isdecimal() and number != BATCH:
            raise UserError(f"{message.job!r} is not a step", "use JOB.STEP, such as 12.0")
        job = await self.find_job(job_word)
        if number == BATCH:
            return await curves.of_batch(self._controller, job)
        if dot:
            return await curves.of_step(self._controller, job, int(number))
        return await curves.of_job(self._controller, job)

    async def find_job(self, reference: str) -> Job:
        """Return the job, running or finished, that "12" or "12_3" names. Raises UserError."""
        state, store = self._controller.state, self._controller.store
        base, tasks = parse_job_id(reference)
        number = JobId(base)
        if tasks is None:
            job = state.jobs.get(number) or await store.job(number)
            if job is not None and may_mean(reference, job.label()):
                return job
        elif count_tasks(tasks) > 1:
            raise UserError(f"{reference} has several tasks", f"name one, such as {number}_{tasks[0][0]}")
        else:
            for job in (*state.named(number), *await self._ended([number])):
                if job.array_task_id == tasks[0][0] or has_task(job.pending_tasks, tasks[0][0]):
                    return job
        raise UserError(f"job {reference} is not known", "see `warpdeck queue --all`", code="not_found")

    async def _components(self, job: Job) -> list[Job]:
        """Return all components of a heterogeneous job in the order of their offsets.

        For any other job the list has only `job`.
        """
        if job.component is None:
            return [job]
        known = {each.id: each for each in await self._controller.store.named(job.array_job_id)}
        known |= {each.id: each for each in self._controller.state.array_members(job.array_job_id)}
        return [known[job_id] for job_id in sorted(known)]

    async def _visible_job(self, reference: str) -> Job:
        job = await self.find_job(reference)
        if not may_touch(self._connection.who, job):
            raise UserError(
                f"job {reference} belongs to {whose(self._connection.who, job)}",
                "only its owner can see this",
            )
        return job

    async def _watched_job(self, reference: str) -> Job:
        job = await self.find_job(reference)
        if not may_watch(self._connection.who, job, self._controller.config):
            raise UserError(
                f"job {reference} belongs to {whose(self._connection.who, job)}",
                "admins can allow others to watch with [interactive] in config.toml",
            )
        return job

    async def _on_each(self, references: Sequence[str], order: Callable[..., Event]) -> Outcome:
        """Apply an order to all of these jobs in batches, so that other requests are served in between."""
        named = tuple(dict.fromkeys(references))
        done = []
        for at in range(0, len(named), ORDERED_AT_ONCE):
            some = named[at : at + ORDERED_AT_ONCE]
            numbers = [JobId(parse_job_id(word)[0]) for word in some if is_job_id(word)]
            event = order(who=self._connection.who, jobs=some, ended=await self._ended(numbers))
            done.append(await self._controller.apply(event))
        return Outcome(
            labels=tuple(chain.from_iterable(each.labels for each in done)),
            errors=tuple(chain.from_iterable(each.errors for each in done)),
            codes=tuple(chain.from_iterable(each.codes for each in done)),
            refused=tuple(chain.from_iterable(each.refused for each in done)),
            parts=dict(ChainMap(*(each.parts for each in done))),
        )

    async def _change(self, references: Sequence[str], order: Callable[..., Event]) -> dict[str, Any]:
        outcome = await self._on_each(references, order)
        if outcome.errors and not outcome.labels:
            parts = outcome.parts.get(outcome.refused[0], {})
            raise UserError("; ".join(outcome.errors), code=outcome.codes[0], details=parts)
        return {"jobs": list(outcome.labels), "errors": list(outcome.errors), "parts": outcome.parts}

    async def _cancel(self, message: ask.Cancel) -> dict[str, Any]:
        """Cancel jobs and job steps ("12.0")."""
        number = parse_signal(message.signal) if message.signal else 0
        jobs = [word for word in message.jobs if "." not in word]
        done: list[str] = []
        parts: dict[str, dict[str, str]] = {}
        refused: list[tuple[str, str, str]] = []
        for word in message.jobs:
            if "." in word:
                try:
                    await self._controller.apply(await self._step_end(word, number))
                    done.append(word)
                except UserError as error:
                    refused.append((word, error.line, error.code))
        if jobs:
            order = partial(Cancelled, signal=number, whom=message.whom, waiting_only=message.waiting_only)
            outcome = await self._on_each(jobs, order)
            done += outcome.labels
            parts = outcome.parts
            refused += zip(outcome.refused, outcome.errors, outcome.codes, strict=True)
        if len(message.jobs) == 1 and refused:
            raise UserError(refused[0][1], code=refused[0][2])
        names, errors, codes = zip(*refused, strict=True) if refused else ((), (), ())
        return {"jobs": done, "refused": names, "errors": errors, "codes": codes, "parts": parts}

    async def _step_end(self, word: str, signal: int) -> StepEndAsked:
        job_word, _, number = word.rpartition(".")
        if not number.isdecimal():
            raise UserError(f"{word!r} is not a step that can be canceled", "use JOB.STEP, such as 12.0")
        job = await self.find_job(job_word)
        return StepEndAsked(who=self._connection.who, job_id=job.id, number=int(number), signal=signal)


def _refuse_nul(request: Request) -> None:
    """Refuse a request with a NUL character, because no process can receive one. Raises UserError."""
    resources = request.resources
    words = (
        *(request.name, request.script, request.output, request.error, request.submit_dir, request.chdir),
        *(*request.script_args, *request.argv, *request.env, *request.env.values()),
        *(*resources.nodelist, *resources.exclude),
    )
    if any("\0" in word for word in words):
        raise UserError(
            "the request contains a NUL character", "remove it from the script, arguments and environment"
        )
