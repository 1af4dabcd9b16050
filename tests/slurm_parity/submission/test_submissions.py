"""sbatch beside a real Slurm: what a job may depend on, what --test-only says, and what is said of a partition that there is not.

A job is named that there never was: what depends on it starts at once in both, and we say so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from tests.slurm_parity.peer.pair import Pair, side_by_side
from tests.support.waiting import eventually

pytestmark = pytest.mark.slurm
WRAP = ("-o", "/dev/null", "--wrap", "sleep 1000")
KINDS = ("after", "afterany", "afterok", "afternotok", "aftercorr", "afterburstbuffer")
WAITING = (
    "afterburstbuffer:{held}", "afterok:{held}+10", "after:{held}+10", "afterok:{array}_*", "afterok:{array}_2", "afterok: {held}",
    "aftercorr:{array}", "afterok:{held}:{array}", "afterok:{held}?afterburstbuffer:{array}", "AfterOK:{held}", "",
    "afterok:{held}:{held}",
)  # fmt: skip
UNREAD = (
    "after:{held}+x",
    "afterok:",
    "afterok",
    "foo:1",
    "afterok:x",
    "afterok:{held},",
    "afterok:{held}:",
    "afterok:0",
)
UNKNOWN = (
    *(f"{kind}:9999" for kind in KINDS), "afterok:{array}_9", "afterok:{held}_4", "after:9999+5", "singleton,afterok:9999",
    "afterok:9999,afterok:{held}", "afterok:{held}?afterok:9999", "afterok:{held}:9999",
)  # fmt: skip
STANDINGS = (
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
    """By what became of them: they have the same numbers in both."""
    made = {}
    for name, options, exit_code in (
        ("held", ("-H",), None), ("array", ("-H", "-a", "1-3"), None), ("good", ("-w", "n1"), 0), ("bad", ("-w", "n2"), 1)
    ):  # fmt: skip
        number = pair.slurm.ok(
            "sbatch", "--parsable", *options, "-o", "/dev/null", "--wrap", f"exit {exit_code or 0}"
        ).strip()
        assert str(pair.warpdeck.submit(*options)) == number
        made[name] = number
        if exit_code is not None:
            pair.warpdeck.wait_until_running(int(number))
            pair.warpdeck.report_job_end(int(number), exit_code=exit_code)
            argv = ("squeue", "-h", "-t", "all", "-j", number, "-o", "%t")
            eventually(lambda argv=argv: pair.slurm.ok(*argv) in ("CD\n", "F\n"), what="it ends")  # type: ignore[misc]
    return made


def _submit(pair: Pair, *argv: str) -> list[tuple[int, str, str]]:
    """(exit code, number, first line of the errors) of both."""
    done = [cluster.run(["sbatch", "--parsable", *argv, *WRAP]) for cluster in (pair.slurm, pair.warpdeck)]
    return [(each.rc, each.out.strip(), each.err.partition("\n")[0]) for each in done]


def _shown(pair: Pair, submitted: list[tuple[int, str, str]], form: str) -> list[str]:
    both = (pair.slurm, pair.warpdeck)
    return [
        cluster.run(["squeue", "-h", "-t", "all", "-j", number, "-o", form]).out
        for cluster, (_, number, _) in zip(both, submitted, strict=True)
    ]


def _cancel(pair: Pair, submitted: list[tuple[int, str, str]]) -> None:
    for cluster, (_, number, _) in zip((pair.slurm, pair.warpdeck), submitted, strict=True):
        cluster.run(["scancel", number])


@pytest.mark.parametrize("case", WAITING)
def test_what_a_job_waits_for_is_told_alike(pair: Pair, jobs: Jobs, case: str) -> None:
    done = _submit(pair, "-H", "-d", case.format(**jobs))
    assert [(code, said) for code, _, said in done] == [(0, "")] * 2
    theirs, ours = _shown(pair, done, "%E|%r")
    _cancel(pair, done)
    assert ours == theirs


@pytest.mark.parametrize("case", UNREAD)
def test_what_cannot_be_read_is_refused_alike(pair: Pair, jobs: Jobs, case: str) -> None:
    theirs, ours = _submit(pair, "-H", "-d", case.format(**jobs))
    assert ours == theirs and theirs[0] == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("end", ["good", "bad"])
def test_what_has_ended_already_lets_a_job_go_or_never(pair: Pair, jobs: Jobs, kind: str, end: str) -> None:
    done = _submit(pair, "-d", f"{kind}:{jobs[end]}")
    theirs, ours = _standing(pair, done)
    assert ours == theirs


@pytest.mark.parametrize("case", UNKNOWN)
def test_who_was_never_there_is_not_waited_for(pair: Pair, jobs: Jobs, case: str) -> None:
    argv = ["sbatch", "-d", case.format(**jobs), *WRAP]
    said = [cluster.run(argv) for cluster in (pair.slurm, pair.warpdeck)]
    done = [(each.rc, each.out.split()[-1], "") for each in said]
    theirs, ours = _standing(pair, done)
    assert (ours, said[1].rc) == (theirs, said[0].rc)
    assert said[0].err == "" and re.fullmatch(
        r"sbatch: --dependency: job \S+ is unknown and ignored\n", said[1].err
    )


def _standing(pair: Pair, done: list[tuple[int, str, str]]) -> list[str]:
    """How the jobs stand, once the real one has looked at its; they are cancelled then."""

    def told() -> list[str]:
        return [re.sub("^CF|^R", "R", line) for line in _shown(pair, done, "%t|%r|%E")]

    eventually(lambda: told()[0] in ("R|None|(null)\n", told()[1]), what="theirs has looked")
    theirs, ours = told()
    if ours.startswith("R|"):
        pair.warpdeck.wait_until_running(int(done[1][1]))
    _cancel(pair, done)
    if ours.startswith("R|"):
        pair.warpdeck.report_job_end(int(done[1][1]), signal=15)
    return [theirs, ours]


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
def test_what_there_is_not_is_said_alike(pair: Pair, argv: str) -> None:
    """All that Slurm says comes first; how it can be mended may follow."""
    theirs, ours = (cluster.run(["sbatch", *argv.split(), *WRAP]) for cluster in (pair.slurm, pair.warpdeck))
    assert (ours.rc, ours.out) == (theirs.rc, theirs.out) and ours.err.startswith(theirs.err)
    assert bool(ours.err) == bool(theirs.err)


@pytest.mark.parametrize(
    "argv", ["-d singleton", "-d afterok:99", "-d afterany:{held}", "--begin=now+1hour -d singleton -J x"]
)
def test_a_start_is_told_as_if_nobody_were_waited_for(pair: Pair, jobs: Jobs, argv: str) -> None:
    """But not before --begin."""
    line = ["sbatch", "--test-only", *argv.format(**jobs).split(), *WRAP]
    told = [cluster.run(line) for cluster in (pair.slurm, pair.warpdeck)]
    assert told[1].rc == told[0].rc == 0
    theirs, ours = (re.sub(r"Job \d+ |:\d\d:\d\d | on nodes \S+", "", each.err) for each in told)
    assert ours == theirs


@pytest.mark.parametrize(
    "argv", ["-n1 : -n20", "-w n1 : -w n2 -n2 : -n3 -w n1", "-n1 : --begin=now+1hour -c2"]
)
def test_the_components_of_a_job_are_told_as_one_that_starts(pair: Pair, argv: str) -> None:
    """The nodes only where they are named: which they are is each scheduler's own affair."""
    told = [
        cluster.run(["sbatch", "--test-only", *argv.split(), *WRAP])
        for cluster in (pair.slurm, pair.warpdeck)
    ]
    assert told[1].rc == told[0].rc == 0
    chosen = r"Job \d+ |:\d\d:\d\d " + ("" if "-w" in argv else r"| on n\S+")
    theirs, ours = (re.sub(chosen, "", each.err) for each in told)
    assert ours == theirs


