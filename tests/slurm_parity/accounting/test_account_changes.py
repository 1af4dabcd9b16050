"""`sacctmgr add|modify|delete` beside a real Slurm with its database.

The same lines have the same output and leave the same accounts. The refusals of unsupported settings are our
own.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pprint import pformat

import pytest
from tests.slurm_parity.peer.pair import Pair, diff_text, side_by_side
from tests.slurm_parity.peer.random_account_lines import changing_line
from tests.slurm_parity.peer.real_slurm import CommandResult

from warpdeck.config import load

pytestmark = pytest.mark.slurm
ADD_LINES = (
    "add account ml", "add account ml",
    "add account ml,vision description=eyes organization=lab parent=ml fairshare=5 "
    "grptres=cpu=10 grpjobs=3", "add account x1 parent=nosuch", "add account x1 foo=bar", "add account x1 fairshare=x",
    "add account x1 grpjobs=x", "add account x1 grptres=foo=1", "add account x1 grptres=x", "add account x1 maxwall=x",
    "add account", "add account name=bio", "create acct chem maxwall=1:00:00 grpwall=60 maxtresperjob=gres/gpu=2 maxsubmit=5 "
    "grpsubmit=7 qos=normal", "add account a7 a8", "add account UPPER", "add account a.b-c_d@e", "add account a9 qos=nosuch",
    "add account below parent=ml qos=normal defaultqos=normal", "add account old grpcpus=4 maxnodes=2",
    "show account format=account,descr,org -P", "add user ann account=ml", "add user ann account=ml", "add user ann",
    "add user bob account=nosuch", "add user bob account=ml,vision fairshare=3 maxjobs=2", "add user cat",
    "add user dan,eve account=vision defaultaccount=vision", "add user nosuchunixuser account=ml", "add user name=gus account=ml",
    "add qos high priority=200", "add qos high",
    "add qos q2 priority=100 preempt=high gracetime=60 maxwall=1-0 maxtresperuser=gres/gpu=4 "
    "maxjobsperuser=3 grptres=cpu=8 usagefactor=0.5 flags=denyonlimit,overpartqos preemptmode=requeue", "add qos q3 preempt=nosuch",
    "add qos q3 preemptmode=foo", "add qos q3 foo=1", "add qos q3 maxwall=x", "add qos", "add foo",
)  # fmt: skip
MODIFY_LINES = (
    "modify user ann set fairshare=7", "modify user where name=ann account=ml set maxjobs=4 maxwall=30", "modify user ann",
    "modify user nosuch set fairshare=1", "modify user ann set foo=1", "modify user ann set fairshare=x",
    "modify user bob set defaultaccount=vision", "modify user bob set defaultaccount=bio", "modify user ann set maxjobs=-1",
    "modify account vision set parent=root fairshare=9", "modify account vision set grptres=gres/gpu=8,cpu=4",
    "modify account vision set grptres=cpu=-1", "modify account bio set description=newd organization=newo",
    "modify account nosuch set fairshare=1", "modify account bio set qos=high,q2 defaultqos=high",
    "modify account bio set qos-=q2", "modify account bio set qos+=q2,normal", "modify account bio set qos=nosuch",
    "modify account bio set parent=bio", "modify account where parent=ml set fairshare=4", "modify account bio fairshare=3",
    "modify account bio where fairshare=3 set fairshare=4", "modify qos high set priority=50",
    "modify qos q2 set priority=7 maxwall=-1 grptres=cpu=-1", "modify qos q2 set preempt=normal,high",
    "modify qos q2 set preempt-=high",
    "modify qos q2 set flags-=denyonlimit", "modify qos nosuch set priority=1",
    "modify qos where name=high set priority=51 gracetime=5",
    "modify user bob where account=vision set qos=q2,normal", "modify user bob where account=vision set qos+=high",
    "modify user bob where account=vision set qos-=q2", "modify user bob set qos=nosuch",
    "modify user ann set defaultqos=normal",
    "modify user ann set defaultqos=nosuch", "modify user ann set defaultqos=-1",
    "add user fay account=vision qos=high defaultqos=high",
    "show assoc -nP user=fay,bob account=vision format=account,user,qos,defaultqos",
    "modify qos q2 set", "modify qos q2 set foo=1", "modify qos q2 set preempt+=nosuch",
)  # fmt: skip
SHOW_LINES = (
    "show assoc format=account,user,share,maxjobs,maxwall,grptres,maxtres,grpwall,grpsubmit -P",
    "show user format=user,defaultaccount -P",
    "show qos format=name,priority,preempt,preemptmode,gracetime,maxwall,grptres,maxtrespu,maxjobspu,usagefactor -P",
)
DELETE_LINES = (
    "add account gone", "add user gil account=gone qos=high,q2 defaultqos=q2", "delete qos q2",
    "show assoc -nP user=gil format=account,user,qos,defaultqos", "modify user gil set defaultqos=-1 qos-=q2", "delete qos q2",
    "show assoc -nP user=gil format=account,user,qos,defaultqos", "delete user gil", "delete account gone",
    "delete user ann where account=ml", "delete user nosuch", "delete user dan", "delete user", "delete qos nosuch",
    "delete account a7,a8", "delete account nosuch", "delete account name=below", "remove user where name=eve", "delete account root",
    "delete account bio where cluster=nosuch", "delete user bob cluster=nosuch", "modify user bob where cluster=nosuch set maxjobs=1",
    "add user hal account=vision cluster=nosuch", "add account hal cluster=nosuch", "modify user bob set account=bio",
    "add user hal a=ml", "delete account foo=bar", "delete foo",
)  # fmt: skip
CONFIRMED_LINES = (
    ("add account asked", "n\n"), ("add account asked", "y\n"), ("modify account asked set fairshare=3", "N\n"),
    ("modify account asked set fairshare=3", "Y\n"), ("delete account asked", "n\n"), ("delete account asked", "y\n"),
)  # fmt: skip
CHANGES_PER_SEED = 20
CLEANUP_LINES = (
    "delete user ann,bob,cat",
    "delete account aa",
    "delete account bb",
    "delete account cc",
    "delete qos high,q2,q3",
)
"""Lines that remove the accounts, users and QoS of an earlier series of changes."""
RESULT_LINES = (
    "show assoc account=aa,bb,cc,first format=account,user,share,grpjobs,grpsubmit,grptres,grpwall,maxjobs,maxtres,maxsubmit,maxwall",
    "show qos format=name,priority,preempt,preemptmode,gracetime,maxwall,grptres,maxtrespu,maxjobspu,flags",
    "show user name=ann,bob,cat format=user,defaultaccount",
)
"""Lines whose output is compared after a series of changes."""
ROOTS = re.compile(r"root\|root\|.*\n|root\|\|.*\n|root\|.*\n")
"""The rows of Slurm's user root in the account root."""


