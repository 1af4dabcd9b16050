"""The topology of a node's CPUs as the kernel reports it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from warpdeck_agent.health.inventory import CpuTopology, find_topology, temporary_bytes

TWO_BY_TWO_BY_TWO = {cpu: (cpu // 4, cpu // 2 % 2) for cpu in range(8)}
"""CPU -> (socket, core within the socket)."""


def kernel(folder: Path, cpus: dict[int, tuple[int, int]]) -> str:
    for cpu, (socket, core) in cpus.items():
        place = folder / f"cpu{cpu}" / "topology"
        place.mkdir(parents=True)
        (place / "physical_package_id").write_text(f"{socket}\n")
        (place / "core_id").write_text(f"{core}\n")
    return str(folder)


@pytest.mark.parametrize(
    ("allowed", "found"),
    [
        (range(8), CpuTopology(2, 2, 2)),
        (range(4), CpuTopology(1, 2, 2)),
        ((0, 2, 4, 6), CpuTopology(2, 2, 1)),
        (range(3), CpuTopology()),
        (range(6), CpuTopology()),
        (range(9), CpuTopology()),
    ],
)
def test_sockets_cores_and_threads_are_reported_for_a_regular_topology(
    tmp_path: Path, allowed: range, found: CpuTopology
) -> None:
    assert find_topology(allowed, folder=kernel(tmp_path, TWO_BY_TWO_BY_TWO)) == found


def test_the_topology_of_this_machine_is_plausible() -> None:
    cpus = os.sched_getaffinity(0)
    found = find_topology(cpus)
    assert found == CpuTopology() or found.sockets * found.cores * found.threads == len(cpus)


def test_the_disk_of_temporary_files_is_measured_or_unknown(tmp_path: Path) -> None:
    assert temporary_bytes(str(tmp_path)) > 2**20
    assert temporary_bytes(str(tmp_path / "none")) == 0
