"""The launches of this node, by (job id, restarts)."""

from __future__ import annotations

from typing import Dict, Iterator, List, Optional, Set

from warpdeck_agent.isolation import job_processes
from warpdeck_agent.launch.launch import LocalLaunch
from warpdeck_agent.wire.messages import JobReport, Key

MAX_CURVES = 300
"""The most ended launches for which one Welcome carries curves. Each curve has several kilobytes, and the size of
a message is limited.
"""


class Launches:
    """All launches that the controller has not yet forgotten. Threads may read them."""

    def __init__(self) -> None:
        self._by_key: Dict[Key, LocalLaunch] = {}

    def __iter__(self) -> Iterator[LocalLaunch]:
        return iter(list(self._by_key.values()))

    def add(self, launch: LocalLaunch) -> None:
        self._by_key[launch.key] = launch

    def remove(self, launch: LocalLaunch) -> None:
        del self._by_key[launch.key]

    def get(self, key: Key) -> Optional[LocalLaunch]:
        return self._by_key.get(key)

    def find(self, job_id: int, restarts: int) -> Optional[LocalLaunch]:
        return self._by_key.get((job_id, restarts))

    def reports(self) -> List[JobReport]:
        """Return the reports of all launches, for Welcome."""
        return [launch.report(curve=number < MAX_CURVES) for number, launch in enumerate(self)]

    def running(self) -> List[LocalLaunch]:
        """Return the launches that are running now."""
        return [launch for launch in self if launch.phase == "running"]

    def running_uids(self) -> Set[int]:
        """Return the users of running launches."""
        return {launch.meta.uid for launch in self.running()}

    def job_tags(self) -> Dict[job_processes.JobTag, int]:
        """Return {job tag: job id} of all launches."""
        return {launch.processes.tag: launch.meta.job_id for launch in self}

    def jobs_on_gpu(self, uuid: str) -> Set[int]:
        """Return the ids of all jobs that have this GPU, including suspended ones."""
        return {launch.meta.job_id for launch in self if uuid in launch.meta.gpus}

    def gpus_in_use(self) -> Set[str]:
        """Return the UUIDs of the GPUs of all launches that may still have processes on this node."""
        return {uuid for launch in self if launch.phase in ("running", "ending") for uuid in launch.meta.gpus}
