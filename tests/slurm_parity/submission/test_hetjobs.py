"""Heterogeneous jobs beside a real Slurm, with the same command lines and output.

All jobs are held, because Slurm starts them only in its backfill cycle, about 30 seconds later.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.slurm_parity.peer.pair import JOB_FACTS, Pair, side_by_side
from tests.slurm_parity.peer.real_slurm import GRES, SITE

pytestmark = pytest.mark.slurm
JOBS = (
    ("-H", "-J", "aa", "-n1", "--mem=100", ":", "-J", "bb", "-n2", "--mem=200"),
    (
        "-n1",
        "-t",
        "7",
        "-J",
        "lasts",
        "-p",
        "debug",
        "--comment",
        "all",
        ":",
        "-N2",
        "-n4",
        ":",
        "-H",
        "-t9",
        "-Jlast",
    ),
    ("-H", "-J", "plain"),
)
FORMATS: tuple[list[str], ...] = (
    ["-o", "%i %A %F %K %j %T %r %D %C %l %P %k"],
    ["-O", "jobid,jobarrayid,hetjobid,hetjoboffset,hetjobidset,name,state,batchflag,command:60,stdout:60"],
    [],
)


class JobPair(Pair):
    """Both schedulers with the same jobs."""

    masks = JOB_FACTS


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with side_by_side(JobPair, slurm_site=SITE, gres=GRES) as both:
        for job in JOBS:
            both.assert_same("sbatch", *job, "--wrap", "sleep 1000")
        yield both


@pytest.mark.parametrize("job_filter", [[], ["-j1"], ["-j2"], ["-j1+1"], ["-j3"], ["-j5,6"], ["-j6+0"]])
@pytest.mark.parametrize("format_options", FORMATS)
def test_squeue_prints_the_output_of_slurm(
    pair: Pair, job_filter: list[str], format_options: list[str]
) -> None:
    pair.assert_same("squeue", "-S", "i", *job_filter, *format_options)


@pytest.mark.parametrize("job", ["1", "2", "1+1", "1+0", "3", "5", "1+5", "6+0", "6+1", "6"])
def test_a_component_is_shown_as_in_slurm(pair: Pair, job: str) -> None:
    pair.assert_same("scontrol", "show", "job", job)
    pair.assert_same("scontrol", "-o", "show", "job", job)


@pytest.mark.parametrize(
    "line",
    [
        "scancel 2",
        "scancel 1+1",
        "scancel 1+7",
        "scancel 6+1",
        "scancel --name=bb",
        "scontrol requeue 2",
        "scontrol requeue 1",
        "scontrol suspend 1",
        "scontrol suspend 2",
        "scontrol show job 2",
        "sbatch -n1 : -n1 --bogus --wrap true",
    ],
)  # fmt: skip
def test_scancel_and_scontrol_print_the_output_of_slurm(pair: Pair, line: str) -> None:
    pair.assert_same(*line.split())


@pytest.mark.parametrize(
    "line", ["-a1-3 -n1 : -n2", "-n1 : -a1-3 -n2", "-n1 -p zz : -n1", "-n1 : -n1 -p zz", "-n1 : -nx"]
)
def test_an_invalid_component_refuses_the_whole_job(pair: Pair, line: str) -> None:
    argv = ["sbatch", *line.split(), "--wrap", "true"]
    expected, actual = pair.slurm.run(argv), pair.warpdeck.run(argv)
    assert (actual.rc, actual.out) == (expected.rc, expected.out)
    assert actual.err.splitlines()[: len(expected.err.splitlines())] == expected.err.splitlines()


def test_hold_and_release_apply_as_in_slurm_and_the_leader_cancels_all(pair: Pair) -> None:
    """This test runs last, because it changes the jobs."""
    squeue_argv = ["squeue", "-S", "i", "-ho", "%i %T", "-tall", "-j1,3"]
    pair.assert_same("scontrol", "release", "2")
    pair.assert_same("squeue", "-S", "i", "-ho", "%i %T %r", "-j1")
    pair.assert_same("scontrol", "hold", "2")
    pair.assert_same("scancel", "--name=aa")
    pair.assert_same(*squeue_argv)
    pair.assert_same("scancel", "3")
    pair.assert_same(*squeue_argv)
