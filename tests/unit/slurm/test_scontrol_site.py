"""scontrol with nodes and partitions: what show prints, and what update, create and delete do."""

from __future__ import annotations

import os

import pytest
from tests.support.command_site import CommandSite, Printed

from warpdeck.ports.caller import Principal

DAEMON = Principal(user="daemon", uid=1)
CONFIG = """
[partitions.gpu]
nodes = "n[1-2]"
max_time = "1-0"
[partitions.debug]
nodes = "n1"
[nodes.n1]
features = ["a100", "fast"]
weight = 3
[accounts.lab.users.root]
[qos.low]
[scheduler]
default_partition = "gpu"
"""
DONE = Printed(0, "", "")


def shown(site: CommandSite, what: str) -> dict[str, str]:
    """Return the pairs of `scontrol show`."""
    printed = site.run(f"scontrol -o show {what}")
    assert printed.code == 0, printed
    pairs = (word.partition("=") for word in printed.out.split() if "=" in word)
    return {key: value for key, _, value in pairs}


def test_a_node_in_slurms_layout(own_site: CommandSite) -> None:
    own_site.start("-n2", "--gres=gpu:1", "-w", "n1")
    own_site.run("scontrol update nodename=n1 comment=hi extra=more")
    assert own_site.run("scontrol show node n1").out == (
        "NodeName=n1 Arch=x86_64 CoresPerSocket=1 \n"
        "   CPUAlloc=2 CPUEfctv=16 CPUTot=16 CPULoad=N/A\n"
        "   AvailableFeatures=a100,fast\n"
        "   ActiveFeatures=a100,fast\n"
        "   Gres=gpu:h100:4\n"
        "   NodeAddr=n1 NodeHostName=n1 Version=22.05.8\n"
        "   RealMemory=65536 AllocMem=0 FreeMem=N/A Sockets=16 Boards=1\n"
        "   State=MIXED ThreadsPerCore=1 TmpDisk=0 Weight=3 Owner=N/A MCS_label=N/A\n"
        "   Partitions=gpu,debug \n"
        "   BootTime=None SlurmdStartTime=None\n"
        "   LastBusyTime=Unknown\n"
        "   CfgTRES=cpu=16,mem=64G,billing=16,gres/gpu=4\n"
        "   AllocTRES=cpu=2,gres/gpu=1\n"
        "   CapWatts=n/a\n"
        "   CurrentWatts=0 AveWatts=0\n"
        "   ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s\n"
        "   Comment=hi\n"
        "   Extra=more\n"
        "\n"
    )


def test_a_partition_in_slurms_layout(site: CommandSite) -> None:
    assert site.run("scontrol show partition gpu").out == (
        "PartitionName=gpu\n"
        "   AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL\n"
        "   AllocNodes=ALL Default=YES QoS=N/A\n"
        "   DefaultTime=NONE DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=NO\n"
        "   MaxNodes=UNLIMITED MaxTime=1-00:00:00 MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED\n"
        "   Nodes=n[1-2]\n"
        "   PriorityJobFactor=1 PriorityTier=1 RootOnly=NO ReqResv=NO OverSubscribe=NO\n"
        "   OverTimeLimit=NONE PreemptMode=OFF\n"
        "   State=UP TotalCPUs=32 TotalNodes=2 SelectTypeParameters=NONE\n"
        "   JobDefaults=(null)\n"
        "   DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED\n"
        "   TRES=cpu=32,mem=128G,node=2,billing=32,gres/gpu=8\n"
        "\n"
    )


@pytest.mark.parametrize("what", ["node", "partition"])
def test_one_line_holds_the_same_pairs(site: CommandSite, what: str) -> None:
    many, one = (site.run(f"scontrol {option}show {what}").out for option in ("", "-o "))
    assert one.split() == many.split()
    assert one.count("\n") == len(many.strip().split("\n\n"))


# ---- Nodes


@pytest.mark.parametrize(
    ("given", "pairs"),
    [
        ("state=drain reason=disk", {"State": "IDLE+DRAIN", "Reason": "disk"}),
        ("state=DOWN reason=dead", {"State": "IDLE+DRAIN", "Reason": "dead"}),
        ("state=fail reason=fan", {"State": "IDLE+DRAIN", "Reason": "fan"}),
        ("weight=7", {"Weight": "7"}),
        ("features=h100,slow", {"AvailableFeatures": "h100,slow", "ActiveFeatures": "h100,slow"}),
        ("comment=a", {"Comment": "a"}),
        ("extra=b", {"Extra": "b"}),
    ],
)
def test_a_change_of_a_node_is_shown(own_site: CommandSite, given: str, pairs: dict[str, str]) -> None:
    assert own_site.run(f"scontrol update nodename=n1 {given}") == DONE
    now = shown(own_site, "node n1")
    assert {key: now[key] for key in pairs} == pairs


