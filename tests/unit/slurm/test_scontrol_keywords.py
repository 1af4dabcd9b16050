"""scontrol's keywords: abbreviations, numbers of arguments, and messages for wrong or unsupported ones."""

from __future__ import annotations

import pytest
from tests.support.command_site import CommandSite, Printed

from warpdeck.ports.caller import Principal
from warpdeck.slurm.scontrol.keywords import KEYWORDS

DAEMON = Principal(user="daemon", uid=1)
CONFIG = """
[licenses]
matlab = 4
[partitions.gpu]
nodes = "n[1-2]"
max_time = "1-0"
"""
INVALID_JOB = "Invalid job id specified"


def refused(site: CommandSite, line: str, user: Principal | None = None) -> str:
    """Return the error of a command that prints nothing else."""
    printed = site.run(line, user=user) if user else site.run(line)
    assert (printed.code, printed.out) == (1, ""), printed
    return printed.err


# ---- Keywords and their arguments


@pytest.mark.parametrize("name", sorted(KEYWORDS))
def test_the_shortest_abbreviation_of_a_keyword_means_it_or_an_earlier_one(name: str) -> None:
    from warpdeck.slurm.scontrol.scontrol import _find_name

    least = KEYWORDS[name].least
    earlier = list(KEYWORDS)[: list(KEYWORDS).index(name)]
    meant = _find_name(name[:least])
    assert meant == name or meant in earlier
    assert _find_name(name.upper()) in (name, *earlier)


@pytest.mark.parametrize(
    ("line", "err"),
    [
        ("nosuch", "invalid keyword: nosuch\n"),
        ("sh", "invalid keyword: sh\n"),
        ("-Q nosuch", "invalid keyword: nosuch\n"),
        ("sho", "too few arguments for keyword:show\n"),
        ("show", "too few arguments for keyword:show\n"),
        ("hold", "too few arguments for keyword:hold\n"),
        ("notify 1", "too few arguments for keyword:notify\n"),
        ("callerid 1", "too few arguments for keyword:callerid\n"),
        ("completing x", "too many arguments for keyword:completing\n"),
        ("ping x", "too many arguments for keyword:ping\n"),
        ("write batch_script 1 - x", "too many arguments for keyword:write\n"),
        ("update", "too few arguments for update keyword\n"),
        ("create", "too few arguments for create keyword\n"),
        ("delete", "too few arguments for delete keyword\n"),
        ("create nosuch", "scontrol: error: Invalid creation entity: nosuch\n"),
        ("delete nosuch=1", "Invalid deletion entity: nosuch=1\n"),
        (
            "delete res",
            "scontrol: error: Proper format is 'delete <ENTITY>=<ID>' or 'delete <ENTITY> <ID>'\n",
        ),
        ("pidinfo", "missing argument for keyword:pidinfo\n"),
        ("pidinfo 1", "Failed to locate job for requested pid\n"),
        ("listpids x", '"x" does not look like a jobid\n'),
        ("wait_job x", "Invalid job_id x\n"),
        ("wait_job 99", "scontrol: Problem running job 99\n"),
        ("write nosuch 1", "invalid write argument:nosuch\n"),
        ("write batch_script", "missing job id\n"),
        ("errnumstr", "one arguments required for keyword:errnumstr\n"),
        ("errnumstr x", "numeric arguments required for keyword:errnumstr\n"),
        ("cluster other", "scontrol: error: No cluster 'other' known by database.\n"),
        ("-M other show job", "scontrol: error: No cluster 'other' known by database.\n"),
        ("--nosuch", "scontrol: "),
    ],
)
def test_wrong_words_get_slurms_message(site: CommandSite, line: str, err: str) -> None:
    assert refused(site, f"scontrol {line}").startswith(err)


