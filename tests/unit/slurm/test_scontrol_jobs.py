"""scontrol and jobs: what `show job` prints, and what hold, suspend, requeue, update and write do."""

from __future__ import annotations

import pytest
from tests.support.command_site import HOST, CommandSite, Printed

from warpdeck.ports.caller import Principal

DAEMON = Principal(user="daemon", uid=1)
CONFIG = """
[licenses]
matlab = 4
[partitions.gpu]
nodes = "n[1-2]"
max_time = "1-0"
[partitions.debug]
nodes = "n1"
[scheduler]
default_partition = "gpu"
default_mem_per_cpu = "100M"
"""
HELD, RUNNING, ARRAY = "1", "2", "3"
DONE = Printed(0, "", "")
SECONDS = {"SLURM_TIME_FORMAT": "%s"}


def prepare(site: CommandSite) -> None:
    """Submit a held job, one that runs, and a held array of five tasks."""
    site.submit("-H", "-J", "held", "-t", "60")
    site.start("-J", "runs", "-n2", "--gres=gpu:2", "-t", "2:00:00", "--comment", "a comment", "-w", "n1")
    site.submit("-H", "-J", "arr", "--array=1-5%2")


def shown(site: CommandSite, job: str, *options: str) -> dict[str, str]:
    """Return the pairs of `scontrol show job`."""
    printed = site.run_words(["scontrol", *options, "show", "job", job], env=SECONDS)
    assert printed.code == 0, printed
    pairs = (word.partition("=") for line in printed.lines for word in line.split() if "=" in word)
    return {key: value for key, _, value in pairs}


def refused(site: CommandSite, line: str, user: Principal | None = None) -> str:
    printed = site.run(line, user=user) if user else site.run(line)
    assert (printed.code, printed.out) == (1, ""), printed
    return printed.err


# ---- The text of a job


def test_a_pending_job_in_slurms_layout(site: CommandSite) -> None:
    at = f"{site.now:.0f}"
    assert site.run(f"scontrol show job {HELD}", env=SECONDS).lines == [
        "JobId=1 JobName=held",
        "   UserId=root(0) GroupId=root(0) MCS_label=N/A",
        "   Priority=0 Nice=0 Account=(null) QOS=normal",
        "   JobState=PENDING Reason=JobHeldUser Dependency=(null)",
        "   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0",
        "   RunTime=00:00:00 TimeLimit=01:00:00 TimeMin=N/A",
        f"   SubmitTime={at} EligibleTime=Unknown",
        "   AccrueTime=Unknown",
        "   StartTime=Unknown EndTime=Unknown Deadline=N/A",
        "   SuspendTime=None SecsPreSuspend=0 LastSchedEval=Unknown Scheduler=Main",
        f"   Partition=gpu AllocNode:Sid={site.job(1).request.submit_host or HOST}:0",
        "   ReqNodeList=(null) ExcNodeList=(null)",
        "   NodeList=",
        "   NumNodes=1 NumCPUs=1 NumTasks=1 CPUs/Task=1 ReqB:S:C:T=0:0:*:*",
        "   TRES=cpu=1,mem=100M,node=1,billing=1",
        "   Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=*",
        "   MinCPUsNode=1 MinMemoryCPU=100M MinTmpDiskNode=0",
        "   Features=(null) DelayBoot=00:00:00",
        "   OverSubscribe=OK Contiguous=0 Licenses=(null) Network=(null)",
        "   Command=(null)",
        "   WorkDir=/home/ann",
        "   StdErr=/home/ann/slurm-1.out",
        "   StdIn=/dev/null",
        "   StdOut=/home/ann/slurm-1.out",
        "   Power=",
        "   ",
        "",
    ]


def test_a_running_job_has_its_nodes_and_its_details(site: CommandSite) -> None:
    plain, detailed = shown(site, RUNNING), shown(site, RUNNING, "-d")
    assert plain["NodeList"] == plain["BatchHost"] == "n1"
    assert (plain["StartTime"], plain["EndTime"]) == (f"{site.now:.0f}", f"{site.now + 7200:.0f}")
    assert (plain["NumNodes"], plain["NumCPUs"], plain["TRES"]) == (
        "1",
        "2",
        "cpu=2,mem=200M,node=1,billing=2,gres/gpu=2",
    )
    assert plain["TresPerNode"] == "gres:gpu:2"
    assert detailed.keys() - plain.keys() == {
        "DerivedExitCode",
        "JOB_GRES",
        "Nodes",
        "CPU_IDs",
        "Mem",
        "GRES",
    }
    assert detailed["JOB_GRES"] == "gpu:h100:2"
    assert (detailed["CPU_IDs"], detailed["Mem"], detailed["GRES"]) == ("0-1", "200", "gpu:h100:2(IDX:0-1)")
    assert "   Comment=a comment " in site.run(f"scontrol show job {RUNNING}").lines


