"""sreport: the reports on a morning's jobs, their conditions and units, and the prompt.

The sums themselves are tested in test_reports.
"""

from __future__ import annotations

import time

import pytest
from tests.support.command_site import CommandSite, Printed

from warpdeck.ports.caller import Principal

DAEMON = Principal(user="daemon", uid=1)
CONFIG = """
[accounts.ml.users.root]
default = true
[accounts.lab]
[accounts.bio]
parent = "lab"
[accounts.bio.users.daemon]
default = true
"""
NOW = time.mktime((2026, 1, 5, 10, 0, 0, 0, 0, -1))
DAY = "start=2026-01-05 end=2026-01-06"
RULE = "-" * 80
WINDOW = "2026-01-05T00:00:00 - 2026-01-05T23:59:59"
UTILIZATION = [
    RULE,
    f"Cluster Utilization {WINDOW}",
    "Usage reported in CPU Minutes",
    RULE,
    "  Cluster Allocate     Down PLND Dow     Idle  Planned Reported ",
    "--------- -------- -------- -------- -------- -------- -------- ",
    " warpdeck       90        0        0    45990        0    46080 ",
]


def prepare(site: CommandSite) -> None:
    """Give root 2 CPUs and 2 GPUs for 40 minutes, and then daemon 1 CPU for 10 minutes."""
    site.start("-n2", "--gres=gpu:2")
    site.now = NOW + 40 * 60
    site.end(1)
    site.start("-n1", user=DAEMON)
    site.now = NOW + 50 * 60
    site.end(2)


def rows(site: CommandSite, report: str, options: str = "") -> list[str]:
    """Return the lines of a report without its heading."""
    printed = site.run(f"sreport -n -P{options and ' ' + options} {report}")
    assert (printed.code, printed.err) == (0, ""), printed
    return printed.lines


def test_a_report_in_slurms_layout(site: CommandSite) -> None:
    assert site.run(f"sreport cluster utilization {DAY}").lines == UTILIZATION


@pytest.mark.parametrize(
    ("report", "heading"),
    [
        ("cluster AccountUtilizationByUser", f"Cluster/Account/User Utilization {WINDOW} (86400 secs)"),
        ("cluster UserUtilizationByAccount", f"Cluster/User/Account Utilization {WINDOW} (86400 secs)"),
        ("cluster UserUtilizationByWckey", f"Cluster/User/WCKey Utilization {WINDOW} (86400 secs)"),
        ("cluster WckeyUtilizationByUser", f"Cluster/WCKey/User Utilization {WINDOW} (86400 secs)"),
        ("user TopUsage", f"Top 10 Users {WINDOW} (86400 secs)"),
        ("user Top topcount=3", f"Top 3 Users {WINDOW} (86400 secs)"),
        ("job SizesByAccount", f"Job Sizes {WINDOW} (86400 secs)"),
        ("job SizesByWckey", f"Job Sizes by Wckey {WINDOW} (86400 secs)"),
        ("job SizesByAccountAndWckey", f"Job Sizes {WINDOW} (86400 secs)"),
        ("reservation Utilization", f"Reservation Utilization {WINDOW}"),
    ],
)
def test_the_heading_of_each_report(site: CommandSite, report: str, heading: str) -> None:
    assert site.run(f"sreport {report} {DAY}").lines[1] == heading


