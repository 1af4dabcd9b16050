"""sacct: which jobs and steps it lists in which columns, and which arguments it refuses."""

from __future__ import annotations

import json
import time

import pytest
from tests.support.command_site import CommandSite, Printed

from warpdeck.ports.caller import Principal

DAEMON = Principal(user="daemon", uid=1)
CONFIG = """
[partitions.gpu]
nodes = "n[1-2]"
[partitions.debug]
nodes = "n1"
[scheduler]
default_partition = "gpu"
default_mem_per_cpu = "100M"
[qos.high]
[qos.normal]
[accounts.ml.users.root]
default = true
[accounts.bio.users.daemon]
default = true
"""
NOW = time.mktime((2026, 1, 5, 10, 0, 0, 0, 0, -1))
DAY = "-S 2026-01-05"
JOBS = "sacct -X -n -P -o jobid,state"
ALL = ["1|COMPLETED", "2|FAILED", "3|CANCELLED by 0", "4|RUNNING"]


def prepare(site: CommandSite) -> None:
    """Let the jobs of a morning run.

    Job 1 ran from 10:00 to 10:30, job 2 (of daemon) until 10:40, job 3 until 10:50. Job 4 started at 10:50, was
    requeued at 11:00 and runs since then.
    """
    site.start("-J", "first", "-n2", "--gres=gpu:2", "-t", "2:00:00", "-w", "n1", "--mem=4G")
    site.now = NOW + 30 * 60
    site.end(1)
    site.start("-J", "second", "-t", "60", "-p", "debug", "--qos=high", user=DAEMON)
    site.now = NOW + 40 * 60
    site.end(2, exit_code=3)
    site.start("-J", "third", "-t", "60", "-N2", "--comment=why")
    site.now = NOW + 50 * 60
    site.run("scancel 3")
    site.end(3)
    site.start("-J", "again")
    site.now = NOW + 60 * 60
    site.run("scontrol requeue 4")
    site.end(4)
    site.until(
        lambda: site.job(4).restarts == 1 and site.job(4).allocation is not None, what="job 4 restarts"
    )
    site.report(4, phase="running", started_at=site.now)
    site.now = NOW + 70 * 60


def listed(site: CommandSite, given: str) -> list[str]:
    printed = site.run(f"{JOBS} {given}")
    assert (printed.code, printed.err) == (0, ""), printed
    return printed.lines


# ---- The table


def test_each_job_is_followed_by_its_steps(site: CommandSite) -> None:
    assert site.run(f"sacct {DAY}").lines == [
        "JobID           JobName  Partition    Account  AllocCPUS      State ExitCode ",
        "------------ ---------- ---------- ---------- ---------- ---------- -------- ",
        "1                 first        gpu         ml          2  COMPLETED      0:0 ",
        "1.batch           batch                    ml          2  COMPLETED      0:0 ",
        "1.extern         extern                    ml          2  COMPLETED      0:0 ",
        "2                second      debug        bio          1     FAILED      3:0 ",
        "2.batch           batch                   bio          1     FAILED      3:0 ",
        "2.extern         extern                   bio          1  COMPLETED      0:0 ",
        "3                 third        gpu         ml          2 CANCELLED+      0:0 ",
        "3.batch           batch                    ml          1  CANCELLED      0:0 ",
        "3.extern         extern                    ml          2  COMPLETED      0:0 ",
        "4                 again        gpu         ml          1    RUNNING      0:0 ",
        "4.batch           batch                    ml          1    RUNNING      0:0 ",
        "4.extern         extern                    ml          1    RUNNING      0:0 ",
    ]


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        ("-b", ["JobID             State ExitCode ", "------------ ---------- -------- "]),
        ("-b -n", []),
        ("-b -P", ["JobID|State|ExitCode"]),
        ("-b -p --delimiter=;", ["JobID;State;ExitCode;"]),
        ("-o jobname%-8,user%2,jobname%3", ["Job Us Job ", "--- -- --- "]),
    ],
)
def test_the_header_in_each_style(site: CommandSite, options: str, lines: list[str]) -> None:
    assert site.run(f"sacct -X -j 99 {options}").lines == lines