def test_an_array_shows_its_tasks_and_its_throttle(site: CommandSite) -> None:
    found = shown(site, ARRAY)
    assert (found["ArrayJobId"], found["ArrayTaskId"], found["ArrayTaskThrottle"]) == ("3", "1-5%2", "2")
    assert shown(site, f"{ARRAY}_[2-3]")["ArrayTaskId"] == "2-3"
    assert shown(site, f"{ARRAY}_4")["StdOut"] == "/home/ann/slurm-3_4.out"


def test_a_failed_job_has_its_exit_code(own_site: CommandSite) -> None:
    own_site.now += 90
    own_site.end(2, exit_code=3)
    found = shown(own_site, RUNNING)
    assert (found["JobState"], found["Reason"], found["ExitCode"]) == ("FAILED", "NonZeroExitCode", "3:0")
    assert (found["RunTime"], found["EndTime"]) == ("00:01:30", f"{own_site.now:.0f}")


def test_the_steps_of_srun_are_told_apart_from_the_jobs_own(site: CommandSite) -> None:
    lines = site.run(f"scontrol show step {RUNNING}.batch", env=SECONDS).lines
    assert lines == [
        f"StepId=2.batch UserId=0 StartTime={site.now:.0f} TimeLimit=UNLIMITED",
        "   State=RUNNING Partition=gpu NodeList=n1",
        "   Nodes=1 CPUs=0 Tasks=1 Name=batch Network=(null)",
        "   TRES=(null)",
        "   ResvPorts=(null)",
        "   CPUFreqReq=Default",
        "   SrunHost:Pid=(null):0",
        "",
    ]
    assert site.run(f"scontrol show step {RUNNING}.7") == Printed(1, f"Job step {RUNNING}.7 not found\n", "")


# ---- Hold, suspend, requeue


def test_a_job_is_released_and_held_again(own_site: CommandSite) -> None:
    assert own_site.run(f"scontrol release {HELD}") == DONE
    assert shown(own_site, HELD)["Reason"] != "JobHeldUser"
    for word in ("hold", "uhold"):
        own_site.run(f"scontrol {word} {HELD}")
        assert shown(own_site, HELD)["Priority"] == "0"


def test_jobs_are_named_by_lists_and_by_name(own_site: CommandSite) -> None:
    own_site.submit("-H", "-J", "held")
    assert own_site.run("scontrol release jobname=held") == DONE
    assert own_site.run(f"scontrol hold {HELD},4 jobid={ARRAY}") == DONE
    assert own_site.run("scontrol hold jobname=nosuch") == Printed(0, "", "Job name nosuch not found\n")
    assert refused(own_site, "scontrol suspend jobname=nosuch") == (
        "Invalid job id specified for job jobname=nosuch\nJob name nosuch not found\n"
    )


def test_holding_a_running_job_changes_nothing_and_is_no_error(own_site: CommandSite) -> None:
    assert own_site.run(f"scontrol hold {RUNNING}") == DONE
    assert own_site.run(f"scontrol release {ARRAY}_2") == DONE


@pytest.mark.parametrize(
    ("line", "err"),
    [
        ("hold 99", "Invalid job id specified for job 99\nslurm_suspend error: Invalid job id specified\n"),
        ("suspend 1", "Job is pending execution for job 1\n"),
        ("resume 2", "Job is not suspended for job 2\n"),
        ("requeue 99", "Invalid job id specified for job 99\n"),
        ("top 2", "Job is no longer pending execution for job 2\n"),
        ("top 99", "Invalid job id specified for job 99\n"),
        ("notify 1 hi", "job notify failure: Requested operation is presently disabled\n"),
        ("notify 99 hi", "job notify failure: Invalid job id specified\n"),
    ],
)
def test_what_a_job_cannot_do_is_refused_in_slurms_words(site: CommandSite, line: str, err: str) -> None:
    assert refused(site, f"scontrol {line}") == err