@pytest.mark.parametrize(
    ("line", "err"),
    [
        ("setdebug zz", "invalid debug level: zz\n"),
        ("setdebug 3", "scontrol: error: setdebug is not supported: "),
        ("setdebugflags foo", "invalid debug flag: foo\nUsage: setdebugflags [+|-]NAME\n"),
        ("setdebugflags +foo", "scontrol: error: setdebugflags is not supported: "),
        ("shutdown foo", "invalid shutdown argument:foo\n"),
        ("shutdown", "scontrol: error: shutdown is not supported: use `warpdeck down`"),
        ("takeover 1", "takeover: invalid backup controller index (1)\n"),
        ("takeover", "scontrol: error: takeover is not supported: "),
        ("token x", "Invalid option: `x`\n"),
        ("token", "Error fetching token\n"),
        ("reboot", "Missing node list. Specify ALL|<NodeList>\n"),
        ("reboot nextstate=x n1", "Invalid state: x\nValid states: DOWN, RESUME\n"),
        ("reboot ASAP n1", "scontrol: error: RebootProgram isn't defined\n"),
        ("cancel_reboot", "missing argument for keyword:cancel_reboot\n"),
        ("cancel_reboot n1 n2", "too many arguments for keyword:cancel_reboot\n"),
        ("cancel_reboot n1", "slurm_update error: Invalid node state specified\n"),
        ("cancel_reboot zz", "slurm_update error: Invalid node name specified\n"),
        ("schedloglevel 1", "slurm_set_schedlog_level error: Requested operation is presently disabled\n"),
        ("schedloglevel x", "invalid schedlog level: x\n"),
        ("fsdampeningfactor 0", "invalid dampening factor: 0\n"),
        ("fsdampeningfactor 3", "scontrol: error: fsdampeningfactor is not supported: "),
        ("abort", "scontrol: error: abort is not supported: "),
        ("write config", "scontrol: error: write config is not supported: "),
    ],
)
def test_keywords_that_do_not_apply_here_are_refused_after_their_arguments_were_checked(
    site: CommandSite, line: str, err: str
) -> None:
    assert refused(site, f"scontrol {line}").startswith(err)


@pytest.mark.parametrize(
    ("line", "err"),
    [
        ("abort", "slurm_shutdown error: Invalid user id\n"),
        ("shutdown", "slurm_shutdown error: Invalid user id\n"),
        ("cancel_reboot n1", "slurm_update error: Invalid user id\n"),
        ("reconfigure", "slurm_reconfigure error: Invalid user id\n"),
        ("update nodename=n1 state=drain reason=x", "slurm_update error: Invalid user id\n"),
        ("delete partitionname=gpu", "delete_partition partitionname=gpu: Invalid user id\n"),
    ],
)
def test_only_administrators_may_change_the_site(site: CommandSite, line: str, err: str) -> None:
    assert refused(site, f"scontrol {line}", DAEMON) == err


@pytest.mark.parametrize(
    ("line", "out"),
    [
        ("errnumstr 2", "No such file or directory\n"),
        ("errnumstr 2017", f"{INVALID_JOB}\n"),
        ("errnumstr 0", "No error\n"),
        ("errnumstr 99999", "Unknown error 99999\n"),
        ("show daemons", "slurmctld slurmd\n"),
        ("show hostnames n[1-3]", "n1\nn2\nn3\n"),
        ("show hostlist n1,n2,n3", "n[1-3]\n"),
        ("show aliases n1", "n1\n"),
        ("show frontend", "No nodes in the system\n"),
        ("show federation", ""),
        ("show bbstat", ""),
        ("cluster warpdeck", ""),
        ("all", ""),
        ("hide", ""),
        ("reconfigure", ""),
        ("--version", "slurm 22.05.8\n"),
        ("version", "slurm 22.05.8\n"),
    ],
)
def test_these_print_only_this(site: CommandSite, line: str, out: str) -> None:
    assert site.run(f"scontrol {line}") == Printed(0, out, "")


def test_some_keywords_complain_of_arguments_after_they_were_carried_out(site: CommandSite) -> None:
    assert site.run("scontrol version x") == Printed(
        1, "slurm 22.05.8\n", "too many arguments for version keyword\n"
    )
    printed = site.run("scontrol help x")
    assert (
        printed.out.startswith("scontrol [<OPTION>]")
        and printed.err == "too many arguments for keyword:help\n"
    )


