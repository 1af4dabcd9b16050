"""Variables that set options: they override the script, and the command line overrides them."""

from __future__ import annotations

import pytest
from tests.support.command_lines import parse_salloc, parse_srun

from warpdeck.base.errors import UserError
from warpdeck.notation.options.given_options import GivenOption, Options
from warpdeck.notation.options.option_table import SBATCH
from warpdeck.notation.options.variables import SBATCH_VARIABLES, effective, variable_options
from warpdeck.notation.request.job_request import parse_request

SCRIPT = [GivenOption("time", "10", "job.sh:2"), GivenOption("requeue", None, "job.sh:3")]


def sbatch(**environ: str) -> Options:
    return effective([*SCRIPT, *variable_options(environ, SBATCH_VARIABLES, SBATCH)])


def test_a_variable_overrides_the_script_and_can_turn_an_option_off() -> None:
    assert sbatch(SBATCH_TIMELIMIT="20")[:2] == SCRIPT
    assert sbatch(SBATCH_TIMELIMIT="20")[2][:3] == ("time", "20", "SBATCH_TIMELIMIT")
    assert sbatch(SBATCH_REQUEUE="0") == SCRIPT[:1]
    assert sbatch(SBATCH_OVERCOMMIT="yes")[2][:3] == ("overcommit", None, "SBATCH_OVERCOMMIT")
    request, _ = parse_request(sbatch(SBATCH_REQ_SWITCH="2", SBATCH_WAIT4SWITCH="5"), {}, now=0.0)
    assert (request["resources"]["max_switches"], request["resources"]["switches_wait_s"]) == (2, 300)


def test_salloc_reads_its_own_variables() -> None:
    environ = {
        "SALLOC_PARTITION": "gpu",
        "SALLOC_BELL": "",
        "SBATCH_PARTITION": "cpu",
        "SALLOC_TIMELIMIT": "5",
    }
    asked = parse_salloc(["-t", "9", "bash"], environ)
    assert [given[:2] for given in asked.options] == [("partition", "gpu"), ("time", "5"), ("time", "9")]
    assert asked.command == ["bash"]


def test_srun_reads_variables_about_a_job_only_if_it_creates_one() -> None:
    environ = {
        "SLURM_PARTITION": "gpu",
        "SLURM_NTASKS": "4",
        "SLURM_LABELIO": "1",
        "SLURM_EXPORT_ENV": "NONE",
    }
    made = parse_srun(["hostname"], environ, files={})
    assert [given[:2] for given in made.job_options] == [("ntasks", "4"), ("partition", "gpu")]
    assert made.ask["tasks"] == 4 and made.streams.label and made.ask["env"] == {}
    inside = parse_srun(["hostname"], {**environ, "SLURM_JOB_ID": "7"}, files={})
    assert inside.job_options == [] and "tasks" not in inside.ask and inside.streams.label


def test_an_error_about_a_variable_names_the_variable() -> None:
    with pytest.raises(UserError, match="SLURM_BCAST: --bcast is not supported"):
        parse_srun(["hostname"], {"SLURM_BCAST": "/tmp/x"}, files={})