def test_cut_texts_end_with_a_plus_sign(site: CommandSite) -> None:
    assert site.run("sacct -X -n -j 1 -o jobname%-8,user%2").lines == ["first    r+ "]
    assert site.run("sacct -X -n -j 1 -o jobname%3,user%-6").lines == ["fi+ root   "]


def test_the_environment_names_the_columns(site: CommandSite) -> None:
    env = {"SACCT_FORMAT": "user,jobname%3"}
    assert site.run("sacct -X -P -j 1", env=env).lines == ["User|JobName", "root|first"]
    assert site.run("sacct -X -P -j 1 -o jobid", env=env).lines == ["JobID", "1"]


ONE = {
    "Account": "ml",
    "AllocCPUS": "2",
    "AllocNodes": "1",
    "AllocTRES": "billing=2,cpu=2,gres/gpu=2,mem=4G,node=1",
    "CPUTime": "01:00:00",
    "CPUTimeRAW": "3600",
    "Cluster": "warpdeck",
    "DerivedExitCode": "0:0",
    "Elapsed": "00:30:00",
    "ElapsedRaw": "1800",
    "Eligible": "2026-01-05T10:00:00",
    "End": "2026-01-05T10:30:00",
    "ExitCode": "0:0",
    "Group": "root",
    "JobID": "1",
    "JobName": "first",
    "NCPUS": "2",
    "NNodes": "1",
    "NodeList": "n1",
    "Partition": "gpu",
    "QOS": "normal",
    "ReqCPUS": "2",
    "ReqMem": "4G",
    "Start": "2026-01-05T10:00:00",
    "State": "COMPLETED",
    "Submit": "2026-01-05T10:00:00",
    "Suspended": "00:00:00",
    "Timelimit": "02:00:00",
    "TimelimitRaw": "120",
    "UID": "0",
    "User": "root",
    "WorkDir": "/home/ann",
}
FAILED = {"ExitCode": "3:0", "Elapsed": "00:10:00", "QOS": "high", "Partition": "debug", "ReqMem": "100M"}
CANCELLED = {"State": "CANCELLED by 0", "NodeList": "n[1-2]", "CPUTimeRAW": "1200", "Comment": "why"}


@pytest.mark.parametrize(("job", "fields"), [(1, ONE), (2, FAILED), (3, CANCELLED)])
def test_the_fields_of_a_job(site: CommandSite, job: int, fields: dict[str, str]) -> None:
    names, values = site.run(f"sacct -X -P -j {job} -o all").lines
    found = dict(zip(names.split("|"), values.split("|"), strict=True))
    assert {name: found[name] for name in fields} == fields


def test_a_running_job_has_no_end(site: CommandSite) -> None:
    assert site.run("sacct -X -n -P -j 4 -o state,start,end,exitcode").lines == [
        "RUNNING|2026-01-05T11:00:00|Unknown|0:0"
    ]


def test_steps_have_no_limit_and_no_comment(site: CommandSite) -> None:
    assert site.run(
        "sacct -n -P -j 3 -o jobid,state,comment,elapsedraw,cputimeraw,timelimit,nodelist"
    ).lines == [
        "3|CANCELLED by 0|why|600|1200|01:00:00|n[1-2]",
        "3.batch|CANCELLED||600|600||n1",
        "3.extern|COMPLETED||600|1200||n[1-2]",
    ]


