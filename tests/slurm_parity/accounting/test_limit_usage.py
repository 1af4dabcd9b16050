"""Limits and their current usage beside a real Slurm that enforces them: `scontrol show assoc_mgr`, sshare
and sacctmgr.

Association numbers and the usage of time are left out, and so is user root in Slurm's account root.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import ClassVar

import pytest
from tests.slurm_parity.peer.account_site import ACCOUNTS, ROOTS, TABLES
from tests.slurm_parity.peer.pair import H100_SITE, Pair, side_by_side
from tests.slurm_parity.peer.real_slurm import UP_S, CommandResult
from tests.slurm_parity.peer.warpdeck_cluster import SITE
from tests.support.waiting import eventually

pytestmark = pytest.mark.slurm
ACCOUNT_LINES = (
    *ACCOUNTS,
    "modify qos high set grptres=cpu=100 grptresmins=cpu=10000 grpwall=100:00:00 grpjobs=5 grpsubmit=7 "
    "maxjobsperuser=2 maxsubmitjobsperuser=4 maxtresperjob=cpu=20 mintresperjob=cpu=1",
    "modify account ml set grptres=cpu=100,mem=100G grptresmins=cpu=10000 grptresrunmins=cpu=5000 grpjobs=50 grpsubmit=70 "
    "maxjobs=20 maxsubmit=40 maxtres=cpu=20,mem=2G maxtrespernode=cpu=10 maxwall=10:00:00",
    "modify user root where account=ml set maxjobs=7 grptres=cpu=9 maxtres=cpu=30",
)
HIGH_LIMITS = """
grp_tres = "cpu=100"
grp_tres_mins = "cpu=10000"
grp_wall = "100:00:00"
grp_jobs = 5
grp_submit = 7
max_jobs_per_user = 2
max_submit_per_user = 4
max_tres_per_job = "cpu=20"
min_tres_per_job = "cpu=1"
"""
ROOT_LIMITS = """
max_jobs_per_user = 7
grp_tres = "cpu=9"
max_tres_per_job = "cpu=30"
"""
ML_LIMITS = """
[accounts.ml]
grp_tres = "cpu=100,mem=100G"
grp_tres_mins = "cpu=10000"
grp_tres_run_mins = "cpu=5000"
grp_jobs = 50
grp_submit = 70
max_jobs_per_user = 20
max_submit_per_user = 40
max_tres_per_job = "cpu=20,mem=2G"
max_tres_per_node = "cpu=10"
max_wall = "10:00:00"
"""
HIGH, ROOT_IN_ML = "[qos.high]\n", "[accounts.ml.users.root]\n"
LIMITED_TABLES = (
    TABLES.replace(HIGH, HIGH + HIGH_LIMITS).replace(ROOT_IN_ML, ROOT_IN_ML + ROOT_LIMITS) + ML_LIMITS
)
"""The same limits in config.toml."""
ENFORCE_LIMITS = "AccountingStorageEnforce=associations,limits,qos\n"
JOBS = (
    ("-A", "ml", "--qos=high", "-n4", "--mem-per-cpu=100M", "-t", "60", "-w", "n1"),
    ("-A", "ml", "-n2", "-t", "30", "-w", "n2"),
    ("-A", "bio", "-H"),
    ("-A", "ml", "--qos=high", "-a", "1-2", "--begin=now+1hour"),
)
"""The first two jobs run."""
ROOT_ASSOCIATION = re.compile(r"ClusterName=\S+ Account=root UserName=root.*(\n    .*)*\n")


class LimitPair(Pair):
    """Both schedulers with the same limits and jobs."""

    masks: ClassVar[Mapping[str, str]] = {
        r"\b(ID|Lft)=\d+": r"\1=N",
        r"(ParentAccount=\w+|^QOS=\w+)\(\d+\)": r"\1(N)",
        r"(Level/Factor=[\d.]+/[\d.]+/\d+)/\S+": r"\1",
        r"UsageRaw\S*=\S+": "",
        r"GrpWall=(\w+)\(\S+\)": r"GrpWall=\1",
    }

    def comparable_lines(self, result: CommandResult) -> list[str]:
        out = ROOT_ASSOCIATION.sub("", result.out)
        out = re.sub(r"GrpTRES(Run)?Mins=\S+", lambda match: re.sub(r"\([\d.]+\)", "()", match[0]), out)
        lines = super().comparable_lines(result._replace(out=out))
        return [line for line in lines if not ROOTS.match(line)]


@pytest.fixture(scope="module")
def pair() -> Iterator[LimitPair]:
    with side_by_side(
        LimitPair,
        slurm_site=ENFORCE_LIMITS + H100_SITE,
        warpdeck_site=SITE + LIMITED_TABLES,
        accounting=True,
        accounts=ACCOUNT_LINES,
    ) as both:
        for job in JOBS:
            both.slurm.ok("sbatch", *job, "--wrap", "sleep 1000")
            both.warpdeck.submit(*job)
        both.warpdeck.wait_until_running(1, 2)
        argv = ("squeue", "-h", "-t", "R", "-o", "%i", "-S", "i")
        eventually(lambda: both.slurm.run(argv).out == "1\n2\n", timeout_s=UP_S, what="both run")
        yield both


@pytest.mark.parametrize(
    "line",
    [
        "show assoc", "-o show assoc_mgr flags=assoc,users", "show assoc flags=users", "show assoc users=root flags=users",
        "show cache f=Assoc,foo", "show cache f=assoc a=ml", "show assoc_ f=Assoc,foo a=ML", "show assoc users=nobody flags=assoc",
        "show assoc users=nosuch", "show assoc accounts=nosuch",
        "show assoc qos=high", "show assoc qos=nosuch flags=qos",
        "show assoc accounts=bio,sci flags=assoc u=root", "show assoc foo=1",
        "show assoc foo", "show assoc ''", "show assoc qos= flags=qos", "show assoc flags=foo", "-o show assoc qos=high flags=qos",
    ],
)  # fmt: skip
def test_assoc_mgr_shows_limits_and_their_usage(pair: LimitPair, line: str) -> None:
    pair.assert_same("scontrol", *shlex.split(line), in_order=False)


@pytest.mark.parametrize(
    "line",
    [
        "sacctmgr -P show assoc format=account,user,maxjobs,maxtres,grptres,maxsubmit,maxwall,maxtrespernode,grpjobs",
        "sacctmgr -nP show user withassoc format=account,user,maxjobs,maxtres,grptres",
    ],
)
def test_sacctmgr_shows_users_with_the_limits_of_their_account(pair: LimitPair, line: str) -> None:
    pair.assert_same(*shlex.split(line))


def test_sshare_shows_the_remaining_minutes_of_running_jobs(pair: LimitPair) -> None:
    argv = ["sshare", "-l", "-a", "-n", "-P"]
    rows = [
        {
            tuple(line.strip().split("|")[:2]): line.split("|")[-2:]
            for line in cluster.run(argv).out.splitlines()
        }
        for cluster in (pair.slurm, pair.warpdeck)
    ]
    slurm, warpdeck = rows
    assert set(slurm) - set(warpdeck) == {("root", "root")}
    for association, (limit, minutes) in warpdeck.items():
        assert limit == slurm[association][0]
        for our_tres, slurm_tres in zip(minutes.split(","), slurm[association][1].split(","), strict=True):
            name, count = our_tres.split("=")
            slurm_name, slurm_count = slurm_tres.split("=")
            assert name == slurm_name
            assert int(count) <= int(slurm_count) and bool(int(count)) is bool(int(slurm_count))
