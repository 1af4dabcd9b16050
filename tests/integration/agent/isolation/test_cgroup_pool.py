"""Cgroups that are kept for the next launch."""

from __future__ import annotations

from pathlib import Path

from warpdeck_agent.isolation.cgroup_pool import CgroupPool
from warpdeck_agent.isolation.launch_cgroups import CgroupUsage


def test_a_cgroup_removed_with_its_launch_is_forgotten(tmp_path: Path) -> None:
    spares, path = CgroupPool(), str(tmp_path)
    spares.register(path, ("memory", 1))
    spares.forget(path)
    assert not spares.knows(path)
    assert not spares.keep(path, CgroupUsage())
    assert spares.clear() == []
