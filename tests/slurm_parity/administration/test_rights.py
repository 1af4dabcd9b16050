"""The rights of users, coordinators, operators and administrators beside a real Slurm with its database.

Each line is run by five users on both. The outputs and the exit codes are equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pprint import pformat
from typing import ClassVar

import pytest
from tests.slurm_parity.peer.pair import H100_SITE, TIME, Pair, diff_text, side_by_side

pytestmark = pytest.mark.slurm


class RightsPair(Pair):
    """Both schedulers. Slurm's user root has an account of its own."""

    masks: ClassVar[Mapping[str, str]] = {**TIME, r"^root\|root\|Administrator\|.*\n": ""}


WHO = {
    "stranger": "daemon",
    "coordinator": "mail",
    "operator": "games",
    "administrator": "man",
    "owner": "nobody",
}
"""The Unix users. The coordinator coordinates the account lab; the owner owns the jobs."""
ACCOUNTS = (
    "add account lab", "add account sub parent=lab", "add account other", "add qos high", "add user nobody account=lab",
    "add user nobody account=other", "add user mail account=lab", "add user games account=other adminlevel=operator",
    "add user man account=other adminlevel=administrator", "add user daemon account=other", "add coordinator account=lab names=mail",
)  # fmt: skip
TABLES = """
[qos.high]
[accounts.lab]
coordinators = ["mail"]
[accounts.lab.users.nobody]
default = true
[accounts.lab.users.mail]
[accounts.sub]
parent = "lab"
[accounts.other.users.nobody]
[accounts.other.users.games]
[accounts.other.users.man]
[accounts.other.users.daemon]
[users.games]
admin_level = "operator"
[users.man]
admin_level = "administrator"
"""
JOB_LINES = (
    "scancel JOB", "scontrol hold JOB", "scontrol release JOB", "scontrol update JobId=JOB comment=x",
    "scontrol update JobId=JOB admincomment=x", "scontrol update JobId=JOB nice=-5", "scontrol requeue JOB",
    "scontrol update JobId=JOB account=other", "scontrol suspend JOB",
)  # fmt: skip
"""Lines about a held job of the owner in the account lab."""
SITE_LINES = (
    "scontrol update NodeName=n4 State=drain Reason=by-WHO", "sinfo -h -R -o %E|%u|%U|%N",
    "scontrol update NodeName=n4 State=resume",
    "scontrol update PartitionName=debug MaxTime=40",
    "scontrol create reservation ReservationName=WHO users=root nodes=n3 starttime=now+1hour duration=10 flags=overlap",
    "scontrol delete reservation=WHO", "sdiag --reset",
)  # fmt: skip
ACCOUNT_LINES = (
    "add account a-WHO", "add account b-WHO parent=lab", "modify user nobody where account=lab set maxjobs=5",
    "modify user daemon where account=other set maxjobs=5", "modify account lab set grpjobs=5", "modify account sub set maxjobs=5",
    "add user WHOx account=lab", "delete user WHOx account=lab", "add user WHOy account=other", "delete user WHOy account=other",
    "add qos q-WHO", "modify qos high set priority=5", "modify user daemon set adminlevel=none",
    "add coordinator account=lab names=nobody", "delete coordinator account=lab names=nobody",
    "add coordinator account=other names=daemon", "delete coordinator account=other names=daemon",
    "modify user nobody where account=lab set qos=high", "modify account sub set description=x", "delete account b-WHO",
    "show user withcoord -P", "show account withcoord -P format=account,coord",
    "show user adminlevel=operator -P format=user,adminlevel", "delete account sub",
)  # fmt: skip
OF_ROOT = (
    "add coordinator", "add coordinator account=lab", "add coordinator names=nobody", "add coordinator account=nosuch names=nobody",
    "add coordinator account=lab names=nosuch", "add coordinator zzz=1 account=lab names=nobody", "modify coordinator x set y=1",
    "add coordinator account=lab,other names=nobody,daemon", "add coord nobody account=sub", "show user withcoord -P",
    "delete coordinator", "delete coordinator names=daemon", "delete coordinator account=other", "delete coordinator account=nosuch",
    "delete coordinator account=lab names=nobody", "delete coordinator account=lab names=nobody",
    "add user sync account=lab adminlevel=operator", "add user lp account=lab adminlevel=bogus", "modify user sync set adminlevel=ad",
    "modify user sync set adminlevel=o maxjobs=3", "modify user nosuch set adminlevel=none", "show user sync -P",
    "add coordinator account=other names=sync", "delete user sync", "delete user lp", "show user withcoord -P",
)  # fmt: skip


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with side_by_side(
        RightsPair, slurm_site=H100_SITE, warpdeck_site=SITE + TABLES, accounting=True, accounts=ACCOUNTS
    ) as found:
        for name in ("stranger", "coordinator", "operator", "administrator", "owner"):
            assert found.slurm.run(["true"], user=WHO[name]).rc == 0
        yield found