def test_every_field_of_the_help_is_printed(site: CommandSite) -> None:
    names = site.run("sacct -e").out.split()
    assert site.run("sacct -P -X -j 1 -o all").lines[0].split("|") == names
    assert site.run(f"sacct -P -j 1 -o {','.join(names).lower()}").lines[0].split("|") == names


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("", "4G|billing=2,cpu=2,gres/gpu=2,mem=4G,node=1"),
        ("--units=M", "4096M|billing=2,cpu=2,gres/gpu=2,mem=4096M,node=1"),
        ("--noconvert", "4096M|billing=2,cpu=2,gres/gpu=2,mem=4096M,node=1"),
        ("--units=g", "4G|billing=2,cpu=2,gres/gpu=2,mem=4G,node=1"),
    ],
)
def test_units_of_memory(site: CommandSite, options: str, text: str) -> None:
    assert site.run(f"sacct -X -n -P -j 1 -o reqmem,reqtres {options}".strip()).lines == [text]


def test_a_script_is_printed(site: CommandSite) -> None:
    assert site.run("sacct -B -j 1").out == (f"Batch Script for 1\n{'-' * 80}\n#!/bin/sh\nsleep 1000\n\n")


def test_json_has_the_same_jobs(site: CommandSite) -> None:
    jobs = json.loads(site.run(f"sacct --json {DAY}").out)["jobs"]
    assert [f"{job['job_id']}|{job['state']['current']}" for job in jobs] == [
        line.removesuffix(" by 0") for line in ALL
    ]
    assert [job["time"]["elapsed"] for job in jobs[:3]] == [1800, 600, 600]
    assert jobs[1]["exit_code"] == {"status": "ERROR", "return_code": 3}
    assert [step["step"]["name"] for step in jobs[1]["steps"]] == ["batch", "extern"]


# ---- Which jobs


@pytest.mark.parametrize(
    ("given", "jobs"),
    [
        ("-S 2026-01-05", "1234"),
        ("-S 2026-01-05T10:35 -E 2026-01-05T10:45", "23"),
        ("-S 2026-01-05T10:30 -E 2026-01-05T10:30", "12"),
        ("-S 2026-01-05T10:00 -E 2026-01-05T10:29:59", "1"),
        ("-S 2026-01-05T11:05", "4"),
        ("-S 2026-01-05T10:45 -s R -E now", "34"),
        ("-S 2026-01-05 -s F -E now", "2"),
        ("-S 2026-01-05 -s cd,ca -E now", "13"),
        ("-S 2026-01-05 -s failed,COMPLETED -E now", "12"),
        ("-S 2026-01-05T10:35 -E 2026-01-05T10:45 -s CD,CA", ""),
        ("-S 2026-01-05 -A bio", "2"),
        ("-S 2026-01-05 -A ml,bio", "1234"),
        ("-S 2026-01-05 -r debug", "2"),
        ("-S 2026-01-05 --name third,FIRST", "13"),
        ("-S 2026-01-05 -q high", "2"),
        ("-S 2026-01-05 -u daemon", "2"),
        ("-S 2026-01-05 --uid=1", "2"),
        ("-S 2026-01-05 -a -u daemon", "2"),
        ("-S 2026-01-05 -u daemon -a", "1234"),
        ("-S 2026-01-05 -g 1", "2"),
        ("-S 2026-01-05 -N n2", "3"),
        ("-S 2026-01-05 -N n[1-2] -A bio", "2"),
        ("-S 2026-01-05 -i 2", "3"),
        ("-S 2026-01-05 -I 2-3", "13"),
        ("-S 2026-01-05 -k 90 -K 180", "1"),
        ("-S 2026-01-05 -M other", ""),
        ("-S 2026-01-05 -M warpdeck", "1234"),
        ("-S 2026-01-05 -W key", ""),
        ("-S 2026-01-05 -x 1", ""),
        ("-S 2026-01-05 -C a100", ""),
        ("-j 3,1", "13"),
        ("-j 99", ""),
        ("-j 2 -u root", ""),
    ],
)
def test_jobs_are_chosen(site: CommandSite, given: str, jobs: str) -> None:
    assert "".join(line.partition("|")[0] for line in listed(site, given)) == jobs


