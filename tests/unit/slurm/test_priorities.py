"""sprio and sshare: the factors of waiting jobs' priorities, and the shares and use of accounts and users."""

from __future__ import annotations

import time

import pytest
from tests.support.command_site import CommandSite, Printed

from warpdeck.ports.caller import Principal

DAEMON = Principal(user="daemon", uid=1)
CONFIG = """
[scheduler]
default_partition = "gpu"
default_mem_per_cpu = "100M"
[scheduler.weights]
fairshare = 1000
age = 1000
partition = 100
qos = 2000
job_size = 500
[qos.high]
priority = 10
[qos.normal]
[partitions.gpu]
nodes = "n[1-2]"
priority_job_factor = 5
[accounts.ml]
shares = 2
[accounts.ml.users.root]
default = true
shares = 3
[accounts.lab]
[accounts.bio]
parent = "lab"
[accounts.bio.users.daemon]
default = true
"""
NOW = time.mktime((2026, 1, 5, 10, 0, 0, 0, 0, -1))
PRIORITIES = (
    "          JOBID PARTITION   PRIORITY       SITE        AGE  FAIRSHARE    JOBSIZE  PARTITION        QOS"
)
SECOND = (
    "              2 gpu             2871          0          6        500        266        100       2000"
)
THIRD = (
    "              3 gpu             1366          0          6       1000        266        100          0"
)
ELSEWHERE = (
    "{0}: error: No cluster 'other' known by database.\n"
    "{0}: error: 'other' can't be reached now, or it is an invalid entry for --cluster.  "
    "Use 'sacctmgr list clusters' to see available clusters.\n"
)
UNKNOWN = "{0}: unrecognized option '--nosuch'\nTry \"{0} --help\" for more information\n"


def prepare(site: CommandSite) -> None:
    """Let a job of root run for an hour, for which two jobs wait. A fourth one is held."""
    site.start("-n2")
    site.submit("-N2", "--exclusive", "-t", "10", "--qos=high")
    site.submit("-N2", "--exclusive", "--nice=5", user=DAEMON)
    site.submit("-H")
    site.now = NOW + 3600


def lines(site: CommandSite, line: str) -> list[str]:
    printed = site.run(line)
    assert (printed.code, printed.err) == (0, ""), printed
    return printed.lines


# ---- sprio


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("sprio", [PRIORITIES, SECOND, THIRD]),
        ("sprio -h", [SECOND, THIRD]),
        ("sprio -j 2", [PRIORITIES, SECOND]),
        ("sprio -h -j 3,2", [SECOND, THIRD]),
        ("sprio -h -S Y", [THIRD, SECOND]),
        ("sprio -h -S -i", [THIRD, SECOND]),
        ("sprio -p gpu", [PRIORITIES, SECOND, THIRD]),
        ("sprio -p nosuch", [PRIORITIES]),
        ("sprio -j 99", ["Unable to find jobs matching user/id(s) specified"]),
        ("sprio -h -u daemon -o %i|%u|%N", ["3|daemon|5"]),
        ("sprio -o %i|%Y|%u", ["JOBID|PRIORITY|USER", "2|2871|root", "3|1366|daemon"]),
        ("sprio -h -o %i|%y", ["2|0.00000066845678", "3|0.00000031804666"]),
        ("sprio -h -o %.5i,%5r,", ["    2,gpu  ,", "    3,gpu  ,"]),
        (
            "sprio -n",
            [
                "          JOBID PARTITION PRIORITY   AGE        FAIRSHARE  JOBSIZE    PARTITION  QOS       ",
                "              2 gpu       0.00000066 0.0059524  0.5000000  0.5312500  1.0000000  1.0000000 ",
                "              3 gpu       0.00000031 0.0059524  1.0000000  0.5312500  1.0000000  0.0000000 ",
            ],
        ),
        (
            "sprio -w",
            [
                PRIORITIES,
                "        Weights                               1       1000       1000        500        100       2000",
            ],
        ),
        (
            "sprio -l -j 3",
            [
                "          JOBID PARTITION     USER   PRIORITY       SITE        AGE      ASSOC  FAIRSHARE    JOBSIZE  "
                "PARTITION        QOS        NICE                 TRES",
                "              3 gpu         daemon       1366          0          6          0       1000        266  "
                "      100          0           5                     ",
            ],
        ),
    ],
)
def test_sprio_prints_the_factors_of_waiting_jobs(site: CommandSite, given: str, expected: list[str]) -> None:
    assert lines(site, given) == expected


def test_the_environment_holds_sprios_format(site: CommandSite) -> None:
    assert site.run("sprio -h", env={"SPRIO_FORMAT": "%i-%Y"}).lines == ["2-2871", "3-1366"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("-j x", "sprio: error: Invalid job id: x\n"),
        ("-M other", ELSEWHERE.format("sprio")),
        ("--nosuch", UNKNOWN.format("sprio")),
    ],
)
def test_sprios_messages(site: CommandSite, given: str, message: str) -> None:
    assert site.run(f"sprio {given}") == Printed(1, "", message)


