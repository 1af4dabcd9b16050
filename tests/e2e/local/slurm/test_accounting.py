"""Fields, layouts and messages of sacct, sstat and sacctmgr on this machine's own node, as measured on the
real commands.
"""

from __future__ import annotations

import io
import json
import os
import shlex
import sys
import time
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.agent import USER
from tests.support.home import Home, temporary_home
from tests.support.waiting import eventually

from warpdeck.base.paths import Paths
from warpdeck.client.blocking_client import SyncClient
from warpdeck.slurm.console.console import Console, ControllerAccess, StandardStreams
from warpdeck.slurm.runtime.commands import run as run_command
from warpdeck.slurm.sacct.accounted_columns import WIDTHS

SITE = """
[scheduler]
default_partition = "gpu"
[partitions.gpu]
default_time = "1:00:00"
[accounts.lab]
users.root = { shares = 3, default = true }
[accounts.lab.users.ann]
max_jobs_per_user = 2
[accounts.thesis]
parent = "lab"
grp_tres = "cpu=64,mem=100G"
users.root = {}
[qos.urgent]
priority = 10
max_wall = "12:00:00"
max_tres_per_user = "cpu=4"
""".replace("users.root", f"users.{USER}")
BATCH_SCRIPT = "#!/bin/bash\nsrun -J inner true\nexit 3\n"


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    """One home for all tests: job 1 has failed with a step, job 2 runs, and one task of job 3 was cancelled
    while it waited.
    """
    with temporary_home() as new_home:
        new_home.path.mkdir(mode=0o700)
        (new_home.path / "config.toml").write_text(SITE)
        folder = new_home.path.parent
        (folder / "job.sh").write_text(BATCH_SCRIPT)
        new_home.ok("up")
        new_home.wait_for_idle_node()
        for argv in (
            ("-J", "short", "--comment=why", "job.sh"),
            ("-J", "long", "-A", "thesis", "--wrap", "exec sleep 600"),
            ("-J", "waits", "-H", "-t", "1-0", "--array=1-3", "--wrap", "true"),
        ):
            done = new_home.slurm("sbatch", "--mem=50", *argv, cwd=folder)
            assert done.returncode == 0, done.stderr
        new_home.ok("cancel", "3_3")
        eventually(
            lambda: new_home.state(1) == "FAILED" and new_home.state(2) == "RUNNING",
            what="job 1 has failed and job 2 runs",
        )
        yield new_home


def run_in_process(
    home: Home, command: str, *argv: str, user: str = USER, **env: str
) -> tuple[int, str, str]:
    """Run the command in this process with its caller's console."""
    out, err = io.StringIO(), io.StringIO()
    paths = Paths(str(home.path))
    console = Console(
        streams=StandardStreams(io.StringIO(), out, err),
        controller=ControllerAccess(lambda: SyncClient.connect(paths)),
        env=env,
        folder=str(home.path),
        user=user,
        host="here",
        read_file=lambda path, size: b"",
        paths=paths,
    )
    return run_command(command, list(argv), console), out.getvalue(), err.getvalue()


def sacct(home: Home, *argv: str, **env: str) -> list[list[str]]:
    """Return the cells of sacct's output."""
    code, out, err = run_in_process(home, "sacct", "-P", "-n", *argv, **env)
    assert (code, err) == (0, "")
    return [line.split("|") for line in out.splitlines()]


def test_the_default_table_equals_that_of_slurm(home: Home) -> None:
    code, out, _ = run_in_process(home, "sacct", "-X", "-j", "1")
    assert code == 0
    assert out == (
        "JobID           JobName  Partition    Account  AllocCPUS      State ExitCode \n"
        "------------ ---------- ---------- ---------- ---------- ---------- -------- \n"
        "1                 short        gpu        lab          1     FAILED      3:0 \n"
    )


def test_steps_are_listed_after_their_job(home: Home) -> None:
    rows = sacct(home, "-j", "1", "-o", "jobid,jobname,state,exitcode,ntasks")
    assert rows == [
        ["1", "short", "FAILED", "3:0", ""],
        ["1.batch", "batch", "FAILED", "3:0", "1"],
        ["1.extern", "extern", "COMPLETED", "0:0", "1"],
        ["1.0", "inner", "COMPLETED", "0:0", "1"],
    ]
    assert sacct(home, "-j", "1.0", "-o", "jobid") == [["1.0"]]
    assert sacct(home, "-b", "-j", "1.batch") == [["1.batch", "FAILED", "3:0"]]