def test_without_a_time_the_window_is_today(site: CommandSite) -> None:
    assert site.run(JOBS).lines == ["4|RUNNING"]
    assert listed(site, "-s F") == []
    assert listed(site, "-j 1") == ["1|COMPLETED"]


def test_users_see_their_own_jobs_unless_they_ask_for_all(site: CommandSite) -> None:
    line = f"{JOBS} {DAY}"
    assert site.run(line, user=DAEMON).lines == ALL[1:2]
    assert site.run(f"{line} -a", user=DAEMON).lines == site.run(line).lines == ALL


def test_each_start_of_a_requeued_job_is_a_line_of_its_own(site: CommandSite) -> None:
    assert listed(site, f"{DAY} -D -j 4") == ["4|REQUEUED", "4|RUNNING"]
    assert listed(site, f"{DAY} -j 4") == ["4|RUNNING"]


@pytest.mark.parametrize(
    ("named", "lines"),
    [
        ("1", ["1", "1.batch", "1.extern"]),
        ("1.batch,2", ["1.batch", "2", "2.batch", "2.extern"]),
        ("1.extern", ["1.extern"]),
        ("1.7", []),
    ],
)
def test_steps_are_named(site: CommandSite, named: str, lines: list[str]) -> None:
    assert site.run(f"sacct -n -P -o jobid -j {named}").lines == lines


def test_times_are_cut_to_the_window_on_request(site: CommandSite) -> None:
    line = "sacct -X -n -P -o jobid,start,end,elapsed -S 2026-01-05T10:10 -E 2026-01-05T10:35"
    assert site.run(line).lines == [
        "1|2026-01-05T10:00:00|2026-01-05T10:30:00|00:30:00",
        "2|2026-01-05T10:30:00|2026-01-05T10:40:00|00:10:00",
    ]
    assert site.run(f"{line} -T").lines == [
        "1|2026-01-05T10:10:00|2026-01-05T10:30:00|00:20:00",
        "2|2026-01-05T10:30:00|2026-01-05T10:35:00|00:05:00",
    ]


# ---- Messages


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("-j x", "sacct: fatal: Bad job/step specified: x"),
        ("-s zz", "sacct: fatal: unrecognized job state value 'zz'"),
        ("-S zz", "Invalid time specification (pos=0): zz"),
        ("-o zz", 'sacct: error: Invalid field requested: "zz"'),
        ("-q zz", "sacct: error: You gave a bad qos 'zz'. Valid QOS's are normal,high\nsacct: fatal: problem processing qos list"),
        ("-u nosuch", "sacct: error: Invalid user id: nosuch"),
        ("foo bar", "sacct: error: Unknown arguments:\nsacct: error:  foo\nsacct: error:  bar"),
        (
            "-B",
            "sacct: fatal: When requesting job scripts you must also request specific jobs with the '-j' option.",
        ),
        (
            "-o jobid -l",
            "sacct: fatal: Options -o(--format) and -l(--long) are mutually exclusive. Please remove one and retry.",
        ),
        (
            "--units=z -j 1",
            "sacct: error: Invalid unit type 'z'. Possible options are 'KMGTP'\nsacct: fatal: Invalid unit type",
        ),
        (
            "-S 2026-01-05T11:00 -E 2026-01-05T10:00",
            "sacct: error: Start time (2026-01-05T11:00:00) requested is after end time (2026-01-05T10:00:00).",
        ),
        ("-f /x", "sacct: error: --file is not supported: the controller keeps the history"),
        ("--env-vars", "sacct: error: --env-vars is not supported: environments may contain secrets"),
    ],
)  # fmt: skip
def test_wrong_arguments_get_slurms_message(site: CommandSite, given: str, message: str) -> None:
    assert site.run(f"sacct {given}") == Printed(1, "", f"{message}\n")
