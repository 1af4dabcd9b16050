"""Inheritance of limits: which limits of an association and of the accounts above it are in force.

Source: slurm.schedmd.com/resource_limits.html. Group limits (Grp*) apply at every level. For the other
limits, the nearest level that sets one decides, TRES by TRES: the limit of the user overrides the limit of
the account, and the limit of the account overrides that of its parent.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from warpdeck.policy.input.site import Limits, Tres

NEAREST = tuple(name for name in Limits.__struct_fields__ if name.startswith(("max_", "min_")))


def effective(levels: Iterable[Limits]) -> list[Limits]:
    """Return, for each level, nearest first, the limits of this level that are in force."""
    seen: dict[str, set[str]] = {name: set() for name in NEAREST}
    return [msgspec.structs.replace(limits, **_left(limits, seen)) for limits in levels]


def inherited(levels: Iterable[Limits]) -> Limits:
    """Return all limits that apply to the nearest level: its own limits, and the limits inherited from above."""
    own, *above = effective(levels)
    changed: dict[str, Tres | int | None] = {}
    for name in NEAREST:
        for limits in above:
            mine = changed.get(name, getattr(own, name))
            more: Tres | int | None = getattr(limits, name)
            changed[name] = (
                {**mine, **more} if isinstance(mine, dict) and isinstance(more, dict) else mine or more
            )
    return msgspec.structs.replace(own, **changed)


def _left(limits: Limits, seen: dict[str, set[str]]) -> dict[str, Tres | int | None]:
    """Return the limits that no nearer level sets, and record them in `seen`."""
    found: dict[str, Tres | int | None] = {}
    for name in NEAREST:
        value: Tres | int | None = getattr(limits, name)
        if isinstance(value, dict):
            found[name] = {tres: most for tres, most in value.items() if tres not in seen[name]}
            seen[name].update(value)
        elif value is not None:
            found[name] = None if seen[name] else value
            seen[name].add("")
    return found
