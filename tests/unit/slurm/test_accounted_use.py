"""What a job and its steps have used, in sacct's fields."""

from __future__ import annotations

from warpdeck.slurm.accounting.usage import cpu_times


def test_the_kernels_time_is_no_more_than_all() -> None:
    """They are read one after the other, and at another precision."""
    assert cpu_times({"cpu_seconds": 2.0, "system_s": 0.5}) == (2.0, 0.5)
    assert cpu_times({"cpu_seconds": 0.001, "system_s": 0.01}) == (0.001, 0.001)
    assert cpu_times(None) == cpu_times({}) == (0.0, 0.0)
