"""The real Slurm of the comparisons works, is isolated from this machine, and leaves nothing behind."""

from pathlib import Path

import pytest
from tests.slurm_parity.peer.real_slurm import RealSlurm
from tests.support.processes import running
from tests.support.waiting import eventually

pytestmark = pytest.mark.slurm


def test_a_job_of_the_real_slurm_gets_its_gpus_and_ends(slurm: RealSlurm) -> None:
    slurm.ok("sbatch", "-o", "output", "--gres=gpu:2", "--wrap", "echo $SLURMD_NODENAME $SLURM_GPUS_ON_NODE")
    eventually(lambda: not slurm.ok("squeue", "-h"), what="the job has ended")
    assert (slurm.folder / "output").read_text() == "n1 2\n"


def test_a_failing_command_returns_its_error_output_and_exit_code(slurm: RealSlurm) -> None:
    result = slurm.run(["sbatch", "--no-such-option"])
    assert result.rc == 255
    assert result.err.startswith("sbatch: unrecognized option '--no-such-option'\n")


def test_jobs_and_daemons_end_with_the_context() -> None:
    with RealSlurm() as peer:
        peer.ok("sbatch", "--wrap", "sleep 1000")
        eventually(lambda: "R" in peer.ok("squeue", "-h", "-o", "%t"), what="the job runs")
        folder = str(peer.folder)
    assert not Path(folder).exists()
    eventually(lambda: not running(folder, also_in_environ=True), what="no process of it is left")