SITE = """
[partitions.gpu]
nodes = "n[1-4]"
[partitions.debug]
nodes = "n[1-2]"
max_time = "30"
[scheduler]
default_partition = "gpu"
"""


def differences(pair: Pair, line: str, *, jobs: bool = False) -> list[object]:
    """Return the users for whom the line has different results, with both results."""
    found: list[object] = []
    for name, user in WHO.items():
        made = [_job(side) for side in pair.both] if jobs else ["", ""]
        results = []
        for side, job in zip(pair.both, made, strict=True):
            argv = line.replace("WHO", name).replace("JOB", job).split()
            result = side.run(argv, user=user)
            results.append(
                [each.replace(job, "JOB") if job else each for each in pair.comparable_lines(result)]
            )
            if jobs:
                side.run(["scancel", job])
        if results[0] != results[1] and not all(map(_is_refused, results)):
            found.append((name, line, diff_text(*results)))
    return found


def _is_refused(lines: list[str]) -> bool:
    """Return whether the user had no right. Slurm describes some changes before it refuses them, and we do not."""
    return any(
        "ermission denied" in line or "have privilege" in line or "Invalid user id" in line for line in lines
    )


def _job(side: object) -> str:
    argv = ["sbatch", "--parsable", "-H", "-o", "/dev/null", "-A", "lab", "--wrap", "sleep 1000"]
    result = side.run(argv, user="nobody")  # type: ignore[attr-defined]
    assert result.rc == 0, result
    return str(result.out).strip()


def test_each_user_may_change_the_same_jobs(pair: Pair) -> None:
    found = [each for line in JOB_LINES for each in differences(pair, line, jobs=True)]
    assert not found, pformat(found, width=160)


def test_each_user_may_change_the_same_parts_of_the_site(pair: Pair) -> None:
    found = [each for line in SITE_LINES for each in differences(pair, line)]
    assert not found, pformat(found, width=160)


def test_each_user_may_change_the_same_accounts(pair: Pair) -> None:
    lines = [f"sacctmgr -i {line}" for line in ACCOUNT_LINES]
    found = [each for line in lines for each in differences(pair, line)]
    assert not found, pformat(found, width=160)


def test_lines_about_coordinators_and_admin_levels_have_the_same_messages(pair: Pair) -> None:
    found = []
    for line in OF_ROOT:
        results = [pair.comparable_lines(side.run(["sacctmgr", "-i", *line.split()])) for side in pair.both]
        if results[0] != results[1]:
            found.append((line, diff_text(*results)))
    assert not found, pformat(found, width=160)


TRANSACTIONS = (
    "add account txna", "add qos txnq", "add user txnu account=txna", "add coordinator account=txna names=txnu",
    "modify qos txnq set priority=7", "modify account txna set description=words", "modify user txnu set adminlevel=operator",
    "delete coordinator account=txna names=txnu", "delete qos txnq",
)  # fmt: skip
COMPARED = (
    "Add Accounts", "Add QOS", "Modify QOS", "Add Account Coord", "Remove Account Coords", "Modify Users", "Modify Accounts",
)  # fmt: skip
"""The actions with the same form in both. Slurm names associations by their numbers."""


def test_transactions_have_the_columns_and_the_words_of_slurm(pair: Pair) -> None:
    for line in TRANSACTIONS:
        for side in pair.both:
            result = side.run(["sacctmgr", "-i", *line.split()])
            assert result.rc == 0, (line, result)
    tables = []
    for side in pair.both:
        text = side.run(["sacctmgr", "-P", "show", "transaction", "format=time,action,actor,where"]).out
        head, *rows = pair.mask(text).splitlines()
        chosen = [row for row in rows if "txn" in row and row.split("|")[1] in COMPARED]
        tables.append([head, *sorted(set(chosen))])
    assert tables[1] == tables[0] and len(tables[0]) > 6
    filters = ("action=Add QOS", "format=where")
    for side in pair.both:
        result = side.run(["sacctmgr", "-nP", "show", "txn", *filters])
        assert "txnq" in result.out.splitlines() and "txna" not in result.out
