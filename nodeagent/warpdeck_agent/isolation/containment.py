"""How jobs are held on this node: to what they asked for, and together until their end. Chosen once, when the agent starts.

Each facility takes the strongest form that works here: cgroup v2, cgroup v1, then what any process may do to its children
(CPU affinity, a limit on processes, the memory watch). A form that cannot be had never stops a launch: the node says
openly which facility is enforced, watched, or missing.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Container, Dict, List, Optional, Sequence, Tuple

from warpdeck_agent.linux.procfs import text, write
from warpdeck_agent.wire.messages import Facility

from . import launch_cgroups
from .cgroup_lock import GroupLock
from .cgroup_pool import Settings, Spares
from .cgroups import Hierarchy, find_hierarchies
from .cpus import Cpus, CpuTable
from .devices import DeviceGate, gpu_minors
from .hold import Hold
from .private_folders import can_cover

KERNEL, WATCHED, ADVISED, MISSING = "enforced", "watched", "advised", "missing"
"""By the kernel; by the agent, which looks again and again; by a setting that a job could undo; not at all."""
NO_LIMIT = ("end", "folders")
"""Facilities that hold a launch to nothing that it asked for."""
GATED = ("memory", "cpuset", "pids")
"""Controllers that hold a launch to a limit, in any hierarchy that has them."""


@dataclass(frozen=True)
class Limits:
    """What a launch may use; 0 or None is no limit. `gpus` are minor numbers, all other GPUs are closed to it."""

    mem_bytes: int = 0
    cpus: int = 0
    processes: int = 0
    gpus: Optional[Tuple[int, ...]] = None


class Containment:
    """The forms in use, and the launches that are held. `facilities` and `words` say openly what the node can do."""

    def __init__(self, agent: str) -> None:
        self._hierarchies = find_hierarchies("warpdeck-" + agent)
        self._of: Dict[str, Hierarchy] = {}
        for hierarchy in self._hierarchies:
            for controller in hierarchy.controllers:
                self._of.setdefault(controller, hierarchy)
        unified = next((each.base for each in self._hierarchies if each.version == 2), "")
        devices = self._of.get("devices")
        self._gate = DeviceGate(unified=unified, devices=devices.base if devices else "")
        self._used = self._needed(unified)
        self._spares = Spares()
        self.lock = GroupLock([each.base for each in self._used])
        self.can_cover = can_cover()
        self._cpus = CpuTable(sorted(os.sched_getaffinity(0)), start=int(agent[:8] or "0", 16))
        self.facilities = self._describe()
        self.words = self._sentence()

    def make(self, name: str, limits: Limits) -> Hold:
        """Groups and CPUs for a launch, before its first process runs."""
        made: List[str] = []
        cpus = self._cpus.take(name, limits.cpus)
        held = dict.fromkeys(GATED, False)
        gpus = gpu_minors() if limits.gpus is not None else ()
        hides_gpus = False
        for hierarchy in self._used:
            path = f"{hierarchy.base}/{name}"
            gates = bool(gpus) and self._gates(hierarchy)
            settings = self._settings(hierarchy, limits, cpus, gpus=gpus if gates else None)
            own = [each for each in GATED if self._of.get(each) is hierarchy]
            if self._spares.take(path, settings):
                held.update(dict.fromkeys(own, True))
                hides_gpus |= gates
            elif _made(path, hierarchy, cpus):
                for controller in own:
                    held[controller] = _limit(path, controller, hierarchy.version, limits, cpus)
                closed = gates and self._gate.close(path, given=limits.gpus or ())
                hides_gpus |= closed
                if hierarchy.version == 1 and all(held[each] for each in own) and closed == gates:
                    self._spares.made(path, settings)
            else:
                continue
            made.append(path)
        self.lock.expect()  # when the groups are made, which it would hold up
        return Hold(
            groups=tuple(made),
            cpus=cpus,
            processes=0 if held["pids"] else limits.processes,
            watch_mem_bytes=0 if held["memory"] else limits.mem_bytes,
            hides_gpus=hides_gpus,
        )

    def adopt(self, name: str, cpus: Cpus) -> None:
        """Takes up what an earlier agent made for a launch that still runs."""
        self._cpus.hold(name, cpus)

    def release(self, name: str, held: Sequence[str], used: Optional[launch_cgroups.Usage] = None) -> bool:
        """The launch has ended. False while a group is still not empty; its CPUs are free in any case. `used`: in its groups, in
        which nothing was found to run, so that they may be kept for another launch."""
        self._cpus.release(name)
        kept = [
            path
            for path in held
            if used is not None and self._spares.knows(path) and not launch_cgroups.below(path)
        ]
        others = [path for path in held if path not in kept]
        for path in others:
            self._spares.forget(path)
        empty = launch_cgroups.remove_whole(others)
        return empty and launch_cgroups.remove_whole(
            [path for path in kept if used is None or not self._spares.keep(path, used)]
        )

    @property
    def groups_jobs(self) -> bool:
        """Whether jobs are held together by the kernel."""
        return bool(self._used)

    def clear(self, keep: Container[str]) -> bool:
        """Removes empty groups that an earlier agent left, but for those whose use of the node is still to be read.

        True if only those are left.
        """
        found = [entry.path for each in self._used for entry in os.scandir(each.base) if entry.is_dir()]
        return launch_cgroups.remove_whole([path for path in found if path not in keep])

    def close(self) -> None:
        """Leaves nothing behind, unless jobs go on."""
        launch_cgroups.remove(self._spares.clear())
        for hierarchy in self._hierarchies:
            launch_cgroups.remove([hierarchy.base])

    def _needed(self, unified: str) -> List[Hierarchy]:
        """The hierarchies that each launch gets a group in: none that would give nothing more. The first one names its processes."""
        wanted = {id(self._of[each]) for each in GATED if each in self._of}
        if unified:
            wanted.add(id(self._hierarchies[0]))
        elif "cpuacct" in self._of:
            wanted.add(id(self._of["cpuacct"]))
        if self._gate.version == 1:
            wanted.add(id(self._of["devices"]))
        return [each for each in self._hierarchies if id(each) in wanted]

    def _settings(
        self, hierarchy: Hierarchy, limits: Limits, cpus: Cpus, *, gpus: Optional[Tuple[int, ...]]
    ) -> Settings:
        """All that a launch's group in this hierarchy is set to. `gpus`: of the node, where it closes the others."""
        return (
            hierarchy.base,
            limits.mem_bytes if "memory" in hierarchy.controllers else 0,
            limits.processes if "pids" in hierarchy.controllers else 0,
            cpus if "cpuset" in hierarchy.controllers else (),
            (limits.gpus, gpus) if gpus is not None else None,
        )

    def _gates(self, hierarchy: Hierarchy) -> bool:
        """Whether devices are closed to the groups of this hierarchy."""
        by_controller = hierarchy.version == 1 and "devices" in hierarchy.controllers
        return self._gate.version == hierarchy.version and (hierarchy.version == 2 or by_controller)

    def _describe(self) -> List[Facility]:
        grouped = f"cgroup v{self._used[0].version}" if self._used else ""
        return [
            Facility("end", KERNEL, grouped)
            if grouped
            else Facility(
                "end",
                WATCHED,
                "by environment mark; daemons that clear it when the last job of their user ends",
            ),
            self._facility(
                "memory", "memory", WATCHED, "a job or step over its limit is killed within seconds"
            ),
            self._facility("cpus", "cpuset", ADVISED, "CPU affinity, which a job may change"),
            self._facility(
                "processes", "pids", ADVISED, "RLIMIT_NPROC, counted over all of the user's processes"
            ),
            Facility("folders", KERNEL, "mounts of each job's own")
            if self.can_cover
            else Facility("folders", MISSING, "private_dirs need a root agent that may mount"),
            Facility("devices", KERNEL, self._gate.how)
            if self._gate.how
            else Facility("devices", ADVISED, "CUDA_VISIBLE_DEVICES, which a job may change"),
        ]

    def _facility(self, name: str, controller: str, otherwise: str, words: str) -> Facility:
        hierarchy = self._of.get(controller)
        if hierarchy is None:
            return Facility(name, otherwise, words)
        return Facility(name, KERNEL, f"cgroup v{hierarchy.version} {controller}")

    def _sentence(self) -> str:
        if not self._used:
            return "no cgroup: jobs are watched, and ended by environment mark and descent"
        versions = " and ".join(sorted({f"v{each.version}" for each in self._used}, reverse=True))
        enforced = [
            each.name for each in self.facilities if each.strength == KERNEL and each.name not in NO_LIMIT
        ]
        return f"cgroup {versions}: jobs are ended as a whole" + (
            f", and held to their {', '.join(enforced)}" if enforced else ""
        )


def _make_folder(path: str) -> None:
    """Not makedirs alone, which asks first whether the folder above is there."""
    try:
        os.mkdir(path)
    except FileNotFoundError:
        os.makedirs(path, exist_ok=True)
    except FileExistsError:
        return


def _made(path: str, hierarchy: Hierarchy, cpus: Cpus) -> bool:
    """An empty group; v1's cpuset takes no process before it has CPUs (these, if any) and memory nodes."""
    try:
        _make_folder(path)
        if hierarchy.version == 1 and "cpuset" in hierarchy.controllers:
            for file in ("cpuset.mems",) if cpus else ("cpuset.cpus", "cpuset.mems"):
                write(os.path.join(path, file), text(os.path.join(hierarchy.base, file)))
    except OSError:
        return False
    return True


def _limit(path: str, controller: str, version: int, limits: Limits, cpus: Cpus) -> bool:
    """Writes the launch's limit. False where the kernel does not take it; where there is none to write it is kept."""
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