def test_running_and_waiting_jobs_are_listed(home: Home) -> None:
    states = dict(sacct(home, "-X", "-j", "1,2,3", "-o", "jobid,state"))
    assert states == {
        "1": "FAILED",
        "2": "RUNNING",
        "3_[1-2]": "PENDING",
        "3_3": f"CANCELLED by {os.geteuid()}",
    }
    rows = sacct(
        home, "-X", "-j", "2", "-o", "end,timelimit,timelimitraw,reqmem,alloctres,account,elapsedraw"
    )
    assert rows[0][:6] == ["Unknown", "01:00:00", "60", "50M", "billing=1,cpu=1,mem=50M,node=1", "thesis"]
    assert int(rows[0][6]) >= 0
    assert sacct(home, "-X", "-j", "3_1", "-o", "start,nodelist,timelimit") == [
        ["Unknown", "None assigned", "1-00:00:00"]
    ]


def test_time_window_and_states_select_jobs(home: Home) -> None:
    assert [row[0] for row in sacct(home, "-X", "-o", "jobid")] == ["1", "2"]
    assert sacct(home, "-X", "-s", "R", "-o", "jobid") == [["2"]]
    assert sacct(home, "-X", "-s", "F", "-S", "now-1hour", "-E", "now+1hour", "-o", "jobid") == [["1"]]
    # Without an end time, the states of this moment count.
    assert sacct(home, "-X", "-s", "F", "-S", "now-1hour", "-o", "jobid") == []
    assert sacct(home, "-X", "-s", "F", "-S", "now-2days", "-E", "now-1day", "-o", "jobid") == []
    assert sacct(home, "-X", "-S", "now-2days", "-E", "now-1day", "-o", "jobid") == []
    assert sacct(home, "-X", "-S", "2020-01-01", "-o", "jobid")[0] == ["1"]
    assert sacct(home, "-X", "-s", "CA,PD", "-j", "3", "-o", "jobid") == [["3_[1-2]"], ["3_3"]]


@pytest.mark.parametrize(
    ("argv", "jobs"),
    [
        (["--name=short"], ["1"]),
        (["-A", "thesis"], ["2"]),
        (["-r", "gpu"], ["1", "2"]),
        (["-r", "other"], []),
        (["-q", "urgent"], []),
        (["-u", USER], ["1", "2"]),
        (["-u", "daemon"], []),
        (["-N", "nowhere"], []),
        (["-i", "1", "-k", "30", "-K", "90"], ["1", "2"]),
        (["-i", "2-4"], []),
    ],
)
def test_filters_select_jobs(home: Home, argv: list[str], jobs: list[str]) -> None:
    assert [row[0] for row in sacct(home, "-X", "-o", "jobid", *argv)] == jobs


def test_users_see_their_own_jobs_unless_they_request_all(home: Home) -> None:
    assert run_in_process(home, "sacct", "-X", "-n", user="daemon")[1] == ""
    assert run_in_process(home, "sacct", "-X", "-n", "-a", user="daemon")[1].count("\n") == 2
    assert run_in_process(home, "sacct", "-X", "-n", "-j", "1", user="daemon")[1].count("\n") == 1


def test_fields_have_the_requested_width_and_alignment(home: Home) -> None:
    _, out, _ = run_in_process(home, "sacct", "-X", "-j", "1", "-o", "jobid%20,jobname%-10,state%5")
    assert out.splitlines() == [
        "               JobID JobName    State ",
        "-------------------- ---------- ----- ",
        "                   1 short      FAIL+ ",
    ]
    assert (
        run_in_process(home, "sacct", "-X", "-p", "-j", "1", "-o", "jobid,state")[1]
        == "JobID|State|\n1|FAILED|\n"
    )
    assert (
        run_in_process(home, "sacct", "-X", "-j", "1", "-n", SACCT_FORMAT="jobid%3,user%40")[1]
        == f"  1 {USER:>40} \n"
    )


def test_every_field_has_a_column(home: Home) -> None:
    _, out, _ = run_in_process(home, "sacct", "-P", "-j", "1", "-o", "ALL")
    header, *rows = (line.split("|") for line in out.splitlines())
    assert header == list(WIDTHS) and all(len(row) == len(WIDTHS) for row in rows)
    job, batch = (dict(zip(header, row, strict=True)) for row in rows[:2])
    assert job["SubmitLine"].startswith("sbatch --mem=50 -J short") and job["Comment"] == "why"
    assert (job["UID"], job["User"], job["QOS"]) == (str(os.geteuid()), USER, "normal")
    assert job["Elapsed"] == time.strftime("%H:%M:%S", time.gmtime(int(job["ElapsedRaw"])))
    assert batch["MaxRSS"].endswith("K") and batch["MaxRSSNode"] == batch["NodeList"]
    assert (
        batch["TRESUsageInMax"].startswith("cpu=00:00:0")
        and f"mem={batch['MaxRSS']}" in batch["TRESUsageInMax"]
    )
    _, out, _ = run_in_process(home, "sacct", "--helpformat")
    assert out.split() == list(WIDTHS)