def test_sprio_prints_its_header_before_it_reads_the_order(site: CommandSite) -> None:
    assert site.run("sprio -S z") == Printed(
        1, f"{PRIORITIES}\n", "sprio: error: Invalid sort specification: z\n"
    )


# ---- sshare

SHARES = [
    "Account                    User  RawShares  NormShares    RawUsage  EffectvUsage  FairShare ",
    "-------------------- ---------- ---------- ----------- ----------- ------------- ---------- ",
]
ROOT_LINE = "root|||0.000000|7185|1.000000|"
LAB, BIO = " lab||1|0.333333|0|0.000000|", "  bio||1|1.000000|0|0.000000|"
DAEMONS = "   bio|daemon|1|1.000000|0|0.000000|1.000000"
ML, ROOTS = " ml||2|0.666667|7185|1.000000|", "  ml|root|3|1.000000|7185|1.000000|0.500000"


def test_sshare_in_slurms_layout(site: CommandSite) -> None:
    assert lines(site, "sshare") == [
        *SHARES,
        "root                                          0.000000        7185      1.000000            ",
        " lab                                     1    0.333333           0      0.000000            ",
        "  bio                                    1    1.000000           0      0.000000            ",
        " ml                                      2    0.666667        7185      1.000000            ",
        "  ml                       root          3    1.000000        7185      1.000000   0.500000 ",
    ]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("", [ROOT_LINE, LAB, BIO, ML, ROOTS]),
        ("-a", [ROOT_LINE, LAB, BIO, DAEMONS, ML, ROOTS]),
        ("-u daemon", [ROOT_LINE, LAB, BIO, DAEMONS, ML]),
        ("-u nosuch", [ROOT_LINE, LAB, BIO, ML]),
        ("-U", [ROOTS.strip()]),
        ("-A ml", [ML.strip(), ROOTS.removeprefix(" ")]),
        ("-A nosuch", []),
        ("-m -A ml -o account,user,partition,rawshares", ["ml|||2", " ml|root||3"]),
        ("-A bio -a -o account,levelfs,normusage", ["bio|inf|0.000000", " bio|inf|0.000000"]),
        ("-A ml -o account%-1,id,cluster", ["ml|5|warpdeck", " ml|6|warpdeck"]),
    ],
)
def test_sshare_lists_accounts_as_a_tree(site: CommandSite, given: str, expected: list[str]) -> None:
    assert lines(site, f"sshare -n -P{given and ' ' + given}") == expected


def test_users_see_their_own_line(site: CommandSite) -> None:
    assert site.run("sshare -n -P", user=DAEMON).lines == [ROOT_LINE, LAB, BIO, DAEMONS, ML]


def test_the_long_columns_of_sshare(site: CommandSite) -> None:
    names, *rows = lines(site, "sshare -P -l -a")
    assert names == (
        "Account|User|RawShares|NormShares|RawUsage|NormUsage|EffectvUsage|FairShare|LevelFS|GrpTRESMins|TRESRunMins"
    )
    assert rows[-1] == (
        "  ml|root|3|1.000000|7185|1.000000|1.000000|0.500000|1.000000||"
        "cpu=0,mem=0,energy=0,node=0,billing=0,fs/disk=0,vmem=0,pages=0,gres/gpu=0"
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("-o zz", 'sshare: error: Invalid field requested: "zz"\n'),
        ("-o all", 'sshare: error: Invalid field requested: "all"\n'),
        ("-M other", ELSEWHERE.format("sshare")),
        ("--nosuch", UNKNOWN.format("sshare")),
    ],
)
def test_sshares_messages(site: CommandSite, given: str, message: str) -> None:
    assert site.run(f"sshare {given}") == Printed(1, "", message)


# ---- strigger


@pytest.mark.parametrize("given", ["--get", "--get -j 2", "--clear --id=1", "--clear --user=root"])
def test_there_are_no_triggers(site: CommandSite, given: str) -> None:
    assert site.run(f"strigger {given}") == Printed(0, "", "")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            "--get --set",
            "strigger: error: You must use exactly one of the following options: --set, --get or --clear\n",
        ),
        ("--clear", "strigger: error: You must specify a --id, --jobid, or --user to clear\n"),
        (
            "--set -j 2 -f -p /bin/true",
            "strigger: error: --set is not supported: no programs are started on events: "
            "use --mail-type or --dependency for jobs, and [health] in config.toml for nodes\n",
        ),
        ("--nosuch", UNKNOWN.format("strigger")),
    ],
)
def test_striggers_messages(site: CommandSite, given: str, message: str) -> None:
    assert site.run(f"strigger {given}") == Printed(1, "", message)