def test_a_node_returns_to_work(own_site: CommandSite) -> None:
    for state in ("drain", "down"):
        own_site.run(f"scontrol update nodename=n1 state={state} reason=x")
        assert own_site.run("scontrol update nodename=n1 state=resume") == DONE
        now = shown(own_site, "node n1")
        assert (now["State"], "Reason" in now) == ("IDLE", False)


def test_several_nodes_are_changed_at_once(own_site: CommandSite) -> None:
    assert own_site.run("scontrol update nodename=n[1-2] state=drain reason=x") == DONE
    assert [shown(own_site, f"node {name}")["State"] for name in ("n1", "n2")] == ["IDLE+DRAIN"] * 2


def test_the_reason_of_a_drained_node_is_changed(own_site: CommandSite) -> None:
    own_site.run("scontrol update nodename=n1 state=drain reason=x")
    assert own_site.run("scontrol update nodename=n1 reason=y") == DONE
    assert shown(own_site, "node n1")["Reason"] == "y"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            "n1 state=zz",
            "Invalid input: state=zz\nRequest aborted\n"
            "Valid states are: NoResp DRAIN FAIL FUTURE RESUME POWER_DOWN POWER_UP UNDRAIN\n"
            "Not all states are valid given a node's prior state\n",
        ),
        ("n1 state=drain", "You must specify a reason when DOWNING or DRAINING a node. Request denied\n"),
        ("n9 state=resume", "slurm_update error: Invalid node name specified\n"),
        ("n1", "No changes specified\n"),
        ("n1 weight=x", "scontrol: error: Weight value (x) is not a valid number\nNo changes specified\n"),
        (
            "n1 gres=gpu:3",
            "Update of this parameter is not supported: gres=gpu:3\nRequest aborted\n"
            "only State, Reason, Weight, Features, Comment and Extra can be set; nodes report all other properties\n",
        ),
        ("n2 reason=x", "slurm_update error: a node that accepts jobs has no reason\n"),
    ],
)
def test_a_wrong_change_of_a_node_gets_a_message(site: CommandSite, given: str, message: str) -> None:
    assert site.run(f"scontrol update nodename={given}") == Printed(1, "", message)


def test_only_operators_change_nodes(site: CommandSite) -> None:
    printed = site.run("scontrol update nodename=n1 state=drain reason=x", user=DAEMON)
    assert printed == Printed(1, "", "slurm_update error: Invalid user id\n")


@pytest.mark.parametrize(
    ("line", "printed"),
    [
        ("ping", Printed(0, f"Slurmctld(primary) at {os.uname().nodename} is UP\n", "")),
        ("version", Printed(0, "slurm 22.05.8\n", "")),
        ("show hostnames n[1-3]", Printed(0, "n1\nn2\nn3\n", "")),
        ("show hostlist n2,n1", Printed(0, "n[2,1]\n", "")),
        ("show hostlistsorted n2,n1", Printed(0, "n[1-2]\n", "")),
        ("show aliases n1", Printed(0, "n1\n", "")),
        ("show topology", Printed(0, "", "scontrol: error: No topology information available\n")),
        ("show licenses", Printed(0, "No licenses configured in Slurm.\n", "")),
        ("show node n9", Printed(1, "Node n9 not found\n", "")),
        ("show nosuch", Printed(1, "", "invalid entity:nosuch for keyword:show \n")),
        ("cancel_reboot n1", Printed(1, "", "slurm_update error: Invalid node state specified\n")),
    ],
)
def test_short_answers(site: CommandSite, line: str, printed: Printed) -> None:
    assert site.run(f"scontrol {line}") == printed


# ---- Partitions


