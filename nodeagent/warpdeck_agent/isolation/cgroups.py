"""The cgroup hierarchies of this machine, and the agent's folder in each, for the cgroups of jobs.

A machine has one unified hierarchy (v2), or one per controller (v1), or both at once (hybrid). In the hybrid
case a controller belongs to only one of them. Our folder is always below the agent's own cgroup, so limits on
the agent apply to its jobs too, and no other cgroup is changed. Source: the kernel's cgroup-v2 and cgroup-v1
pages.

In v2 a cgroup passes its controllers to children only while it contains no process. If systemd gave us a
scope of our own (Delegate=yes), the agent moves itself into a child of that scope. Any other cgroup that
contains foreign processes is left unchanged.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import FrozenSet, Iterator, List, Optional, Tuple

from warpdeck_agent.linux.linger import in_own_scope
from warpdeck_agent.linux.procfs import text, write

CONTROLLERS = ("memory", "cpuset", "pids", "devices", "cpuacct")
"""The controllers that we use. devices and cpuacct are controllers in v1 only; v2 has device programs, and
cpu.stat in every cgroup.
"""
OWN_LEAF = "agent"
"""The child of our scope into which the agent moves."""


@dataclass(frozen=True)
class Hierarchy:
    """A hierarchy in which cgroups can be created. `base` exists and is ours."""

    version: int
    base: str
    controllers: FrozenSet[str]


def find_hierarchies(name: str, *, mounts: str = "", membership: str = "") -> List[Hierarchy]:
    """Return the hierarchies in which we may create cgroups, v2 first.

    `name` is the name of our folder. `mounts` and `membership` default to the texts in /proc/self.
    """
    mounts = mounts or text("/proc/self/mountinfo")
    membership = membership or text("/proc/self/cgroup")
    found = [_prepare(each, name) for each in _candidates(mounts, membership)]
    return sorted((each for each in found if each is not None), key=lambda each: -each.version)


def _candidates(mounts: str, membership: str) -> Iterator[Tuple[int, str, FrozenSet[str]]]:
    """Yield (version, the agent's own cgroup, controllers of the hierarchy)."""
    own = dict(_memberships(membership))
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        fields, filesystem = left.split(), right.split()
        if len(fields) < 6 or len(filesystem) < 3 or filesystem[0] not in ("cgroup", "cgroup2"):
            continue
        root, mount = fields[3], fields[4]
        options = filesystem[2].split(",")
        if filesystem[0] == "cgroup2":
            path = _below(mount, root, own.get("", "/"))
            yield 2, path, frozenset(text(os.path.join(path, "cgroup.controllers")).split())
            continue
        for controller in CONTROLLERS:
            if controller in options:
                path = _below(mount, root, own.get(controller, "/"))
                yield 1, path, frozenset(each for each in CONTROLLERS if each in options)
                break


def _memberships(membership: str) -> Iterator[Tuple[str, str]]:
    """Yield (controller, cgroup) for each line; the v2 hierarchy's controller is ""."""
    for line in membership.splitlines():
        _, controllers, path = (line.split(":", 2) + ["", ""])[:3]
        for controller in controllers.split(","):
            yield controller, path


def _below(mount: str, root: str, group: str) -> str:
    """Return the folder of a cgroup. The hierarchy's cgroups below `root` are mounted at `mount`."""
    if root != "/" and (group + "/").startswith(root + "/"):
        group = group[len(root) :]
    return os.path.normpath(mount + "/" + group)


def _prepare(candidate: Tuple[int, str, FrozenSet[str]], name: str) -> Optional[Hierarchy]:
    version, own, controllers = candidate
    base = os.path.join(own, name)
    if not os.path.exists(os.path.join(own, "cgroup.procs")):  # hidden behind another mount
        return None
    try:
        os.makedirs(base, exist_ok=True)
        if version == 2:
            return _prepare_unified(own, base, controllers)
        if "cpuset" in controllers:
            # these are empty in a new cgroup, which then accepts no process
            for file in ("cpuset.cpus", "cpuset.mems"):
                write(os.path.join(base, file), text(os.path.join(own, file)))
        return Hierarchy(1, base, controllers)
    except OSError:
        return None


def _prepare_unified(own: str, base: str, controllers: FrozenSet[str]) -> Hierarchy:
    enabled = [each for each in CONTROLLERS if each in controllers and _enable_for_jobs(own, base, each)]
    return Hierarchy(2, base, frozenset(enabled))


def _enable_for_jobs(own: str, base: str, controller: str) -> bool:
    """Enable the controller for the cgroups of jobs. Returns False if that is not possible."""
    try:
        if controller not in text(os.path.join(base, "cgroup.controllers")).split():
            _enable(own, controller)
        _enable(base, controller)
    except OSError:
        return False
    return True


def _enable(group: str, controller: str) -> None:
    control = os.path.join(group, "cgroup.subtree_control")
    try:
        write(control, "+" + controller)
    except OSError:
        if not in_own_scope(group):
            raise
        leaf = os.path.join(group, OWN_LEAF)
        os.makedirs(leaf, exist_ok=True)
        for pid in text(os.path.join(group, "cgroup.procs")).split():
            write(os.path.join(leaf, "cgroup.procs"), pid)
        write(control, "+" + controller)
