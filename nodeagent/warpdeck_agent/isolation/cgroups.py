"""The cgroup hierarchies of this machine, and the folder in each below which we make groups for jobs.

A machine has one unified hierarchy (v2), or one per controller (v1), or both at once (hybrid): then a controller belongs
to one of them only. Ours is always a folder below the group that the agent itself is in, so limits that were set on the
agent hold for its jobs too, and nothing of anybody else is touched. Source: the kernel's cgroup-v2 and cgroup-v1 pages.

In v2 a group hands its controllers down only while no process is in it. Where systemd gave us a scope of our own
(Delegate=yes), the agent moves itself into a child of that scope; any other group with strangers in it is left as it is.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import FrozenSet, Iterator, List, Optional, Tuple

from warpdeck_agent.linux.linger import in_own_scope
from warpdeck_agent.linux.procfs import text, write

CONTROLLERS = ("memory", "cpuset", "pids", "devices", "cpuacct")
"""What we use. devices and cpuacct are controllers in v1 only; v2 has device programs and cpu.stat in every group."""
OWN_LEAF = "agent"
"""The child of our scope that the agent moves into."""


@dataclass(frozen=True)
class Hierarchy:
    """Where groups can be made: `base` exists and is ours."""

    version: int
    base: str
    controllers: FrozenSet[str]


def find_hierarchies(name: str, *, mounts: str = "", membership: str = "") -> List[Hierarchy]:
    """Those in which we may make groups, v2 first. `name` is our folder's; the texts are those of /proc/self by default."""
    mounts = mounts or text("/proc/self/mountinfo")
    membership = membership or text("/proc/self/cgroup")
    found = [_prepare(each, name) for each in _candidates(mounts, membership)]
    return sorted((each for each in found if each is not None), key=lambda each: -each.version)


def _candidates(mounts: str, membership: str) -> Iterator[Tuple[int, str, FrozenSet[str]]]:
    """(version, the agent's own group, controllers of the hierarchy)."""
    own = dict(_memberships(membership))
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        fields, words = left.split(), right.split()
        if len(fields) < 6 or len(words) < 3 or words[0] not in ("cgroup", "cgroup2"):
            continue
        root, mount = fields[3], fields[4]
        options = words[2].split(",")
        if words[0] == "cgroup2":
            path = _below(mount, root, own.get("", "/"))
            yield 2, path, frozenset(text(os.path.join(path, "cgroup.controllers")).split())
            continue
        for controller in CONTROLLERS:
            if controller in options:
                path = _below(mount, root, own.get(controller, "/"))
                yield 1, path, frozenset(each for each in CONTROLLERS if each in options)
                break


def _memberships(membership: str) -> Iterator[Tuple[str, str]]:
    """(controller, group) for each line; the v2 hierarchy's controller is ""."""
    for line in membership.splitlines():
        _, controllers, path = (line.split(":", 2) + ["", ""])[:3]
        for controller in controllers.split(","):
            yield controller, path


def _below(mount: str, root: str, group: str) -> str:
    """The folder of a group in a hierarchy of which the mount shows the part below `root`."""
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
            for file in ("cpuset.cpus", "cpuset.mems"):  # a new group has none, and takes no process
                write(os.path.join(base, file), text(os.path.join(own, file)))
        return Hierarchy(1, base, controllers)
    except OSError:
        return None


def _prepare_unified(own: str, base: str, controllers: FrozenSet[str]) -> Hierarchy:
    handed = [each for each in CONTROLLERS if each in controllers and _hand_down(own, base, each)]
    return Hierarchy(2, base, frozenset(handed))


def _hand_down(own: str, base: str, controller: str) -> bool:
    """Makes the controller act on the groups of jobs; False where it cannot be had."""
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