@pytest.mark.parametrize(
    ("report", "lines"),
    [
        ("cluster util", ["warpdeck|90|0|0|45990|0|46080"]),
        ("cluster util format=cluster,allocated,idle", ["warpdeck|90|45990"]),
        ("cluster util clusters=other", []),
        (
            "cluster accountutilizationbyuser",
            [
                "warpdeck|root|||90|0",
                "warpdeck|lab|||10|0",
                "warpdeck|bio|||10|0",
                "warpdeck|bio|daemon|daemon|10|0",
                "warpdeck|ml|||80|0",
                "warpdeck|ml|root|root|80|0",
            ],
        ),
        ("cluster accountutilizationbyuser users=root accounts=ml", ["warpdeck|ml|root|root|80|0"]),
        ("cluster userutilizationbyaccount", ["warpdeck|root|root|ml|80|0", "warpdeck|daemon|daemon|bio|10|0"]),
        ("cluster userutilizationbywckey", []),
        ("user top", ["warpdeck|root|root|ml|80|0", "warpdeck|daemon|daemon|bio|10|0"]),
        ("user top topcount=1", ["warpdeck|root|root|ml|80|0"]),
        ("user top accounts=bio", ["warpdeck|daemon|daemon|bio|10|0"]),
        ("user top users=nosuch", []),
        ("user top format=login%4,used", ["root|80", "daemon|10"]),
        ("job sizesbyaccount", ["warpdeck|root|90|0|0|0|0|100.00%"]),
        ("job sizesbyaccount grouping=2", ["warpdeck|root|10|80|100.00%"]),
        ("job sizesbyaccount grouping=2 printjobcount", ["warpdeck|root|1|1|100.00%"]),
        ("job sizesbyaccount grouping=2 flatview", ["warpdeck|bio|10|0|11.11%", "warpdeck|ml|0|80|88.89%"]),
        ("job sizesbyaccount grouping=2 acctasparent", ["warpdeck|lab|10|0|11.11%", "warpdeck|ml|0|80|88.89%"]),
        ("job sizesbyaccount grouping=2 accounts=lab", ["warpdeck|lab|10|0|100.00%"]),
        ("job sizesbyaccount grouping=2 users=root", ["warpdeck|root|0|80|100.00%"]),
        ("job sizesbyaccount grouping=2 gid=1", ["warpdeck|root|10|0|100.00%"]),
        ("job sizesbywckey", []),
        ("reservation utilization", []),
    ],
)  # fmt: skip
def test_the_lines_of_each_report(site: CommandSite, report: str, lines: list[str]) -> None:
    assert rows(site, f"{report} {DAY}") == lines


def test_accounts_below_each_other_as_a_tree(site: CommandSite) -> None:
    lines = site.run(
        f"sreport -n cluster accountutilizationbyuser {DAY} tree format=accounts,login,used"
    ).lines
    assert lines == [
        "root                                 90 ",
        " lab                                 10 ",
        "  bio                                10 ",
        "   bio                  daemon       10 ",
        " ml                                  80 ",
        "  ml                      root       80 ",
    ]


@pytest.mark.parametrize(
    ("options", "unit", "line"),
    [
        ("-t seconds", "CPU Seconds", "warpdeck|5400|2759400"),
        ("-t hours", "CPU Hours", "warpdeck|2|766"),
        ("-t percent", "Percentage of Total", "warpdeck|0.20%|99.80%"),
        ("-t minper", "CPU Minutes/Percentage of Total", "warpdeck|90(0.20%)|45990(99.80%)"),
        ("-t hourper", "CPU Hours/Percentage of Total", "warpdeck|2(0.20%)|766(99.80%)"),
        ("-t secper", "CPU Seconds/Percentage of Total", "warpdeck|5400(0.20%)|2759400(99.80%)"),
    ],
)
def test_units_of_time(site: CommandSite, options: str, unit: str, line: str) -> None:
    report = f"sreport {options} -P cluster util {DAY} format=cluster,allocated,idle"
    lines = site.run(report).lines
    assert (lines[2], lines[-1]) == (f"Usage reported in {unit}", line)


def test_each_tres_has_a_line(site: CommandSite) -> None:
    assert rows(site, f"cluster util {DAY} format=tresname,allocated,reported", "-T cpu,gres/gpu") == [
        "cpu|90|46080",
        "gres/gpu|80|11520",
    ]
    assert rows(site, f"user top {DAY} format=login,tresname,used", "-T gres/gpu") == [
        "root|gres/gpu|80",
        "daemon|gres/gpu|0",
    ]


