"""Reads what agents of the site have measured: one file for each node, in a folder of the administrators.

The gateway is a process of an ordinary user, and reads only a folder that root or the account from the settings owns. The
files are small and are read while somebody looks, without any request to slurmctld.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pwd
import stat
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

import msgspec

from warpdeck.base.background_task import background
from warpdeck.base.errors import UserError
from warpdeck.engines.slurm.cluster.cluster import Cluster
from warpdeck.fleet.field_limits import with_field_limits
from warpdeck.model import Job, JobId, JobState, NodeName
from warpdeck_agent.wire import messages as wire

from .readings import SITE_AGENT, GpuReadings, sampled

log = logging.getLogger("warpdeck.slurm")

LOOK_S = 10.0
"""Seconds between two looks at the files while a screen is open. Agents write as often."""
STALE_S = 60.0
"""Age from which on a reading is not shown."""
OLD_S = 25.0
"""Age from which on a reading is shown with its age, because the agent must have missed a turn."""
WAIT_S = 1.0
"""Seconds for which a user waits for the files. The file system may hang."""
MAX_NODES = 1000
"""Maximum number of files that are read at once. Those of the user's own jobs come first."""
MAX_FILE_BYTES = 512 * 1024
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_OPEN = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_DECODER: msgspec.json.Decoder[wire.JobSample] = msgspec.json.Decoder(with_field_limits(wire.JobSample))


@dataclass(kw_only=True)
class AgentFiles:
    """Puts the readings of agents into the copy of the cluster. Without a folder it does nothing."""

    cluster: Cluster
    readings: GpuReadings
    folder: str
    owner: str
    look_s: float = LOOK_S
    _screens: int = field(default=0, init=False)
    """Number of open screens."""
    _reading: asyncio.Task[None] | None = field(default=None, init=False)
    _wake: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _told: str = field(default="", init=False)
    """The last problem that was logged."""

    async def look(self, job_id: JobId) -> bool:
        """Read the files of a job's nodes, because a user looks at it. Returns whether agents measure its GPUs."""
        job = self.cluster.state.jobs.get(job_id)
        if not self.folder or job is None or job.state is not JobState.RUNNING:
            return False
        await self._read(nodes_of([job])[:MAX_NODES])
        self._wake.set()
        return self.readings.is_measured_by_agents(job)

    @contextmanager
    def screen(self) -> Iterator[None]:
        """Read the files of all nodes with running jobs while the block runs."""
        self._screens += 1
        self._wake.set()
        try:
            yield
        finally:
            self._screens -= 1

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Read files for screens, and forget old readings, while the block runs."""
        async with background(self._run()):
            yield

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            if self._screens and self.folder:
                await self._read(self._names())
            self.readings.drop_of_agents(before=self.cluster.clock() - STALE_S)
            is_needed = (self._screens and self.folder) or self.readings.has_agents
            try:
                async with asyncio.timeout(self.look_s if is_needed else None):
                    await self._wake.wait()
            except TimeoutError:
                pass

    def _names(self) -> list[NodeName]:
        """Return the nodes of running jobs, those of the user's own jobs first."""
        state = self.cluster.state
        jobs = [state.jobs[job_id] for job_id in state.index.active]
        jobs.sort(key=lambda job: job.uid != self.cluster.uid)
        return nodes_of(jobs)[:MAX_NODES]

    async def _read(self, names: list[NodeName]) -> None:
        """Read the files of these nodes, but wait only a moment. A thread that hangs is not joined by another one."""
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read_safely(names))
        await asyncio.wait([self._reading], timeout=WAIT_S)

    async def _read_safely(self, names: list[NodeName]) -> None:
        try:
            found = await asyncio.to_thread(read_files, self.folder, self.owner, names)
        except UserError as error:
            if error.message != self._told:
                log.warning("%s", error.message)
            self._told = error.message
            return
        self._told = ""
        for name, line in found.items():
            self._put(name, line)

    def _put(self, name: NodeName, line: wire.JobSample) -> None:
        row, now = self.cluster.nodes.rows.get(name), self.cluster.clock()
        at_unix = min(line.at_unix, now)
        if row is None or now - at_unix > STALE_S:
            return
        age_s = now - at_unix
        source = f"{SITE_AGENT}, {age_s:.0f} s ago" if age_s > OLD_S else SITE_AGENT
        gpus = sampled(line, [gpu.index for gpu in row.gpus], source=source)
        self.readings.put_of_agent(name, gpus, at_unix=at_unix)


def nodes_of(jobs: Collection[Job]) -> list[NodeName]:
    """Return the nodes of running jobs with GPUs, each once."""
    running = [job for job in jobs if job.state is JobState.RUNNING and job.allocation is not None]
    return list(
        dict.fromkeys(
            share.node for job in running if job.allocation for share in job.allocation.shares if share.gpus
        )
    )


def read_files(folder: str, owner: str, names: Collection[NodeName]) -> dict[NodeName, wire.JobSample]:
    """Return the content of the files of these nodes. A file that is missing, foreign or broken is left out.

    Raises UserError if the folder cannot be read, or if other accounts could have put the files there.
    """
    owners = _owners(owner)
    try:
        parent = os.open(folder, _OPEN | os.O_DIRECTORY)
    except OSError as error:
        raise UserError(f"cannot read the readings of GPUs in {folder}: {error.strerror}") from error
    try:
        if not _is_trusted(os.fstat(parent), owners):
            raise UserError(
                f"readings of GPUs in {folder} are not used, because other accounts than its owner may write there",
                "set readings_owner to the account that owns it, and remove the rights of others to write",
            )
        found = {name: _read_file(parent, f"{name}.json", owners) for name in names if "/" not in name}
    finally:
        os.close(parent)
    return {name: line for name, line in found.items() if line is not None and line.node == name}


def _owners(owner: str) -> frozenset[int]:
    try:
        return frozenset({0, pwd.getpwnam(owner).pw_uid} if owner else {0})
    except KeyError:
        raise UserError(f"readings_owner is {owner}, which is no account of this machine") from None


def _is_trusted(found: os.stat_result, owners: frozenset[int]) -> bool:
    return found.st_uid in owners and not found.st_mode & _OTHERS_WRITE


def _read_file(parent: int, name: str, owners: frozenset[int]) -> wire.JobSample | None:
    try:
        file = os.open(name, _OPEN, dir_fd=parent)
        try:
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode) or not _is_trusted(found, owners):
                return None
            data = os.read(file, MAX_FILE_BYTES)
        finally:
            os.close(file)
        return _DECODER.decode(data)
    except (OSError, msgspec.MsgspecError):
        return None
