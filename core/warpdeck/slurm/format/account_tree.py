"""Accounts and their users in the order of their tree, with Slurm's root above all: users first, both by name. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .format_strings import Row

ROOT = "root"
Placed = tuple[Row, tuple[str, ...]]
"""A line, and the accounts above it: a user's own one too."""


def in_tree(rows: Sequence[Row]) -> Iterator[Placed]:
    """Every line of the controller's `shares`; root's is made here where the site has no account of that name."""
    children: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: (not row["user"], row["user"] or row["account"])):
        children.setdefault(row["account"] if row["user"] else row["parent"], []).append(row)
    if any(row["account"] == ROOT for row in children.get("", ())):
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
