"""Cgroups that are kept for the next launch."""

from __future__ import annotations

from pathlib import Path

from warpdeck_agent.isolation.cgroup_pool import Spares
from warpdeck_agent.isolation.launch_cgroups import Usage


def test_a_cgroup_removed_with_its_launch_is_forgotten(tmp_path: Path) -> None:
    spares, path = Spares(), str(tmp_path)
    spares.made(path, ("memory", 1))
    spares.forget(path)
    assert not spares.knows(path)
    assert not spares.keep(path, Usage())
    assert spares.clear() == []
