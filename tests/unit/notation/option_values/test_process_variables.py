"""Variables that pass options on to processes. tests/slurm_parity/test_environment.py compares them with Slurm's."""

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
def test_options_set_the_same_variables_as_in_slurm(option: str, value: str, told: dict[str, str]) -> None:
    source = OptionSource(cwd="/", environ={}, now=0.0)
    (given,) = with_values([GivenOption(option, value)], source, SBATCH)
    assert process_variables(given) == told
