"""Measurements over time, which Slurm does not keep: the readings that the gateway gets anyway, recorded.

The sources are those of `gpus.readings`: samplers, the site's agents, and sstat. They are read while somebody looks, so a
curve has gaps. Each of the user's running jobs has one curve for each node (`LifeCurve`). It is written to the record once
a minute and at the job's end, so a killed gateway loses a minute at most. Curves of nodes are in memory only, and of the
nodes with a running job of the user, or that a user has looked at.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from warpdeck.base.background_task import background
from warpdeck.base.errors import StoreError, UserError
from warpdeck.controller.presenters.usage_rows import usage_row
from warpdeck.engines.shared.job_lookup import JobLookup
from warpdeck.engines.slurm.cluster.cluster import Cluster
from warpdeck.model import GpuReading, Job, JobCurve, JobId, NodeName, UsageCurve
from warpdeck.protocol import requests as ask
from warpdeck.protocol.job_rows import CurveRow, UsageCurves

from .means import LifeCurve, Ring

log = logging.getLogger("warpdeck.slurm")

SAVE_S = 60.0
"""Seconds between two writes of the curves that have grown."""
MAX_CURVES = 1024
"""Maximum number of curves of running jobs on their nodes. One takes about 10 KB. The curves of further jobs are not recorded."""
MAX_NODES = 64
"""Maximum number of nodes with curves. The node that was looked at or measured longest ago is forgotten."""
RINGS = ((10.0, 720), (60.0, 1440))
"""The steps in seconds and the number of steps of a node's curves: two hours and a day. One of a GPU takes about 30 KB."""
SPANS = ((5.0, 0, 600.0), (35.0, 0, 7200.0), (math.inf, 1, 86_400.0))
"""Largest requested step in seconds, the place of the ring in RINGS, and the seconds that the answer covers."""
WHOLE = -1
"""Stands for the node itself among its GPUs."""


class Life(NamedTuple):
    """A start of a job on one of its nodes."""

    job_id: JobId
    restarts: int
    node: NodeName


