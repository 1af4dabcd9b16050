"""sacctmgr show: the tables of accounts, users, associations, QoS and other entities, and their conditions."""

from __future__ import annotations

import os
import time

import pytest
from tests.support.command_site import CommandSite, Printed

CONFIG = """
[scheduler]
default_partition = "gpu"
[qos.high]
priority = 100
max_wall = "1-00:00:00"
max_tres_per_user = "cpu=8,node=2"
[qos.normal]
[accounts.ml]
description = "machine learning"
[accounts.ml.users.root]
default = true
[accounts.ml.users.daemon]
[accounts.sci]
organization = "inst"
[accounts.bio]
parent = "sci"
shares = 3
qos = ["high", "normal"]
default_qos = "high"
[accounts.bio.users.root]
[partitions.gpu]
nodes = "n[1-2]"
"""
NOW = time.mktime((2026, 1, 5, 10, 0, 0, 0, 0, -1))


def prepare(site: CommandSite) -> None:
    """Drain a node at 10:10."""
    site.now = NOW + 600
    site.run_words(["scontrol", "update", "nodename=n2", "state=drain", "reason=disk"])


def lines(site: CommandSite, given: str) -> list[str]:
    printed = site.run(f"sacctmgr {given}")
    assert (printed.code, printed.err) == (0, ""), printed
    return printed.lines


def rows(site: CommandSite, given: str) -> list[str]:
    """Return the rows without a header, with | between the columns."""
    return lines(site, f"-n -P show {given}")


# ---- Layouts


def test_accounts_in_slurms_layout(site: CommandSite) -> None:
    assert lines(site, "show account") == [
        "   Account                Descr                  Org ",
        "---------- -------------------- -------------------- ",
        "       bio                  bio                  sci ",
        "        ml     machine learning                   ml ",
        "      root default root account                 root ",
        "       sci                  sci                 inst ",
    ]


@pytest.mark.parametrize(
    ("options", "header"),
    [
        ("-P show account", ["Account|Descr|Org"]),
        ("-p show account", ["Account|Descr|Org|"]),
        ("show account format=account%-5,org%3", ["Accou Org ", "----- --- "]),
        ("-P list user", ["User|Def Acct|Admin"]),
        ("-P show user withcoord", ["User|Def Acct|Admin|Coord Accounts"]),
        (
            "-P show assoc",
            [
                "Cluster|Account|User|Partition|Share|Priority|GrpJobs|GrpTRES|GrpSubmit|GrpWall|GrpTRESMins|MaxJobs|MaxTRES|"
                "MaxTRESPerNode|MaxSubmit|MaxWall|MaxTRESMins|QOS|Def QOS|GrpTRESRunMins"
            ],
        ),
        ("-P show assoc wopl", ["Cluster|Account|User|Partition"]),
        ("-P show transactions", ["Time|Action|Actor|Where|Info"]),
        ("-P show problem", ["Cluster|Account|User|Problem"]),
        ("-P show resource", ["Name|Server|Type|Count|% Allocated|ServerType"]),
        ("-P show reservation", ["Cluster|Name|TRES|TimeStart|TimeEnd|UnusedWall"]),
        ("-P show wckey", ["WCKey|Cluster|User"]),
        ("-P show federation", ["Federation|Cluster|ID|Features|FedState"]),
    ],
)
def test_headers(site: CommandSite, options: str, header: list[str]) -> None:
    assert lines(site, f"{options}")[: len(header)] == header


def test_a_tree_is_indented_below_its_accounts(site: CommandSite) -> None:
    assert lines(site, "show assoc tree format=account,user,share") == [
        "Account                    User     Share ",
        "-------------------- ---------- --------- ",
        "root                                    1 ",
        " ml                                     1 ",
        "  ml                     daemon         1 ",
        "  ml                       root         1 ",
        " sci                                    1 ",
        "  bio                                   3 ",
        "   bio                     root         1 ",
    ]


def test_cut_texts_end_with_a_plus_sign(site: CommandSite) -> None:
    assert lines(site, "-n show user root") == ["      root         ml Administ+ "]
    assert lines(site, "-n show assoc account=bio format=account%-8,user%3") == [
        "bio          ",
        "bio      ro+ ",
    ]


