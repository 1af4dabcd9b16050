"""Columns of sinfo: every letter of -o and every name of -O, one entry each.

sinfo prints one line per group. A group is a partition and those of its nodes that share a line because their
printed values are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from warpdeck.base.slurm_version import RELEASE
from warpdeck.notation.values.durations import format_duration
from warpdeck.notation.values.hostlist import collapse
from warpdeck.slurm.format.format_strings import Field, Row, cut
from warpdeck.slurm.format.node_states import complete_word, long_word, rank, short_word
from warpdeck.slurm.format.node_values import cpu_load, free_mib, gres, gres_used
from warpdeck.slurm.format.timestamps import Stamps
from warpdeck.slurm.format.units import MIB

ADMIN = "root"
"""User shown as the author of a node's reason, as in `scontrol show node`."""
NONE, UNKNOWN, NOT_KNOWN, NULL = "none", "Unknown", "N/A", "(null)"
NO_NODE = "n/a"
"""State of a partition without any selected node."""
NO_LIMIT = "infinite"


class Print(NamedTuple):
    """One column of a group of nodes.

    Nodes share a line only if their values of `of_node` and `of_partition` are equal (None: no condition).
    With `exact`, the node values must be equal only if -e was given.
    """

    title: str
    letter: str
    """Letter in -o, or "" if the column has only a name."""
    text: Callable[[Row], str]
    of_node: Callable[[Row], Any] | None = None
    of_partition: Callable[[Row], Any] | None = None
    exact: bool = False
    value: Callable[[Row], Any] | None = None
    """Returns the value that -S sorts by. None: sort by the text."""
    fit: Callable[[str, int, bool], str] = cut
    """Shortens a text that is longer than its column."""


def group(part: Row, nodes: Sequence[Row]) -> Row:
    """Return the row that is printed: a partition and the nodes that share a line."""
    return {"part": part, "nodes": list(nodes)}


def prints(stamps: Stamps) -> dict[str, Print]:
    """Return the columns of sinfo by name."""
    return {**_of_partitions(), **_of_nodes(stamps), **_numbers(), **_counts()}


def as_fields(named: dict[str, Print]) -> dict[str, Field]:
    """Convert the columns to the fields of a `Layout`."""
    return {name: Field(each.title, "", each.text, each.fit, each.letter) for name, each in named.items()}


def _fixed(title: str, letter: str, text: str) -> Print:
    return Print(title, letter, lambda row: text)


def _of_partitions() -> dict[str, Print]:
    def of_part(title: str, letter: str, value: Callable[[Row], str]) -> Print:
        return Print(title, letter, lambda row: value(row["part"]), of_partition=value)

    return {
        "available": of_part("AVAIL", "a", _available),
        "time": of_part("TIMELIMIT", "l", lambda part: _limit(part["max_time_s"])),
        "defaulttime": of_part("DEFAULTTIME", "L", _default_time),
        "groups": of_part("GROUPS", "g", lambda part: ",".join(part["allow_groups"] or ["all"])),
        "oversubscribe": of_part(
            "OVERSUBSCRIBE", "h", lambda part: "EXCLUSIVE" if part["exclusive"] else "NO"
        ),
        "prioritytier": of_part("PRIO_TIER", "p", lambda part: str(part["priority_tier"])),
        "priorityjobfactor": of_part("PRIO_JOB_FACTOR", "I", lambda part: str(part["priority_job_factor"])),
        "preemptmode": of_part("PREEMPT_MODE", "M", lambda part: (part["preempt_mode"] or "off").upper()),
        "size": of_part("JOB_SIZE", "s", _job_size),
        "partition": of_part("PARTITION", "P", _starred)._replace(fit=_keep_star),
        "partitionname": of_part("PARTITION", "R", lambda part: str(part["name"])),
        "root": _fixed("ROOT", "r", "no"),
        "allocnodes": _fixed("ALLOCNODES", "S", "all"),
        "maxcpuspernode": _fixed("MAX_CPUS_PER_NODE", "B", "UNLIMITED"),
        "cluster": _fixed("CLUSTER", "V", NOT_KNOWN),
    }


