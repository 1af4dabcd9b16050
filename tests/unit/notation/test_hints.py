"""What processes are told of options that change nothing here; beside Slurm's own in tests/e2e/test_environment."""

from __future__ import annotations

import pytest

from warpdeck.notation.option_values.value_table import process_variables, with_values
from warpdeck.notation.options.given_options import GivenOption, OptionSource
from warpdeck.notation.options.option_table import SBATCH


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
    source = OptionSource(cwd="/", environ={}, now=0.0)
    (given,) = with_values([GivenOption(option, value)], source, SBATCH)
    assert process_variables(given) == told
