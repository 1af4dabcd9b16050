"""Contains jobs on this node: enforces their resource limits, and keeps their processes together.

Each facility uses the strongest mechanism that works here, chosen once when the agent starts: cgroup v2,
cgroup v1, or else settings that any process may apply to its children (CPU affinity, a limit on processes,
the memory watch). A missing mechanism never stops a launch. The node reports which facility is enforced,
watched, or missing.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Container, Dict, List, Optional, Sequence, Tuple

from warpdeck_agent.linux.procfs import text, write
from warpdeck_agent.wire.messages import Facility

from . import launch_cgroups
from .cgroup_lock import CgroupMoveLock
from .cgroup_pool import CgroupPool, Settings
from .cgroups import Hierarchy, find_hierarchies
from .containment_handle import ContainmentHandle
from .cpus import Cpus, CpuTable
from .devices import DeviceGate, gpu_minors
from .private_folders import can_cover

KERNEL, WATCHED, ADVISED, MISSING = "enforced", "watched", "advised", "missing"
"""Enforced by the kernel; watched by the agent, which checks repeatedly; set in a way that a job could undo;
or absent.
"""
NOT_LIMITS = ("end", "folders")
"""Facilities that do not limit a launch to requested resources."""
LIMITING = ("memory", "cpuset", "pids")
"""Controllers that limit a launch, in any hierarchy that has them."""


@dataclass(frozen=True)
class LaunchLimits:
    """The resources that a launch may use; 0 or None is no limit.

    `gpus` are minor numbers; all other GPUs are closed to the launch.
    """

    mem_bytes: int = 0
    cpus: int = 0
    processes: int = 0
    gpus: Optional[Tuple[int, ...]] = None


class NodeContainment:
    """The mechanisms in use, and the contained launches.

    `facilities` and `summary` describe the limits that this node can enforce.
    """

    def __init__(self, agent: str) -> None:
        self._hierarchies = find_hierarchies("warpdeck-" + agent)
        self._of: Dict[str, Hierarchy] = {}
        for hierarchy in self._hierarchies:
            for controller in hierarchy.controllers:
                self._of.setdefault(controller, hierarchy)
        unified = next((each.base for each in self._hierarchies if each.version == 2), "")
        devices = self._of.get("devices")
        self._device_gate = DeviceGate(unified=unified, devices=devices.base if devices else "")
        self._launch_hierarchies = self._needed_hierarchies(unified)
        self._pool = CgroupPool()
        self.lock = CgroupMoveLock([each.base for each in self._launch_hierarchies])
        self.can_cover = can_cover()
        self._cpus = CpuTable(sorted(os.sched_getaffinity(0)), start=int(agent[:8] or "0", 16))
        self.facilities = self._describe()
        self.summary = self._summarize()

    def make(self, name: str, limits: LaunchLimits) -> ContainmentHandle:
        """Create the cgroups and choose the CPUs of a launch, before its first process runs."""
        groups: List[str] = []
        cpus = self._cpus.take(name, limits.cpus)
        enforced = dict.fromkeys(LIMITING, False)
        gpus = gpu_minors() if limits.gpus is not None else ()
        hides_gpus = False
        for hierarchy in self._launch_hierarchies:
            path = f"{hierarchy.base}/{name}"
            closes = bool(gpus) and self._closes_devices(hierarchy)
            settings = self._settings(hierarchy, limits, cpus, gpus=gpus if closes else None)
            here = [each for each in LIMITING if self._of.get(each) is hierarchy]
            if self._pool.take(path, settings):
                enforced.update(dict.fromkeys(here, True))
                hides_gpus |= closes
            elif _create_cgroup(path, hierarchy, cpus):
                for controller in here:
                    enforced[controller] = _limit(path, controller, hierarchy.version, limits, cpus)
                closed = closes and self._device_gate.close(path, given=limits.gpus or ())
                hides_gpus |= closed
                if hierarchy.version == 1 and all(enforced[each] for each in here) and closed == closes:
                    self._pool.register(path, settings)
            else:
                continue
            groups.append(path)
        self.lock.expect()  # after the cgroups are made, because it would delay that
        return ContainmentHandle(
            groups=tuple(groups),
            cpus=cpus,
            processes=0 if enforced["pids"] else limits.processes,
            watch_mem_bytes=0 if enforced["memory"] else limits.mem_bytes,
            hides_gpus=hides_gpus,
        )

    def adopt(self, name: str, cpus: Cpus) -> None:
        """Take over the CPUs that an earlier agent assigned to a launch that still runs."""
        self._cpus.record(name, cpus)

    def release(
        self, name: str, groups: Sequence[str], used: Optional[launch_cgroups.CgroupUsage] = None
    ) -> bool:
        """Remove the cgroups of an ended launch.

        Returns False while a cgroup is not empty. Its CPUs are freed in any case. `used` is the usage of
        cgroups in which no process was found, so that they may be kept for another launch.
        """
        self._cpus.release(name)
        kept = [
            path
            for path in groups
            if used is not None and self._pool.knows(path) and not launch_cgroups.below(path)
        ]
        others = [path for path in groups if path not in kept]
        for path in others:
            self._pool.forget(path)
        empty = launch_cgroups.remove_whole(others)
        return empty and launch_cgroups.remove_whole(
            [path for path in kept if used is None or not self._pool.keep(path, used)]
        )

    @property
    def groups_jobs(self) -> bool:
        """Whether cgroups hold the processes of jobs together."""
        return bool(self._launch_hierarchies)

    def clear(self, keep: Container[str]) -> bool:
        """Remove empty cgroups that an earlier agent left, except the ones in `keep`.

        The usage of those in `keep` must still be read. Returns whether only those are left.
        """
        found = [
            entry.path
            for each in self._launch_hierarchies
            for entry in os.scandir(each.base)
            if entry.is_dir()
        ]
        return launch_cgroups.remove_whole([path for path in found if path not in keep])

    def close(self) -> None:
        """Remove all of our cgroups that no running job needs."""
        launch_cgroups.remove(self._pool.clear())
        for hierarchy in self._hierarchies:
            launch_cgroups.remove([hierarchy.base])

    def _needed_hierarchies(self, unified: str) -> List[Hierarchy]:
        """Return the hierarchies in which each launch gets a cgroup, without those that would add nothing.

        The processes of a launch are read from the first one.
        """
        wanted = {id(self._of[each]) for each in LIMITING if each in self._of}
        if unified:
            wanted.add(id(self._hierarchies[0]))
        elif "cpuacct" in self._of:
            wanted.add(id(self._of["cpuacct"]))
        if self._device_gate.version == 1:
            wanted.add(id(self._of["devices"]))
        return [each for each in self._hierarchies if id(each) in wanted]

    def _settings(
        self, hierarchy: Hierarchy, limits: LaunchLimits, cpus: Cpus, *, gpus: Optional[Tuple[int, ...]]
    ) -> Settings:
        """Return all settings of a launch's cgroup in this hierarchy.

        `gpus` are the node's GPUs if this hierarchy closes the others to the launch, or None.
        """
        return (
            hierarchy.base,
            limits.mem_bytes if "memory" in hierarchy.controllers else 0,
            limits.processes if "pids" in hierarchy.controllers else 0,
            cpus if "cpuset" in hierarchy.controllers else (),
            (limits.gpus, gpus) if gpus is not None else None,
        )

    def _closes_devices(self, hierarchy: Hierarchy) -> bool:
        """Return whether devices are closed to the cgroups of this hierarchy."""
        by_controller = hierarchy.version == 1 and "devices" in hierarchy.controllers
        return self._device_gate.version == hierarchy.version and (hierarchy.version == 2 or by_controller)

    def _describe(self) -> List[Facility]:
        grouped = f"cgroup v{self._launch_hierarchies[0].version}" if self._launch_hierarchies else ""
        return [
            Facility("end", KERNEL, grouped)
            if grouped
            else Facility(
                "end",
                WATCHED,
                "by an environment variable; a daemon that clears it is killed with the last job of its user",
            ),
            self._facility(
                "memory", "memory", WATCHED, "a job or step over its limit is killed within seconds"
            ),
            self._facility("cpus", "cpuset", ADVISED, "CPU affinity, which a job can change"),
            self._facility(
                "processes", "pids", ADVISED, "RLIMIT_NPROC, counted over all of the user's processes"
            ),
            Facility("folders", KERNEL, "separate mounts for each job")
            if self.can_cover
            else Facility("folders", MISSING, "private_dirs needs an agent of root that may mount"),
            Facility("devices", KERNEL, self._device_gate.how)
            if self._device_gate.how
            else Facility("devices", ADVISED, "CUDA_VISIBLE_DEVICES, which a job can change"),
        ]

    def _facility(self, name: str, controller: str, otherwise: str, how: str) -> Facility:
        hierarchy = self._of.get(controller)
        if hierarchy is None:
            return Facility(name, otherwise, how)
        return Facility(name, KERNEL, f"cgroup v{hierarchy.version} {controller}")

    def _summarize(self) -> str:
        if not self._launch_hierarchies:
            return "no cgroups: the agent watches jobs, and finds their processes by an environment variable and by ancestry"
        versions = " and ".join(
            sorted({f"v{each.version}" for each in self._launch_hierarchies}, reverse=True)
        )
        enforced = [
            each.name for each in self.facilities if each.strength == KERNEL and each.name not in NOT_LIMITS
        ]
        return f"cgroup {versions}: all processes of a job are ended together" + (
            f"; enforced limits: {', '.join(enforced)}" if enforced else ""
        )


def _make_folder(path: str) -> None:
    """Create a folder with one system call in the common case.

    makedirs alone would first check the parent.
    """
    try:
        os.mkdir(path)
    except FileNotFoundError:
        os.makedirs(path, exist_ok=True)
    except FileExistsError:
        return


def _create_cgroup(path: str, hierarchy: Hierarchy, cpus: Cpus) -> bool:
    """Create an empty cgroup and return whether that worked.

    v1's cpuset accepts no process before it has CPUs (`cpus` are set later, if any) and memory nodes.
    """
    try:
        _make_folder(path)
        if hierarchy.version == 1 and "cpuset" in hierarchy.controllers:
            for file in ("cpuset.mems",) if cpus else ("cpuset.cpus", "cpuset.mems"):
                write(os.path.join(path, file), text(os.path.join(hierarchy.base, file)))
    except OSError:
        return False
    return True


def _limit(path: str, controller: str, version: int, limits: LaunchLimits, cpus: Cpus) -> bool:
    """Write the launch's limit.

    Returns False if the kernel does not accept it. Without a limit there is nothing to write.
    """
    if controller == "memory" and limits.mem_bytes:
        try:
            launch_cgroups.limit_memory(
                path, launch_cgroups.V2 if version == 2 else launch_cgroups.V1, limits.mem_bytes
            )
        except OSError:
            return False
    if controller == "pids" and limits.processes:
        return _set(path, "pids.max", limits.processes)
    if controller == "cpuset" and cpus:
        return _set(path, "cpuset.cpus", ",".join(str(cpu) for cpu in cpus))
    return True


def _set(path: str, name: str, value: object) -> bool:
    try:
        write(os.path.join(path, name), str(value))
    except OSError:
        return False
    return True
