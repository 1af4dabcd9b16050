"""For whom a reservation of an account is beside a real Slurm with its database: an account stands for all under it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.slurm_parity.peer.pair import Pair, side_by_side
from tests.slurm_parity.peer.warpdeck_cluster import SITE

pytestmark = pytest.mark.slurm
ACCOUNTS = (
    "add account ml",
    "add account sci",
    "add account bio parent=sci",
    "add account gene parent=bio",
    *(f"add user root account={name}" for name in ("ml", "sci", "bio", "gene")),
)
WARPDECK_SITE = f"""{SITE}
[accounts.ml.users.root]
default = true
[accounts.sci.users.root]
[accounts.bio]
parent = "sci"
[accounts.bio.users.root]
[accounts.gene]
parent = "bio"
[accounts.gene.users.root]
"""
ENFORCING = "AccountingStorageEnforce=associations\n"


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    from tests.slurm_parity.peer.pair import H100_SITE

    with side_by_side(
        Pair,
        slurm_site=ENFORCING + H100_SITE,
        warpdeck_site=WARPDECK_SITE,
        accounting=True,
        accounts=ACCOUNTS,
    ) as both:
        yield both


@pytest.mark.parametrize("accounts", ["sci", "bio", "ml,bio", "-sci", "-bio", "gene"])
def test_an_account_stands_for_those_under_it(pair: Pair, accounts: str) -> None:
    told = []
    for cluster in (pair.slurm, pair.warpdeck):
        made = cluster.run(
            [
                "scontrol",
                *f"create reservation reservationname=R starttime=now+1hour duration=9 nodes=n1 accounts={accounts}".split(),
            ]
        )
        assert made.rc == 0, made
        tried = {}
        for account in ("ml", "sci", "bio", "gene"):
            done = cluster.run(
                ["sbatch", "--parsable", "-t1", "-A", account, "--reservation=R", "--wrap", "true"]
            )
            tried[account] = done.rc
            if done.rc == 0:
                assert cluster.run(["scancel", done.out.strip()]).rc == 0
        told.append(tried)
        cluster.run(["scontrol", "delete", "reservationname=R"])
    assert told[1] == told[0]
