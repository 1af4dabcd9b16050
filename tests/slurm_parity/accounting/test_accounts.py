"""sshare, sprio, sdiag, sacctmgr and sattach beside a real Slurm with its database, with the same accounts
and jobs.

The site has two users and a small tree of accounts. Slurm's root is also a user of the top account, without
shares here; our controller has no user there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from tests.slurm_parity.peer.account_site import ACCOUNTS, ROOTS, TABLES
from tests.slurm_parity.peer.pair import Pair, side_by_side
from tests.slurm_parity.peer.real_slurm import UP_S, CommandResult, RealSlurm
from tests.slurm_parity.peer.warpdeck_cluster import SITE, WarpdeckCluster
from tests.support.waiting import eventually

pytestmark = pytest.mark.slurm
WARPDECK_SITE = f"""{SITE}
{TABLES}"""
JOBS = (
    ("-J", "first", "-N4", "--exclusive", "-A", "ml"),
    ("-J", "wide", "-N2", "-n4", "-A", "bio"),
    ("-J", "small", "-A", "ml", "-p", "debug"),
    ("-H", "-J", "held", "-A", "ml"),
)
"""The first job runs on all nodes."""


class SitePair(Pair):
    """Both schedulers with the same accounts and jobs."""

    def assert_same_line(self, line: str, *, data: str = "") -> None:
        """Assert that a line has the same result in both.

        The line may begin with variables and AS=USER. A ~ stands for a blank in a word.
        """
        environ: dict[str, str] = {}
        while match := re.match(r"([A-Z_]+)=(\S*) ", line):
            environ[match[1]] = match[2]
            line = line[match.end() :]
        user = environ.pop("AS", "root")
        argv = [word.replace("~", " ") for word in line.split(" ")]
        self.assert_same(*argv, env=environ, user=user, data=data)

    def comparable_lines(self, result: CommandResult) -> list[str]:
        """Leave out the user of Slurm's account root."""
        return [line for line in super().comparable_lines(result) if not ROOTS.match(line)]


def _wait_for_output(cluster: RealSlurm | WarpdeckCluster, argv: tuple[str, ...], expected: str) -> None:
    eventually(lambda: cluster.run(argv).out == expected, timeout_s=UP_S, what=" ".join(argv))


@pytest.fixture(scope="module")
def pair() -> Iterator[SitePair]:
    with side_by_side(SitePair, warpdeck_site=WARPDECK_SITE, accounting=True, accounts=ACCOUNTS) as both:
        for job in JOBS:
            both.slurm.ok("sbatch", *job, "--wrap", "sleep 1000")
            both.warpdeck.submit(*job)
            if job is JOBS[0]:
                _wait_for_output(both.slurm, ("squeue", "-h", "-o", "%t"), "R\n")
                both.warpdeck.wait_until_running(1)
        for cluster in (both.slurm, both.warpdeck):
            _wait_for_output(cluster, ("sprio", "-h", "-o", "%i"), "2\n3\n")
        yield both


@pytest.mark.parametrize(
    "line",
    [
        "sshare", "sshare -a", "sshare -A ml", "sshare -A ML,bio", "sshare -A nosuch", "sshare -A sci", "sshare -A root",
        "sshare -u nobody", "sshare -u nosuch", "sshare -u 0", "sshare -u root,nobody", "sshare -U", "sshare -U -a",
        "sshare -U -u nobody", "sshare -m", "sshare -n", "sshare -h", "sshare -P", "sshare -p -a", "sshare -v -n",
        "sshare -v -h -A ml,bio -a", "sshare -o Account,User", "sshare -o account%5,user%-5", "sshare -o acc,us,raws",
        "sshare -a -A ml,bio -o LevelFS,NormUsage,EffectvUsage,FairShare",
        "sshare -A ml -a", "sshare -A bio -U", "sshare -a -A bio,sci",
        "sshare -A ml -nPo Cluster,GrpTRESMins", "AS=nobody sshare", "AS=nobody sshare -a", "AS=nobody sshare -u root",
    ],
)  # fmt: skip
def test_sshare_prints_the_output_of_slurm(pair: SitePair, line: str) -> None:
    pair.assert_same_line(line)


@pytest.mark.parametrize(
    "line",
    [
        "sprio", "sprio -l", "sprio -n", "sprio -nl", "sprio -w", "sprio -wl", "sprio -h", "sprio -S -i", "sprio -S y",
        "sprio -S Y,i", "sprio -S -u,i", "sprio -S z", "sprio -S ,", "sprio -u 0", "sprio -u nobody,root",
        "sprio -u nosuch,root", "sprio -j 2", "sprio -j 2,3", "sprio -j 4", "sprio -j 0", "sprio -j", "sprio -p gpu",
        "sprio -p gpu,debug", "sprio -o %i%", "sprio -o %.5i~%Y~%u", "sprio --local", "sprio --federation",
        "sprio -o %15i~%10N~%c~%A~%a~%B~%b~%F~%f~%J~%j~%P~%p~%Q~%q~%T~%t~%S", "sprio --sibling", "sprio -M warpdeck",
        "AS=nobody sprio", "SPRIO_FORMAT=%i~%u sprio", "SPRIO_FEDERATION=1 sprio -h", "SPRIO_LOCAL=1 sprio -h",
    ],
)  # fmt: skip
def test_sprio_prints_the_output_of_slurm(pair: SitePair, line: str) -> None:
    pair.assert_same_line(line)