@dataclass(kw_only=True)
class Recorder:
    """Records readings. `take` is called with each of them."""

    cluster: Cluster
    clock: Callable[[], float]
    save_s: float = SAVE_S
    _lives: dict[Life, LifeCurve] = field(default_factory=dict, init=False)
    _unread: set[Life] = field(default_factory=set, init=False)
    """Curves with an earlier part in the store, from before a restart of the gateway."""
    _unsaved: set[Life] = field(default_factory=set, init=False)
    _nodes: dict[NodeName, dict[int, tuple[Ring, ...]]] = field(default_factory=dict, init=False)
    """The curves of nodes by the indexes of their GPUs. The node that was used last is the last one."""
    _saving: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    def take(self, node: NodeName, gpus: Iterable[GpuReading], at_unix: float) -> None:
        """Record the readings of GPUs of a node."""
        by_index = {gpu.index: gpu for gpu in gpus if not gpu.error}
        for job in self.cluster.state.jobs_on(node):
            if job.uid == self.cluster.uid and job.allocation is not None:
                self._take_for_job(job, node, by_index, at_unix)
        if node in self._nodes or any(
            job.uid == self.cluster.uid for job in self.cluster.state.jobs_on(node)
        ):
            rings = self.watch(node)
            for index, gpu in by_index.items():
                _add(rings, index, values_of([gpu]), at_unix)

    def _take_for_job(
        self, job: Job, node: NodeName, by_index: Mapping[int, GpuReading], at_unix: float
    ) -> None:
        assert job.allocation is not None
        held = {index for share in job.allocation.shares if share.node == node for index in share.gpus}
        if not held or not held <= by_index.keys() or job.start_at_unix is None:
            return
        life = Life(job.id, job.restarts, node)
        curve = self._lives.get(life)
        if curve is None:
            if len(self._lives) >= MAX_CURVES:
                return
            curve = self._lives[life] = LifeCurve(job.start_at_unix)
            self._unread.add(life)
        curve.add(values_of([by_index[index] for index in held]), at_unix)
        self._unsaved.add(life)

    def watch(self, node: NodeName) -> dict[int, tuple[Ring, ...]]:
        """Return the curves of a node, which are recorded from now on."""
        rings = self._nodes.pop(node, {})
        self._nodes[node] = rings
        while len(self._nodes) > MAX_NODES:
            del self._nodes[next(iter(self._nodes))]
        return rings

    def note_nodes(self) -> None:
        """Record the load and the memory of the watched nodes, which slurmctld has told last."""
        for node, rings in self._nodes.items():
            row = self.cluster.nodes.rows.get(node)
            if row is not None:
                # In curves, 100 % is one CPU.
                cpu_pct = None if row.cpu_pct is None else row.cpu_pct * row.cpus
                told = {"cpu_pct": cpu_pct, "mem_bytes": row.mem_used_bytes}
                known = {name: float(value) for name, value in told.items() if value is not None}
                _add(rings, WHOLE, known, row.at or self.clock())

    async def of_job(self, job: Job) -> dict[NodeName, UsageCurve]:
        """Return the curves of the last start of a job by node."""
        async with self._saving:
            await self._read_earlier([life for life in self._unread if life.job_id == job.id])
            found = {each.node: each.curve for each in await self.cluster.store.curves(job.id)}
        lives = {
            life.node: curve for life, curve in self._lives.items() if life[:2] == (job.id, job.restarts)
        }
        return found | {node: curve.curve() for node, curve in lives.items()}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Write curves to the record while the block runs, and at its end."""
        try:
            async with background(self._save_for_ever()):
                yield
        finally:
            await self.save()

    async def _save_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self.save_s)
            self.note_nodes()
            await self.save()

    async def save(self) -> None:
        """Write the curves that have grown, and forget those of ended jobs. If that fails, it is tried again later."""
        async with self._saving:
            try:
                await self._read_earlier(list(self._unread & self._unsaved))
                lives = sorted(self._unsaved)
                curves = [
                    JobCurve(job_id=life.job_id, node=life.node, curve=self._lives[life].curve())
                    for life in lives
                ]
                if curves:
                    await self.cluster.add_curves(curves)
            except StoreError as error:
                log.error("%s", error)
                return
            self._unsaved.difference_update(lives)
        jobs = self.cluster.state.jobs
        for life in [life for life in self._lives if life not in self._unsaved]:
            job = jobs.get(life.job_id)
            if job is None or job.is_finished or job.restarts != life.restarts:
                del self._lives[life]
                self._unread.discard(life)

    async def _read_earlier(self, lives: Iterable[Life]) -> None:
        """Add the points that an earlier gateway has recorded. Raises StoreError."""
        for life in lives:
            for stored in await self.cluster.store.curves(life.job_id):
                curve = self._lives.get(life)
                if (
                    stored.node == life.node
                    and curve is not None
                    and stored.curve.begin_unix == curve.begin_unix
                ):
                    curve.add_earlier(LifeCurve.of(stored.curve))
            self._unread.discard(life)


def _add(rings: dict[int, tuple[Ring, ...]], index: int, values: Mapping[str, float], at_unix: float) -> None:
    for ring in rings.setdefault(index, tuple(Ring(step_s, size) for step_s, size in RINGS)):
        ring.add(values, at_unix)


def values_of(gpus: list[GpuReading]) -> dict[str, float]:
    """Return the values of GPUs together: the mean utilization, if it is known of all, and sums of the others."""
    found: dict[str, float] = {}
    utils = [gpu.util_pct for gpu in gpus if gpu.util_pct is not None]
    if len(utils) == len(gpus):
        found["gpu_util_pct"] = sum(utils) / len(utils)
    if mems := [gpu.mem_used_bytes for gpu in gpus if gpu.mem_used_bytes is not None]:
        found["gpu_mem_bytes"] = float(sum(mems))
    if powers := [gpu.power_w for gpu in gpus if gpu.power_w is not None]:
        found["gpu_power_w"] = sum(powers)
    if len(gpus) == 1 and gpus[0].temp_c is not None:
        found["gpu_temp_c"] = float(gpus[0].temp_c)
    return found


@dataclass(frozen=True, kw_only=True)
class SlurmCurves:
    """Answers requests for curves."""

    recorder: Recorder
    cluster: Cluster
    lookup: JobLookup

    async def curves(self, message: ask.Curves) -> UsageCurves:
        """Return the recorded curves of a node or of a job. Raises UserError."""
        if message.node:
            return self._of_node(message.node, step_s=message.step_s)
        word, dot, _ = message.job.partition(".")
        if dot:
            raise UserError(
                "over Slurm, the use of single steps is not recorded", f"see the whole job {word}"
            )
        job = await self.lookup.find(word)
        curves = await self.recorder.of_job(job)
        return UsageCurves(
            curves=[_row(node, curve) for node, curve in sorted(curves.items())],
            used=usage_row(job) if job.is_finished and job.allocation is not None else None,
        )

    def _of_node(self, name: str, *, step_s: float) -> UsageCurves:
        """Return the node's curve and one for each measured GPU. A node is recorded from its first look on."""
        node = NodeName(name)
        row = self.cluster.nodes.rows.get(node)
        if row is None:
            raise UserError(f"there is no node {name}", "see `warpdeck node ls`", code="not_found")
        rings = self.recorder.watch(node)
        self.recorder.note_nodes()
        at, span_s = next((at, span_s) for most, at, span_s in SPANS if step_s <= most)
        now = self.recorder.clock()
        uuids = {gpu.index: gpu.uuid for gpu in row.gpus}
        return UsageCurves(
            curves=[
                _row(
                    node,
                    # slurmctld tells the load of nodes about once a minute.
                    each[-1 if index == WHOLE else at].curve(span_s=span_s, now=now),
                    gpu=None if index == WHOLE else index,
                    uuid=uuids.get(index, ""),
                )
                for index, each in sorted(rings.items())
            ]
        )


def _row(node: NodeName, curve: UsageCurve, *, gpu: int | None = None, uuid: str = "") -> CurveRow:
    return CurveRow(
        node=node, begin=curve.begin_unix, step_s=curve.step_s, columns=curve.columns, gpu=gpu, uuid=uuid
    )
