"""The copy of the cluster: the jobs, nodes and partitions that Slurm reported last, and the record of jobs.

The jobs are in a `State`, so that the code that shows jobs serves this engine, too. The database keeps the jobs of this
user and all jobs that have ended. So the history does not depend on Slurm's accounting, and Slurm is not asked again for
jobs that have ended.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from warpdeck.base.errors import StoreError
from warpdeck.controller.loop.change_listeners import ChangeListeners
from warpdeck.controller.loop.commit_barrier import CommitBarrier
from warpdeck.controller.loop.end_waiters import EndWaiters
from warpdeck.controller.loop.housekeeping import evict_finished
from warpdeck.controller.presenters.gpu_readings import by_index
from warpdeck.controller.state.state import State
from warpdeck.engines.slurm.reading.job_table import SeenJob
from warpdeck.model import UNKNOWN_GPU, GpuReading, Job, JobCurve, JobId, NodeName, Request
from warpdeck.model.created_by_nonce import CreatedObject, upsert_created
from warpdeck.model.step import Step
from warpdeck.ports.store import Changes, JournalEntry, Store
from warpdeck.protocol.node_rows import NodeRow, ProcessRow
from warpdeck.protocol.site_rows import PartitionRow

from .job_changes import JobChanges
from .node_conditions import NodeConditions

log = logging.getLogger("warpdeck.slurm")

JOBS_A_TURN = 500
"""Number of jobs that are put into memory before other tasks run."""


class NodeRows:
    """The nodes as Slurm reported them last, with the jobs that hold them."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.rows: dict[NodeName, NodeRow] = {}
        self.partitions: dict[NodeName, list[str]] = {}
        self.flags: dict[NodeName, frozenset[str]] = {}
        """The words of the states of the nodes."""
        self.gpus_in_use: dict[NodeName, frozenset[int]] = {}
        """Indexes of the allocated GPUs, of nodes that tell them."""
        self.changed_at: dict[NodeName, float] = {}
        """Times at which users have changed nodes, since the last look at all nodes."""

    def names(self) -> list[NodeName]:
        return list(self.rows)

    def row(self, name: NodeName) -> NodeRow | None:
        row = self.rows.get(name)
        if row is None:
            return None
        jobs = self._state.jobs_on(name)
        labels = [job.label() for job in jobs]
        holders = self._gpu_holders(name, jobs)
        unknown = holders.pop(UNKNOWN_GPU, None)
        readings = by_index(self._state.node_status.readings.get(name))
        gpus = []
        for gpu in row.gpus:
            # A GPU in use that no known job has must belong to the only job whose GPUs are unknown.
            holder = holders.get(gpu.index) or (unknown if gpu.job else None)
            fields = _measured(readings.get(gpu.index), holder)
            if holder is not None:
                fields |= {"job": holder.label(), "job_user": holder.user}
            gpus.append(msgspec.structs.replace(gpu, **fields))
        return msgspec.structs.replace(row, jobs=labels, gpus=gpus)

    def _gpu_holders(self, name: NodeName, jobs: Iterable[Job]) -> dict[int, Job]:
        """Return the jobs that have GPUs of the node, by index, if there is only one for the index."""
        found: dict[int, list[Job]] = {}
        for job in jobs:
            for share in job.allocation.shares if job.allocation is not None else ():
                for index in set(share.gpus) if share.node == name else ():
                    found.setdefault(index, []).append(job)
        return {index: holders[0] for index, holders in found.items() if len(holders) == 1}


def _measured(reading: GpuReading | None, holder: Job | None) -> dict[str, Any]:
    """Return the fields of a GPU's row that were measured. The processes are those of the job that has the GPU."""
    if reading is None:
        return {}
    label = holder.label() if holder is not None else ""
    return {
        "util_pct": reading.util_pct,
        "mem_used_bytes": reading.mem_used_bytes,
        "mem_bytes": reading.mem_bytes,
        "power_w": reading.power_w,
        "temp_c": reading.temp_c,
        "error": reading.error,
        "processes": [
            ProcessRow(
                pid=each.pid, user=each.user, command=each.command, mem_bytes=each.mem_bytes, job=label
            )
            for each in reading.processes
        ],
    }


