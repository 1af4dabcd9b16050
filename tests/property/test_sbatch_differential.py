"""Our verdict on random batch scripts, compared with the one random the real sbatch."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.property.real_commands import ENVIRON, UNREACHED, VALUES, shown_by, terminates, without_controller
from tests.slurm_parity.peer.real_slurm import PACKAGES
from tests.support.command_lines import validate_script

from warpdeck.notation.options.given_options import OptionSource
from warpdeck.notation.options.option_table import SBATCH_22_05

SBATCH_S = 60.0


class Sbatch:
    """The real sbatch with an unreachable controller: it prints the options of a script and exits."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._environ = {**ENVIRON, **without_controller(folder)}

    def result_of(self, text: str) -> tuple[bool, list[dict[str, str]]]:
        """Return whether sbatch accepts the script, and the options that it prints."""
        (self.folder / "job.sh").write_text(text)
        words = [str(PACKAGES / "root/usr/bin/sbatch"), "-vv", "job.sh"]
        done = subprocess.run(
            words,
            cwd=self.folder,
            env=self._environ,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=SBATCH_S,
        )
        output = done.stderr.decode()
        return UNREACHED in output, shown_by("sbatch", output)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Sbatch:
    return Sbatch(tmp_path_factory.mktemp("sbatch"))


ODD = [
    "#SBATCH hetjob",
    "#SBATCH packjob",
    "# c",
    "",
    "true",
    "#SBATCH",
    "#SBATCH :",
    "#SBATCH -J x y",
    " #SBATCH -n 9",
]
OTHERS = [
    "#PBS -N a -q b",
    "#PBS -l nodes=2:ppn=4,walltime=1:00:00",
    "#PBS -l nodes=n1+n2:ppn=2:gpus=1",
    "#PBS -l select=2:ncpus=4:mpiprocs=2:mem=4gb",
    "#PBS -l proc=a,foo=1,naccelerators=2",
    "#PBS -v A -W depend=afterok:1 -m ab -j oe",
    "#PBS -W umask=1000",
    "#PBS -N",
    "#PBS -Z",
    "#BSUB -J a -n 2,4 -W 90",
    "#BSUB -m 'n1 n2' -M 2000 -x",
    "#BSUB -n 4,",
    "#BSUB",
]
FLAGS = [
    "--requeue",
    "--no-requeue",
    "--exclusive",
    "--overcommit",
    "-s",
    "--nice",
    "--wait",
    "-k",
    "--co",
    "--bogus",
]


def _option(name: str, value: str) -> str:
    return f"#SBATCH --{name}={value}"


LINES = st.one_of(
    *(st.builds(_option, st.just(name), st.sampled_from(values)) for name, values in VALUES.items()),
    st.sampled_from(FLAGS).map("#SBATCH {}".format),
    st.sampled_from(ODD),
    st.sampled_from(OTHERS),
    st.sampled_from(sorted(SBATCH_22_05.shorts)).map("#SBATCH -{}2".format),
)


@pytest.mark.slurm
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(lines=st.lists(LINES, min_size=1, max_size=6).filter(lambda lines: terminates("\n".join(lines))))
def test_verdict_and_options_equal_those_of_real_sbatch(real: Sbatch, lines: list[str]) -> None:
    folder = real.folder
    text = "#!/bin/sh\n" + "\n".join(lines) + "\n"
    place = OptionSource(
        cwd=str(folder), environ=ENVIRON, now=time.time(), is_root=True, user_id=_number, group_id=_number
    )
    found = validate_script(text, place)
    assert (found.accepted, found.shown) == real.result_of(text), found.rejection


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None
