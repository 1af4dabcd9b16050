"""What each request does. Answers are dictionaries; None means that the handler has answered by itself."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

import msgspec

from warpdeck import __version__
from warpdeck.controller import present
from warpdeck.controller.events import (
    Cancelled,
    Event,
    Held,
    NodeAdded,
    NodeDrained,
    NodeRemoved,
    NodeResumed,
    NodeUp,
    Released,
    Requeued,
    Submitted,
)
from warpdeck.controller.jobs import may_touch
from warpdeck.errors import UserError
from warpdeck.model import FINISHED, Job, JobId, Node, NodeName

from . import protocol as ask

if TYPE_CHECKING:
    from .connection import Connection

MAX_ROWS = 100_000
"""Rows of one answer."""


class Handlers:
    """The requests of one connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._server = connection.server
        self._controller = connection.server.controller

    async def handle(self, message: Any) -> Any:
        """The answer. Raises UserError."""
        who = self._connection.who
        match message:
            case ask.Status():
                return self._status()
            case ask.Submit():
                return await self._submit(message)
            case ask.HaveTree():
                found = self._server.trees.find(who.uid, message.tree)
                return {"have": found is not None} | (
                    {"sha256": found.sha256, "size_bytes": found.size_bytes} if found else {}
                )
            case ask.Jobs():
                return {"jobs": await self._jobs(message)}
            case ask.JobInfo():
                return await self._detail(message.job)
            case ask.Cancel():
                number = signal_number(message.signal)
                return await self._change(Cancelled(who=who, jobs=message.jobs, signal=number))
            case ask.Hold():
                return await self._change(Held(who=who, jobs=message.jobs))
            case ask.Release():
                return await self._change(Released(who=who, jobs=message.jobs))
            case ask.Requeue():
                return await self._change(Requeued(who=who, jobs=message.jobs))
            case ask.Nodes():
                return {"nodes": self._nodes(message.name)}
            case ask.PutTree() | ask.Log() | ask.Attach() | ask.Subscribe():
                return await self._stream(message)
            case _:
                return await self._administer(message)

    async def _administer(self, message: Any) -> Any:
        if not self._connection.who.admin:
            raise UserError("only the controller's own user and root may do that", "ask an administrator")
        match message:
            case ask.NodeAdd():
                return await self._add_node(message)
            case ask.NodeDrain():
                await self._controller.apply(NodeDrained(name=NodeName(message.name), reason=message.reason))
            case ask.NodeResume():
                await self._controller.apply(NodeResumed(name=NodeName(message.name)))
            case ask.NodeRemove():
                name = NodeName(message.name)
                await self._controller.apply(NodeRemoved(name=name, force=message.force))
                await self._controller.fleet.remove(name)
                return {}
            case ask.Shutdown():
                self._server.stop.set()
                return {}
            case _:
                raise UserError("a message that cannot be asked here", "see warpdeck.api.protocol")
        return msgspec.to_builtins(self._nodes(message.name)[0])

    async def _stream(self, message: Any) -> None:
        from . import streams

        match message:
            case ask.PutTree():
                await streams.receive_tree(self._connection, message)
            case ask.Log():
                await streams.send_log(self._connection, message, await self._visible_job(message.job))
            case ask.Attach():
                await streams.attach(self._connection, message, await self._visible_job(message.job))
            case ask.Subscribe():
                await streams.subscribe(self._connection, message)

    def _status(self) -> dict[str, Any]:
        state = self._controller.state
        counts: dict[str, int] = {}
        for job in state.jobs.values():
            counts[job.state.value] = counts.get(job.state.value, 0) + 1
        return {
            "pid": os.getpid(),
            "home": self._server.paths.home,
            "version": __version__,
            "uptime_s": self._controller.clock() - self._server.started_at,
            "user": self._connection.who.user,
            "jobs": counts,
            "nodes": len(state.nodes),
            "log": self._server.paths.log,
            "clients": self._server.clients,
        }

    async def _submit(self, message: ask.Submit) -> dict[str, Any]:
        request = message.request
        snapshot = request.snapshot
        if snapshot is not None and self._server.trees.find(self._connection.who.uid, snapshot.tree) is None:
            raise UserError("the code snapshot was not uploaded", "submit again", code="need_tree")
        ended: list[Job] = []
        for clause in request.dependencies.clauses if request.dependencies else ():
            if clause.kind != "singleton" and not self._controller.state.array_members(clause.job_id):
                ended += await self._controller.store.array_jobs(clause.job_id)
        event = Submitted(who=self._connection.who, request=request, ended=tuple(ended))
        outcome = await self._controller.apply(event)
        assert outcome.job is not None
        job = outcome.job
        tasks = request.array.count() if request.array else 1
        return {"job_id": job.id, "label": job.label(), "tasks": tasks, "notes": []}

    async def _jobs(self, message: ask.Jobs) -> list[Any]:
        state = self._controller.state
        states = {name.upper() for name in message.states}
        found = {job.id: job for job in state.jobs.values()}
        if message.finished:
            limit = min(message.limit, MAX_ROWS)
            for job in await self._controller.store.finished_jobs(user=message.user, limit=limit):
                found.setdefault(job.id, job)
        wanted_ids = {int(word.partition("_")[0]) for word in message.ids if word.partition("_")[0].isdigit()}
        rows = []
        for job_id in sorted(found):
            job = found[job_id]
            if message.user not in (None, job.user) or (states and job.state.value not in states):
                continue
            if wanted_ids and not {job.id, job.array_job_id} & wanted_ids:
                continue
            if not message.finished and not states and not wanted_ids and job.state in FINISHED:
                continue
            rows.append(present.job_row(state, job))
        return rows[-min(message.limit, MAX_ROWS) :]

    async def _detail(self, reference: str) -> Any:
        job = await self.find_job(reference)
        if not may_touch(self._connection.who, job):
            raise UserError(f"job {reference} belongs to {job.user}", "only its owner may look into it")
        journal = await self._controller.store.journal(job.id)
        if job.id != job.array_job_id:
            journal = [*await self._controller.store.journal(job.array_job_id), *journal][-200:]
        return present.job_detail(self._controller.state, job, journal)

    async def find_job(self, reference: str) -> Job:
        """The job of any age that "12" or "12_3" names. Raises UserError."""
        base, _, task = reference.strip().partition("_")
        if not base.isdigit() or (task and not task.isdigit()) or len(base) > 18:
            raise UserError(f"{reference!r} is no job id", "write 12, or 12_3 for a task of an array")
        state = self._controller.state
        number = JobId(int(base))
        if not task:
            job = state.jobs.get(number) or await self._controller.store.job(number)
            if job is not None:
                return job
        else:
            members = state.array_members(number) or await self._controller.store.array_jobs(number)
            for job in members:
                if job.array_task_id == int(task) and not job.is_folded_array:
                    return job
            for job in members:
                if job.is_folded_array:
                    return job
        raise UserError(f"job {reference} is not known", "see `warpdeck queue --all`", code="not_found")

    async def _visible_job(self, reference: str) -> Job:
        job = await self.find_job(reference)
        if not may_touch(self._connection.who, job):
            raise UserError(f"job {reference} belongs to {job.user}", "only its owner may look into it")
        return job

    async def _change(self, event: Event) -> dict[str, Any]:
        outcome = await self._controller.apply(event)
        if outcome.errors and not outcome.labels:
            raise UserError("; ".join(outcome.errors))
        return {"jobs": list(outcome.labels), "errors": list(outcome.errors)}

    def _nodes(self, name: str) -> list[Any]:
        state = self._controller.state
        if name and NodeName(name) not in state.nodes:
            raise UserError(f"there is no node {name}", "see `warpdeck node ls`", code="not_found")
        names = [NodeName(name)] if name else sorted(state.nodes)
        return [present.node_row(state, state.nodes[each]) for each in names]

    async def _add_node(self, message: ask.NodeAdd) -> Any:
        target = "" if message.target == "local" else message.target
        name = NodeName(message.name or node_name(message.target))
        if name in self._controller.state.nodes:
            raise UserError(
                f"there is a node {name} already", "give another --name, or remove the old one first"
            )
        number = message.id

        async def progress(line: str) -> None:
            await self._connection.progress(number, line)

        node, welcome = await self._controller.fleet.add(
            Node(name=name, target=target), accept_host_key=message.accept_host_key, progress=progress
        )
        await self._controller.apply(NodeAdded(node=node))
        await self._controller.apply(NodeUp(name=name, welcome=welcome))
        return self._nodes(name)[0]


def node_name(target: str) -> str:
    """The name a node gets if none is given: its host, without user, port and domain."""
    host = target.rpartition("@")[2]
    host = host.partition("]")[0].strip("[") if host.startswith("[") else host.partition(":")[0]
    return host if host.replace(".", "").isdigit() or ":" in host else host.partition(".")[0]


def signal_number(name: str) -> int:
    """ "USR1", "SIGUSR1" or "10" -> 10; "" -> 0. Raises UserError."""
    if not name:
        return 0
    if name.isdigit() and 0 < int(name) < 65:
        return int(name)
    try:
        return int(signal.Signals["SIG" + name.upper().removeprefix("SIG")])
    except KeyError:
        raise UserError(f"there is no signal {name}", "write a name such as USR1 or TERM") from None
