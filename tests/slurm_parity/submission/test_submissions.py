"""sbatch beside a real Slurm: dependencies, --test-only, array specifications, and invalid options.

A dependency on an unknown job is ignored by both, so the job starts at once. We also print a warning.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from tests.slurm_parity.peer.pair import Pair, side_by_side
from tests.support.waiting import eventually

pytestmark = pytest.mark.slurm
SLEEP_JOB = ("-o", "/dev/null", "--wrap", "sleep 1000")
KINDS = ("after", "afterany", "afterok", "afternotok", "aftercorr", "afterburstbuffer")
VALID_DEPENDENCIES = (
    "afterburstbuffer:{held}", "afterok:{held}+10", "after:{held}+10", "afterok:{array}_*", "afterok:{array}_2", "afterok: {held}",
    "aftercorr:{array}", "afterok:{held}:{array}", "afterok:{held}?afterburstbuffer:{array}", "AfterOK:{held}", "",
    "afterok:{held}:{held}",
)  # fmt: skip
INVALID_DEPENDENCIES = (
    "after:{held}+x",
    "afterok:",
    "afterok",
    "foo:1",
    "afterok:x",
    "afterok:{held},",
    "afterok:{held}:",
    "afterok:0",
)
UNKNOWN_JOBS = (
    *(f"{kind}:9999" for kind in KINDS), "afterok:{array}_9", "afterok:{held}_4", "after:9999+5", "singleton,afterok:9999",
    "afterok:9999,afterok:{held}", "afterok:{held}?afterok:9999", "afterok:{held}:9999",
)  # fmt: skip
PRIORITIES = (
    "--priority=0", "--priority=-1", "--priority=5", "--priority=4294967293", "--priority=4294967294", "--priority=99999999999",
    "--priority=top", "--nice", "--nice=5", "--nice=-5", "--nice=2147483645", "--nice=2147483646", "--nice=-2147483646",
    "--nice=5 --priority=9",
)  # fmt: skip
Jobs = dict[str, str]

ARRAYS = (
    "0-3%x", "0-3%0", "0-3%", "0-3%2", "0-3%-1", "0-3%2%3", "0-3%999999999999", "0-3%2x", "0-3 %2", "0-3% 2", "3-1", "0-3:0",
    "0-3:", "0-3:2%1", "1,1,1", "1,,2", ",1", "1,", "", " ", "a", "1-", "-1", "[1-3]", "[0-3]%2", "[0-3%2]", "1-3,2-5", "0x3", "01-03",
    "1e2",
    "1-3:2:1", "1:2", "1-3,5-9:2%3", "1;2", "1 2", "1-3,a", "+1", "1.5", "99999999999", "0-3%+2", "[1-3],5", "[1", "1]", "1-3-5",
    "0-3%2,5", "5,0-3%2,7-9%3", "1%x,3", "1-[3]", "[[1-3]]", "1,[2-3]", "[1,2]", "1 ,2", "1, 2", "1- 3", "1-+3", "1-3: 2", "1-3]%2",
    "1]-3", "1-3:2]", "[1-3%2]]", "(1-3)", "1--3", "%", "%4", "%%", "[]", ",", "0-3%010", "0-3%0x4", "0-3%2.5", "0-3%65536",
    "0-3%4294967298", "0-3%2147483648", "0-3%1000000",
)  # fmt: skip


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with side_by_side(Pair) as both:
        yield both


@pytest.fixture(scope="module")
def jobs(pair: Pair) -> Jobs:
    """Jobs by the way they end. Their ids are the same in both schedulers."""
    ids = {}
    for name, options, exit_code in (
        ("held", ("-H",), None), ("array", ("-H", "-a", "1-3"), None), ("good", ("-w", "n1"), 0), ("bad", ("-w", "n2"), 1)
    ):  # fmt: skip
        job_id = pair.slurm.ok(
            "sbatch", "--parsable", *options, "-o", "/dev/null", "--wrap", f"exit {exit_code or 0}"
        ).strip()
        assert str(pair.warpdeck.submit(*options)) == job_id
        ids[name] = job_id
        if exit_code is not None:
            pair.warpdeck.wait_until_running(int(job_id))
            pair.warpdeck.report_job_end(int(job_id), exit_code=exit_code)
            argv = ("squeue", "-h", "-t", "all", "-j", job_id, "-o", "%t")
            eventually(lambda argv=argv: pair.slurm.ok(*argv) in ("CD\n", "F\n"), what="the job ends")
    return ids


def _submit(pair: Pair, *argv: str) -> list[tuple[int, str, str]]:
    """Submit the job to both and return exit code, job id and the first line of the errors of each."""
    results = [
        cluster.run(["sbatch", "--parsable", *argv, *SLEEP_JOB]) for cluster in (pair.slurm, pair.warpdeck)
    ]
    return [(result.rc, result.out.strip(), result.err.partition("\n")[0]) for result in results]


def _squeue_rows(pair: Pair, submitted: list[tuple[int, str, str]], form: str) -> list[str]:
    return [
        cluster.run(["squeue", "-h", "-t", "all", "-j", number, "-o", form]).out
        for cluster, (_, number, _) in zip(pair.both, submitted, strict=True)
    ]


def _cancel(pair: Pair, submitted: list[tuple[int, str, str]]) -> None:
    for cluster, (_, number, _) in zip(pair.both, submitted, strict=True):
        cluster.run(["scancel", number])


@pytest.mark.parametrize("case", VALID_DEPENDENCIES)
def test_dependencies_are_shown_as_in_slurm(pair: Pair, jobs: Jobs, case: str) -> None:
    submitted = _submit(pair, "-H", "-d", case.format(**jobs))
    assert [(code, message) for code, _, message in submitted] == [(0, "")] * 2
    slurm, warpdeck = _squeue_rows(pair, submitted, "%E|%r")
    _cancel(pair, submitted)
    assert warpdeck == slurm


@pytest.mark.parametrize("case", INVALID_DEPENDENCIES)
def test_invalid_dependencies_are_refused_as_in_slurm(pair: Pair, jobs: Jobs, case: str) -> None:
    slurm, warpdeck = _submit(pair, "-H", "-d", case.format(**jobs))
    assert warpdeck == slurm and slurm[0] == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("end", ["good", "bad"])
def test_a_dependency_on_an_ended_job_has_the_effect_that_it_has_in_slurm(
    pair: Pair, jobs: Jobs, kind: str, end: str
) -> None:
    submitted = _submit(pair, "-d", f"{kind}:{jobs[end]}")
    slurm, warpdeck = _settled_rows(pair, submitted)
    assert warpdeck == slurm


@pytest.mark.parametrize("case", UNKNOWN_JOBS)
def test_a_dependency_on_an_unknown_job_is_ignored_with_a_warning(pair: Pair, jobs: Jobs, case: str) -> None:
    argv = ["sbatch", "-d", case.format(**jobs), *SLEEP_JOB]
    results = [cluster.run(argv) for cluster in (pair.slurm, pair.warpdeck)]
    submitted = [(result.rc, result.out.split()[-1], "") for result in results]
    slurm, warpdeck = _settled_rows(pair, submitted)
    assert (warpdeck, results[1].rc) == (slurm, results[0].rc)
    assert results[0].err == "" and re.fullmatch(
        r"sbatch: --dependency: job \S+ is unknown and ignored\n", results[1].err
    )


def _settled_rows(pair: Pair, submitted: list[tuple[int, str, str]]) -> list[str]:
    """Return state, reason and dependency of the jobs after Slurm has evaluated its job, and cancel both."""

    def current_rows() -> list[str]:
        return [re.sub("^CF|^R", "R", line) for line in _squeue_rows(pair, submitted, "%t|%r|%E")]

    eventually(
        lambda: current_rows()[0] in ("R|None|(null)\n", current_rows()[1]),
        what="Slurm has evaluated the dependency",
    )
    slurm, warpdeck = current_rows()
    if warpdeck.startswith("R|"):
        pair.warpdeck.wait_until_running(int(submitted[1][1]))
    _cancel(pair, submitted)
    if warpdeck.startswith("R|"):
        pair.warpdeck.report_job_end(int(submitted[1][1]), signal=15)
    return [slurm, warpdeck]


@pytest.mark.parametrize(
    "argv",
    [
        "-p zz",
        "-p gpu,zz",
        "-p ,",
        "--partition=",
        "-n1 : --partition=",
        "-p zz;x",
        "-p zz --test-only",
        "-w zz --test-only",
        "-Q --test-only",
        "--test-only -N9",
        "--test-only -c17",
        "--test-only --mem=1T",
        "--test-only --tmp=1T",
        "-c17",
        "--mincpus=17",
        "--ntasks-per-node=9 -c2",
        "-N1 -n17",
        "--mem=1T",
        "--mem-per-cpu=100G",
        "--mem-per-cpu=10G -c8",
        "--mem=1T -c17",
        "--mem=1T --gres=gpu:5",
        "--gres=gpu:5",
        "-t 20 --time-min=30",
    ],
)
def test_unavailable_options_print_the_messages_of_slurm(pair: Pair, argv: str) -> None:
    """Our output begins with Slurm's messages. Hints may follow."""
    slurm, warpdeck = (
        cluster.run(["sbatch", *argv.split(), *SLEEP_JOB]) for cluster in (pair.slurm, pair.warpdeck)
    )
    assert (warpdeck.rc, warpdeck.out) == (slurm.rc, slurm.out) and warpdeck.err.startswith(slurm.err)
    assert bool(warpdeck.err) == bool(slurm.err)