@pytest.mark.parametrize(
    ("line", "err"),
    [
        ("hold 2", "Invalid user id for job 2\nslurm_suspend error: Invalid user id\n"),
        ("requeue 2", "Access/permission denied for job 2\n"),
        ("update jobid=2 timelimit=3:00:00", "Invalid user id for job 2\n"),
    ],
)
def test_jobs_of_others_cannot_be_changed(site: CommandSite, line: str, err: str) -> None:
    assert refused(site, f"scontrol {line}", DAEMON) == err


def test_a_job_is_suspended_and_resumed(own_site: CommandSite) -> None:
    own_site.now += 30
    assert own_site.run(f"scontrol suspend {RUNNING}") == DONE
    own_site.now += 100
    found = shown(own_site, RUNNING)
    assert (found["JobState"], found["RunTime"]) == ("SUSPENDED", "00:00:30")
    assert own_site.run(f"scontrol resume {RUNNING}") == DONE
    found = shown(own_site, RUNNING)
    assert (found["SuspendTime"], found["SecsPreSuspend"]) == (f"{own_site.now:.0f}", "30")


def test_a_job_is_requeued_and_may_be_held(own_site: CommandSite) -> None:
    own_site.run(f"scontrol requeuehold {RUNNING}")
    own_site.end(2, signal=15)
    found = shown(own_site, RUNNING)
    assert (found["JobState"], found["Restarts"], found["Priority"]) == ("PENDING", "1", "0")
    assert own_site.run(f"scontrol requeue incomplete {HELD}") == DONE, "a pending job has not finished"


def test_completing_jobs_are_listed_with_their_nodes(own_site: CommandSite) -> None:
    assert own_site.run("scontrol completing") == DONE
    own_site.run(f"scancel {RUNNING}")
    assert own_site.run("scontrol completing").out == (
        "JobId=2 EndTime=Unknown CompletingTime=Unknown Nodes(COMPLETING)=n1 \n"
    )


def test_waiting_for_a_running_job_ends_at_once(site: CommandSite) -> None:
    printed = site.run(f"scontrol wait_job {RUNNING}")
    assert printed == Printed(0, "", "scontrol: Nodes are ready for job 2\n")


def test_a_script_is_written_for_its_owner(site: CommandSite) -> None:
    assert site.run(f"scontrol write batch_script {HELD} -").out == "#!/bin/sh\nsleep 1000\n"
    denied = site.run(f"scontrol write batch_script {HELD} -", user=DAEMON)
    assert denied == Printed(0, "", "job script retrieval failed: Invalid user id\n")
    missing = site.run("scontrol write batch_script 99 -")
    assert missing == Printed(0, "", "job script retrieval failed: Invalid job id specified\n")
    assert "a process of a job cannot write files here" in refused(
        site, f"scontrol write batch_script {HELD}"
    )


# ---- update


@pytest.mark.parametrize(
    ("change", "pairs"),
    [
        ("timelimit=30", {"TimeLimit": "00:30:00"}),
        ("timelimit=+5", {"TimeLimit": "01:05:00"}),
        ("timelimit-=10", {"TimeLimit": "00:50:00"}),
        ("TimeLimit=UNLIMITED partition=debug", {"TimeLimit": "UNLIMITED", "Partition": "debug"}),
        ("name=new comment=hi", {"JobName": "new", "Comment": "hi"}),
        ("nice=-20", {"Nice": "-20"}),
        ("nice", {"Nice": "100"}),
        ("requeue=no", {"Requeue": "0"}),
        ("oversubscribe=yes", {"OverSubscribe": "YES"}),
        ("minmemorynode=2G", {"MinMemoryNode": "2G"}),
        ("mincpusnode=4", {"MinCPUsNode": "4"}),
        ("numnodes=1-2", {"NumNodes": "1-2"}),
        ("reqnodelist=n2", {"ReqNodeList": "n2"}),
        ("excnodelist=n1", {"ExcNodeList": "n1"}),
        ("licenses=matlab:2", {"Licenses": "matlab:2"}),
        ("switches=1@10", {"Switches": "1@00:10:00"}),
        ("tresperjob=gpu:2", {"TresPerJob": "gres:gpu:2"}),
        ("dependency=afterok:2", {"Dependency": "afterok:2(unfulfilled)"}),
        ("mailtype=END,FAIL mailuser=a@b", {"MailUser": "a@b", "MailType": "END,FAIL"}),
        ("workdir=/tmp", {"WorkDir": "/tmp"}),
    ],
)
def test_a_change_is_shown(own_site: CommandSite, change: str, pairs: dict[str, str]) -> None:
    assert own_site.run(f"scontrol update jobid={HELD} {change}") == DONE
    assert shown(own_site, HELD).items() >= pairs.items()