def test_json_has_the_structure_of_slurms_data_parser(home: Home) -> None:
    document = json.loads(run_in_process(home, "sacct", "--json", "-j", "1")[1])
    job = document["jobs"][0]
    assert document["errors"] == [] and document["meta"]["plugin"]["type"] == "openapi/dbv0.0.38"
    assert (job["job_id"], job["name"], job["state"]["current"]) == (1, "short", "FAILED")
    assert job["exit_code"] == {"status": "ERROR", "return_code": 3}
    assert [step["step"]["id"] for step in job["steps"]] == ["batch", "extern", 0]
    assert {"type": "mem", "name": None, "id": 2, "count": 50} in job["tres"]["requested"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("sacct -j abc", "sacct: fatal: Bad job/step specified: abc"),
        ("sacct -o foo", 'sacct: error: Invalid field requested: "foo"'),
        ("sacct -s foo", "sacct: fatal: unrecognized job state value 'foo'"),
        ("sacct -S xx", "Invalid time specification (pos=0): xx"),
        ("sacct -u nobody-is-called-so", "sacct: error: Invalid user id: nobody-is-called-so"),
        ("sacct extra", "sacct: error: Unknown arguments:\nsacct: error:  extra"),
        ("sstat", "sstat: error: You didn't give me any jobs to stat."),
        ("sstat -j 1 -o foo", 'sstat: error: Invalid field requested: "foo"'),
        ("sacctmgr foo", "invalid keyword: foo"),
        ("sacctmgr show user format=foo", "Unknown field 'foo'"),
    ],
)
def test_refusals_have_the_messages_of_slurm(home: Home, line: str, message: str) -> None:
    command, *argv = line.split()
    assert run_in_process(home, command, *argv) == (1, "", message + "\n")


def test_unknown_jobs_give_an_empty_table(home: Home) -> None:
    assert sacct(home, "-j", "999") == []
    code, out, err = run_in_process(home, "sstat", "-n", "-j", "999")
    assert (code, out, err) == (0, "", "sstat: error: couldn't get steps for job 999\n")


def test_a_script_is_shown_to_its_owner(home: Home) -> None:
    assert (
        run_in_process(home, "sacct", "-B", "-j", "1")[1]
        == f"Batch Script for 1\n{'-' * 80}\n{BATCH_SCRIPT}\n"
    )


def test_sstat_shows_the_usage_of_a_running_job(home: Home) -> None:
    def sstat_row() -> list[str]:
        return (
            run_in_process(home, "sstat", "-a", "-P", "-n", "-j", "2", "-o", "jobid,ntasks,maxrss")[1]
            .splitlines()[0]
            .split("|")
        )

    eventually(lambda: sstat_row()[2].endswith("K"), what="the memory is measured")
    assert sstat_row()[:2] == ["2.batch", "1"]
    _, out, _ = run_in_process(home, "sstat", "-j", "2.batch", "-i")
    assert out.splitlines()[0].split() == ["JobID", "Nodelist", "Pids"]
    assert out.splitlines()[2].split()[2].split(",")[0].isdecimal()


def test_sacctmgr_shows_the_accounts_of_the_site(home: Home) -> None:
    argv: tuple[str, ...] = ("show", "assoc", "format=account,user,share,maxjobs,grptres%30", "-P", "-n")
    rows = [
        "root||1||",
        "lab||1||",
        "lab|ann|1|2|",
        f"lab|{USER}|3||",
        "thesis||1||cpu=64,mem=100G",
        f"thesis|{USER}|1||",
    ]
    assert sorted(run_in_process(home, "sacctmgr", *argv)[1].splitlines()) == sorted(rows)
    _, out, _ = run_in_process(home, "sacctmgr", "show", "user")
    admin = "Administ+" if USER == "root" else "None"
    assert out.splitlines() == [
        *("      User   Def Acct     Admin ", "---------- ---------- --------- "),
        *sorted(("       ann        lab      None ", f"{USER:>10}        lab {admin:>9} "), key=str.split),
    ]
    _, out, _ = run_in_process(
        home, "sacctmgr", "-n", "-P", "show", "qos", "urgent", "format=name,priority,maxwall,maxtrespu"
    )
    assert out == "urgent|10|12:00:00|cpu=4\n"
    argv = ("user", "ann", "withassoc", "format=account%20,user,maxjobs,grpcpu,maxw")
    assert run_in_process(home, "sacctmgr", "-n", "-P", "show", *argv)[1] == "lab|ann|2||\n"
    argv = ("assoc", "account=thesis", "format=User,Account,GrpCPU,GrpMem,GrpJobs,GrpSubmit")
    assert "|thesis|64|100G||\n" in run_in_process(home, "sacctmgr", "-n", "-P", "show", *argv)[1]
    argv = ("qos", "urgent", "format='name%15,maxtresperuser%35,maxcpusperuser'")
    assert run_in_process(home, "sacctmgr", "-n", "-P", "show", *argv)[1] == "urgent|cpu=4|4\n"
    assert run_in_process(home, "sacctmgr", "show", "runaway")[1].startswith(
        "Runaway Jobs: No runaway jobs found"
    )
    assert run_in_process(home, "sacctmgr", "list", "tres", "-n", "-P")[1].startswith("cpu||1\nmem||2\n")


