"""Usage of a job and its steps in sacct's fields."""

from __future__ import annotations

from warpdeck.slurm.sacct.step_usage import USAGE, StepUsage, cpu_times, disk


def test_the_kernels_time_is_no_more_than_all() -> None:
    """They are read one after the other, with different precision."""
    assert cpu_times({"cpu_seconds": 2.0, "system_s": 0.5}) == (2.0, 0.5)
    assert cpu_times({"cpu_seconds": 0.001, "system_s": 0.01}) == (0.001, 0.001)
    assert cpu_times(None) == cpu_times({}) == (0.0, 0.0)


def spread(name: str, *by_rank: tuple[int, float]) -> dict[str, object]:
    most, least = max(by_rank, key=lambda pair: pair[1]), min(by_rank, key=lambda pair: pair[1])
    return {
        "name": name,
        "total": sum(value for _, value in by_rank),
        "most": most[1],
        "most_rank": most[0],
        "least": least[1],
        "least_rank": least[0],
    }


def part(node: str, *spreads: object, **facts: object) -> dict[str, object]:
    whole = {"tasks": 1, "first_task": 0, "cpu_seconds": 0.0, "peak_mem_bytes": 0}
    return {"node": node, **whole, **facts, "spreads": spreads}


def usage(*parts: object, tasks: int, unit: str = "") -> dict[str, str]:
    """Return the columns of a step that are not empty."""
    use = StepUsage({"tasks": tasks, "used": None, "parts": parts}, unit)
    return {name: found for name, text in USAGE.items() if (found := text(use))}


def test_the_most_the_least_and_the_mean_are_of_tasks() -> None:
    first = part(
        "n1", spread("cpu_s", (0, 1.0), (1, 4.0)), spread("mem_bytes", (0, 50 << 20), (1, 150 << 20))
    )
    second = part("n2", spread("cpu_s", (2, 0.5)), spread("mem_bytes", (2, 10 << 20)))
    found = usage(first, second, tasks=3)
    assert (found["MaxRSS"], found["MaxRSSNode"], found["MaxRSSTask"]) == ("150M", "n1", "1")
    assert (found["AveRSS"], found["AveCPU"]) == ("70M", "00:00:01")
    assert (found["MinCPU"], found["MinCPUNode"], found["MinCPUTask"]) == ("00:00:00", "n2", "2")
    assert found["TRESUsageInTot"] == "cpu=00:00:05,mem=210M"
    assert found["TRESUsageInMaxTask"] == "cpu=1,mem=1"


def test_what_was_read_and_written_is_told_in_mib() -> None:
    read, written = spread("read_bytes", (0, 314608666.0)), spread("written_bytes", (0, 1.0))
    found = usage(part("n1", read, written), tasks=2, unit="raw")
    assert (found["MaxDiskRead"], found["AveDiskRead"]) == ("300.03M", "150.02M")
    assert (found["MaxDiskWrite"], found["MaxDiskWriteTask"]) == ("0.00M", "0")
    assert (found["TRESUsageInTot"], found["TRESUsageOutTot"]) == ("fs/disk=314608666", "fs/disk=1")
    assert (disk(31578688, "K"), disk(42312, "K"), disk(0, "")) == ("30838.56K", "0.04M", "0")


def test_memory_of_what_was_over_at_once_is_not_nothing_but_unknown() -> None:
    found = usage(part("n1", spread("cpu_s", (0, 0.01))), tasks=1)
    assert "MaxRSS" not in found and found["AveCPU"] == "00:00:00"
    assert usage(part("n1"), tasks=1) == {}


def test_what_was_measured_as_a_whole_counts_as_one() -> None:
    found = usage(part("n1", cpu_seconds=4.0, peak_mem_bytes=4096, tasks=2), tasks=2)
    assert (found["AveCPU"], found["MinCPU"], found["MaxRSS"]) == ("00:00:02", "00:00:02", "4K")