@pytest.mark.parametrize(
    ("words", "err"),
    [
        ("jobid=1", "No changes specified\n"),
        ("job", "Invalid input: job\nRequest aborted\n"),
        ("jobid=1 nosuch=1", "Update of this parameter is not supported: nosuch=1\nRequest aborted\n"),
        (
            "jobid=1 memupdate=20@10",
            "Update of this parameter is not supported: memupdate=20@10\nRequest aborted\n"
            "the memory of a running job is not changed; submit with --mem=SIZE\n",
        ),
        ("jobid=1 name+=x", "Update of this parameter is not supported: name+=x\nRequest aborted\n"),
        ("jobid=1 timelimit=x", "scontrol: error: Invalid TimeLimit value\n"),
        ("jobid=1 starttime=foo", "Invalid time specification (pos=0): foo\nNo changes specified\n"),
        ("jobid=1 starttime=", "No changes specified\n"),
        ("jobid=1 mailtype=foo", "Invalid MailType: foo\n"),
        ("jobid=1 requeue=maybe", "scontrol: error: Invalid Requeue value: maybe\n"),
        ("jobid=1 minmemorynode=x", "scontrol: error: Invalid MinMemoryNode value: x\n"),
        ("jobid=1 priority=5", "Job is in held state, pending scheduler release for job 1\n"),
        ("jobid=1 numnodes=0", "Node count specification invalid for job 1\n"),
        ("jobid=99 name=x", "Invalid job id specified for job 99\n"),
        ("jobid=2 numtasks=5", "Job is no longer pending execution for job 2\n"),
        ("jobname=nosuch timelimit=1", "scontrol: error: No jobs with name 'nosuch'\n"),
        ("jobname=held userid=nosuch timelimit=1", "Invalid UserID: nosuch\nRequest aborted\n"),
        (
            "foo=1",
            "No valid entity in update command\n"
            'Input line must include "NodeName", "PartitionName", "Reservation", "JobId", or "SlurmctldDebug"\n',
        ),
    ],
)
def test_a_wrong_change_gets_slurms_message(site: CommandSite, words: str, err: str) -> None:
    assert refused(site, f"scontrol update {words}") == err


@pytest.mark.parametrize(
    ("change", "first"),
    [
        ("partition=nosuch", "Invalid partition name specified for job 1"),
        ("numnodes=5", "Requested node configuration is not available for job 1"),
        ("features=nosuch", "Invalid feature specification for job 1"),
        ("licenses=foo:1", "Invalid license specification for job 1"),
        ("reservation=nosuch", "Requested reservation is invalid for job 1"),
        ("nodelist=n9", "Invalid node name specified for job 1"),
    ],
)
def test_our_explanation_follows_slurms_message(site: CommandSite, change: str, first: str) -> None:
    lines = refused(site, f"scontrol update jobid={HELD} {change}").splitlines()
    assert lines[0] == first and len(lines) == 2


def test_tasks_of_an_array_are_changed_apart(own_site: CommandSite) -> None:
    assert own_site.run(f"scontrol update jobid={ARRAY} arraytaskthrottle=4") == DONE
    assert own_site.run(f"scontrol update jobid={ARRAY}_2 timelimit=5") == DONE
    limits = own_site.run(f"squeue -h -r -j {ARRAY} -S i -o %i|%l").lines
    assert sorted(limits) == [
        "3_1|1-00:00:00",
        "3_2|5:00",
        "3_3|1-00:00:00",
        "3_4|1-00:00:00",
        "3_5|1-00:00:00",
    ]
    assert "job arrays" in refused(own_site, f"scontrol update jobid={ARRAY} numnodes=2")


def test_jobs_are_changed_by_name(own_site: CommandSite) -> None:
    assert own_site.run("scontrol update jobname=held timelimit=10") == DONE
    assert shown(own_site, HELD)["TimeLimit"] == "00:10:00"
