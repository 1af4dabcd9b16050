"""sshare, sprio, sdiag and sacctmgr beside a real Slurm with its database: the same accounts, the same jobs, the same text.

Two accounts in a tree, two users. Slurm's root is a user of the account above all too, without shares here; we know none there.
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
"""The first one runs on all nodes."""


class SitePair(Pair):
    """Both, with the same accounts and jobs."""

    def same_line(self, line: str, *, data: str = "") -> None:
        """Of a command line: variables and AS=USER stand in front, ~ for a blank."""
        environ: dict[str, str] = {}
        while match := re.match(r"([A-Z_]+)=(\S*) ", line):
            environ[match[1]] = match[2]
            line = line[match.end() :]
        user = environ.pop("AS", "root")
        argv = [word.replace("~", " ") for word in line.split(" ")]
        self.assert_same(*argv, env=environ, user=user, data=data)

    def comparable_lines(self, done: CommandResult) -> list[str]:
        """Without the user of Slurm's account root."""
        return [line for line in super().comparable_lines(done) if not ROOTS.match(line)]


def _comes(cluster: RealSlurm | WarpdeckCluster, argv: tuple[str, ...], wanted: str) -> None:
    eventually(lambda: cluster.run(argv).out == wanted, timeout_s=UP_S, what=" ".join(argv))


@pytest.fixture(scope="module")
def pair() -> Iterator[SitePair]:
    with side_by_side(SitePair, warpdeck_site=WARPDECK_SITE, accounting=True, accounts=ACCOUNTS) as both:
        for job in JOBS:
            both.slurm.ok("sbatch", *job, "--wrap", "sleep 1000")
            both.warpdeck.submit(*job)
            if job is JOBS[0]:
                _comes(both.slurm, ("squeue", "-h", "-o", "%t"), "R\n")
                both.warpdeck.wait_until_running(1)
        for cluster in (both.slurm, both.warpdeck):
            _comes(cluster, ("sprio", "-h", "-o", "%i"), "2\n3\n")
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
def test_shares_are_told_as_slurm_tells_them(pair: SitePair, line: str) -> None:
    pair.same_line(line)


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
def test_priorities_are_told_as_slurm_tells_them(pair: SitePair, line: str) -> None:
    pair.same_line(line)


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
def test_figures_are_reset_as_slurm_resets_them(pair: SitePair, line: str) -> None:
    pair.same_line(line)


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
def test_accounts_are_shown_as_slurm_shows_them(pair: SitePair, line: str) -> None:
    before, _, rest = line.rpartition("AS=nobody ")
    pair.same_line(f"{'AS=nobody ' if before or line != rest else ''}sacctmgr show {rest}".strip())


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
def test_what_cannot_be_done_is_told_as_slurm_tells_it(pair: SitePair, line: str) -> None:
    pair.same_line(f"sacctmgr {line}")


@pytest.mark.parametrize(
    "lines",
    [
        "show account\nquit\n", "show user\nexit\n", "show user\n", "nosuch\nquit\n", "show account\n!!\nquit\n",
        "show nosuch\nshow user\nq\n", "oneliner\nexit\nshow user\n", "show user format=user\nquit\n", "add foo\nquit\n",
    ],
)  # fmt: skip
def test_lines_at_the_prompt_are_commands(pair: SitePair, lines: str) -> None:
    pair.same_line("sacctmgr", data=lines)
    pair.same_line("sacctmgr -n", data=lines)


@pytest.mark.parametrize(
    "argv",
    [
        "", "1", "4.0", "1.7", "--layout 1.7", "abc", "abc.0", "1.x", "1.0 3.0", "--input-filter=x 1.0", "--error-filter=-1 1.0",
        "--output-filter=x 1.0", "1.", ".0", "--usage", "1+0.7", "99.0", "--nosuch 1.0",
    ],
)  # fmt: skip
def test_steps_that_nobody_can_attach_to_are_told_as_slurm_tells_them(pair: SitePair, argv: str) -> None:
    pair.same_line(f"sattach {argv}".strip())
