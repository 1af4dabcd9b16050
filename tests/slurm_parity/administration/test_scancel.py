"""scancel on this machine's own node, beside the real scancel with the same jobs and command lines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.slurm_parity.peer.real_slurm import RealSlurm
from tests.support.home import Home, temporary_home
from tests.support.processes import has_ended
from tests.support.waiting import eventually

pytestmark = pytest.mark.slurm

SUBMITTED = (
    ["--wrap", "true"],
    ["-J", "named", "--wrap", "true"],
    ["-a", "0-9", "--wrap", "true"],
    ["--wrap", "true"],
)
"""The jobs 1 to 4 of both schedulers. All are held."""
COMMAND_LINES: tuple[list[str], ...] = (
    [],
    ["999"],
    ["abc"],
    ["12x"],
    ["0"],
    ["1.batch"],
    ["-Q", "999"],
    ["-s", "FOO", "1"],
    ["-s", "USR1,9", "1"],
    ["-t", "FOO"],
    ["-t", "R,PD"],
    ["-u", "nobodyy"],
    ["-n", "none"],
    ["-v", "-n", "none", "-u", "root", "-p", "nix", "-t", "PENDING"],
    ["-v", "-q", "none", "--wckey=x"],
    ["-p", "nix"],
    ["77", "-v"],
    ["1", "--", "-v"],
    ["nix", "-v", "--no-such"],
    ["-v", "1"],
    ["-v", "1"],
    ["1"],
    ["-v", "3_3"],
    ["-v", "3_[4-5]"],
    ["-v", "3_77"],
    ["-v", "1", "4"],
    ["-i", "-n", "named"],
    ["-n", "named", "-t", "pd"],
    ["-v", "-n", "named"],
    ["-v", "3_[0-2,6-9]"],
)
"""Command lines that run in this order."""
NOISE = "scancel: select/"
"""Output of plug-ins of the real scancel."""


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    """One home for all tests of the module."""
    with temporary_home() as made:
        yield made


def test_scancel_prints_the_output_of_slurm(home: Home, slurm: RealSlurm) -> None:
    for argv in SUBMITTED:
        result = home.slurm("sbatch", "-H", "-pgpu", *argv)
        assert result.stdout == slurm.ok("sbatch", "-H", "-p", "gpu", *argv), result.stderr
    for argv in COMMAND_LINES:
        real = slurm.run(["scancel", *argv], data="n\n")
        result = home.slurm("scancel", *argv, data="n\n")
        errors = [line for line in real.err.splitlines() if not line.startswith(NOISE)]
        # Slurm reports the cancelled jobs while it cancels them, in an order of its own.
        assert (result.returncode, result.stdout, sorted(result.stderr.splitlines())) == (
            real.rc,
            real.out,
            sorted(errors),
        ), argv


SIGNALED_SCRIPT = """trap 'echo shell >> got' USR1
touch ready.shell
sleep 1000 &
echo $! > sleeper
srun -n1 bash -c 'trap "echo step >> got" USR1; touch ready.step; while :; do sleep 0.1; done' &
bash -c 'trap "echo program >> got" USR1; touch ready.program; while :; do sleep 0.1; done' &
while :; do sleep 0.1; done
"""


@pytest.mark.parametrize(
    ("option", "receivers"),
    [([], {"step", "program"}), (["--batch"], {"shell"}), (["--full"], {"shell", "step", "program"})],
)
def test_a_signal_reaches_the_steps_the_shell_or_both(
    home: Home, short_tmp: Path, option: list[str], receivers: set[str]
) -> None:
    """The signal also reaches other processes of the job that trap it. It spares a sleep, which it would
    kill, unless the whole job is signaled.
    """
    (short_tmp / "job.sh").write_text(f"#!/bin/bash\ncd {short_tmp}\n{SIGNALED_SCRIPT}")
    job = home.slurm("sbatch", "--parsable", "-o", "out", "job.sh", cwd=short_tmp).stdout.strip()
    ready = [short_tmp / f"ready.{name}" for name in ("shell", "step", "program")]
    eventually(lambda: all(path.exists() for path in ready))
    sleeper = int((short_tmp / "sleeper").read_text())
    result = home.slurm("scancel", "-s", "USR1", *option, job, cwd=short_tmp)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    received = short_tmp / "got"
    eventually(lambda: received.exists() and set(received.read_text().split()) == receivers)
    # One more signal, to the step alone.
    home.slurm("scancel", "-s", "USR1", "-v", f"{job}.0", cwd=short_tmp)
    eventually(lambda: received.read_text().split().count("step") == (2 if "step" in receivers else 1))
    assert set(received.read_text().split()) == receivers | {"step"}
    assert has_ended(sleeper) == (option == ["--full"])
    assert home.slurm("scancel", job).returncode == 0
    eventually(lambda: home.state(job) == "CANCELLED")


def test_scancel_inside_a_job_ends_a_step_and_another_job(home: Home, short_tmp: Path) -> None:
    other = home.slurm("sbatch", "--parsable", "-H", "-J", "other", "--wrap", "true").stdout.strip()
    (short_tmp / "job.sh").write_text(
        "#!/bin/bash\nsrun sh -c 'touch ready; sleep 600' & while [ ! -e ready ]; do sleep 0.1; done\n"
        f"scancel $SLURM_JOB_ID.0; wait; scancel -v {other} > out.txt 2>&1; cat out.txt\n"
    )
    result = home.slurm("sbatch", "--wait", "-o", "out", "job.sh", cwd=short_tmp)
    assert result.returncode == 0, result.stderr
    assert f"scancel: Terminating job {other}\n" in (short_tmp / "out").read_text()
    assert home.state(other) == "CANCELLED"