@pytest.mark.parametrize("text", ARRAYS)
def test_an_array_is_read_alike(pair: Pair, text: str) -> None:
    """However it is spelt; the answer is which tasks there are, and how many may run at once."""
    told = []
    for cluster in (pair.slurm, pair.warpdeck):
        done = cluster.run(["sbatch", "--parsable", "-H", f"--array={text}", *WRAP])
        job = done.out.strip()
        tasks = cluster.run(["squeue", "-h", "-j", job, "-o", "%K"]).out if job else ""
        cluster.run(["scancel", job or "0"])
        told.append((done.rc, tasks, done.err.splitlines()[:1]))
    assert told[1] == told[0]


@pytest.mark.parametrize("text", ["5", "5%2", "0-1", "1-2%1"])
def test_what_waits_of_an_array_is_told_in_brackets_be_it_one_task(pair: Pair, text: str) -> None:
    said = []
    for cluster in (pair.slurm, pair.warpdeck):
        job = cluster.run(["sbatch", "--parsable", "-H", f"--array={text}", *WRAP]).out.strip()
        lines = [("-o", "%F=%i|%K|%t"), ("-r", "-o", "%F=%i|%K|%t")]
        shown = [cluster.run(["squeue", "-h", "-j", job, *argv]).out for argv in lines]
        (record,) = [
            each
            for each in json.loads(cluster.run(["squeue", "--json"]).out)["jobs"]
            if str(each["job_id"]) == job
        ]
        facts = [record[f"array_{name}"] for name in ("task_id", "task_string", "max_tasks")]
        head = cluster.run(["scontrol", "show", "job", job]).out.splitlines()[0].replace(f"={job} ", "=JOB ")
        said.append(([line.replace(f"{job}=", "").replace(f"{job}_", "JOB_") for line in shown], facts, head))
        cluster.run(["scancel", job])
    assert said[1] == said[0]


