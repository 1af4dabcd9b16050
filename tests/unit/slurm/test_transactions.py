"""The transactions of sacctmgr that changed settings stand for."""

from __future__ import annotations

import pytest

from warpdeck.slurm.sacctmgr.transactions import actions_of


@pytest.mark.parametrize(
    ("line", "rows"),
    [
        ("accounts.lab: added", [("Add Accounts", "lab", "")]),
        ("accounts.lab: removed", [("Remove Accounts", "name='lab'", "")]),
        ('accounts.lab.description: "" -> "x"', [("Modify Accounts", "(name='lab')", 'description="x"')]),
        ("accounts.lab.shares: 1 -> 3", [("Modify Associations", "acct='lab'", "shares=3")]),
        ("accounts.lab.users.ann: added", [("Add Associations", "acct='lab', user='ann'", "")]),
        (
            'accounts."a.b".users.ann.grp_jobs: none -> 5',
            [("Modify Associations", "acct='a.b', user='ann'", "grp_jobs=5")],
        ),
        (
            'accounts.lab.coordinators: ["ann", "bob"] -> ["bob", "eve"]',
            [
                ("Add Account Coord", "eve", "lab"),
                ("Remove Account Coords", "(user='ann') && (acct='lab')", ""),
            ],
        ),
        ("qos.high: added", [("Add QOS", "high", "")]),
        ("qos.high.priority: 0 -> 5", [("Modify QOS", "(name='high')", "priority=5")]),
        ("users.ann: added", [("Modify Users", "(name='ann')", "admin_level=1")]),
        (
            'users.ann.admin_level: "none" -> "operator"',
            [("Modify Users", "(name='ann')", "admin_level=2")],
        ),
        ("partitions.gpu: added", []),
        ("grace_s: 30 -> 40", []),
        ("... 7 more", []),
        ('accounts."cut in the mid...', []),
    ],
)
def test_a_changed_setting_is_the_transaction_with_the_same_meaning(
    line: str, rows: list[tuple[str, str, str]]
) -> None:
    assert [(action, where, info) for action, where, info, _ in actions_of(line)] == rows
