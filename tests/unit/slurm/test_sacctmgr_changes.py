"""sacctmgr's add, modify and delete: what they say, and the accounts, users and QoS that result."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from tests.support.command_site import CommandSite, Printed

from warpdeck.model.admin_level import AdminLevel
from warpdeck.ports.caller import Principal
from warpdeck.slurm.sacctmgr import admin_levels

DAEMON = Principal(user="daemon", uid=1)
CONFIG = """
[qos.high]
priority = 100
max_wall = "1-00:00:00"
[qos.normal]
[qos.low]
preempts = ["normal"]
[accounts.ml.users.ann]
default = true
[accounts.ml.users.bob]
[accounts.sci]
[accounts.bio]
parent = "sci"
shares = 3
qos = ["high", "normal"]
default_qos = "high"
[accounts.bio.users.ann]
"""
NODES = ("n1",)


def sacctmgr(site: CommandSite, line: str, **how: Any) -> Printed:
    """Run sacctmgr without its question."""
    return site.run(f"sacctmgr -i {line}", **how)


def table(site: CommandSite, *path: str) -> Any:
    """Return a table of the configuration in force; None if there is none."""
    found: Any = tomllib.loads(site.connect().call("config")["text"])
    for name in path:
        found = (found or {}).get(name)
    return found


def done(printed: Printed) -> str:
    """Return the output of a command that succeeded, without its indentation."""
    assert (printed.code, printed.err) == (0, ""), printed
    return "\n".join(line.strip() for line in printed.lines)


# ---- Accounts


def test_an_account_is_added_below_root_with_slurms_words(own_site: CommandSite) -> None:
    printed = sacctmgr(own_site, "add account lab")
    assert printed == Printed(
        0,
        " Adding Account(s)\n  lab\n Settings\n"
        "  Description     = Account Name\n  Organization    = Parent/Account Name\n"
        " Associations\n  A = lab        C = warpdeck  \n",
        "",
    )
    assert table(own_site, "accounts", "lab") == {}


def test_limits_of_an_account_are_told_in_alphabetical_order_and_stored(own_site: CommandSite) -> None:
    line = (
        "add account deep parent=sci fairshare=4 qos=high defaultqos=high maxjobs=3 grptres=cpu=10,gres/gpu=2 "
        "maxwall=1:00:00 description=Deep_learning"
    )
    told = sacctmgr(own_site, line).lines
    assert told[told.index(" Associations") + 2 :] == [
        " Settings",
        "  Fairshare     = 4",
        "  GrpTRES       = cpu=10,gres/gpu=2",
        "  MaxJobs       = 3",
        "  MaxWall       = 01:00:00",
        "  Parent        = sci",
        "  QOS           = high",
        "  DefQOS        = high",
    ]
    assert table(own_site, "accounts", "deep") == {
        "description": "Deep_learning",
        "parent": "sci",
        "shares": 4,
        "qos": ["high"],
        "default_qos": "high",
        "max_jobs_per_user": 3,
        "grp_tres": "cpu=10,gres/gpu=2",
        "max_wall": "1:00:00",
    }


def test_of_several_accounts_the_new_ones_are_added(own_site: CommandSite) -> None:
    assert "lab" in done(sacctmgr(own_site, "add account ml,lab")).split("\n")
    assert set(table(own_site, "accounts")) == {"ml", "sci", "bio", "lab"}


@pytest.mark.parametrize(
    ("line", "err"),
    [
        ("add account", " Need name of account to add.\n"),
        (
            "add account x parent=nosuch",
            " Parent account 'nosuch' doesn't exist on cluster warpdeck\n"
            "        Contact your admin to add this account.\n No associations created.\n",
        ),
        (
            "add account x cluster=other",
            " This cluster 'other' doesn't exist.\n        Contact your admin to add it to accounting.\n",
        ),
        (
            "add account x fairshare=many",
            "sacctmgr: error: Invalid value for FairShare (many)\n"
            " Unknown option: fairshare=many\n Use keyword 'where' to modify condition\n",
        ),
        (
            "modify account where nosuch=1 set fairshare=1",
            " Unknown condition: nosuch=1\n Use keyword 'set' to modify value\n",
        ),
        (
            "modify account ml set nosuch=1",
            " Unknown option: nosuch=1\n Use keyword 'where' to modify condition\n",
        ),
        ("modify account ml", " You didn't give me anything to set\n"),
        ("delete account", " No conditions given to remove, not executing.\n"),
        (
            "delete account root",
            " You are not allowed to remove the root account.\n Use remove cluster instead.\n",
        ),
    ],
)
def test_wrong_arguments_get_slurms_message_and_change_nothing(
    site: CommandSite, line: str, err: str
) -> None:
    before = table(site)
    assert sacctmgr(site, line) == Printed(1, "", err)
    assert table(site) == before


@pytest.mark.parametrize(
    ("line", "out"),
    [
        ("add account ml", " Nothing new added.\n"),
        ("add user ann account=ml", " Nothing new added.\n"),
        ("add qos high", " Nothing new added.\n"),
        ("modify account nosuch set fairshare=1", " Nothing modified\n"),
        ("modify account ml set parent=ml", " Nothing modified\n"),
        ("modify user ann cluster=other set fairshare=1", " Nothing modified\n"),
        ("modify qos nosuch set priority=1", " Nothing modified\n"),
        (
            "modify account ml set parent=nosuch",
            " Parent account 'nosuch' doesn't exist on cluster warpdeck\n Nothing modified\n",
        ),
        ("delete account nosuch", " Nothing deleted\n"),
        ("delete user nosuch", " Nothing deleted\n"),
        ("delete qos nosuch", " Nothing deleted\n"),
    ],
)
def test_nothing_to_do_is_told_on_standard_output(site: CommandSite, line: str, out: str) -> None:
    before = table(site)
    assert sacctmgr(site, line) == Printed(1, out, "")
    assert table(site) == before


def test_an_account_moves_below_another_one_and_back_to_root(own_site: CommandSite) -> None:
    told = done(sacctmgr(own_site, "modify account ml set parent=sci"))
    assert told == "Modified account associations...\nC = warpdeck   A = ml of root"
    assert table(own_site, "accounts", "ml", "parent") == "sci"
    told = done(sacctmgr(own_site, "modify account ml set parent=root"))
    assert told == "Modified account associations...\nC = warpdeck   A = ml of sci"
    assert table(own_site, "accounts", "ml", "parent") is None


def test_an_accounts_description_is_told_apart_from_its_association(own_site: CommandSite) -> None:
    assert done(sacctmgr(own_site, "modify account bio set description=Bio organization=inst")) == (
        "Modified accounts...\nbio"
    )
    assert done(sacctmgr(own_site, "modify account bio set fairshare=5 description=B")) == (
        "Modified account associations...\nC = warpdeck   A = bio of sci\nModified accounts...\nbio"
    )
    found = table(own_site, "accounts", "bio")
    assert (found["description"], found["organization"], found["shares"]) == ("B", "inst", 5)


def test_lists_are_extended_and_reduced_and_limits_removed(own_site: CommandSite) -> None:
    sacctmgr(own_site, "modify account bio set qos+=low fairshare=-1")
    found = table(own_site, "accounts", "bio")
    assert found["qos"] == ["high", "normal", "low"] and "shares" not in found
    sacctmgr(own_site, "modify account bio set qos-=normal,low")
    assert table(own_site, "accounts", "bio", "qos") == ["high"]
    sacctmgr(own_site, "modify account bio set grptres=cpu=4,mem=10G")
    sacctmgr(own_site, "modify account bio set grptres=cpu=-1")
    assert table(own_site, "accounts", "bio", "grp_tres") == "mem=10G"


def test_accounts_are_selected_by_their_parent(own_site: CommandSite) -> None:
    done(sacctmgr(own_site, "modify account where parent=sci set maxjobs=2"))
    assert [
        name for name, found in table(own_site, "accounts").items() if found.get("max_jobs_per_user")
    ] == ["bio"]


def test_deleting_an_account_deletes_all_below_it(own_site: CommandSite) -> None:
    assert done(sacctmgr(own_site, "delete account sci")) == "Deleting accounts...\nsci\nbio"
    assert set(table(own_site, "accounts")) == {"ml"}


def test_an_account_with_a_job_cannot_be_deleted(own_site: CommandSite) -> None:
    sacctmgr(own_site, "add user root account=ml")
    job = own_site.submit("-A", "ml", "-H")
    printed = sacctmgr(own_site, "delete account ml")
    assert printed.err == (
        " Error with request: Job(s) active, cancel job(s) before remove\n"
        f"  JobID = {job:<10} C = warpdeck   A = ml         U = root     \n"
    )
    own_site.run(f"scancel {job}")
    assert done(sacctmgr(own_site, "delete account ml")) == "Deleting accounts...\nml"


# ---- Users


def test_a_user_is_added_to_an_account(own_site: CommandSite) -> None:
    assert sacctmgr(own_site, "add user eve account=ml fairshare=2").out == (
        " Adding User(s)\n  eve\n Associations =\n  U = eve       A = ml         C = warpdeck  \n"
        " Non Default Settings\n  Fairshare     = 2\n"
    )
    assert table(own_site, "accounts", "ml", "users", "eve") == {"shares": 2}


def test_a_user_of_several_accounts_gets_a_default(own_site: CommandSite) -> None:
    told = done(sacctmgr(own_site, "add user eve account=ml,bio defaultaccount=bio"))
    assert "Default Account = bio" in told
    users = {
        name: found["users"]["eve"] for name, found in table(own_site, "accounts").items() if "users" in found
    }
    assert users == {"ml": {}, "bio": {"default": True}}
    # Without a named one, the default stays. A user with one account gets it as the default with the second.
    sacctmgr(own_site, "add user bob account=bio")
    assert table(own_site, "accounts", "ml", "users", "bob") == {"default": True}


@pytest.mark.parametrize(
    ("line", "err"),
    [
        ("add user eve", " Need name of account to add user to.\n"),
        (
            "add user eve account=nosuch",
            " This account 'nosuch' doesn't exist.\n        Contact your admin to add this account.\n"
            " No associations or wckeys created.\n",
        ),
        (
            "add user eve account=bio defaultqos=nosuch",
            "You gave a bad default qos 'nosuch'.  Use 'list qos' to get complete list.\n",
        ),
        (
            "add user eve account=bio qos=normal defaultqos=high",
            " These associations don't have access to their default qos.\n"
            " Please give them access before they the default can be set to this.\n"
            "  DefQOS = high       C = warpdeck   A = bio                  U = eve      \n",
        ),
        (
            "add user eve account=bio qos=nosuch",
            "sacctmgr: error: You gave a bad qos 'nosuch'. Valid QOS's are normal,high,low\n"
            " Unknown option: qos=nosuch\n Use keyword 'where' to modify condition\n",
        ),
        (
            "add user eve account=ml maxwall=soon",
            " Bad MaxWall time format: maxwall=soon\n"
            " Unknown option: maxwall=soon\n Use keyword 'where' to modify condition\n",
        ),
        ("delete user", " No conditions given to remove, not executing.\n"),
    ],
)
def test_wrong_arguments_about_users_are_refused(site: CommandSite, line: str, err: str) -> None:
    assert sacctmgr(site, line) == Printed(1, "", err)


def test_limits_are_set_for_all_associations_of_a_user_or_for_one(own_site: CommandSite) -> None:
    assert done(sacctmgr(own_site, "modify user ann set fairshare=7")).count("U = ann") == 2
    sacctmgr(own_site, "modify user where user=ann account=bio set maxjobs=2 maxsubmit=9")
    assert table(own_site, "accounts", "ml", "users", "ann") == {"default": True, "shares": 7}
    assert table(own_site, "accounts", "bio", "users", "ann") == {
        "shares": 7,
        "max_jobs_per_user": 2,
        "max_submit_per_user": 9,
    }


def test_a_default_account_must_be_one_of_the_users(own_site: CommandSite) -> None:
    assert done(sacctmgr(own_site, "modify user ann set defaultaccount=bio")) == "Modified users...\nann"
    assert table(own_site, "accounts", "ml", "users", "ann") == {}
    assert sacctmgr(own_site, "modify user ann set defaultaccount=sci") == Printed(
        1,
        " Can't modify because these users aren't associated with new default account 'sci'...\n"
        "  U = ann C = warpdeck\n",
        "",
    )


def test_a_user_leaves_one_account_or_all(own_site: CommandSite) -> None:
    sacctmgr(own_site, "add user ann account=sci")
    told = done(sacctmgr(own_site, "delete user ann account=ml"))
    assert told == "Deleting user associations...\nC = warpdeck   A = ml         U = ann"
    # The default is gone, so the next account becomes the default.
    assert table(own_site, "accounts", "sci", "users", "ann") == {"default": True}
    told = done(sacctmgr(own_site, "delete user bob account=ml"))
    assert told.endswith("Deleting users (No Associations)...\nbob")
    assert done(sacctmgr(own_site, "delete user ann")) == "Deleting users...\nann"
    assert not any(found.get("users") for found in table(own_site, "accounts").values())


# ---- QoS


def test_a_qos_is_added_with_its_settings(own_site: CommandSite) -> None:
    line = (
        "add qos fast priority=5 maxwall=10 flags=denyonlimit preempt=normal preemptmode=cancel gracetime=30 "
        "usagefactor=0.5 maxjobspu=3"
    )
    assert sacctmgr(own_site, line).lines == [
        " Adding QOS(s)",
        "  fast",
        " Settings",
        "  Description    = fast",
        "  Flags                    = DenyOnLimit",
        "  GraceTime                = 30",
        "  MaxJobsPerUser = 3",
        "  MaxWall                  = 00:10:00",
        "  Preempt                  = normal",
        "  PreemptMode              = CANCEL",
        "  Priority                 = 5",
        "  UsageFactor              = 0.5000",
    ]
    assert table(own_site, "qos", "fast") == {
        "priority": 5,
        "max_wall": "10:00",
        "deny_on_limit": True,
        "preempts": ["normal"],
        "preempt_mode": "cancel",
        "grace_s": 30,
        "usage_factor": 0.5,
        "max_jobs_per_user": 3,
    }


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("priority=x", "sacctmgr: error: Invalid value for Priority (x)\n"),
        ("usagefactor=x", "sacctmgr: error: Invalid value for UsageFactor (x)\n"),
        ("preemptmode=zz", " Bad Preempt Mode given: preemptmode=zz\n"),
        ("maxwall=x", " Bad MaxWall time format: maxwall=x\n"),
        ("grptres=cpu", "sacctmgr: error: slurmdb_format_tres_str: no TRES id found for cpu\n"),
        ("grptres=foo=3", "sacctmgr: error: slurmdb_format_tres_str: no TRES known by type foo\n"),
        (
            "flags=nosuch",
            " Unknown QOS flag used in:\n  'nosuch'\n Valid QOS flags are\n  'DenyOnLimit,OverPartQOS'\n",
        ),
    ],
)
def test_a_wrong_value_of_a_qos_is_refused(site: CommandSite, setting: str, told: str) -> None:
    printed = sacctmgr(site, f"modify qos high set {setting}")
    assert printed.code == 1 and printed.out + printed.err == told
    # Messages that begin with " Unknown" concern the standard output.
    assert bool(printed.out) == told.startswith(" Unknown")


def test_flags_of_a_qos_are_added_and_removed(own_site: CommandSite) -> None:
    for setting, flags in (
        ("flags=denyonlimit", {"deny_on_limit"}),
        ("flags+=overpartqos", {"deny_on_limit", "overrides_partition"}),
        ("flags-=denyonlimit", {"overrides_partition"}),
        ("flags=-1", set()),
    ):
        assert done(sacctmgr(own_site, f"modify qos high set {setting}")) == "Modified qos...\nhigh"
        assert {
            name
            for name in table(own_site, "qos", "high")
            if name in {"deny_on_limit", "overrides_partition"}
        } == flags


def test_a_qos_that_is_a_default_cannot_be_deleted(own_site: CommandSite) -> None:
    printed = sacctmgr(own_site, "delete qos high")
    assert printed.code == 1 and "DefQOS = high       C = warpdeck   A = bio\n" in printed.err
    sacctmgr(own_site, "modify account bio set defaultqos=-1")
    assert done(sacctmgr(own_site, "delete qos high")) == "Deleting QOS(s)...\nhigh"
    assert table(own_site, "accounts", "bio", "qos") == ["normal"], "it is gone from all lists"
    sacctmgr(own_site, "delete qos normal")
    assert "preempts" not in table(own_site, "qos", "low")


# ---- Who may, and whether


def test_only_an_administrator_changes_accounts(site: CommandSite) -> None:
    assert sacctmgr(site, "add account x", user=DAEMON).err == (
        " Problem adding accounts: Access/permission denied\n"
    )
    assert sacctmgr(site, "delete account ml", user=DAEMON).err == (
        "sacctmgr: error: Your user doesn't have privilege to perform this action\n"
        " Error with request: Access/permission denied\n"
    )


@pytest.mark.parametrize(
    ("data", "is_added"), [("y\n", True), ("Yes\n", True), ("n\n", False), ("x\ny\n", True), ("", False)]
)
def test_a_change_is_made_after_a_yes(own_site: CommandSite, data: str, is_added: bool) -> None:
    printed = own_site.run("sacctmgr add account lab", data=data)
    assert "Would you like to commit changes? (You have 30 seconds to decide)\n(N/y): " in printed.out
    assert ("lab" in table(own_site, "accounts")) is is_added
    assert printed.out.endswith(" Changes Discarded\n") is not is_added
    assert printed.out.count("Y or N please\n") == data.count("x")


@pytest.mark.parametrize(
    ("line", "err"),
    [
        ("sacctmgr -r add account x", "Can't run this command in readonly mode.\n"),
        ("sacctmgr nosuch", "invalid keyword: nosuch\n"),
        (
            "sacctmgr add nosuch x",
            "No valid entity in add command\n"
            'Input line must include "Account", "Cluster", "Coordinator", "Federation", "QOS", "Resource", or "User"\n',
        ),
        ("sacctmgr dump cluster", "sacctmgr: error: dump is not supported: "),
        ("sacctmgr add cluster x", "sacctmgr: error: add cluster is not supported: "),
    ],
)
def test_other_commands_are_refused(site: CommandSite, line: str, err: str) -> None:
    printed = site.run(line)
    assert printed.code == 1 and printed.err.startswith(err)


def test_commands_of_the_prompt_are_echoed_and_fail_together(own_site: CommandSite) -> None:
    printed = own_site.run(
        "sacctmgr", data="add account p1\ny\nlist account p1 format=account\nnosuch\nquit\nlist qos\n"
    )
    assert (printed.code, printed.err) == (1, "invalid keyword: nosuch\n")
    assert [line for line in printed.lines if line.startswith("sacctmgr: ")] == [
        "sacctmgr: add account p1",
        "sacctmgr: list account p1 format=account",
        "sacctmgr: nosuch",
        "sacctmgr: quit",
    ]
    assert "        p1 " in printed.lines


def test_a_comment_of_a_jobs_record_is_changed(own_site: CommandSite) -> None:
    sacctmgr(own_site, "add user root account=ml")
    job = own_site.start("-A", "ml", "-J", "old")
    own_site.end(job)
    printed = own_site.run(f"sacctmgr -i modify job where jobid={job} set derivedexitcode=3 comment=fine")
    assert printed.code == 0 and printed.out.startswith(f" Modified jobs...\n  {job} submitted at ")
    told = own_site.run(f"sacct -n -X -P -S 2020-01-01 -j {job} -o derivedexitcode,comment").out
    assert told == "0:3|fine\n", "the number is a wait status"
    missing = own_site.run("sacctmgr -i modify job where jobid=99 set comment=x")
    assert missing.code == 1 and missing.out.endswith(" Nothing modified\n")


def test_the_levels_of_users_are_those_of_the_configuration() -> None:
    assert tuple(admin_levels.TITLES) == tuple(AdminLevel)
