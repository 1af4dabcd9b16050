"""What processes are told of options that change nothing here; beside Slurm's own in tests/e2e/test_environment."""

from __future__ import annotations

import pytest

from warpdeck.notation.option_values.table import told_of


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("hint", "nomultithread", {"SLURM_HINT": "nomultithread", "SLURM_THREADS_PER_CORE": "1"}),
        ("hint", "multithread", {"SLURM_HINT": "multithread", "SLURM_NTASKS_PER_CORE": "65535"}),
        ("threads-per-core", "1", {"SLURM_THREADS_PER_CORE": "1"}),
        ("threads-per-core", "x", {}),
        ("mem-bind", "v,rank", {"SLURM_MEM_BIND": "verbose,rank", "SLURM_MEM_BIND_VERBOSE": "verbose"}),
        ("mem-bind", "nonsense", {}),
        ("profile", "all", {"SLURM_PROFILE": "Energy,Lustre,Network,Task"}),
        ("gres-flags", "enforce-binding", {}),
    ],
)
def test_processes_are_told_of_it_as_slurm_tells_them(option: str, value: str, told: dict[str, str]) -> None:
    assert told_of(option, value) == told