@pytest.mark.parametrize(
    ("given", "pairs"),
    [
        ("state=down", {"State": "DOWN"}),
        ("state=drain", {"State": "DRAIN"}),
        ("state=inactive", {"State": "INACTIVE"}),
        ("maxtime=2-0", {"MaxTime": "2-00:00:00"}),
        ("maxtime=unlimited", {"MaxTime": "UNLIMITED"}),
        ("defaulttime=30", {"DefaultTime": "00:30:00"}),
        ("maxnodes=1 minnodes=1", {"MaxNodes": "1", "MinNodes": "1"}),
        ("prioritytier=7", {"PriorityTier": "7"}),
        ("priorityjobfactor=9", {"PriorityJobFactor": "9"}),
        ("nodes=n2", {"Nodes": "n2", "TotalCPUs": "16", "TotalNodes": "1"}),
        ("allowaccounts=lab", {"AllowAccounts": "lab"}),
        ("denyqos=low", {"AllowAccounts": "ALL", "DenyQos": "low"}),
        ("qos=low", {"QoS": "low"}),
        ("exclusiveuser=yes", {"ExclusiveUser": "YES"}),
        ("gracetime=60", {"GraceTime": "60"}),
        ("preemptmode=requeue", {"PreemptMode": "REQUEUE"}),
    ],
)
def test_a_change_of_a_partition_is_shown(own_site: CommandSite, given: str, pairs: dict[str, str]) -> None:
    assert own_site.run(f"scontrol update partitionname=gpu {given}") == DONE
    now = shown(own_site, "partition gpu")
    assert {key: now[key] for key in pairs} == pairs


def test_another_partition_becomes_the_default(own_site: CommandSite) -> None:
    assert own_site.run("scontrol update partitionname=debug default=yes") == DONE
    assert [shown(own_site, f"partition {name}")["Default"] for name in ("gpu", "debug")] == ["NO", "YES"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            "gpu state=zz",
            "scontrol: error: Invalid input: state=zz\n"
            "scontrol: error: Acceptable State values are UP, DOWN, DRAIN and INACTIVE\n"
            "slurm_update error: No error\n",
        ),
        (
            "gpu exclusiveuser=maybe",
            "scontrol: error: Invalid input: exclusiveuser=maybe\n"
            "scontrol: error: Acceptable ExclusiveUser values are YES and NO\n"
            "slurm_update error: No error\n",
        ),
        (
            "gpu preemptmode=zz",
            "scontrol: error: Invalid input: preemptmode=zz\nslurm_update error: No error\n",
        ),
        ("gpu maxnodes=x", 'scontrol: error: Invalid numeric value "x" for MaxNodes.\n'),
        ("gpu maxtime=x", "scontrol: error: Invalid input maxtime=x\nslurm_update error: No error\n"),
        (
            "gpu nosuch=1",
            "scontrol: error: Update of this parameter is not supported: nosuch=1\n\n"
            "scontrol: error: Request aborted\nslurm_update error: No error\n",
        ),
        ("gpu nodes=n9", "slurm_update error: Invalid node name specified\n"),
        ("nosuch state=up", "slurm_update error: Invalid partition name specified\n"),
    ],
)
def test_a_wrong_change_of_a_partition_gets_slurms_message(
    site: CommandSite, given: str, message: str
) -> None:
    assert site.run(f"scontrol update partitionname={given}") == Printed(1, "", message)


def test_a_partition_is_created_and_deleted(own_site: CommandSite) -> None:
    assert own_site.run("scontrol create partitionname=new nodes=n2 maxtime=60") == DONE
    new = shown(own_site, "partition new")
    assert (new["Nodes"], new["MaxTime"], new["State"]) == ("n2", "01:00:00", "UP")
    assert own_site.run("scontrol delete partitionname=new") == DONE
    assert own_site.run("scontrol show partition new") == Printed(1, "Partition new not found\n", "")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "create partitionname=gpu",
            "Error creating the partition: Invalid partition name specified\nthere is one of that name\n",
        ),
        (
            "create partitionname=x nodes=n9",
            "Error creating the partition: Invalid node name specified\n",
        ),
        (
            "create partitionname=x foo=1",
            "scontrol: error: Update of this parameter is not supported: foo=1\n\n"
            "scontrol: error: Request aborted\n",
        ),
        (
            "delete partitionname=nosuch",
            "delete_partition partitionname=nosuch: Invalid partition name specified\n",
        ),
    ],
)
def test_a_partition_that_cannot_be_created_or_deleted(site: CommandSite, line: str, message: str) -> None:
    assert site.run(f"scontrol {line}") == Printed(1, "", message)


def test_a_partition_with_jobs_is_not_deleted(own_site: CommandSite) -> None:
    own_site.submit("-p", "debug", "-H")
    assert own_site.run("scontrol delete partitionname=debug") == Printed(
        1, "", "delete_partition partitionname=debug: Partition is in use\n"
    )
