"""Early acquisition of the kernel's cgroup lock.

The agent moves itself into the group that it is already in, and moves no other process.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.support.waiting import WAIT_S

from warpdeck_agent.isolation.cgroup_lock import CgroupMoveLock
from warpdeck_agent.isolation.cgroups import OWN_LEAF, find_hierarchies


def taken(lock: CgroupMoveLock) -> None:
    """Take the lock once and wait for completion."""
    begun = lock.expect()
    if begun is not None:
        begun.result(WAIT_S)


@pytest.mark.parametrize("leaf", ["", OWN_LEAF])
def test_the_lock_moves_the_process_into_its_own_cgroup(tmp_path: Path, leaf: str) -> None:
    own = tmp_path / leaf / "cgroup.procs"
    own.parent.mkdir(exist_ok=True)
    own.write_text(f"0\n{os.getpid()}\n")
    taken(CgroupMoveLock([str(tmp_path / "warpdeck-x")]))
    assert own.read_text().startswith(str(os.getpid()))


def test_the_lock_moves_no_process_that_is_not_a_member(tmp_path: Path) -> None:
    own = tmp_path / "cgroup.procs"
    own.write_text("1\n")
    taken(CgroupMoveLock([str(tmp_path / "warpdeck-x")]))
    assert own.read_text() == "1\n"


def test_a_refused_move_is_ignored(tmp_path: Path) -> None:
    own = tmp_path / "cgroup.procs"
    own.write_text(f"{os.getpid()}\n")
    lock = CgroupMoveLock([str(tmp_path / "warpdeck-x")])
    own.unlink()
    own.mkdir()  # a folder in place of the file, so that not even root can write to it
    taken(lock)
    assert own.is_dir()


def test_the_lock_leaves_the_cgroups_of_this_machine_unchanged() -> None:
    bases = [each.base for each in find_hierarchies(f"warpdeck-test-{os.getpid()}")]
    try:
        before = Path("/proc/self/cgroup").read_text()
        taken(CgroupMoveLock(bases))
        assert Path("/proc/self/cgroup").read_text() == before
    finally:
        for base in bases:
            os.rmdir(base)
