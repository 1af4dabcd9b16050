"""The last readings of the GPUs of running jobs, where the presenters look for the readings of nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from warpdeck.controller.state.measurements import to_gpu_reading
from warpdeck.engines.slurm.cluster.cluster import Cluster
from warpdeck.engines.slurm.cluster.job_changes import JobChanges
from warpdeck.model import GpuReading, Job, JobId, NodeName, NodeReading, Share
from warpdeck_agent.wire import messages as wire

SAMPLER = "sampler"
SSTAT = "sstat"
SITE_AGENT = "site agent"


class GpuReadings:
    """Readings by job and node. Several jobs may have GPUs on one node."""

    def __init__(
        self, cluster: Cluster, *, taken: Callable[[NodeName, tuple[GpuReading, ...], float], None]
    ) -> None:
        self._cluster = cluster
        self._taken = taken
        """Is called with each reading of GPUs of a node, and its time."""
        self._found: dict[NodeName, dict[JobId, NodeReading]] = {}
        self._of_agents: dict[NodeName, NodeReading] = {}
        """Readings of all GPUs of a node by the site's agent, which come before those of jobs."""

    def put(self, job_id: JobId, node: NodeName, gpus: Iterable[GpuReading], *, at_unix: float) -> None:
        """Replace the readings of a job's GPUs on a node."""
        # slurmctld reports the load and the memory of nodes, so they are not measured.
        reading = NodeReading(at_unix=at_unix, cpu_pct=0.0, mem_used_bytes=0, gpus=tuple(gpus))
        self._found.setdefault(node, {})[job_id] = reading
        self._publish(node)
        self._taken(node, reading.gpus, at_unix)
        self._cluster.hub.touch(jobs=[job_id], nodes=[node])

    def put_of_agent(self, node: NodeName, gpus: Iterable[GpuReading], *, at_unix: float) -> None:
        """Replace the readings of all GPUs of a node, which the site's agent has measured at this time."""
        reading = NodeReading(at_unix=at_unix, cpu_pct=0.0, mem_used_bytes=0, gpus=tuple(gpus))
        if self._of_agents.get(node) != reading:
            self._of_agents[node] = reading
            self._taken(node, reading.gpus, at_unix)
            self._show(node)

    def drop_of_agents(self, *, before: float) -> None:
        """Forget the readings of agents that were taken before this time."""
        for node in [node for node, reading in self._of_agents.items() if reading.at_unix < before]:
            del self._of_agents[node]
            self._show(node)

    @property
    def has_agents(self) -> bool:
        """Whether readings of agents are shown."""
        return bool(self._of_agents)

    def is_measured_by_agents(self, job: Job) -> bool:
        """Return whether the site's agents measure all GPUs of the job."""
        shares = (
            [share for share in job.allocation.shares if share.gpus] if job.allocation is not None else []
        )
        return bool(shares) and all(self._has_gpus(share) for share in shares)

    def _has_gpus(self, share: Share) -> bool:
        reading = self._of_agents.get(share.node)
        return reading is not None and set(share.gpus) <= {gpu.index for gpu in reading.gpus}

    def _show(self, node: NodeName) -> None:
        self._publish(node)
        jobs = [job.id for job in self._cluster.state.jobs_on(node)]
        self._cluster.hub.touch(jobs=jobs, nodes=[node])

    def is_sampled(self, job_id: JobId) -> bool:
        """Return whether a step in the job measures its GPUs."""
        found = (readings.get(job_id) for readings in self._found.values())
        return any(gpu.source == SAMPLER for reading in found if reading for gpu in reading.gpus)

    def forget_ended(self, changes: JobChanges) -> None:
        """Forget the readings of jobs that have ended."""
        for job_id in (*(job.id for job in changes.jobs if job.is_finished), *changes.vanished):
            self.drop(job_id)

    def drop(self, job_id: JobId) -> None:
        """Forget the readings of a job, because nobody measures it any more."""
        nodes = [node for node, found in self._found.items() if found.pop(job_id, None) is not None]
        for node in nodes:
            self._publish(node)
        if nodes:
            self._cluster.hub.touch(jobs=[job_id], nodes=nodes)

    def _publish(self, node: NodeName) -> None:
        found, agent = self._found.get(node, {}), self._of_agents.get(node)
        if not found:
            self._found.pop(node, None)
        # The readings of the agent come last, so that they replace those of jobs.
        all_readings = [*found.values(), *([agent] if agent is not None else [])]
        readings = self._cluster.state.node_status.readings
        if not all_readings:
            readings.pop(node, None)
            return
        newest = max(all_readings, key=lambda reading: reading.at_unix)
        gpus = {gpu.index: gpu for reading in all_readings for gpu in reading.gpus}
        readings[node] = msgspec.structs.replace(newest, gpus=tuple(gpus.values()))


def sampled(line: wire.JobSample, gpus: Sequence[int], *, source: str = SAMPLER) -> list[GpuReading]:
    """Return the readings of the GPUs with these indexes of Slurm, which a job has on the node of the line.

    If Slurm hides other GPUs from the job, NVML numbers those of the job from 0 on. Otherwise the minor numbers of the
    device files decide, which gres.conf lists in their order.
    """
    cards = sorted(line.cards, key=lambda card: (card.minor, card.index))
    if len(cards) == len(gpus):
        pairs = list(zip(cards, sorted(gpus), strict=True))
    else:
        pairs = [(card, card.minor) for card in cards if card.minor in gpus]
    samples = {sample.index: sample for sample in line.gpus}
    return [
        msgspec.structs.replace(
            to_gpu_reading(samples[card.index]), index=index, mem_bytes=card.mem_bytes, source=source
        )
        for card, index in pairs
        if card.index in samples
    ]
