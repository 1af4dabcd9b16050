"""The text of a job's resource usage."""

from __future__ import annotations

import msgspec

from warpdeck.protocol.job_rows import UsageRow
from warpdeck.protocol.usage_text import used_in_words


def words(**used: float) -> list[str]:
    return used_in_words(**msgspec.structs.asdict(UsageRow(**used)))  # type: ignore[arg-type]


def test_the_kernels_part_of_the_cpu_time_is_told_where_it_is_a_second() -> None:
    assert words(cpu_seconds=6.0, system_s=2.0) == ["0:06 of CPU (0:02 in the kernel)"]
    assert words(cpu_seconds=6.0, system_s=0.4) == ["0:06 of CPU"]


def test_what_was_not_measured_is_left_out() -> None:
    assert words() == []
    assert words(peak_mem_bytes=1 << 30, gpu_util_pct=40.0) == ["1G of memory at most", "GPUs at 40 %"]
