"""scancel beside the real one: the same words on the same jobs print the same and end the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.slurm_parity.peer import RealSlurm
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
"""Jobs 1 to 4 of both, all held."""
SAME = (
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
"""Command lines, one after the other."""
NOISE = "scancel: select/"
"""Plug-ins that the real one tells of."""


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    """One for all tests of the module."""
    with temporary_home() as made:
        yield made


def test_the_same_words_on_the_same_jobs_say_the_same(home: Home, slurm: RealSlurm) -> None:
    for words in SUBMITTED:
        ours = home.slurm("sbatch", "-H", "-pgpu", *words)
        assert ours.stdout == slurm.ok("sbatch", "-H", "-p", "gpu", *words), ours.stderr
    for words in SAME:
        real = slurm.run(["scancel", *words], data="n\n")
        ours = home.slurm("scancel", *words, data="n\n")
        said = [line for line in real.err.splitlines() if not line.startswith(NOISE)]
        # What is done to several is told while it is being done there, in an order of its own.
        assert (ours.returncode, ours.stdout, sorted(ours.stderr.splitlines())) == (
            real.rc,
            real.out,
            sorted(said),
        ), words


SIGNALLED = """trap 'echo shell >> got' USR1
touch ready.shell
sleep 1000 &
echo $! > sleeper
srun -n1 bash -c 'trap "echo step >> got" USR1; touch ready.step; while :; do sleep 0.1; done' &
bash -c 'trap "echo program >> got" USR1; touch ready.program; while :; do sleep 0.1; done' &
while :; do sleep 0.1; done
"""


@pytest.mark.parametrize(
    ("option", "whom"),
    [([], {"step", "program"}), (["--batch"], {"shell"}), (["--full"], {"shell", "step", "program"})],
)
def test_a_signal_goes_to_the_steps_to_the_shell_or_to_both(
    home: Home, short_tmp: Path, option: list[str], whom: set[str]
) -> None:
    """And to what else runs if it waits for it: a sleep, which would die of it, is spared as long as not all are meant."""
    (short_tmp / "job.sh").write_text(f"#!/bin/bash\ncd {short_tmp}\n{SIGNALLED}")
    job = home.slurm("sbatch", "--parsable", "-o", "out", "job.sh", cwd=short_tmp).stdout.strip()
    ready = [short_tmp / f"ready.{who}" for who in ("shell", "step", "program")]
    eventually(lambda: all(path.exists() for path in ready))
    sleeper = int((short_tmp / "sleeper").read_text())
    done = home.slurm("scancel", "-s", "USR1", *option, job, cwd=short_tmp)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    got = short_tmp / "got"
    eventually(lambda: got.exists() and set(got.read_text().split()) == whom)
    home.slurm("scancel", "-s", "USR1", "-v", f"{job}.0", cwd=short_tmp)  # one more, to the step alone
    eventually(lambda: got.read_text().split().count("step") == (2 if "step" in whom else 1))
    assert set(got.read_text().split()) == whom | {"step"}
    assert has_ended(sleeper) == (option == ["--full"])
    assert home.slurm("scancel", job).returncode == 0
    eventually(lambda: home.state(job) == "CANCELLED")


def test_a_jobs_own_scancel_ends_a_step_and_another_job(home: Home, short_tmp: Path) -> None:
    other = home.slurm("sbatch", "--parsable", "-H", "-J", "other", "--wrap", "true").stdout.strip()
    (short_tmp / "job.sh").write_text(
        "#!/bin/bash\nsrun sh -c 'touch ready; sleep 600' & while [ ! -e ready ]; do sleep 0.1; done\n"
        f"scancel $SLURM_JOB_ID.0; wait; scancel -v {other} > out.txt 2>&1; cat out.txt\n"
    )
    done = home.slurm("sbatch", "--wait", "-o", "out", "job.sh", cwd=short_tmp)
    assert done.returncode == 0, done.stderr
    assert f"scancel: Terminating job {other}\n" in (short_tmp / "out").read_text()
    assert home.state(other) == "CANCELLED"
