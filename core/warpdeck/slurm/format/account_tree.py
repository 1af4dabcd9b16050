"""Accounts and their users in tree order, below Slurm's root account. Pure functions.

Below an account, its users come first, then its child accounts, both sorted by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .format_strings import Row

ROOT = "root"
Placed = tuple[Row, tuple[str, ...]]
"""A line, and the accounts above it. The accounts above a user include the user's own account."""


def in_tree(rows: Sequence[Row], *, is_partial: bool = False) -> Iterator[Placed]:
    """Yield every line of the controller's `shares` in tree order.

    A root line is added if the site has no account of that name. A tree that `is_partial` has no root line, because it
    lacks the lines that the user may not see. Lines without their parent are at its top.
    """
    accounts = {row["account"] for row in rows if not row["user"]}
    children: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: (not row["user"], row["user"] or row["account"])):
        parent = row["account"] if row["user"] else row["parent"]
        children.setdefault(parent if parent in accounts else "", []).append(row)
    if is_partial or any(row["account"] == ROOT for row in children.get("", ())):
        yield from _below("", (), children)
        return
    top = children.pop("", [])
    children[ROOT] = top
    yield _root(sum(row["usage"] for row in top)), ()
    yield from _below(ROOT, (ROOT,), children)


def _below(parent: str, above: tuple[str, ...], children: dict[str, list[Row]]) -> Iterator[Placed]:
    for row in children.get(parent, ()):
        yield row, above
        if not row["user"]:
            yield from _below(row["account"], (*above, row["account"]), children)


def _root(usage: float) -> Row:
    line = {"account": ROOT, "user": "", "parent": "", "shares": "", "norm_shares": 0.0, "usage": usage}
    nothing = {"norm_usage": None, "level_fs": None, "fairshare": None}
    return line | nothing | {"limits": {}, "holds": {}, "default": False, "default_qos": "", "qos": None}