@pytest.mark.parametrize(
    "line",
    [
        "sdiag -r",
        "AS=nobody sdiag -r",
        "AS=nobody sdiag --reset",
        "sdiag -a -r",
        "sdiag -x",
        "sdiag foo -x",
        "sdiag foo -r",
    ],
)
def test_sdiag_resets_its_statistics_as_in_slurm(pair: SitePair, line: str) -> None:
    pair.assert_same_line(line)


@pytest.mark.parametrize(
    "line",
    [
        "account", "accounts ml", "account nosuch", "account name=ml,bio format=account%5,descr,org", "account ml bio -n",
        "account where description=ml", "account where organization=sci", "account -nP withassoc format=account,user,share,qos",
        "account withdeleted", "account -Pn format=", "user", "user root", "user name=root", "user nosuch",
        "-nP user withassoc", "-P user root withassoc", "-nP user root withassoc format=user,account,defaultaccount,qos,share",
        "-P assoc format=account,user,maxsubmitjobsperuser,maxjobsperuser", "-P account ml withassoc format=account,user,maxsubmitpu",
        "user where adminlevel=admin", "user where defaultaccount=ml", "user format=foo", "user format=user%-30,cluster",
        "user where foo=bar", "user foo=bar", "-nP -s user format=user,account", "-P assoc", "-p assoc", "assoc -n",
        "-nP assoc tree", "assoc tree format=account,user", "assoc tree -P format=account,user", "-nP assoc user=root account=ml",
        "-nP assoc where account=ml", "-nP assoc where parent=sci", "-nP assoc where cluster=warpdeck",
        "-nP assoc where cluster=nosuch", "-nP assoc where qos=high", "-nP assoc where partition=gpu",
        "-nP assoc wopl", "-nP assoc where user=nosuch", "-nP assoc format=account,user,parentname,fairshare,grpcpus,maxcpus",
        "-P qos", "-P qos high", "-n qos format=name%5,prio", "qos where name=high -P", "qos nosuch", "qos where id=1 -nP",
        "qos format=name,id,description -P", "-P qos format=name,priority,maxwall,maxtrespu,maxtresperuser",
        "cluster nosuch", "cluster where name=warpdeck -nP format=cluster,rpc,share,qos", "tres", "-nP tres", "tres type=gres",
        "tres name=gpu", "tres id=1", "tres where type=cpu", "tres nosuch", "wckey", "wckey where user=root",
        "event nodes=n1", "problem", "runawayjobs", "reservation", "reservation names=x", "resource", "resource -P",
        "federation", "federation tree", "coordinator", "nosuch", "", "a", "ac -n", "as -nP", "q -nP", "c", "tre -nP",
        "re", "u -n", "p", "f", "AS=nobody -nP account",
    ],
)  # fmt: skip
def test_sacctmgr_show_prints_the_output_of_slurm(pair: SitePair, line: str) -> None:
    before, _, shown = line.rpartition("AS=nobody ")
    pair.assert_same_line(f"{'AS=nobody ' if before or line != shown else ''}sacctmgr show {shown}".strip())


@pytest.mark.parametrize(
    "line",
    [
        "sho acc", "lis use", "s", "nosuch", "add", "add user", "add account", "add qos", "add foo", "modify",
        "modify user", "modify user root", "modify foo", "delete", "delete user", "delete foo", "-i add account ml",
        "-i add user root account=ml", "-i add qos high", "-i modify user nosuch set fairshare=2",
        "-i modify account nosuch set fairshare=2", "-i modify qos nosuch set priority=4", "-i delete user nosuch",
        "-i delete account nosuch", "-i delete qos nosuch", "-i delete account where name=nosuch", "-Z", "--nosuch",
        "-r show account -n", "update user", "-i update user nosuch set fairshare=2",
        "-i up qos nosuch set priority=4", "-o show account", "-Q show account",
    ],
)  # fmt: skip
def test_invalid_sacctmgr_commands_print_the_messages_of_slurm(pair: SitePair, line: str) -> None:
    pair.assert_same_line(f"sacctmgr {line}")


@pytest.mark.parametrize(
    "lines",
    [
        "show account\nquit\n", "show user\nexit\n", "show user\n", "nosuch\nquit\n", "show account\n!!\nquit\n",
        "show nosuch\nshow user\nq\n", "oneliner\nexit\nshow user\n", "show user format=user\nquit\n", "add foo\nquit\n",
    ],
)  # fmt: skip
def test_the_sacctmgr_prompt_runs_lines_as_commands(pair: SitePair, lines: str) -> None:
    pair.assert_same_line("sacctmgr", data=lines)
    pair.assert_same_line("sacctmgr -n", data=lines)


@pytest.mark.parametrize(
    "argv",
    [
        "", "1", "4.0", "1.7", "--layout 1.7", "abc", "abc.0", "1.x", "1.0 3.0", "--input-filter=x 1.0", "--error-filter=-1 1.0",
        "--output-filter=x 1.0", "1.", ".0", "--usage", "1+0.7", "99.0", "--nosuch 1.0",
    ],
)  # fmt: skip
def test_sattach_refuses_unavailable_steps_with_the_messages_of_slurm(pair: SitePair, argv: str) -> None:
    pair.assert_same_line(f"sattach {argv}".strip())