def test_sacctmgr_changes_the_configuration_at_once(home: Home) -> None:
    file, before = home.path / "config.toml", (home.path / "config.toml").read_text()
    result = home.slurm("sacctmgr", "-i", "add", "user", "bob", "account=lab", "maxjobs=3")
    assert (result.returncode, result.stderr) == (0, "") and "  U = bob       A = lab " in result.stdout
    assert file.read_text().replace("\n[accounts.lab.users.bob]\nmax_jobs_per_user = 3\n", "") == before
    assert (home.path / "config.toml.before").read_text() == before
    argv = ("show", "assoc", "user=bob", "format=account,user,maxjobs")
    assert run_in_process(home, "sacctmgr", "-n", "-P", *argv)[1] == "lab|bob|3\n"
    file.write_text("grace_s = 4\n" + file.read_text())
    code, _, err = run_in_process(home, "sacctmgr", "-i", "delete", "user", "bob")
    assert code == 1 and "changes that are not loaded yet" in err
    file.write_text(file.read_text().removeprefix("grace_s = 4\n"))
    assert run_in_process(home, "sacctmgr", "-i", "delete", "user", "bob")[0] == 0
    assert file.read_text() == before


def test_a_default_qos_without_permission_is_refused(home: Home) -> None:
    before = (home.path / "config.toml").read_text()
    argv = ("modify", "user", "ann", "set", "qos=normal", "defaultqos=urgent")
    assert run_in_process(home, "sacctmgr", "-i", *argv)[0] == 1
    assert (home.path / "config.toml").read_text() == before


ARGUMENT = st.one_of(
    st.sampled_from(
        [
            "-X",
            "-j",
            "1",
            "2.0",
            "-o",
            "ALL",
            "jobid%0",
            "-s",
            "R",
            "-S",
            "now",
            "-E",
            "--units=K",
            "-n",
            "-P",
            "--json",
            "=",
        ]
    ),
    st.sampled_from(
        [*WIDTHS, "show", "assoc", "format=user%-3", "-T", "-a", "-l", "-i", "--delimiter=", "-N", "a[1"]
    ),
    st.text(max_size=10),
)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(["sacct", "sstat", "sacctmgr"]), st.lists(ARGUMENT, max_size=5))
def test_random_arguments_are_accepted_or_refused(home: Home, command: str, argv: list[str]) -> None:
    assert run_in_process(home, command, *argv)[0] in (0, 1)


def test_sstat_separates_a_batch_script_from_its_steps(home: Home) -> None:
    memory_program = f"exec {sys.executable} -c 'import time; held = b\"x\" * (150 << 20); time.sleep(600)'"
    script = f"srun sh -c {shlex.quote(memory_program)}"
    submitted = home.slurm("sbatch", "--parsable", "--mem=400", "--wrap", script, cwd=home.path.parent)
    job = submitted.stdout.strip()

    def peak_kib(step: str) -> int:
        """Return the peak memory of the step in KiB, and 0 while it is unknown."""
        out = run_in_process(home, "sstat", "-P", "-n", "--noconvert", "-j", f"{job}.{step}", "-o", "maxrss")[
            1
        ]
        return int(out.strip() or 0) >> 10

    eventually(lambda: peak_kib("0") > 150 << 10, what="the step's memory is measured")
    eventually(lambda: peak_kib("batch") > 0, what="the script's memory is measured")
    assert peak_kib("batch") < 100 << 10
    _, out, _ = run_in_process(home, "sstat", "-a", "-P", "-n", "-j", job, "-o", "jobid,ntasks,maxrssnode")
    node = out.split("|")[2].splitlines()[0]
    assert out.splitlines() == [f"{job}.batch|1|{node}", f"{job}.extern|1|", f"{job}.0|1|{node}"]
    home.ok("cancel", job)
