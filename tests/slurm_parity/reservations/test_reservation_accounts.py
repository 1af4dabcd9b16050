"""Reservations of accounts beside a real Slurm with its database. An account includes all accounts below it."""

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
ENFORCE_ASSOCIATIONS = "AccountingStorageEnforce=associations\n"


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    from tests.slurm_parity.peer.pair import H100_SITE

    with side_by_side(
        Pair,
        slurm_site=ENFORCE_ASSOCIATIONS + H100_SITE,
        warpdeck_site=WARPDECK_SITE,
        accounting=True,
        accounts=ACCOUNTS,
    ) as both:
        yield both


@pytest.mark.parametrize("accounts", ["sci", "bio", "ml,bio", "-sci", "-bio", "gene"])
def test_a_reservation_of_an_account_admits_its_subaccounts(pair: Pair, accounts: str) -> None:
    exit_codes = []
    for cluster in (pair.slurm, pair.warpdeck):
        result = cluster.run(
            [
                "scontrol",
                *f"create reservation reservationname=R starttime=now+1hour duration=9 nodes=n1 accounts={accounts}".split(),
            ]
        )
        assert result.rc == 0, result
        codes = {}
        for account in ("ml", "sci", "bio", "gene"):
            submitted = cluster.run(
                ["sbatch", "--parsable", "-t1", "-A", account, "--reservation=R", "--wrap", "true"]
            )
            codes[account] = submitted.rc
            if submitted.rc == 0:
                assert cluster.run(["scancel", submitted.out.strip()]).rc == 0
        exit_codes.append(codes)
        cluster.run(["scontrol", "delete", "reservationname=R"])
    assert exit_codes[1] == exit_codes[0]