# ---- show


@pytest.mark.parametrize(
    ("line", "err"),
    [
        ("show nosuch", "invalid entity:nosuch for keyword:show \n"),
        ("show job 1 2", "too many arguments for keyword:show\n"),
        ("show job abc", f"scontrol_print_job error: {INVALID_JOB}\n"),
        ("show job 1.0", f"scontrol_print_job error: {INVALID_JOB}\n"),
        ("show job 99", f"slurm_load_jobs error: {INVALID_JOB}\n"),
        ("show step 99", f"slurm_get_job_steps error: {INVALID_JOB}\n"),
        ("show daemons x", "too many arguments for keyword:show\n"),
        ("show assoc_mgr nosuch=1", "invalid entity: nosuch=1 for keyword:show assoc_mgr\n"),
    ],
)
def test_an_object_that_cannot_be_named_so_is_an_error(site: CommandSite, line: str, err: str) -> None:
    assert refused(site, f"scontrol {line}") == err


@pytest.mark.parametrize(
    ("line", "out"),
    [
        ("show job 99_1", "Job 99_1 not found\n"),
        ("show node nosuch", "Node nosuch not found\n"),
        ("show partition nosuch", "Partition nosuch not found\n"),
        ("show partition=", "Partition  not found\n"),
        ("show reservation nosuch", "Reservation nosuch not found\n"),
    ],
)
def test_an_object_that_is_missing_is_told_on_standard_output(site: CommandSite, line: str, out: str) -> None:
    assert site.run(f"scontrol {line}") == Printed(1, out, "")
    assert site.run(f"scontrol -Q {line}") == Printed(1, "", "")


@pytest.mark.parametrize(
    ("entity", "out"),
    [
        ("jobs", "No jobs in the system\n"),
        ("steps", "No job steps in the system\n"),
        ("reservations", "No reservations in the system\n"),
    ],
)
def test_an_empty_system_is_told(site: CommandSite, entity: str, out: str) -> None:
    assert site.run(f"scontrol show {entity}") == Printed(0, out, "")


def test_a_license_takes_one_line_if_that_is_asked_for(site: CommandSite) -> None:
    assert site.run("scontrol show lic").out == (
        "LicenseName=matlab\n    Total=4 Used=0 Free=4 Reserved=0 Remote=no\n"
    )
    assert site.run("scontrol -o show lic").out == (
        "LicenseName=matlab     Total=4 Used=0 Free=4 Reserved=0 Remote=no\n"
    )
    assert site.run("scontrol show lic nosuch").out == ""


def test_several_nodes_are_shown_and_the_missing_ones_named(site: CommandSite) -> None:
    printed = site.run("scontrol show node n[1,9]")
    assert printed.code == 1
    assert "NodeName=n1 " in printed.out and printed.out.endswith("Node n9 not found\n")
    assert [line for line in site.run("scontrol -o show node").lines if line][1].startswith("NodeName=n2 ")


# ---- The prompt


def test_the_prompt_repeats_and_ends_with_quit(site: CommandSite) -> None:
    printed = site.run("scontrol", data="oneliner\nshow lic\n!!\nnosuch\ndetails\nquit\nping\n")
    license_line = "LicenseName=matlab     Total=4 Used=0 Free=4 Reserved=0 Remote=no"
    assert printed == Printed(
        1,
        "scontrol: oneliner\nscontrol: show lic\n"
        f"{license_line}\nscontrol: !!\n{license_line}\n"
        "scontrol: nosuch\nscontrol: details\nscontrol: quit\n",
        "invalid keyword: nosuch\n",
    )


def test_a_quote_that_is_never_closed_is_an_ordinary_character(site: CommandSite) -> None:
    assert site.run("scontrol", data="show 'job\n").err == "invalid entity:'job for keyword:show \n"