@pytest.mark.parametrize(
    ("window", "used"),
    [
        ("start=2026-01-05T10:00:00 end=2026-01-05T11:00:00", "90"),
        ("start=2026-01-05T09:00:00 end=2026-01-05T10:00:00", "0"),
        ("start=2026-01-05T11:00:00 end=2026-01-05T12:00:00", "0"),
        ("start=2026-01-04 end=2026-01-07", "90"),
        ("Start=2026-01-05 End=2026-01-06", "90"),
    ],
)
def test_only_the_use_in_the_window_is_reported(site: CommandSite, window: str, used: str) -> None:
    assert rows(site, f"cluster util {window} format=allocated") == [used]


@pytest.mark.parametrize(
    ("report", "message"),
    [
        ("cluster", "too few arguments for keyword:cluster\n"),
        ("nosuch", "invalid keyword: nosuch\n"),
        (
            "cluster nosuch",
            "Not valid report nosuch\nValid cluster reports are, "
            '"AccountUtilizationByUser", "UserUtilizationByAccount", "UserUtilizationByWckey", "Utilization", '
            'and "WCKeyUtilizationByUser"\n',
        ),
        ("user nosuch", 'Not valid report nosuch\nValid user reports are, "Top"\n'),
        ("-T nosuch cluster util", "sreport: fatal: No valid TRES given\n"),
        ("job sizes grouping=x", "sreport: error: Invalid grouping value: x\n"),
        (
            "--nosuch",
            "sreport: unrecognized option '--nosuch'\nTry \"sreport --help\" for more information\n",
        ),
    ],
)
def test_wrong_arguments_get_slurms_message(site: CommandSite, report: str, message: str) -> None:
    assert site.run(f"sreport {report}") == Printed(1, "", message)


def test_an_unknown_field_is_refused_after_the_heading(site: CommandSite) -> None:
    printed = site.run(f"sreport cluster util {DAY} format=zz")
    assert (printed.code, printed.lines, printed.err) == (1, UTILIZATION[:4], " Unknown field 'zz'\n")


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        (
            f"sreport cluster util {DAY} foo=1",
            1,
            " Unknown condition: foo=1\nUse keyword set to modify value\n",
        ),
        (f"sreport -t zz cluster util {DAY}", 0, "unknown time format zz\n"),
    ],
)
def test_other_mistakes_do_not_prevent_the_report(
    site: CommandSite, line: str, code: int, message: str
) -> None:
    printed = site.run(line)
    assert (printed.code, printed.err, printed.lines) == (code, message, UTILIZATION)


def test_the_prompt_goes_on_after_a_mistake(site: CommandSite) -> None:
    printed = site.run("sreport", data=f"cluster util {DAY}\n!!\nnosuch\nexit\ncluster util {DAY}\n")
    assert printed.lines == [
        f"sreport: cluster util {DAY}",
        *UTILIZATION,
        "sreport: !!",
        *UTILIZATION,
        "sreport: nosuch",
        "sreport: exit",
    ]
    assert (printed.code, printed.err) == (1, "invalid keyword: nosuch\n")


def test_the_prompt_keeps_the_style_and_the_unit(site: CommandSite) -> None:
    report = f"cluster util {DAY} format=allocated"
    printed = site.run(
        "sreport -n", data=f"parsable2\ntime hours\n{report}\nnonparsable\ntime percent\n{report}\nquit\n"
    )
    results = [line for line in printed.lines if not line.startswith("sreport:")]
    assert (results, printed.err) == (["2", "   0.20% "], "")


def test_wrong_arguments_of_the_prompts_commands(site: CommandSite) -> None:
    printed = site.run("sreport", data="tres cpu\ntime\ntime zz\nparsable x\nexit x\nnosuch\n")
    assert printed.err.splitlines() == [
        "invalid keyword: tres",
        "too few arguments for keyword:time",
        "unknown time format zz",
        "too many arguments for keyword:parsable",
        "too many arguments for keyword:exit",
    ]
    assert (printed.code, printed.lines[-1]) == (1, "sreport: exit x")
    assert site.run("sreport parsable x") == Printed(1, "", "too many arguments for keyword:parsable\n")
    assert site.run("sreport verbose") == Printed(0, "", "")