@pytest.mark.parametrize(
    "argv", ["-d singleton", "-d afterok:99", "-d afterany:{held}", "--begin=now+1hour -d singleton -J x"]
)
def test_test_only_ignores_dependencies(pair: Pair, jobs: Jobs, argv: str) -> None:
    """The time respects --begin."""
    line = ["sbatch", "--test-only", *argv.format(**jobs).split(), *SLEEP_JOB]
    results = [cluster.run(line) for cluster in (pair.slurm, pair.warpdeck)]
    assert results[1].rc == results[0].rc == 0
    slurm, warpdeck = (re.sub(r"Job \d+ |:\d\d:\d\d | on nodes \S+", "", result.err) for result in results)
    assert warpdeck == slurm


@pytest.mark.parametrize(
    "argv", ["-n1 : -n20", "-w n1 : -w n2 -n2 : -n3 -w n1", "-n1 : --begin=now+1hour -c2"]
)
def test_test_only_reports_a_heterogeneous_job_as_one_job(pair: Pair, argv: str) -> None:
    """The nodes are compared only if the request names them, because their choice is each scheduler's own."""
    results = [
        cluster.run(["sbatch", "--test-only", *argv.split(), *SLEEP_JOB])
        for cluster in (pair.slurm, pair.warpdeck)
    ]
    assert results[1].rc == results[0].rc == 0
    chosen = r"Job \d+ |:\d\d:\d\d " + ("" if "-w" in argv else r"| on n\S+")
    slurm, warpdeck = (re.sub(chosen, "", result.err) for result in results)
    assert warpdeck == slurm


