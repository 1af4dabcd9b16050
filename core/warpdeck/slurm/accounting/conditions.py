"""Which conditions sacctmgr's `show` knows of each entity, and what it says of others. As measured of Slurm 22.05. Pure."""

from __future__ import annotations

_PLACES = ("accounts", "acct", "clusters", "defaultqos", "ids", "parents", "partitions", "qoslevels", "users")
"""Of associations, and of what they are shown with."""
_CHANGES = ("accounts", "actions", "actors", "clusters", "end", "ids", "info", "start", "users")
CONDITIONS = {
    "account": (*_PLACES, "associations", "descriptions", "names", "organizations"),
    "association": (*_PLACES, "associations"),
    "cluster": ("classification", "clusters", "federations", "flags", "names", "rpc"),
    "event": (
        "clusters",
        "end",
        "events",
        "mincpus",
        "maxcpus",
        "nodes",
        "reason",
        "start",
        "states",
        "users",
    ),
    "federation": ("clusters", "federations", "names"),
    "problem": ("accounts", "acct", "clusters", "ids", "partitions", "users"),
    "qos": ("clusters", "descriptions", "ids", "names", "preemptmode", "qoslevels"),
    "resource": ("clusters", "descriptions", "ids", "names", "percentallowed", "server", "servertype"),
    "reservation": ("clusters", "end", "ids", "names", "nodes", "start"),
    "runawayjobs": ("clusters",),
    "transaction": _CHANGES,
    "txn": _CHANGES,
    "tres": ("ids", "names", "types"),
    "user": (*_PLACES, "adminlevels", "defaultaccounts", "defaultwckeys", "names"),
    "wckey": ("clusters", "end", "ids", "names", "start", "users", "wckeys"),
}
ASKED_WHOLE = ("configuration", "stats")
"""Of which nothing is chosen: words behind them mean nothing."""
SHORTLY = ("association", "event", "problem", "runawayjobs", "transaction", "txn", "wckey")
"""Of these an unknown condition is told without advice."""
FREE_WORDS = ("where", "withassoc", "tree")
EVENTS = ("node", "cluster")
EVENT_WORDS = ("where", "set", "all_clusters", "all_time")


def condition_of(entity: str, key: str) -> str:
    """The condition that a word begins; "" for none."""
    return next((each for each in CONDITIONS.get(entity, ()) if key and each.startswith(key)), "")


def unknown_condition(entity: str, word: str) -> str:
    """What is told of it."""
    advice = "" if entity in SHORTLY else " Use keyword 'set' to modify value\n"
    return f" Unknown condition: {word}\n{advice}"


def bad_word(entity: str, word: str) -> str:
    """What is told of a word without a value; "" where it is a name, or means something."""
    lowered = word.lower()
    if entity in ("transaction", "txn") and not lowered.startswith(FREE_WORDS) and not word.isdecimal():
        return f"sacctmgr: error: Invalid value for Transaction ID ({word})\n"
    is_kind = any(each.startswith(lowered) for each in (*EVENTS, *EVENT_WORDS))
    if entity == "event" and not is_kind:
        return f" Unknown event type: '{word}'  Valid events are Cluster and Node.\n"
    return ""
