"""Node states in sinfo's spelling, such as idle, mix and drng.

The mark * means not responding, and $ means in a maintenance reservation. As in Slurm, a state is a base and
flags. Its name, its sort order and the -t values that match it are derived from them.
"""

from __future__ import annotations

from .field import Row

BASES = {"unknown": 0, "down": 1, "idle": 2, "allocated": 3, "error": 4, "mixed": 5, "future": 6}
"""Base state -> its rank in Slurm's order."""
RESERVED, DRAIN, COMPLETING, NO_RESPOND, MAINTENANCE = 0x20, 0x200, 0x400, 0x800, 0x8000
"""State flags. A later flag outranks an earlier one."""
FLAG_NAMES = {
    "completing": "completing",
    "drained": "drain",
    "maintenance": "maintenance",
    "reserved": "reserved",
}
"""Column of a node -> the name of its flag, in Slurm's order."""
SHORT = {
    "unknown": "unk", "allocated": "alloc", "allocated+": "alloc+", "mixed": "mix", "drained": "drain", "draining": "drng",
    "completing": "comp", "reserved": "resv",
}  # fmt: skip
"""Long name -> short name, for the names that differ."""
WORDS = (
    "unknown,down,idle,allocated,?,mixed,future,drain,drained,draining,no_respond,reserved,perfctrs,cloud,completing,"
    "powering_down,powered_down,power_down,powering_up,fail,maint,reboot,reboot^,unknown"
)
"""States that sinfo lists in its error message as valid for -t."""
SPELLINGS = (
    "unknown unk=unknown down idle allocated alloc=allocated ? mixed mix=mixed future futr=future planned plnd=planned drain "
    "drained resv=reserved reserved perfctrs npc=perfctrs draining drng=draining completing comp=completing no_respond "
    "powering_down powered_down power_down powering_up fail maint reboot reboot^ cloud"
)
"""Names that -t accepts, each with =NAME if it stands for another name.

A value matches the first name that begins with it.
"""
MEANINGS = {word.partition("=")[0]: word.rpartition("=")[2] for word in SPELLINGS.split()}


def flags(row: Row) -> int:
    """Return the flags of a node."""
    found = 0
    for key, flag in (
        ("reserved", RESERVED),
        ("drained", DRAIN),
        ("completing", COMPLETING),
        ("maintenance", MAINTENANCE),
    ):
        found |= flag if row[key] else 0
    return found | (0 if row["responding"] else NO_RESPOND)


def rank(row: Row) -> int:
    """Return Slurm's number of the state, which is sinfo's sort key."""
    return BASES[row["base"]] | flags(row)


def long_word(row: Row) -> str:
    """Return the long state name with its marks, such as mixed$ or down*."""
    return _word(row) + _marks(row)


def short_word(row: Row) -> str:
    """Return the short state name with its marks, such as mix$ or down*."""
    word = _word(row)
    return SHORT.get(word, word) + _marks(row)


def flag_names(row: Row) -> list[str]:
    """Return the names of the flags of a node, in Slurm's order."""
    found = [name for key, name in FLAG_NAMES.items() if row[key]]
    return found if row["responding"] else [*found, "not_responding"]


def whole_word(row: Row) -> str:
    """Return the base state and every flag as scontrol does, such as mixed+drain."""
    return "+".join([row["base"], *flag_names(row)])


def complete_word(row: Row) -> str:
    """Return the base state and every flag as sinfo does, which shows a drained node that runs jobs as allocated."""
    busy = row["base"] in ("allocated", "mixed")
    return "+".join(["allocated" if row["drained"] and busy else row["base"], *flag_names(row)])


def _word(row: Row) -> str:
    base, busy = row["base"], row["base"] in ("allocated", "mixed")
    if row["drained"]:
        return "draining" if busy or row["completing"] else "drained"
    if row["completing"] and not busy:
        return "completing"
    if base == "allocated" and row["completing"]:
        return "allocated+"
    if base == "idle" and row["maintenance"]:
        return "maint"
    if base == "idle" and row["reserved"]:
        return "reserved"
    return str(base)


def _marks(row: Row) -> str:
    if row["maintenance"] and _word(row) != "maint":
        return "$"
    return "" if row["responding"] else "*"


def picks(word: str, row: Row) -> bool:
    """Check if a node matches -t WORD. Raises KeyError if `word` is no state."""
    name = next((found for spelled, found in MEANINGS.items() if spelled.startswith(word.lower())), None)
    if name is None:
        raise KeyError(word)
    base, busy = row["base"], row["base"] in ("allocated", "mixed")
    tests = {
        "drain": row["drained"],
        "drained": row["drained"] and not busy,
        "draining": row["drained"] and busy,
        "no_respond": not row["responding"],
        "maint": row["maintenance"],
        "reserved": row["reserved"],
        "completing": row["completing"],
        "allocated": busy,
        **{each: base == each for each in ("unknown", "down", "idle", "mixed")},
    }
    return bool(tests.get(name))
