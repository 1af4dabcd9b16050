"""Variables about CPU and memory binding and layout of an srun's tasks, beside a real Slurm.

Slurm's nodes here bind no tasks, and for a plain --cpu-bind=cores its srun puts the words of the option in
place of a mask. These values are not compared.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.slurm_parity.peer.real_slurm import RealSlurm
from tests.slurm_parity.peer.warpdeck_cluster import WarpdeckCluster
from tests.support.command_lines import parse_srun, validate_launch

from warpdeck.notation.options.given_options import OptionSource
from warpdeck.notation.options.option_table import SALLOC_22_05, SRUN_22_05
from warpdeck.notation.step.step_variables import PREFIXES
from warpdeck.notation.values.exports import NICENESS

pytestmark = pytest.mark.slurm
SOURCE = OptionSource(cwd="/", environ={}, now=0.0)


@pytest.fixture(scope="module")
def warpdeck() -> Iterator[WarpdeckCluster]:
    with (
        tempfile.TemporaryDirectory(prefix="wdo", dir="/tmp") as folder,
        WarpdeckCluster(Path(folder)) as running,
    ):
        yield running


@pytest.mark.parametrize(
    "options",
    [
        "", "--cpu-bind=none", "--cpu-bind=no", "--cpu-bind=rank", "--cpu-bind=v,rank", "--cpu-bind=map_cpu:0,1",
        "--cpu-bind=verbose,mask_cpu:0x1,0x2", "--cpu-bind=q", "--mem-bind=local", "--mem-bind=none", "--mem-bind=rank",
        "--mem-bind=v,map_mem:0", "--mem-bind=prefer,local", "--mem-bind=sort,local", "--hint=nomultithread",
        "--hint=compute_bound", "--hint=memory_bound", "--hint=multithread", "--threads-per-core=1", "--ntasks-per-core=1",
        "-m block", "-m cyclic", "-m block:cyclic", "-m plane=2", "--cpu-bind=none --hint=nomultithread",
        "--hint=multithread --cpu-bind=rank", "--cpu-bind=v --hint=nomultithread", "--hint=memory_bound --cpu-bind=q",
        "--hint=nomultithread --threads-per-core=1", "--hint=compute_bound --ntasks-per-core=1",
    ],
)  # fmt: skip
def test_tasks_have_the_binding_variables_that_slurm_sets(slurm: RealSlurm, options: str) -> None:
    argv = ["-n2", "-N1", *options.split(), "env"]
    lines = (line.partition("=") for line in slurm.ok("srun", *argv).splitlines())
    expected = {name: value for name, _, value in lines if name.startswith(PREFIXES)}
    environ = parse_srun(argv, {NICENESS: str(os.getpriority(os.PRIO_PROCESS, 0))}, files={}).ask["env"]
    assert {name: value for name, value in environ.items() if name.startswith(PREFIXES)} == expected


@pytest.mark.parametrize("option", ["--hint=help", "--mem-bind=help", "--distribution=help", "--hint=x"])
def test_help_values_use_the_output_and_exit_code_of_slurm(
    slurm: RealSlurm, warpdeck: WarpdeckCluster, option: str
) -> None:
    argv = ["sbatch", option, "--wrap", "true"]
    slurm_result, result = slurm.run(argv), warpdeck.run(argv)
    assert (result.rc, bool(result.out), bool(result.err)) == (
        slurm_result.rc,
        bool(slurm_result.out),
        bool(slurm_result.err),
    )
    known_options = SALLOC_22_05
    for command in ("salloc", "srun"):
        slurm_result = slurm.run([command, option, "true"])
        error = validate_launch([option, "true"], SOURCE, known=known_options).rejection
        assert error is not None and (error.exit_code, error.is_answer) == (
            slurm_result.rc,
            bool(slurm_result.out),
        )
        known_options = SRUN_22_05


def test_a_plain_binding_has_an_empty_list() -> None:
    environ = parse_srun(["--cpu-bind=verbose,cores", "env"], {}, files={}).ask["env"]
    assert environ["SLURM_CPU_BIND"] == "verbose,cores" and environ["SLURM_CPU_BIND_LIST"] == ""


def test_an_option_of_the_step_overrides_the_variable_of_the_job() -> None:
    environ = {"SLURM_JOB_ID": "1", "SLURM_MEM_BIND": "local", "SLURM_CPU_BIND": "quiet,map_cpu:0,1"}
    environ = parse_srun(["--mem-bind=none", "env"], environ, files={}).ask["env"]
    assert (environ["SLURM_MEM_BIND"], environ["SLURM_CPU_BIND_LIST"]) == ("quiet,none", "0,1")
