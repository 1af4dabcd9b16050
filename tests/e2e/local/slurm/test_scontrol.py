"""Layouts, messages and exit codes of scontrol on this machine's own node, as measured on the real scontrol."""

from __future__ import annotations

import grp
import io
import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

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
from warpdeck.slurm.scontrol.job_keys import KEYS
from warpdeck.slurm.scontrol.keywords import KEYWORDS

UID, GID = os.geteuid(), os.getegid()
GROUP = grp.getgrgid(GID).gr_name
SITE = """
[scheduler]
default_partition = "gpu"
[partitions.gpu]
max_time = "7-00:00:00"
[partitions.debug]
max_time = "30"
"""


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    """One home for all tests of the module: job 1 waits for its begin time, and job 2 is a held array."""
    begin = ("-J", "begin", "--begin=now+1hour", "-t", "10", "--nice=5", "--comment=why", "--wrap", "true")
    with temporary_home() as new_home:
        new_home.path.mkdir(mode=0o700)
        (new_home.path / "config.toml").write_text(SITE)
        new_home.ok("up")
        new_home.wait_for_idle_node()
        for argv in (begin, ("-J", "arr", "-H", "--array=1-5%2", "-t", "1-0", "--wrap", "true")):
            assert new_home.slurm("sbatch", *argv).returncode == 0
        eventually(
            lambda: "BeginTime" in new_home.slurm("squeue", "-o%r").stdout, what="job 1 shows its reason"
        )
        yield new_home


def scontrol(home: Home, *argv: str, data: str = "") -> tuple[int, str, str]:
    """Run scontrol in this process with its caller's console."""
    out, err = io.StringIO(), io.StringIO()
    paths = Paths(str(home.path))
    console = Console(
        streams=StandardStreams(io.StringIO(data), out, err),
        controller=ControllerAccess(lambda: SyncClient.connect(paths)),
        env={},
        folder=str(home.path),
        user="root",
        host="here",
        read_file=lambda path, size: b"",
        paths=paths,
    )
    return run_command("scontrol", list(argv), console), out.getvalue(), err.getvalue()


def fields(text: str) -> dict[str, str]:
    return dict(re.findall(r"(\S+?)=(\S*)", text))


def test_a_waiting_job_is_shown_with_the_lines_of_slurm(home: Home) -> None:
    code, out, err = scontrol(home, "show", "job", "1")
    assert (code, err) == (0, "")
    assert out.startswith(
        f"JobId=1 JobName=begin\n   UserId={USER}({UID}) GroupId={GROUP}({GID}) MCS_label=N/A\n   Priority="
    )
    assert out.endswith("   StdIn=/dev/null\n   StdOut=" + fields(out)["StdOut"] + "\n   Power=\n   \n\n")
    job_fields = fields(out)
    assert (job_fields["JobState"], job_fields["Reason"], job_fields["Nice"]) == ("PENDING", "BeginTime", "5")
    assert (job_fields["TimeLimit"], job_fields["RunTime"], job_fields["TimeMin"]) == (
        "00:10:00",
        "00:00:00",
        "N/A",
    )
    begin, end = (
        time.mktime(time.strptime(job_fields[key], "%Y-%m-%dT%H:%M:%S")) for key in ("StartTime", "EndTime")
    )
    assert end - begin == 600 and job_fields["EligibleTime"] == job_fields["StartTime"]
    assert "\n   Comment=why \n" in out and "\n   Command=(null)\n" in out


def test_an_array_is_one_job_and_one_line_with_oneliner(home: Home) -> None:
    code, out, _ = scontrol(home, "-o", "show", "job", "2")
    assert code == 0 and out.count("\n") == 1
    assert out.startswith(
        f"JobId=2 ArrayJobId=2 ArrayTaskId=1-5%2 ArrayTaskThrottle=2 JobName=arr UserId={USER}({UID}) "
    )
    assert out.endswith(" Power= \n")
    assert fields(out)["TimeLimit"] == "1-00:00:00"