def _of_nodes(stamps: Stamps) -> dict[str, Print]:
    def of_node(
        title: str,
        letter: str,
        value: Callable[[Row], str],
        empty: str,
        *,
        sort: Callable[[Row], Any] | None = None,
    ) -> Print:
        def text(row: Row) -> str:
            return value(row["nodes"][0]) if row["nodes"] else empty

        return Print(title, letter, text, of_node=value, value=sort)

    return {
        "statecompact": of_node("STATE", "t", short_word, NO_NODE, sort=_rank),
        "statelong": of_node("STATE", "T", long_word, NO_NODE, sort=_rank),
        "statecomplete": of_node("STATECOMPLETE", "", complete_word, NO_NODE, sort=_rank),
        "reason": of_node("REASON", "E", lambda node: node["reason"] or NONE, NONE),
        "timestamp": of_node(
            "TIMESTAMP", "H", lambda node: stamps.text(node["reason_at"], unknown=UNKNOWN), UNKNOWN
        ),
        "features": of_node("AVAIL_FEATURES", "f", _features, NULL),
        "features_act": of_node("ACTIVE_FEATURES", "b", _features, NULL),
        "gres": of_node("GRES", "G", lambda node: gres(node) or NULL, NULL),
        "gresused": of_node("GRES_USED", "", lambda node: gres_used(node) or NULL, NULL),
        "allocmem": of_node("ALLOCMEM", "", lambda node: str(node["mem_alloc_bytes"] // MIB), "0"),
        "user": of_node("USER", "u", lambda node: ADMIN if node["reason"] else UNKNOWN, UNKNOWN),
        "userlong": of_node("USER", "U", lambda node: f"{ADMIN}(0)" if node["reason"] else UNKNOWN, UNKNOWN),
        "version": _fixed("VERSION", "v", RELEASE),
        "comment": of_node("COMMENT", "", lambda node: node["comment"] or NULL, NULL),
        "extra": of_node("EXTRA", "", lambda node: node["extra"] or NULL, NULL),
        "port": _fixed("PORT", "", "0"),
        "nodelist": Print("NODELIST", "N", _names("name"), value=_first_name),
        "nodehost": Print("HOSTNAMES", "n", _names("hostname"), value=_first_name),
        "nodeaddr": Print("NODE_ADDR", "o", _names("address"), value=_first_name),
    }


def _numbers() -> dict[str, Print]:
    """Return the columns whose values may differ within a group.

    Most print the smallest value, followed by a + if there are larger ones. CPU load and free memory print a
    range.
    """

    def least(title: str, letter: str, value: Callable[[Row], int]) -> Print:
        def text(row: Row) -> str:
            found = {value(node) for node in row["nodes"]}
            return f"{min(found, default=0)}{'+' if len(found) > 1 else ''}"

        def smallest(row: Row) -> int:
            return min((value(node) for node in row["nodes"]), default=0)

        return Print(title, letter, text, of_node=value, exact=True, value=smallest)

    def span(title: str, letter: str, value: Callable[[Row], float | None], form: str) -> Print:
        def text(row: Row) -> str:
            found = [each for each in map(value, row["nodes"]) if each is not None]
            if not found:
                return NOT_KNOWN
            low, high = form % min(found), form % max(found)
            return low if low == high else f"{low}-{high}"

        return Print(title, letter, text)

    return {
        "cpus": least("CPUS", "c", lambda node: int(node["cpus"])),
        "cores": least("CORES", "Y", lambda node: int(node["cores"])),
        "sockets": least("SOCKETS", "X", lambda node: int(node["sockets"])),
        "threads": least("THREADS", "Z", lambda node: int(node["threads"])),
        "memory": least("MEMORY", "m", lambda node: int(node["mem_bytes"]) // MIB),
        "disk": least("TMP_DISK", "d", lambda node: int(node["tmp_disk_bytes"]) // MIB),
        "weight": least("WEIGHT", "w", lambda node: int(node["weight"])),
        "socketcorethread": Print("S:C:T", "z", _topology, of_node=_layout, exact=True),
        "cpusload": span("CPU_LOAD", "O", _cpus_busy, "%.2f"),
        "freemem": span("FREE_MEM", "e", free_mib, "%d"),
    }


def _counts() -> dict[str, Print]:
    def nodes(row: Row) -> int:
        return len(row["nodes"])

    return {
        "nodes": Print("NODES", "D", lambda row: str(nodes(row)), value=nodes),
        "nodeai": Print("NODES(A/I)", "A", lambda row: "{}/{}".format(*_by_use(row))),
        "nodeaiot": Print("NODES(A/I/O/T)", "F", lambda row: "{}/{}/{}/{}".format(*_by_use(row), nodes(row))),
        "cpusstate": Print("CPUS(A/I/O/T)", "C", _cpus_by_use),
    }


def _rank(row: Row) -> int:
    return rank(row["nodes"][0]) if row["nodes"] else -1


def _first_name(row: Row) -> str:
    return min((str(node["name"]) for node in row["nodes"]), default="")


def _names(key: str) -> Callable[[Row], str]:
    def text(row: Row) -> str:
        return collapse(sorted({str(node[key]) for node in row["nodes"]}))

    return text


def _available(part: Row) -> str:
    return {"UP": "up", "DOWN": "down", "DRAIN": "drain"}.get(str(part["state"]), "inact")


def _starred(part: Row) -> str:
    return str(part["name"]) + ("*" if part["default"] else "")


def _keep_star(text: str, width: int, right: bool) -> str:
    """Cut the name, but keep the star that marks the default partition."""
    return text[: width - 1] + "*" if len(text) > width and text.endswith("*") else cut(text, width, right)


def _limit(seconds: int | None) -> str:
    return NO_LIMIT if seconds is None else format_duration(seconds)


def _default_time(part: Row) -> str:
    return "n/a" if part["default_time_s"] is None else format_duration(part["default_time_s"])


def _job_size(part: Row) -> str:
    low, high = max(1, part["min_nodes"]), part["max_nodes"]
    return f"{low}-{NO_LIMIT}" if high is None else str(low) if low == high else f"{low}-{high}"


def _features(node: Row) -> str:
    return ",".join(node["features"]) or NULL


def _cpus_busy(node: Row) -> float | None:
    load = cpu_load(node)
    return None if load is None else load / 100


def _layout(node: Row) -> tuple[int, ...]:
    return tuple(int(node[part]) for part in ("sockets", "cores", "threads"))


def _topology(row: Row) -> str:
    """Return sockets, cores and threads as S:C:T.

    Each is the smallest value, followed by a + if some nodes have more.
    """
    parts = [set(part) for part in zip(*map(_layout, row["nodes"]), strict=True)] or [{0}] * 3
    return ":".join(f"{min(part)}{'+' if len(part) > 1 else ''}" for part in parts)


def _by_use(row: Row) -> tuple[int, int, int]:
    """Return the numbers of (allocated, idle, other) nodes."""
    uses = [_use(node) for node in row["nodes"]]
    return uses.count("allocated"), uses.count("idle"), uses.count("other")


def _use(node: Row) -> str:
    if node["base"] in ("allocated", "mixed"):
        return "allocated"
    well = node["base"] == "idle" and not node["drained"] and node["responding"]
    return "idle" if well else "other"


def _cpus_by_use(row: Row) -> str:
    used = sum(node["cpus_used"] for node in row["nodes"])
    whole = sum(node["cpus"] for node in row["nodes"])
    other = sum(
        node["cpus"] - node["cpus_used"]
        for node in row["nodes"]
        if node["drained"] or node["base"] in ("down", "unknown")
    )
    return f"{used}/{whole - used - other}/{other}/{whole}"