@pytest.mark.parametrize("text", ARRAYS)
def test_array_specifications_are_parsed_as_in_slurm(pair: Pair, text: str) -> None:
    """The test compares which tasks exist, and how many may run at once."""
    outcomes = []
    for cluster in (pair.slurm, pair.warpdeck):
        result = cluster.run(["sbatch", "--parsable", "-H", f"--array={text}", *SLEEP_JOB])
        job = result.out.strip()
        tasks = cluster.run(["squeue", "-h", "-j", job, "-o", "%K"]).out if job else ""
        cluster.run(["scancel", job or "0"])
        outcomes.append((result.rc, tasks, result.err.splitlines()[:1]))
    assert outcomes[1] == outcomes[0]


@pytest.mark.parametrize("text", ["5", "5%2", "0-1", "1-2%1"])
def test_waiting_tasks_of_an_array_are_shown_in_brackets(pair: Pair, text: str) -> None:
    outcomes = []
    for cluster in (pair.slurm, pair.warpdeck):
        job = cluster.run(["sbatch", "--parsable", "-H", f"--array={text}", *SLEEP_JOB]).out.strip()
        lines = [("-o", "%F=%i|%K|%t"), ("-r", "-o", "%F=%i|%K|%t")]
        shown = [cluster.run(["squeue", "-h", "-j", job, *argv]).out for argv in lines]
        (record,) = [
            row
            for row in json.loads(cluster.run(["squeue", "--json"]).out)["jobs"]
            if str(row["job_id"]) == job
        ]
        facts = [record[f"array_{name}"] for name in ("task_id", "task_string", "max_tasks")]
        head = cluster.run(["scontrol", "show", "job", job]).out.splitlines()[0].replace(f"={job} ", "=JOB ")
        outcomes.append(
            ([line.replace(f"{job}=", "").replace(f"{job}_", "JOB_") for line in shown], facts, head)
        )
        cluster.run(["scancel", job])
    assert outcomes[1] == outcomes[0]