class SitePair(Pair):
    """Both schedulers. The tests share them, so each line sees the effect of the lines before it."""

    def compare_line(self, line: str, *, data: str = "", options: tuple[str, ...] = ("-i",)) -> list[object]:
        """Return the line and both results if they differ, and an empty list otherwise."""
        argv = ["sacctmgr", *options, *line.split()]
        slurm, warpdeck = (
            _comparable(cluster.run(argv, data=data)) for cluster in (self.slurm, self.warpdeck)
        )
        return [line, slurm, warpdeck] if warpdeck != slurm else []


def _comparable(result: CommandResult) -> tuple[int, str, str]:
    return result.rc, ROOTS.sub("", result.out), result.err


@pytest.fixture(scope="module")
def pair() -> Iterator[SitePair]:
    with side_by_side(SitePair, accounting=True, accounts=("add account first",)) as both:
        both.warpdeck.run(["sacctmgr", "-i", "add", "account", "first"])
        yield both


def test_accounts_users_and_qos_are_added_modified_and_deleted_as_in_slurm(pair: SitePair) -> None:
    comparisons = [
        pair.compare_line(line)
        for line in (*ADD_LINES, *SHOW_LINES, *MODIFY_LINES, *SHOW_LINES, *DELETE_LINES, *SHOW_LINES)
    ]
    comparisons += [pair.compare_line(line, data=answer, options=()) for line, answer in CONFIRMED_LINES]
    differences = [difference for difference in comparisons if difference]
    assert not differences, pformat(differences, width=130)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("add user kim account=first partition=gpu", "applies to all partitions"),
        ("modify cluster warpdeck set fairshare=1", "there is one cluster"),
        ("add account kim fairshare=parent", "use a number of shares"),
        ("add qos kim flags=nodecay", "'DenyOnLimit,OverPartQOS'"),
        ("add qos kim priority=x", "Invalid value for Priority (x)"),
    ],
)
def test_an_unsupported_setting_is_refused_with_a_reason(pair: SitePair, line: str, reason: str) -> None:
    result = pair.warpdeck.run(["sacctmgr", "-i", *line.split()])
    assert result.rc == 1 and reason in result.out + result.err
    assert "kim" not in pair.warpdeck.run(["sacctmgr", "-n", "show", "assoc"]).out