def test_nodes_and_partitions_are_shown_with_the_lines_of_slurm(home: Home) -> None:
    _, out, _ = scontrol(home, "show", "node")
    lines = out.split("\n   ")
    assert lines[0].startswith("NodeName=") and lines[0].endswith(" ")
    assert [line.split("=")[0] for line in lines[1:5]] == [
        "CPUAlloc",
        "AvailableFeatures",
        "ActiveFeatures",
        "Gres",
    ]
    boot_time = next(
        int(line.split()[1]) for line in Path("/proc/stat").read_text().splitlines() if "btime" in line
    )
    assert fields(out)["BootTime"] == time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(boot_time))
    assert fields(out)["BootTime"] < fields(out)["SlurmdStartTime"] <= time.strftime("%Y-%m-%dT%H:%M:%S")
    _, out, _ = scontrol(home, "show", "partition", "debug")
    assert out.startswith(
        "PartitionName=debug\n   AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL\n   AllocNodes=ALL "
    )
    assert "MaxTime=00:30:00" in out and "Default=NO" in out
    assert "Default=YES" in scontrol(home, "show", "par", "gpu")[1]


ERRORS = {
    "show job 99": "slurm_load_jobs error: Invalid job id specified",
    "show job abc": "scontrol_print_job error: Invalid job id specified",
    "show step 99": "slurm_get_job_steps error: Invalid job id specified",
    "show foo": "invalid entity:foo for keyword:show ",
    "show": "too few arguments for keyword:show",
    "show job 1 2": "too many arguments for keyword:show",
    "foo": "invalid keyword: foo",
    "hold": "too few arguments for keyword:hold",
    "ping 1": "too many arguments for keyword:ping",
    "hold 99": "Invalid job id specified for job 99\nslurm_suspend error: Invalid job id specified",
    "release abc": "Invalid job id specified for job abc\nslurm_suspend error: Invalid job id specified",
    "requeue 1": "Job is pending execution for job 1",
    "suspend 1": "Job is pending execution for job 1",
    "notify 99 hello": "job notify failure: Invalid job id specified",
    "wait_job 99": "scontrol: Problem running job 99",
    "update": "too few arguments for update keyword",
    "update foo=bar": "No valid entity in update command\nInput line must include "
    '"NodeName", "PartitionName", "Reservation", "JobId", or "SlurmctldDebug"',
    "update jobid=1": "No changes specified",
    "update jobid=1 foo=bar": "Update of this parameter is not supported: foo=bar\nRequest aborted",
    "update jobid=1 timelimit=xx": "scontrol: error: Invalid TimeLimit value",
    "update jobid=1 starttime=xx": "Invalid time specification (pos=0): xx\nNo changes specified",
    "update jobid=1 dependency=xx": "Job dependency problem for job 1",
    "update jobid=1 endtime=now+1hour": "Job is not running for job 1",
    "update jobid=99 timelimit=5": "Invalid job id specified for job 99",
    "update nodename=zz state=resume": "slurm_update error: Invalid node name specified",
    "update nodename=zz": "No changes specified",
    "update nodename=zz state=drain": "You must specify a reason when DOWNING or DRAINING a node. Request denied",
    "update partitionname=zz state=up": "slurm_update error: Invalid partition name specified",
    "delete": "too few arguments for delete keyword",
    "delete foo=bar": "Invalid deletion entity: foo=bar",
    "delete reservationname=x": "delete_reservation reservationname=x: Requested reservation is invalid",
    "create reservation": "scontrol: error: A start time must be given.  No reservation created.",
    "create reservation starttime=now duration=5 users=root": "scontrol: error: CoreCnt, Nodes, NodeCnt, BurstBuffer, "
    "Licenses or Watts must be specified.  No reservation created.",
}


@pytest.mark.parametrize("line", ERRORS)
def test_refusals_have_the_messages_of_slurm(home: Home, line: str) -> None:
    assert scontrol(home, *line.split()) == (1, "", ERRORS[line] + "\n")


@pytest.mark.parametrize(
    "line", ["show job 2_77", "show node zz", "show partition zz", "show reservation zz"]
)
def test_unknown_objects_are_reported_on_standard_output(home: Home, line: str) -> None:
    _, kind, name = line.split()
    assert scontrol(home, *line.split()) == (1, f"{kind.capitalize()} {name} not found\n", "")


