"""Which limits of a user's place in an account hold, and which of the accounts above. Pure.

Source: slurm.schedmd.com/resource_limits.html: limits on all together (Grp*) hold at each level; of the others the nearest that is
set holds, TRES by TRES: what a user has goes before what the account has, and that before what its parent has.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from warpdeck.policy.input.site import Limits, Tres

NEAREST = tuple(name for name in Limits.__struct_fields__ if name.startswith(("max_", "min_")))


def effective(levels: Iterable[Limits]) -> list[Limits]:
    """Of each level, nearest first, what holds of it."""
    seen: dict[str, set[str]] = {name: set() for name in NEAREST}
    return [msgspec.structs.replace(limits, **_left(limits, seen)) for limits in levels]


def inherited(levels: Iterable[Limits]) -> Limits:
    """All that holds of the nearest level: its own, and what it has from those above."""
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
    """What no nearer level has; it is noted."""
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