@pytest.mark.parametrize(
    "line", ["add account no", "add user no account=first", "add qos no", "modify account first set fairshare=3",
             "delete account first"]
)  # fmt: skip
def test_a_user_who_is_no_admin_changes_nothing(pair: SitePair, line: str) -> None:
    argv = ["sacctmgr", "-i", *line.split()]
    slurm, warpdeck = (cluster.run(argv, user="nobody") for cluster in (pair.slurm, pair.warpdeck))
    assert (warpdeck.rc, warpdeck.err) == (slurm.rc, slurm.err)


@pytest.mark.parametrize("seed", range(1))
def test_random_changes_leave_the_same_accounts_as_in_slurm(pair: SitePair, seed: int) -> None:
    rng = random.Random(f"changes {seed}")
    differences = []
    for line in CLEANUP_LINES:
        for cluster in (pair.slurm, pair.warpdeck):
            cluster.run(["sacctmgr", "-i", *line.split()])
    for argv in [changing_line(rng) for _ in range(CHANGES_PER_SEED)]:
        slurm, warpdeck = (cluster.run(argv) for cluster in (pair.slurm, pair.warpdeck))
        if warpdeck.rc != slurm.rc:
            differences.append([" ".join(argv), slurm, warpdeck])
    for line in RESULT_LINES:
        expected, found = (
            sorted(ROOTS.sub("", cluster.run(["sacctmgr", "-nP", *line.split()]).out).splitlines())
            for cluster in (pair.slurm, pair.warpdeck)
        )
        if found != expected:
            differences.append([line, diff_text(expected, found)])
    assert not differences, pformat(differences, width=130)


def test_an_account_with_jobs_cannot_be_deleted(pair: SitePair) -> None:
    warpdeck = pair.warpdeck
    for line in ("add account busy", "add user root account=busy"):
        assert warpdeck.run(["sacctmgr", "-i", *line.split()]).rc == 0
    job = warpdeck.submit("-H", "-A", "busy")
    for line in ("delete account busy", "delete user root account=busy"):
        result = warpdeck.run(["sacctmgr", "-i", *line.split()])
        assert result.rc == 1 and f"JobID = {job} " in result.err
    warpdeck.run(["scancel", str(job)])
    path = warpdeck.served.paths.config if warpdeck.served else ""
    assert "busy" in load(path).config.accounts
    assert warpdeck.run(["sacctmgr", "-i", "delete", "account", "busy"]).rc == 0
    assert "busy" not in load(path).config.accounts