def test_additional_details_follow_the_message_of_slurm(home: Home) -> None:
    code, _, err = scontrol(home, "update", "jobid=1", "numnodes=5")
    assert code == 1
    assert err.startswith(
        "Requested node configuration is not available for job 1\nthis request can never start: "
    )
    code, _, err = scontrol(home, "update", "partitionname=debug", "AllowAccounts=nosuch")
    assert code == 1 and "partitions.debug.allow_accounts: there is no account 'nosuch'" in err


def test_updates_are_shown(home: Home) -> None:
    changes = (
        "TimeLimit=20",
        "TimeLimit+=5",
        "Nice=7",
        "Comment=other words",
        "Partition=debug",
        "Requeue=0",
    )
    assert scontrol(home, "update", "JobId=1", *changes[:1], *changes[2:]) == (0, "", "")
    assert scontrol(home, "update", "job", "1", changes[1]) == (0, "", "")
    out = scontrol(home, "show", "job", "1")[1]
    job_fields = fields(out)
    assert [job_fields[key] for key in ("TimeLimit", "Nice", "Partition", "Requeue")] == [
        "00:25:00",
        "7",
        "debug",
        "0",
    ]
    assert "\n   Comment=other words \n" in out
    assert scontrol(home, "update", "jobname=arr", "ArrayTaskThrottle=3")[0] == 0
    assert scontrol(home, "update", "jobid=2_3", "timelimit=5")[0] == 0
    out = scontrol(home, "show", "job", "2")[1]
    assert "ArrayTaskId=1-2,4-5%3 " in out and "ArrayTaskId=3 ArrayTaskThrottle=3 " in out


def test_a_running_job_can_be_extended_suspended_and_requeued(home: Home) -> None:
    home.slurm("sbatch", "-J", "runs", "-t", "10", "--wrap", "exec sleep 600")
    job = scontrol(home, "-o", "show", "job")[1].splitlines()[-1].split("JobId=")[1].split()[0]
    eventually(lambda: "JobState=RUNNING" in scontrol(home, "show", "job", job)[1], what="the job runs")
    assert scontrol(home, "wait_job", job) == (0, "", f"scontrol: Nodes are ready for job {job}\n")
    assert scontrol(home, "update", f"jobid={job}", "timelimit=+10")[0] == 0
    assert fields(scontrol(home, "show", "job", job)[1])["TimeLimit"] == "00:20:00"
    assert (
        scontrol(home, "update", f"jobid={job}", "numnodes=2")[2]
        == f"Job is no longer pending execution for job {job}\n"
    )
    assert scontrol(home, "hold", job) == (0, "", "")
    assert scontrol(home, "notify", job, "hello", "you")[0] == 0
    code, out, _ = scontrol(home, "show", "step", job)
    assert code == 0 and out.startswith(f"StepId={job}.batch UserId={UID} StartTime=")
    assert scontrol(home, "suspend", job)[0] == 0
    assert "JobState=SUSPENDED" in scontrol(home, "show", "job", job)[1]
    assert scontrol(home, "resume", job)[0] == 0
    assert scontrol(home, "write", "batch_script", job, "-")[1].endswith("exec sleep 600\n")
    listed = [line.split()[1:3] for line in scontrol(home, "listpids", job)[1].splitlines()]
    assert [job, "batch"] in listed
    assert scontrol(home, "requeuehold", job)[0] == 0
    eventually(
        lambda: "JobState=PENDING Reason=job_requeued_in_held_state" in scontrol(home, "show", "job", job)[1],
        what="the job waits and is held",
    )


def test_a_node_can_be_drained_and_resumed(home: Home) -> None:
    name = fields(scontrol(home, "show", "node")[1])["NodeName"]
    assert scontrol(home, "update", f"nodename={name}", "State=DRAIN", "Reason=bad fan")[0] == 0
    out = scontrol(home, "show", "node", name)[1]
    assert "+DRAIN" in out and f"   Reason=bad fan [{USER}@20" in out
    assert scontrol(home, "update", f"nodename={name}", "State=RESUME") == (0, "", "")
    assert "+DRAIN" not in scontrol(home, "show", "node", name)[1]


