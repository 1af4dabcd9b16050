"""PrivateData beside a real Slurm with its database: the same lines, run by users with different rights.

Not compared: sshare and `show assoc` with private users or accounts. Slurm shows all of them there; we leave out the lines of
others. `show reservation` of sacctmgr is refused by Slurm's database, which has no part in ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pprint import pformat

import pytest
from tests.slurm_parity.administration.test_rights import ACCOUNTS, SITE, TABLES, WHO, RightsPair
from tests.slurm_parity.peer.pair import H100_SITE, diff_text, side_by_side

pytestmark = pytest.mark.slurm

RESERVATIONS = (
    "scontrol create reservation reservationname=forlab accounts=lab nodes=n3 starttime=now+1hour duration=10",
    "scontrol create reservation reservationname=forroot users=root nodes=n3 starttime=now+2hours duration=10",
)
OF_JOBS = (
    "squeue -h -o %i,%u", "squeue -h -u nobody -o %i", "squeue -h -j 1 -o %i", "scontrol -o show job 1", "scontrol show job 99",
    "scontrol show step", "sshare -a -h -P -o account,user,rawusage", "sshare -h -P -o account,user,rawusage",
    "sshare -A lab -h -P -o account,user", "sacctmgr -n -P show event format=nodename,state,user",
)  # fmt: skip
OF_NODES = (
    "sinfo -h -o %P,%N", "sinfo -h -N -o %N", "scontrol -o show node n1", "sinfo -R",
    "sacctmgr -n -P show user", "sacctmgr -n -P show user nobody", "scontrol show assoc_mgr flags=users",
)  # fmt: skip
OF_ACCOUNTS = (
    "sinfo -h -s -o %P", "scontrol -o show partition debug", "sacctmgr -n -P show account", "sacctmgr -n -P show account lab",
    "scontrol -o show reservation", "scontrol -o show reservation forlab", "sinfo -h -T",
)  # fmt: skip


ROOTS = re.compile(r" *root\||UserName=root")
"""The lines of Slurm's account and user root."""
SEES_MORE = (
    "sacctmgr -n -P show user",
    "sacctmgr -n -P show user nobody",
    "scontrol show assoc_mgr flags=users",
)
"""Lines that show coordinators the users of their accounts, as Slurm's manual says. Slurm 22.05 shows them only themselves."""


@contextmanager
def pair_with(*private: str) -> Iterator[RightsPair]:
    listed = ", ".join(f'"{each}"' for each in private)
    line = f"PrivateData={','.join(private)}\n"
    with side_by_side(
        RightsPair,
        slurm_site=f"{H100_SITE}{line}AccountingStorageEnforce=associations\n",
        warpdeck_site=f"{SITE}{TABLES}[access]\nprivate_data = [{listed}]\n",
        accounting=True,
        accounts=ACCOUNTS,
        database=line,
    ) as pair:
        for side in pair.both:
            for user, account in (
                ("nobody", "lab"),
                ("daemon", "other"),
                ("mail", "lab"),
                ("games", "other"),
            ):
                argv = ["sbatch", "-H", "-t", "10", "-o", "/dev/null", "-A", account, "--wrap", "true"]
                result = side.run(argv, user=user)
                assert result.rc == 0, result
            for line in RESERVATIONS:
                assert side.run(line.split()).rc == 0
        yield pair


def differences(pair: RightsPair, lines: tuple[str, ...]) -> list[object]:
    found: list[object] = []
    for line in lines:
        for name, user in WHO.items():
            texts = []
            for side in pair.both:
                result = side.run(line.split(), user=user)
                out = sorted(part for part in result.out.splitlines() if not ROOTS.match(part))
                # The texts of a job and of a reservation are compared elsewhere.
                texts.append([*(part[:30] for part in out), f"{result.rc} {pair.mask(result.err)}"])
            if texts[0] != texts[1] and not (name == "coordinator" and line in SEES_MORE):
                found.append((line, name, diff_text(*texts)))
    return found


@pytest.mark.parametrize(
    ("private", "lines"),
    [
        (("jobs", "usage", "events"), OF_JOBS),
        (("nodes", "users"), OF_NODES),
        (("partitions", "accounts", "reservations"), OF_ACCOUNTS),
    ],
)
def test_each_user_sees_the_same_as_in_slurm(private: tuple[str, ...], lines: tuple[str, ...]) -> None:
    with pair_with(*private) as pair:
        found = differences(pair, lines)
    assert not found, pformat(found, width=160)
