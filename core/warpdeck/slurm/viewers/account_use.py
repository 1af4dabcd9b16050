"""Account tree with the usage that counts against limits, for sshare and `scontrol show assoc_mgr`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from warpdeck.slurm.format.account_tree import ROOT, in_tree
from warpdeck.slurm.format.format_strings import Row
from warpdeck.slurm.format.units import FIRST

TRES = (*FIRST, "gres/gpu")
"""The trackable resources (TRES) that Slurm counts on every site, in Slurm's order."""
NO_USE: Row = {"jobs": 0, "submitted": 0, "tres": {}, "minutes": {}, "run_minutes": {}}
Placed = tuple[Row, tuple[str, ...]]


def used_tree(shares: Sequence[Row], uses: Sequence[Row], *, is_partial: bool = False) -> Iterator[Placed]:
    """Yield the lines of `in_tree`, each with its usage and the accounts above it.

    The added keys are `use` (a site_rows.UseRow), `of_all` (the row's fraction of all usage; None for the
    root), `siblings` (the sum of the shares of all rows with the same parent, 1 for the root) and `number`
    (the line's number, from 1).
    """
    counted = {(row["account"], row["user"]): row for row in uses if not row["qos"]}
    above_all = [row for row in shares if not row["user"] and not row["parent"]]
    total = sum(row["usage"] for row in above_all)
    summed: dict[str, int] = {}
    for row in shares:
        summed[_parent(row)] = summed.get(_parent(row), 0) + row["shares"]
    for number, (row, above) in enumerate(in_tree(shares, is_partial=is_partial), 1):
        is_root = not above and row["account"] == ROOT
        use = counted.get((row["account"], row["user"]), NO_USE)
        if is_root and (ROOT, "") not in counted:
            use = added(counted.get((each["account"], ""), NO_USE) for each in above_all)
        part = row["usage"] / total if total else 0.0
        more = {"use": use, "of_all": None if is_root else part, "number": number}
        yield {**row, **more, "siblings": 1 if is_root else summed[_parent(row)]}, above


def _parent(row: Row) -> str:
    return str(row["account"] if row["user"] else row["parent"])


def added(uses: Iterable[Row]) -> Row:
    """Return the sum of several usage rows."""
    found: Row = {name: dict(value) if isinstance(value, dict) else value for name, value in NO_USE.items()}
    for use in uses:
        for name, value in NO_USE.items():
            if isinstance(value, dict):
                for tres, count in use[name].items():
                    found[name][tres] = found[name].get(tres, 0) + count
            else:
                found[name] += use[name]
    return found


def counts(numbers: Mapping[str, Any]) -> str:
    """Return the site's TRES as whole numbers, for example "cpu=0,mem=0,..."."""
    return ",".join(f"{name}={int(numbers.get(name, 0))}" for name in TRES)
