"""What tasks of an srun are told of how they were to be bound and laid out, beside a real Slurm's srun.

Its nodes bind nothing, and srun then puts the words of a plain --cpu-bind=cores where a mask would stand: those are not compared.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.slurm_parity.ours import OurSlurm
from tests.slurm_parity.peer import RealSlurm
from tests.support.command_lines import parse_srun, validate_launch

from warpdeck.notation.options.given_options import OptionSource
from warpdeck.notation.options.option_table import SALLOC_22_05, SRUN_22_05
from warpdeck.notation.step.step_variables import PREFIXES
from warpdeck.notation.values.exports import NICENESS

pytestmark = pytest.mark.slurm
PLACE = OptionSource(cwd="/", environ={}, now=0.0)


@pytest.fixture(scope="module")
def ours() -> Iterator[OurSlurm]:
    with tempfile.TemporaryDirectory(prefix="wdo", dir="/tmp") as folder, OurSlurm(Path(folder)) as running:
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
def test_tasks_are_told_of_their_binding_as_slurms_are(slurm: RealSlurm, options: str) -> None:
    words = ["-n2", "-N1", *options.split(), "env"]
    lines = (line.partition("=") for line in slurm.ok("srun", *words).splitlines())
    wanted = {name: value for name, _, value in lines if name.startswith(PREFIXES)}
    told = parse_srun(words, {NICENESS: str(os.getpriority(os.PRIO_PROCESS, 0))}, files={}).ask["env"]
    assert {name: value for name, value in told.items() if name.startswith(PREFIXES)} == wanted


@pytest.mark.parametrize("option", ["--hint=help", "--mem-bind=help", "--distribution=help", "--hint=x"])
def test_an_option_answers_where_and_with_the_code_that_slurm_answers(
    slurm: RealSlurm, ours: OurSlurm, option: str
) -> None:
    words = ["sbatch", option, "--wrap", "true"]
    real, own = slurm.run(words), ours.run(words)
    assert (own.rc, bool(own.out), bool(own.err)) == (real.rc, bool(real.out), bool(real.err))
    table = SALLOC_22_05
    for command in ("salloc", "srun"):
        real = slurm.run([command, option, "true"])
        fault = validate_launch([option, "true"], PLACE, known=table).rejection
        assert fault is not None and (fault.exit_code, fault.is_answer) == (real.rc, bool(real.out))
        table = SRUN_22_05


def test_a_plain_binding_is_told_without_a_list() -> None:
    told = parse_srun(["--cpu-bind=verbose,cores", "env"], {}, files={}).ask["env"]
    assert told["SLURM_CPU_BIND"] == "verbose,cores" and told["SLURM_CPU_BIND_LIST"] == ""


def test_the_steps_own_word_goes_before_its_jobs() -> None:
    environ = {"SLURM_JOB_ID": "1", "SLURM_MEM_BIND": "local", "SLURM_CPU_BIND": "quiet,map_cpu:0,1"}
    told = parse_srun(["--mem-bind=none", "env"], environ, files={}).ask["env"]
    assert (told["SLURM_MEM_BIND"], told["SLURM_CPU_BIND_LIST"]) == ("quiet,none", "0,1")