def test_reservations_can_be_created_updated_and_deleted(home: Home) -> None:
    name = fields(scontrol(home, "show", "node")[1])["NodeName"]
    assert scontrol(home, "show", "reservation")[1] == "No reservations in the system\n"
    when = ("starttime=now+2hours", "duration=10", f"nodes={name}")
    assert scontrol(home, "create", "reservation", *when, "users=root")[1] == "Reservation created: root_1\n"
    code, _, err = scontrol(home, "create", "reservation", *when, "users=root", "reservationname=r2")
    assert code == 1
    assert err.startswith(
        "Error creating the reservation: Requested reservation overlaps with another reservation\n"
    )
    assert scontrol(home, "update", "reservationname=root_1", "duration=20")[1] == "Reservation updated.\n"
    assert scontrol(home, "update", "reservationname=root_1", "users+=daemon")[0] == 0
    reservation = fields(scontrol(home, "show", "reservation", "root_1")[1])
    assert (reservation["Duration"], reservation["Users"], reservation["State"]) == (
        "00:20:00",
        "daemon,root",
        "INACTIVE",
    )
    assert scontrol(home, "delete", "reservationname=root_1") == (0, "", "")


def test_lines_on_standard_input_are_commands(home: Home) -> None:
    code, out, err = scontrol(home, data="show hostnames a[1-2]\nfoo\nversion\n!!\nexit\nping\n")
    assert code == 1 and err == "invalid keyword: foo\n"
    prompt = "scontrol: "
    answers = {
        "show hostnames a[1-2]": "a1\na2\n",
        "foo": "",
        "version": "slurm 22.05.8\n",
        "!!": "slurm 22.05.8\n",
        "exit": "",
    }
    assert out == "".join(f"{prompt}{line}\n{answer}" for line, answer in answers.items())


def test_show_hostnames_needs_no_controller(short_tmp: Path) -> None:
    unused_home = Home(short_tmp / "none")
    result = unused_home.slurm("scontrol", "show", "hostnames", "gpu[01-03]")
    assert (result.returncode, result.stdout) == (0, "gpu01\ngpu02\ngpu03\n")
    assert not unused_home.path.exists()


ARGUMENT = st.one_of(
    st.sampled_from(
        [*KEYWORDS, *KEYS, "jobid=1", "jobid=2_1", "show", "job", "node", "1", "2_[1-3]", "=", "a[1", "-o"]
    ),
    st.builds(
        lambda key, value: f"{key}={value}",
        st.sampled_from([*KEYS, "jobid", "nodename"]),
        st.text(max_size=8),
    ),
    st.text(max_size=12),
)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(ARGUMENT, max_size=5))
def test_random_arguments_are_accepted_or_refused(home: Home, argv: list[str]) -> None:
    # `write` writes files, and `wait_job` waits.
    if not any(argument.lower()[:1] == "w" or argument.lower().startswith("rec") for argument in argv):
        assert scontrol(home, *argv)[0] in (0, 1)


def test_jobs_and_partitions_can_be_shown_as_json(home: Home) -> None:
    document = json.loads(scontrol(home, "--json", "show", "job", "2")[1])
    assert document["errors"] == [] and {job["array_job_id"] for job in document["jobs"]} == {2}
    assert document["jobs"][0]["job_state"] == "PENDING"
    document = json.loads(scontrol(home, "show", "partition", "debug", "--json")[1])
    assert [row["name"] for row in document["partitions"]] == ["debug"]


def test_nodes_have_the_json_that_sinfo_prints(home: Home) -> None:
    nodes = json.loads(scontrol(home, "--json", "show", "nodes")[1])["nodes"]
    sinfo_nodes = json.loads(home.slurm("sinfo", "--json").stdout)["nodes"]
    varying = ("cpu_load", "free_memory")
    assert [{**node, **dict.fromkeys(varying)} for node in nodes] == [
        {**node, **dict.fromkeys(varying)} for node in sinfo_nodes
    ]