# ---- Rows


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("account bio,ml", ["bio|bio|sci", "ml|machine learning|ml"]),
        ("account where name=bio", ["bio|bio|sci"]),
        ("account organization=inst", ["sci|sci|inst"]),
        ("account nosuch", []),
        ("account withassoc account=ml format=account,user,parentname,share", [
            "ml||root|1", "ml|daemon||1", "ml|root||1",
        ]),
        ("user", ["daemon|ml|None", "root|ml|Administrator"]),
        ("user adminlevel=admin", ["root|ml|Administrator"]),
        ("user defaultaccount=ml", ["daemon|ml|None", "root|ml|Administrator"]),
        ("user nosuch", []),
        ("user root withassoc format=user,account,qos,defaultqos", ["root|bio|high,normal|high", "root|ml|high,normal|"]),
        ("assoc format=account,user,parentname,share,qos,defaultqos", [
            "root|||1|high,normal|",
            "ml||root|1|high,normal|",
            "ml|daemon||1|high,normal|",
            "ml|root||1|high,normal|",
            "sci||root|1|high,normal|",
            "bio||sci|3|high,normal|high",
            "bio|root||1|high,normal|high",
        ]),
        ("assoc account=bio format=account,user", ["bio|", "bio|root"]),
        ("assoc user=daemon format=account,user", ["ml|daemon"]),
        ("assoc user=root account=ml format=account,user", ["ml|root"]),
        ("assoc where partition=gpu", []),
        ("assoc onlydefaults format=account,user", ["ml|daemon", "ml|root"]),
        ("assoc withsubaccounts account=sci format=account,user", ["sci|", "bio|", "bio|root"]),
        ("assoc account=bio wopl", ["warpdeck|bio||", "warpdeck|bio|root|"]),
        ("assoc cluster=other", []),
        ("qos format=name,priority,maxwall,maxtrespu", ["normal|0||", "high|100|1-00:00:00|cpu=8,node=2"]),
        ("qos high format=name,usagefactor,gracetime,preemptmode", ["high|1.000000|00:00:00|cluster"]),
        ("cluster format=cluster,controlhost,rpc", [f"warpdeck|{os.uname().nodename}|9728"]),
        ("tres type=gres", ["gres|gpu|1001"]),
        ("tres name=nosuch", []),
        ("events nodes=n2 format=nodename,start,end,state,reason,user", [
            "n2|2026-01-05T10:10:00|Unknown|DRAIN|disk|root(0)",
        ]),
        ("events nodes=n1", []),
        ("transactions", []),
        ("wckey", []),
    ],
)  # fmt: skip
def test_rows_are_chosen(site: CommandSite, given: str, expected: list[str]) -> None:
    assert rows(site, given) == expected


def test_every_tres_has_slurms_number(site: CommandSite) -> None:
    assert rows(site, "tres") == [
        "cpu||1",
        "mem||2",
        "energy||3",
        "node||4",
        "billing||5",
        "fs|disk|6",
        "vmem||7",
        "pages||8",
        "gres|gpu|1001",
    ]


def test_there_are_no_runaway_jobs(site: CommandSite) -> None:
    assert lines(site, "show runawayjobs") == ["Runaway Jobs: No runaway jobs found on cluster warpdeck"]


# ---- Messages

NO_ENTITY = (
    "No valid entity in list command\n"
    'Input line must include "Account", "Association", "Cluster", "Configuration",\n'
    '"Event", "Federation", "Problem", "QOS", "Resource", "Reservation",\n'
    '"RunAwayJobs", "Stats", "Transaction", "TRES", "User", or "WCKey"\n'
)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("show", NO_ENTITY),
        ("show nosuch", NO_ENTITY),
        ("show job", NO_ENTITY),
        ("show account foo=1", " Unknown condition: foo=1\n Use keyword 'set' to modify value\n"),
        ("show account format=zz", "Unknown field 'zz'\n"),
        ("nosuch", "invalid keyword: nosuch\n"),
        (
            "--nosuch",
            "sacctmgr: unrecognized option '--nosuch'\nTry \"sacctmgr --help\" for more information\n",
        ),
        *(
            (
                f"{command} x",
                f"sacctmgr: error: {command} is not supported: accounts, users and QoS are defined in config.toml; "
                "`scontrol reconfigure` reloads it\n",
            )
            for command in ("archive", "dump", "load")
        ),
    ],
)
def test_wrong_arguments_get_a_message(site: CommandSite, given: str, message: str) -> None:
    assert site.run(f"sacctmgr {given}") == Printed(1, "", message)
