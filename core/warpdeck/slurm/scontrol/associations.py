"""`scontrol show assoc_mgr`, in brief: users, associations and QoS as the controller counts them now."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TextIO

from warpdeck.cluster import CLUSTER_NAME
from warpdeck.slurm.console import Console

KINDS = ("users", "assoc", "qos")
"""What there is to show, in this order."""
Rows = list[dict[str, Any]]


def print_associations(console: Console, shares: Rows, qos: Rows, *, kinds: Collection[str]) -> None:
    """Who is where in the tree, with what shares and use: these kinds of it."""
    console.out.write("Current Association Manager state\n")
    if "users" in kinds:
        _print_users(console.out, shares)
    if "assoc" in kinds:
        _print_tree(console.out, shares)
    if "qos" in kinds:
        _print_qos(console.out, qos)


def _print_users(out: TextIO, shares: Rows) -> None:
    users = any(row["user"] for row in shares)
    out.write(f"\n{_title('User', 'users', is_there=users)}\n")
    for user in dict.fromkeys(row["user"] for row in shares if row["user"]):
        of_user = [row for row in shares if row["user"] == user]
        account = next((row["account"] for row in of_user if row["default"]), of_user[0]["account"])
        out.write(f"UserName={user} DefAccount={account} DefWckey= AdminLevel=None\n")


def _print_tree(out: TextIO, shares: Rows) -> None:
    out.write(f"\n{_title('Association', 'associations', is_there=bool(shares))}\n")
    for row in shares:
        out.write(
            f"ClusterName={CLUSTER_NAME} Account={row['account']} UserName={row['user']} Partition= Priority=0\n"
        )
        factor = row["fairshare"] or 0.0
        out.write(
            f"    SharesRaw/Norm/Level/Factor={row['shares']}/{row['norm_shares']:.2f}/{row['depth']}/{factor:.2f}\n"
        )
        out.write(
            f"    UsageRaw/Norm/Efctv={row['usage']:.2f}/{row['norm_usage']:.2f}/{row['norm_usage']:.2f}\n"
        )


def _print_qos(out: TextIO, qos: Rows) -> None:
    out.write(f"\n{_title('QOS', 'QOS', is_there=bool(qos))}\n")
    for row in qos:
        limits = " ".join(f"{name}={value}" for name, value in row["limits"].items())
        out.write(f"QOS={row['name']}\n    {limits}\n    Priority={row['priority']}\n")


def _title(name: str, several: str, *, is_there: bool) -> str:
    return f"{name} Records\n" if is_there else f"No {several} currently cached in Slurm.\n"