@pytest.mark.parametrize("named", ["{0}_1", "{0}_1,{0}_3", "{0}_2,{0}_3,{0}_5", "{0}_9", "{0}_9,{0}_4"])
@pytest.mark.parametrize("argv", ["-o %i|%K|%t", "-r -o %i|%K|%t"])
def test_named_waiting_tasks_are_shown_in_one_row(pair: Pair, named: str, argv: str) -> None:
    outcomes = []
    for cluster in (pair.slurm, pair.warpdeck):
        job = cluster.run(["sbatch", "--parsable", "-H", "--array=1-5%2", *SLEEP_JOB]).out.strip()
        result = cluster.run(["squeue", "-h", "-j", named.format(job), *argv.split(" ")])
        outcomes.append((result.rc, result.out.replace(f"{job}_", "JOB_")))
        cluster.run(["scancel", job])
    assert outcomes[1] == outcomes[0]


@pytest.mark.parametrize("user", ["root", "nobody"])
@pytest.mark.parametrize("argv", PRIORITIES)
def test_priorities_and_nice_values_are_accepted_as_in_slurm(pair: Pair, argv: str, user: str) -> None:
    """The error begins with Slurm's message. Users without permission also get a hint."""
    pair.warpdeck.folder.chmod(0o755)
    results = [
        cluster.run(["sbatch", "--parsable", "--begin=now+1hour", *argv.split(), *SLEEP_JOB], user=user)
        for cluster in (pair.slurm, pair.warpdeck)
    ]
    submitted = [(result.rc, result.out.strip(), result.err.partition("\n")[0]) for result in results]
    assert [(code, message) for code, _, message in submitted[1:]] == [
        (code, message) for code, _, message in submitted[:1]
    ]
    if submitted[0][0] == 0:
        slurm, warpdeck = _squeue_rows(pair, submitted, "%Q %y")
        _cancel(pair, submitted)
        assert warpdeck == slurm


def test_a_wrapped_command_becomes_the_same_script_as_in_slurm(pair: Pair) -> None:
    submitted = _submit(pair, "-H")
    slurm, warpdeck = (
        cluster.run(["scontrol", "write", "batch_script", number, "-"]).out
        for cluster, (_, number, _) in zip(pair.both, submitted, strict=True)
    )
    _cancel(pair, submitted)
    assert warpdeck == slurm and warpdeck.startswith("#!/bin/sh\n")


ALLOCATION_FIELDS = r"NumNodes=.*|TRES=\S+|JOB_GRES=\S+|Nodes=\S+ CPU_IDs=.*|MinCPUsNode=.*"
TIME_FIELDS = r"EligibleTime=(Unknown)?"


@pytest.mark.parametrize(
    "argv",
    [
        "--gpus=2",
        "-N2 --gres=gpu:h100:1",
        "-N2-4",
        "-N2-4 -c2",
        "-N1-3 --gres=gpu:1",
        "-n2 --mem-per-cpu=0",
        "-N2 -n3",
    ],
)
def test_allocated_resources_are_shown_as_in_slurm(pair: Pair, argv: str) -> None:
    submitted = _submit(pair, *argv.split())
    pair.warpdeck.wait_until_running(int(submitted[1][1]))
    eventually(
        lambda: pair.slurm.ok("squeue", "-h", "-j", submitted[0][1], "-o", "%t") == "R\n", what="the job runs"
    )
    fields = _scontrol_fields(pair, submitted, ALLOCATION_FIELDS)
    _cancel(pair, submitted)
    pair.warpdeck.report_job_end(int(submitted[1][1]), signal=15)
    eventually(
        lambda: "R" not in pair.slurm.ok("squeue", "-h", "-j", submitted[0][1], "-o", "%t"),
        what="the job has ended",
    )
    assert fields[1] == fields[0]


@pytest.mark.parametrize("argv", ["--begin=now+1hour", "-H --begin=now+1hour", "-H", "-H -a 1-3"])
def test_the_eligible_time_is_shown_as_in_slurm(pair: Pair, argv: str) -> None:
    submitted = _submit(pair, *argv.split())
    fields = _scontrol_fields(pair, submitted, TIME_FIELDS)
    _cancel(pair, submitted)
    assert fields[1] == fields[0]


def _scontrol_fields(pair: Pair, submitted: list[tuple[int, str, str]], lines: str) -> list[list[str]]:
    """Return the fields that scontrol shows, without GPU counts, which Slurm shows only if they are accounted
    for.
    """
    return [
        [
            re.sub(r",gres/gpu=\d+", "", found.group()).rstrip()
            for found in re.finditer(lines, cluster.run(["scontrol", "show", "job", "-d", number]).out)
        ]
        for cluster, (_, number, _) in zip(pair.both, submitted, strict=True)
    ]