class Cluster:
    """The copy of the cluster. `uid` is this user's, `clock` returns Unix seconds."""

    def __init__(self, store: Store, *, uid: int, keep_ended_s: float, clock: Callable[[], float]) -> None:
        self.state = State()
        self.store = store
        self.uid = uid
        self.clock = clock
        self.commits = CommitBarrier(store)
        self.ends = EndWaiters(self.state, store, self.commits)
        self.hub = ChangeListeners(self.ends.touch)
        self.nodes = NodeRows(self.state)
        self._conditions = NodeConditions(self.state.node_status)
        self.partitions: list[PartitionRow] = []
        self.config: dict[str, str] = {}
        """slurmctld's configuration, as `scontrol show config` prints it; {} until Slurm has answered."""
        self.script_folder = ""
        """The folder of the scripts of this user's submissions."""
        self.scripts: dict[str, JobId] = {}
        """Paths of scripts in that folder -> the job that Slurm runs with the script. Each submission has its own."""
        self.printed: dict[JobId, int] = {}
        """Hashes of the records that squeue printed last, of the jobs that nothing has changed since."""
        self.changed_at: dict[JobId, float] = {}
        """Times at which jobs were changed by something else than the queue."""
        self.read_at: float | None = None
        """Time of the last queue that was read completely (Unix seconds)."""
        self.problem = ""
        """The error of the last look, with a next step; "" after a success."""
        self._keep_ended_s = keep_ended_s
        self._unsaved: dict[JobId, Job] = {}
        self._unsaved_lines: list[JournalEntry] = []
        self._unsaved_steps: list[Step] = []
        self._writing = asyncio.Lock()

    async def load(self) -> None:
        """Read the record: the user's unfinished jobs, and jobs that ended a short time ago. Raises StoreError."""
        self.state.load(await self.store.load(finished_since_unix=self.clock() - self._keep_ended_s))

    async def change(self, changes: JobChanges) -> None:
        """Apply changes that do not come from the queue: the results of a user's orders, or of the accounting."""
        self._mark_changed([job.id for job in changes.jobs])
        await self.apply(changes)

    async def apply(self, changes: JobChanges, *, begun: float | None = None) -> None:
        """Put changes into memory and into the record. If the disk is full, they are written with the next ones.

        `begun` is the time of the squeue that the changes come from. Jobs that were changed since then are left out.
        """
        async with self._writing:
            if begun is not None:
                later = changes.jobs[changes.shown :]
                changes.jobs[changes.shown :] = [
                    job for job in later if self.changed_at.get(job.id, 0.0) < begun
                ]
            recorded = [job for job in changes.jobs if job.is_finished or job.uid == self.uid]
            self._unsaved.update((job.id, job) for job in recorded)
            kept = {job.id for job in recorded}
            self._unsaved_lines += [line for line in changes.journal if line.job_id in kept]
            self._unsaved_steps += [step for step in changes.steps if step.job_id in kept]
            await self._save(gone=changes.gone)
            # The end of a job is told when it is on disk.
            for job_id in changes.gone:
                self.state.evict_job(job_id)
            for _ in range(changes.shown, len(changes.jobs), JOBS_A_TURN):
                self.show(changes, most=JOBS_A_TURN)
                await asyncio.sleep(0)
        self.touch(changes.gone)

    def show(self, changes: JobChanges, *, most: int) -> None:
        """Put the next of the changed jobs into memory, and tell clients."""
        planned, pending = self.state.planned, self.state.index.pending
        jobs = changes.jobs[changes.shown : changes.shown + most]
        changes.shown += len(jobs)
        for job in jobs:
            self.state.upsert_job(job)
            if (reason := changes.reasons.get(job.id)) is not None:
                planned.pending_reasons[job.id] = reason
            if (priority := changes.priorities.get(job.id)) is not None:
                planned.priorities[job.id] = priority
            elif job.id not in pending:
                planned.priorities.pop(job.id, None)
        self.touch([job.id for job in jobs])

    async def add(self, job: Job, *, journal: str, created: CreatedObject | None = None) -> None:
        """Add a job that this user has submitted. It is on disk when this returns. Raises StoreError."""
        async with self._writing:
            line = JournalEntry(at_unix=self.clock(), job_id=job.id, text=journal)
            await self.commits.commit(
                Changes(
                    requests=((_request_key(job), job.request),),
                    jobs=(job,),
                    journal=(line,),
                    created=(created,) if created is not None else (),
                )
            )
            if created is not None:
                upsert_created(self.state.created, created)
            self.state.upsert_job(job)
            self._mark_changed([job.id])
        self.touch([job.id])

    def was_read(self, printed: dict[JobId, int], begun: float) -> None:
        """Note that the queue was read completely by a squeue that was started at `begun`."""
        self.changed_at = {job_id: at for job_id, at in self.changed_at.items() if at >= begun}
        self.printed = {job_id: text for job_id, text in printed.items() if job_id not in self.changed_at}
        self.read_at = begun

    def _mark_changed(self, jobs: Iterable[JobId]) -> None:
        now = self.clock()
        for job_id in jobs:
            self.changed_at[job_id] = now
            self.printed.pop(job_id, None)

    @property
    def has_accounting(self) -> bool:
        """Whether slurmdbd keeps the jobs of this cluster."""
        return self.config.get("AccountingStorageType", "").endswith("slurmdbd")

    def note_scripts(self, seen: Iterable[SeenJob]) -> None:
        """Remember which submission of this user became which job."""
        prefix = f"{self.script_folder}/"
        for each in seen:
            if each.job.uid == self.uid and each.command.startswith(prefix) and self.script_folder:
                self.scripts[each.command] = each.job.array_job_id

    def touch(self, jobs: Iterable[JobId]) -> None:
        """Tell clients that these jobs have changed, and the nodes that they hold."""
        ids = list(jobs)
        held = {
            name
            for job_id in ids
            if (job := self.state.jobs.get(job_id)) is not None and job.allocation is not None
            for name in job.allocation.node_names()
            if name in self.nodes.rows
        }
        self.hub.touch(jobs=ids, nodes=sorted(held))

    async def put_nodes(
        self,
        rows: Sequence[NodeRow],
        partitions_of: dict[str, list[str]],
        partitions: Sequence[PartitionRow],
        flags: dict[str, frozenset[str]],
        gpus_in_use: dict[NodeName, frozenset[int]],
        *,
        begun: float,
    ) -> None:
        """Replace the nodes and the partitions. `begun` is the time at which the command was started.

        The state of a node that a user has changed since then stays.
        """
        before, changed_at = self.nodes.rows, self.nodes.changed_at
        later = {name for name, at in changed_at.items() if at >= begun and name in before}
        self.nodes.changed_at = {name: changed_at[name] for name in later}
        fresh = {
            name: before[name] if name in later else row for row in rows for name in (NodeName(row.name),)
        }
        flags = flags | {name: self.nodes.flags[name] for name in later if name in flags}
        changed = [name for name, row in fresh.items() if not _looks_equal(before.get(name), row)]
        self.nodes.rows = fresh
        self.nodes.partitions = {NodeName(name): found for name, found in partitions_of.items()}
        self.nodes.flags = {NodeName(name): found for name, found in flags.items()}
        self.nodes.gpus_in_use = gpus_in_use
        self.partitions = list(partitions)
        self.hub.touch(nodes=[*changed, *(name for name in before if name not in fresh)])
        await self._note_conditions(fresh, before, is_all=True)

    async def put_node(
        self, row: NodeRow, partitions_of: dict[str, list[str]], flags: dict[str, frozenset[str]]
    ) -> None:
        """Replace one node, because a user has changed it."""
        name = NodeName(row.name)
        before = {each: old for each in (name,) if (old := self.nodes.rows.get(each)) is not None}
        self.nodes.rows[name] = row
        self.nodes.partitions[name] = partitions_of[row.name]
        self.nodes.flags[name] = flags[row.name]
        self.nodes.changed_at[name] = self.clock()
        self.hub.touch(nodes=[name])
        await self._note_conditions({name: row}, before, is_all=False)

    async def _note_conditions(
        self, rows: Mapping[NodeName, NodeRow], before: Mapping[NodeName, NodeRow], *, is_all: bool
    ) -> None:
        """Record which of these nodes were drained, went down, or came back since the looks that gave `before`."""
        conditions, now = self._conditions, self.clock()
        conditions.note(rows, self.nodes.flags, before=before, now=now)
        if is_all and rows:
            conditions.note_gone(rows, now=now)
        if conditions.is_unsaved:
            async with self._writing:
                await self._save(gone=())

    async def note_created(self, created: CreatedObject) -> None:
        """Record that a request has created an object other than a job. Raises StoreError."""
        async with self._writing:
            await self.commits.commit(Changes(created=(created,)))
            upsert_created(self.state.created, created)

    async def add_curves(self, curves: Sequence[JobCurve]) -> None:
        """Write curves of jobs to the record. Raises StoreError."""
        async with self._writing:
            await self.commits.commit(Changes(curves=tuple(curves)))

    def evict(self) -> None:
        """Remove jobs from memory that ended long ago. The record keeps them."""
        gone = evict_finished(self.state, ended_before_unix=self.clock() - self._keep_ended_s)
        self.hub.touch(jobs=gone)

    async def _save(self, *, gone: Sequence[JobId]) -> None:
        jobs = tuple(self._unsaved.values())
        requests: dict[JobId, Request] = {_request_key(job): job.request for job in jobs}
        changes = Changes(
            requests=tuple(requests.items()),
            jobs=jobs,
            gone_jobs=tuple(gone),
            journal=tuple(self._unsaved_lines),
            steps=tuple(self._unsaved_steps),
            conditions=self._conditions.unsaved(),
            gone_nodes=self._conditions.forgotten(),
        )
        try:
            await self.commits.commit(changes)
        except StoreError as error:
            log.error("%s", error)
            return
        self._unsaved.clear()
        self._unsaved_lines.clear()
        self._unsaved_steps.clear()
        self._conditions.saved(changes)


def _request_key(job: Job) -> JobId:
    """Return the number of the job's request in the record. The components of a heterogeneous job have their own."""
    return JobId(job.request_key or job.array_job_id)


def _looks_equal(before: NodeRow | None, after: NodeRow) -> bool:
    """Return whether two rows of a node differ in the time of reading only."""
    return before is not None and msgspec.structs.replace(before, at=after.at) == after
