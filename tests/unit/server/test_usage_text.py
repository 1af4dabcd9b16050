"""The text of a job's resource usage."""

from __future__ import annotations

import msgspec

from warpdeck.protocol.job_rows import UsageRow
from warpdeck.protocol.usage_text import used_in_words


def words(**used: float | str) -> list[str]:
    return used_in_words(**msgspec.structs.asdict(UsageRow(**used)))  # type: ignore[arg-type]


def test_kernel_time_is_shown_from_one_second() -> None:
    assert words(cpu_seconds=6.0, system_s=2.0) == ["0:06 of CPU (0:02 in the kernel)"]
    assert words(cpu_seconds=6.0, system_s=0.4) == ["0:06 of CPU"]


def test_the_origin_of_values_is_told_unless_it_is_our_agent() -> None:
    assert words(gpu_util_pct=40.0, gpu_source="sacct") == ["GPUs at 40 % (sacct)"]
    assert words(gpu_util_pct=40.0, gpu_source="agent") == ["GPUs at 40 %"]


def test_values_that_were_not_measured_are_left_out() -> None:
    assert words() == []
    assert words(peak_mem_bytes=1 << 30, gpu_util_pct=40.0) == ["1G of memory at most", "GPUs at 40 %"]