@pytest.mark.parametrize("named", ["{0}_1", "{0}_1,{0}_3", "{0}_2,{0}_3,{0}_5", "{0}_9", "{0}_9,{0}_4"])
@pytest.mark.parametrize("argv", ["-o %i|%K|%t", "-r -o %i|%K|%t"])
def test_tasks_of_an_array_that_wait_are_told_together_if_they_are_named(
    pair: Pair, named: str, argv: str
) -> None:
    told = []
    for cluster in (pair.slurm, pair.warpdeck):
        job = cluster.run(["sbatch", "--parsable", "-H", "--array=1-5%2", *WRAP]).out.strip()
        done = cluster.run(["squeue", "-h", "-j", named.format(job), *argv.split(" ")])
        told.append((done.rc, done.out.replace(f"{job}_", "JOB_")))
        cluster.run(["scancel", job])
    assert told[1] == told[0]


@pytest.mark.parametrize("user", ["root", "nobody"])
@pytest.mark.parametrize("argv", STANDINGS)
def test_a_priority_or_niceness_is_taken_or_refused_alike(pair: Pair, argv: str, user: str) -> None:
    """All that Slurm says comes first; who may not have it is told what may be done."""
    pair.warpdeck.folder.chmod(0o755)
    done = [
        cluster.run(["sbatch", "--parsable", "--begin=now+1hour", *argv.split(), *WRAP], user=user)
        for cluster in (pair.slurm, pair.warpdeck)
    ]
    submitted = [(each.rc, each.out.strip(), each.err.partition("\n")[0]) for each in done]
    assert [(code, said) for code, _, said in submitted[1:]] == [
        (code, said) for code, _, said in submitted[:1]
    ]
    if submitted[0][0] == 0:
        theirs, ours = _shown(pair, submitted, "%Q %y")
        _cancel(pair, submitted)
        assert ours == theirs


def test_a_wrapped_command_becomes_the_same_script(pair: Pair) -> None:
    done = _submit(pair, "-H")
    theirs, ours = (
        cluster.run(["scontrol", "write", "batch_script", number, "-"]).out
        for cluster, (_, number, _) in zip((pair.slurm, pair.warpdeck), done, strict=True)
    )
    _cancel(pair, done)
    assert ours == theirs and ours.startswith("#!/bin/sh\n")


HELD = r"NumNodes=.*|TRES=\S+|JOB_GRES=\S+|Nodes=\S+ CPU_IDs=.*|MinCPUsNode=.*"
TIMES = r"EligibleTime=(Unknown)?"


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
def test_what_a_job_has_got_is_told_alike(pair: Pair, argv: str) -> None:
    done = _submit(pair, *argv.split())
    pair.warpdeck.wait_until_running(int(done[1][1]))
    eventually(lambda: pair.slurm.ok("squeue", "-h", "-j", done[0][1], "-o", "%t") == "R\n", what="it runs")
    told = _of_job(pair, done, HELD)
    _cancel(pair, done)
    pair.warpdeck.report_job_end(int(done[1][1]), signal=15)
    eventually(
        lambda: "R" not in pair.slurm.ok("squeue", "-h", "-j", done[0][1], "-o", "%t"), what="it is gone"
    )
    assert told[1] == told[0]


@pytest.mark.parametrize("argv", ["--begin=now+1hour", "-H --begin=now+1hour", "-H", "-H -a 1-3"])
def test_since_when_a_job_may_start_is_told_alike(pair: Pair, argv: str) -> None:
    done = _submit(pair, *argv.split())
    told = _of_job(pair, done, TIMES)
    _cancel(pair, done)
    assert told[1] == told[0]


def _of_job(pair: Pair, submitted: list[tuple[int, str, str]], lines: str) -> list[list[str]]:
    """What scontrol shows of it in these, without the GPUs that Slurm counts only where it is told to."""
    both = (pair.slurm, pair.warpdeck)
    return [
        [
            re.sub(r",gres/gpu=\d+", "", found.group()).rstrip()
            for found in re.finditer(lines, cluster.run(["scontrol", "show", "job", "-d", number]).out)
        ]
        for cluster, (_, number, _) in zip(both, submitted, strict=True)
    ]
