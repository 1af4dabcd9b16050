"""sacct, sreport, seff and sacctmgr beside a real slurmdbd with its database, after jobs with the same ends.

Times, measured usage, and rows or values that only one of the two has are not compared: billing, and the step
for processes outside of steps.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

import pytest
from tests.slurm_parity.peer.pair import Pair, diff_text, side_by_side
from tests.slurm_parity.peer.warpdeck_cluster import SITE as WARPDECK_SITE
from tests.support.waiting import eventually

pytestmark = pytest.mark.slurm
ACCOUNTS = "[accounts.root.users]\nroot = { default = true }\n[accounts.bio]\nparent = 'root'\n[qos.high]\npriority = 5\n"
HERE = ("-w", "n1")
"""All jobs use one node: while Slurm cleans up after a job there, it would place the next one elsewhere."""
JOBS: tuple[tuple[tuple[str, ...], str, dict[str, object]], ...] = (
    (("-J", "ok", *HERE), "true", {}),
    (("-J", "fails", "-t", "10", *HERE), "exit 3", {"exit_code": 3}),
    (("-J", "killed", "-c3", *HERE), "kill -9 $$", {"signal": 9}),
    (("-J", "gpus", "--gres=gpu:2", "-c2", "--mem=500", *HERE), "true", {}),
    (("-J", "wide", "-N2", "--ntasks-per-node=2", "-p", "debug"), "exit 1", {"exit_code": 1}),
    (("-J", "spread", "--ntasks-per-node=2", "-N2", "--mem-per-cpu=200"), "true", {}),
)
"""Options, script and end of each job. They run one after the other, so that both schedulers place them
equally.
"""
CANCELLED, NEVER, REQUEUED, ARRAY = (len(JOBS) + number for number in (1, 2, 3, 4))
REQUEUED_ROW = re.compile(rf"{REQUEUED}[.| ]")
ALL_FIELDS = (
    "jobid,jobidraw,jobname,user,uid,group,account,partition,state,exitcode,derivedexitcode,alloccpus,ncpus,reqcpus,"
    "allocnodes,nnodes,reqnodes,reqmem,reason,timelimit,timelimitraw,nodelist,ntasks,layout,qos,constraints,reservation,cluster"
)


FIELDS = [
    "account",
    "alloccpus",
    "allocnodes",
    "cputime",
    "cputimeraw",
    "elapsed",
    "eligible",
    "end",
    "exitcode",
    "gid",
    "group",
    "jobid",
    "jobname",
    "ncpus",
    "nnodes",
    "nodelist",
    "partition",
    "reqcpus",
    "reqnodes",
    "start",
    "state",
    "submit",
    "suspended",
    "timelimit",
    "timelimitraw",
    "uid",
    "user",
]


class PastPair(Pair):
    """Both schedulers with the same ended jobs."""

    def run_to_end(self, job: int, options: Sequence[str], script: str, **facts: object) -> None:
        self.slurm.ok("sbatch", "-o", "/dev/null", *options, "--wrap", script)
        self.warpdeck.submit(*options, script=script)
        self.warpdeck.wait_until_running(job)
        self.warpdeck.report_job_end(job, **facts)
        self.wait_for_slurm_state(job, "")

    def wait_for_slurm_state(self, job: int, *states: str) -> None:
        """Wait until Slurm's squeue shows the job in one of these states; "" means that it is no longer
        listed.
        """
        argv = ["squeue", "-h", "-t", "all", "-j", str(job), "-o", "%t"]
        ended_states = {"", "CD", "F", "CA"}
        expected = ended_states if states == ("",) else set(states)
        eventually(lambda: set(self.slurm.run(argv).out.split() or [""]) <= expected, what=f"job {job}")

    def assert_same_rows(
        self, line: str, *, with_requeued: bool = False, env: Mapping[str, str] | None = None
    ) -> list[str]:
        """Assert that both print the same rows, and return ours.

        Slurm varies in the start of a requeued job that it selects for a time window; only -D lists all of
        them.
        """
        argv = line.split(" ")
        expected, actual = self.slurm.run(argv, env=env), self.warpdeck.run(argv, env=env)
        slurm, warpdeck = (
            [row for row in _comparable_rows(done.out) if with_requeued or not REQUEUED_ROW.match(row)]
            for done in (expected, actual)
        )
        assert sorted(warpdeck) == sorted(slurm), line + "\n" + diff_text(slurm, warpdeck)
        assert (actual.rc, actual.err) == (expected.rc, expected.err)
        return warpdeck


def _comparable_rows(out: str) -> list[str]:
    """Leave out processes outside of steps, which only our sacct lists, and the billing."""
    lines = [line for line in out.splitlines() if not re.match(r"[\d_]+\.extern", line)]
    text = "\n".join(lines)
    return re.sub(r"billing=\d+,?", "", text).splitlines()


@pytest.fixture(scope="module")
def pair() -> Iterator[PastPair]:
    with side_by_side(PastPair, warpdeck_site=WARPDECK_SITE + ACCOUNTS, accounting=True) as both:
        slurm = both.slurm
        slurm.ok("sacctmgr", "-i", "add", "qos", "high", "priority=5")
        slurm.ok("sacctmgr", "-i", "add", "account", "bio")
        for job, (options, script, facts) in enumerate(JOBS, 1):
            both.run_to_end(job, options, script, **facts)
        _add_other_jobs(both)
        argv = ["sacct", "-n", "-P", "-j", f"{ARRAY},{CANCELLED}", "-o", "state"]
        eventually(lambda: _all_ended(slurm.run(argv).out), what="all jobs are recorded")
        requeued_argv = ["sacct", "-n", "-X", "-P", "-j", str(REQUEUED), "-o", "state"]
        eventually(
            lambda: slurm.run(requeued_argv).out == "PENDING\n", what="the requeued job is recorded again"
        )
        yield both


def _all_ended(states: str) -> bool:
    """Return whether three tasks and a job have ended, each with its batch step."""
    actual = states.split("\n")[:-1]
    return len(actual) == 8 and not {"RUNNING", "PENDING"} & set(actual)


def _add_other_jobs(both: PastPair) -> None:
    """Add a job cancelled while it runs, one cancelled before it starts, one that starts twice, and an array."""
    slurm, warpdeck = both.slurm, both.warpdeck
    for options in (("-J", "cancelled", *HERE), ("-J", "never", "-H"), ("-J", "twice", "--requeue", *HERE)):
        slurm.ok("sbatch", "-o", "/dev/null", *options, "--wrap", "sleep 1000")
        warpdeck.submit(*options)
    warpdeck.wait_until_running(CANCELLED, REQUEUED)
    both.wait_for_slurm_state(CANCELLED, "R")
    both.wait_for_slurm_state(REQUEUED, "R")
    for run_command in (slurm.ok, lambda *argv: warpdeck.run(argv)):
        run_command("scancel", str(CANCELLED), str(NEVER))
        run_command("scontrol", "hold", str(REQUEUED))
        run_command("scontrol", "requeue", str(REQUEUED))
    for job in (CANCELLED, REQUEUED):
        warpdeck.report_job_end(job, signal=15)
    both.wait_for_slurm_state(REQUEUED, "PD")
    slurm.ok(
        "sbatch", "-o", "/dev/null", "-J", "array", "-a", "1-3", *HERE, "--wrap", "exit $SLURM_ARRAY_TASK_ID"
    )
    both.wait_for_slurm_state(ARRAY, "")
    warpdeck.submit("-J", "array", "-a", "1-3", *HERE)
    warpdeck.wait_until_running(*range(ARRAY, ARRAY + 3))
    served = warpdeck.served
    assert served is not None
    for job in range(ARRAY, ARRAY + 3):
        task = served.controller.state.jobs[job].array_task_id  # type: ignore[index]
        warpdeck.report_job_end(job, exit_code=task)


def test_jobs_and_batch_steps_have_the_fields_of_slurm(pair: PastPair) -> None:
    actual = pair.assert_same_rows(f"sacct -P -S now-1hours -o {ALL_FIELDS}")
    assert len(actual) > 2 * len(JOBS)


@pytest.mark.parametrize(
    "line",
    [
        "sacct -X -P -S now-1hours -o jobid,alloctres,reqtres",
        "sacct -X -S now-1hours -o jobid,jobname%20,state%-15,exitcode,nodelist%8",
        "sacct -X -n -j 1,2,9999 -o jobid,state",
        "sacct -X -n -j , -o jobid",
        "sacct -X -n --jobs= -o jobid",
        "sacct -X -n -j 1,foo -o jobid",
        "sacct -n -j 1.x -o jobid",
        "sacct -n -j 1_x -o jobid",
        "sacct -X -n -u 4242 -o jobid",
        "sacct -X -n -A , -o jobid",
        "sacct -X -n -r , -o jobid",
        "sacct -X -n -q nosuch -o jobid",
        "sacct -X -n -q nosuch,normal -o jobid",
        "sacct -l -X -n -j 1 -o jobid",
        "sacct -B",
        "sacct -X -I x -j 1 -o jobid",
        "sacct -X -n -j 1 -q normal -o jobid",
        "sacct -X -j 1,2 -o jobid,state%-12,jobid%3,user%0,jobname",
        "sacct -X -n -P -p -j 1,2 -o jobid,state",
        "sacct -X -n -p -P -j 1,2 -o jobid,state",
        "sacct -n -j 2.batch -o jobid,state,exitcode",
        "sacct -X -P -S now-1hours -s F,CA -o jobid,state",
        "sacct -X -P -S now-1hours -s F,CA -E now+1hours -o jobid,state",
        "sacct -X -P -S now-1hours -s timeout -o jobid",
        "sacct -X -P -S now-1hours -r debug -o jobid",
        "sacct -X -P -S now-1hours --name ok,wide -o jobid,jobname",
        "sacct -X -P -S now-1hours -i 2 -o jobid",
        "sacct -X -P -S now-1hours -N n2 -o jobid",
        "sacct -p -X -j 1 -b",
        "sacct -P -X -j 1 --delimiter=; -o jobid,state",
        "sacct -X -P -S 2001-01-01 -E 2001-01-02",
        "sacct -X -j 1 -o nosuch",
        "sacct -X -j 1,3 -o job,jobn,timeli,nnod,allocc,reqm",
        "sacct -X -j 1 -o jobid -o state",
        "sacct -X -P -j 1 -j 3,2 -o jobid,state",
        "sacct -X -P -S now-1hours -E now+1hours -s F -s CA -o jobid,state",
        "sacct -X -P -S now-1hours -r debug -r nosuch -o jobid",
        "sacct -X -P -S now-1hours --name ok --name wide -u root -u nobody -o jobid,jobname",
        "sacct -P -j 1,4 -o jobid,flags,consumedenergy,alloctres",
        "sacct -X -j 2.batch -o jobid",
        "sacct -X -S now-1hours -k 10 -o jobid,timelimit",
        "sacct -X -S now-1hours -k 10 -K 30 -o jobid,timelimit",
        "sacct -X -S now-1hours -K 10 -o jobid",
        "sacct -X -S now-1hours -k x",
        "sacct -X -S now-1hours -g root -o jobid",
        "sacct -X -S now-1hours --gid=nosuch",
        "sacct -X -S now-1hours -i x",
        "sacct -X -S now-1hours -M nosuch -o jobid",
        "sacct -X -S now-1hours -W x -o jobid",
        "sacct -X -S now-1hours --associations=99 -o jobid",
        "sacct -L -X -j 1 -o jobid",
        "sacct -X -j 4 --units=G -o jobid,reqmem",
        "sacct -X -j 4 --units=X",
        "sacct -X --whole-hetjob=yes -j 1 -o jobid",
        "sacct -X -j x",
        "sacct -X -s nosuch",
        "sacct -e",
        "sacct -X -n -j 3 -o jobid%,state%-,user%+5,jobname%x,exitcode%5x,nodelist%05,ncpus%-3",
        "sacct -D -X -P -S now-1hours -E now -s RQ -o jobid,state",
        "sacct -X -P -S now-1hours -E now -s RQ -o jobid,state",
        "sacct -D -X -P -S now-1hours -E now -s RQ,F -o jobid,state",
        "sacct -D -X -P -n -j 1,2 -o jobid,state",
    ],
)
def test_sacct_prints_the_output_of_slurm(pair: PastPair, line: str) -> None:
    pair.assert_same_rows(line)


@pytest.mark.parametrize(
    "line",
    [
        "squeue -M all -t R",
        "squeue -M all -h -t R",
        "squeue -M all -s",
        "sinfo -M all",
        "sinfo -M all -h -N",
        "sinfo word -M all -s",
        "sprio -M all -j 1",
        "scancel -M all 999",
        "squeue -M nosuch -h",
        "sinfo -M nosuch",
        "scancel -M nosuch 999",
        "sshare -M nosuch",
        "scontrol -M all show hostnames n[1-2]",
        "scontrol -M all show job 999",
    ],
)
def test_the_only_cluster_can_be_named_in_all_commands(pair: PastPair, line: str) -> None:
    """Slurm looks up clusters in its database and refuses the option without one."""
    pair.assert_same_rows(line)


@pytest.mark.parametrize(
    "setting",
    [
        "SACCT_FEDERATION=1",
        "SACCT_LOCAL=1",
        "SLURM_BITSTR_LEN=5",
        "SLURM_TIME_FORMAT=%Y",
        "SLURM_CLUSTERS=nosuch",
    ],
)
def test_environment_variables_have_the_effect_that_they_have_in_slurm(pair: PastPair, setting: str) -> None:
    """The settings are all variables of the man page except SLURM_CONF and SLURM_DEBUG_FLAGS, and one that
    sacct ignores.
    """
    name, _, value = setting.partition("=")
    fields = "jobid,submit,state" if value == "%Y" else "jobid,cluster"
    pair.assert_same_rows(f"sacct -n -P -X -j 1,2,{ARRAY} -o {fields}", env={name: value})


@pytest.mark.parametrize("width", ["1", "2", "-1", "7", "-12"])
@pytest.mark.parametrize("options", ["-X", "--parsable"])
def test_fields_are_cut_to_their_width_as_in_slurm(pair: PastPair, width: str, options: str) -> None:
    """Numbers are not cut, times are cut without a mark, and other values are cut with one. The test compares
    lengths.
    """
    expected, actual = (
        {
            field: [_length_and_mark(line) for line in cluster.run(argv).out.splitlines()]
            for field in FIELDS
            for argv in (["sacct", "-n", "-j", "2", "-X", options, "-o", f"{field}%{width}"],)
        }
        for cluster in (pair.slurm, pair.warpdeck)
    )
    assert {name: (expected[name], actual[name]) for name in FIELDS if expected[name] != actual[name]} == {}


def _length_and_mark(line: str) -> tuple[int, bool]:
    return len(line), line.rstrip().endswith("+")


def test_each_start_of_a_requeued_job_has_a_row(pair: PastPair) -> None:
    line = f"sacct -D -X -P -n -j {REQUEUED} -o jobid,jobname,state,exitcode,nodelist,alloccpus"
    assert pair.assert_same_rows(line, with_requeued=True) == [
        f"{REQUEUED}|twice|REQUEUED|0:0|n1|1",
        f"{REQUEUED}|twice|PENDING|0:0|None assigned|1",
    ]


@pytest.mark.parametrize("job", [1, 3, 4, CANCELLED])
def test_the_json_of_a_job_equals_that_of_slurm(pair: PastPair, job: int) -> None:
    """Keys, types and values are equal, except for times, usage, priorities and folders."""
    argv = ["sacct", "--json", "-j", str(job)]
    [slurm] = json.loads(pair.slurm.ok(*argv))["jobs"]
    [warpdeck] = json.loads(pair.warpdeck.run(argv).out)["jobs"]
    warpdeck["steps"] = [step for step in warpdeck["steps"] if step["step"]["id"] != "extern"]
    expected, actual = dict(_leaves(slurm)), dict(_leaves(warpdeck))
    assert actual.keys() == expected.keys()
    differences = {
        path: (expected[path], actual[path]) for path in expected if expected[path] != actual[path]
    }
    assert differences == {}


@pytest.mark.parametrize(
    "line",
    [
        "sreport user top start=2001-01-01 end=2001-01-02",
        "sreport -P user TopUsage start=2001-01-01 end=2001-01-02 topcount=3",
        "sreport -t hourper user top start=2001-01-01 end=2001-01-02",
        "sreport -T cpu,mem user top start=2001-01-01 end=2001-01-02",
        "sreport cluster accountutil start=2001-01-01 end=2001-01-02",
        "sreport -p -t secper cluster UserUtilizationByAccount start=2001-01-01 end=2001-01-02",
        "sreport job sizesbyaccount start=2001-01-01 end=2001-01-02",
        "sreport -n job sizesbyaccount start=2001-01-01 end=2001-01-02",
        "sreport -t hours job sizes start=2001-01-01 end=2001-01-02 printjobcount",
        "sreport foo bar",
        "sreport cluster",
        "sreport cluster foo",
        "sreport job foo",
    ],
)
def test_sreport_prints_the_output_of_slurm(pair: PastPair, line: str) -> None:
    pair.assert_same_rows(line)


def test_sreport_adds_allocated_and_idle_time_to_the_total(pair: PastPair) -> None:
    """Run times differ from run to run, but allocated and idle time always add up to the total."""
    argv = ["sreport", "-nP", "-t", "seconds", "cluster", "Utilization", "start=now-1hours", "end=now"]
    [row] = pair.warpdeck.run(argv).out.splitlines()
    allocated, idle, reported = (int(row.split("|")[index]) for index in (1, 4, 6))
    assert allocated + idle == reported == 3600 * 4 * 16
    header = pair.warpdeck.run(argv[:1] + argv[2:]).out.splitlines()
    slurm = pair.slurm.run(argv[:1] + argv[2:]).out.splitlines()
    assert header[2:6] == slurm[2:6]


def test_seff_prints_the_efficiency_of_a_job(pair: PastPair) -> None:
    differences = pair.warpdeck.run(["seff", "5"]).out.splitlines()
    assert differences[:3] == ["Job ID: 5", "Cluster: warpdeck", "User/Group: root/root"]
    assert differences[3:6] == ["State: FAILED (exit code 1)", "Nodes: 2", "Cores per node: 2"]
    assert [line.partition(":")[0] for line in differences[6:]] == [
        "CPU Utilized",
        "CPU Efficiency",
        "Job Wall-clock time",
        "Memory Utilized",
        "Memory Efficiency",
    ]
    assert differences[-1].endswith("of 400.00 MB")
    assert f"Array Job ID: {ARRAY}_2" in pair.warpdeck.run(["seff", f"{ARRAY}_2"]).out
    assert "State: FAILED (exit code 137)" in pair.warpdeck.run(["seff", "3"]).out
    waiting = pair.warpdeck.run(["seff", str(REQUEUED)]).out
    assert waiting.endswith("Efficiency not available for jobs in the PENDING state.\n")
    missing = pair.warpdeck.run(["seff", "999"])
    assert (missing.rc, missing.err) == (2, "Job not found.\n")
    assert pair.warpdeck.run(["seff"]).rc == 1


UNCOMPARED = re.compile(
    r"\.(time|tres|flags|priority|working_directory|cluster|statistics)\b|association\.cluster"
)


def _leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    if UNCOMPARED.search(path):
        return
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(inner, f"{path}.{name}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _leaves(inner, f"{path}[{index}]")
    else:
        yield path, value


@pytest.mark.parametrize(
    "line",
    [
        "sacctmgr -P show account format=account",
        "sacctmgr -P show user",
        "sacctmgr -P -n show assoc where account=bio format=account,user,share",
        "sacctmgr -n show qos format=name,priority",
        "sacctmgr show nosuch",
    ],
)
def test_sacctmgr_prints_the_output_of_slurm(pair: PastPair, line: str) -> None:
    pair.assert_same_rows(line)
