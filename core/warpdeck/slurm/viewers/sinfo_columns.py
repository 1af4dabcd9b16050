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
from warpdeck.slurm.fields.field import Row
from warpdeck.slurm.fields.node_fields import NODE, with_uid
from warpdeck.slurm.fields.node_states import rank
from warpdeck.slurm.fields.partition_fields import PARTITION
from warpdeck.slurm.format.format_strings import Fit, TextField, cut
from warpdeck.slurm.format.units import moment

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
    fit: Fit = cut
    """Shortens a text that is longer than its column."""


def group(part: Row, nodes: Sequence[Row]) -> Row:
    """Return the row that is printed: a partition and the nodes that share a line."""
    return {"part": part, "nodes": list(nodes)}


def prints() -> dict[str, Print]:
    """Return the columns of sinfo by name."""
    return {**_of_partitions(), **_of_nodes(), **_numbers(), **_counts()}


def as_fields(named: dict[str, Print]) -> dict[str, TextField]:
    """Convert the columns to the fields of a `LineLayout`."""
    return {name: TextField(each.title, "", each.text, each.fit, each.letter) for name, each in named.items()}


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
        "oversubscribe": of_part("OVERSUBSCRIBE", "h", PARTITION["oversubscribe"].value),
        "prioritytier": of_part("PRIO_TIER", "p", lambda part: str(part["priority_tier"])),
        "priorityjobfactor": of_part("PRIO_JOB_FACTOR", "I", lambda part: str(part["priority_job_factor"])),
        "preemptmode": of_part("PREEMPT_MODE", "M", PARTITION["preempt_mode"].value),
        "size": of_part("JOB_SIZE", "s", _job_size),
        "partition": of_part("PARTITION", "P", _starred)._replace(fit=_keep_star),
        "partitionname": of_part("PARTITION", "R", lambda part: str(part["name"])),
        "root": _fixed("ROOT", "r", "no"),
        "allocnodes": _fixed("ALLOCNODES", "S", "all"),
        "maxcpuspernode": _fixed("MAX_CPUS_PER_NODE", "B", "UNLIMITED"),
        "cluster": _fixed("CLUSTER", "V", NOT_KNOWN),
    }


def _of_nodes() -> dict[str, Print]:
    def of_node(
        title: str,
        letter: str,
        name: str,
        empty: str,
        *,
        form: Callable[[Any], str] = str,
        sort: Callable[[Row], Any] | None = None,
    ) -> Print:
        """Return the column of a node's field. `empty` stands for an empty value, and for no node."""
        field = NODE[name].value

        def value(node: Row) -> str:
            found = field(node)
            return empty if found in (None, "") else form(found)

        def text(row: Row) -> str:
            return value(row["nodes"][0]) if row["nodes"] else empty

        return Print(title, letter, text, of_node=value, value=sort)

    return {
        "statecompact": of_node("STATE", "t", "state_short", NO_NODE, sort=_rank),
        "statelong": of_node("STATE", "T", "state_long", NO_NODE, sort=_rank),
        "statecomplete": of_node("STATECOMPLETE", "", "state_complete", NO_NODE, sort=_rank),
        "reason": of_node("REASON", "E", "reason", NONE),
        "timestamp": of_node("TIMESTAMP", "H", "reason_at", UNKNOWN, form=moment),
        "features": of_node("AVAIL_FEATURES", "f", "features", NULL),
        "features_act": of_node("ACTIVE_FEATURES", "b", "features", NULL),
        "gres": of_node("GRES", "G", "gres", NULL),
        "gresused": of_node("GRES_USED", "", "gres_used", NULL),
        "allocmem": of_node("ALLOCMEM", "", "memory_used", "0"),
        "user": of_node("USER", "u", "author", UNKNOWN),
        "userlong": of_node("USER", "U", "author", UNKNOWN, form=with_uid),
        "reservation": Print(
            "RESERVATION",
            "i",
            lambda row: _reservation(row["nodes"][0]) if row["nodes"] else "",
            of_node=_reservation,
        ),
        "version": _fixed("VERSION", "v", RELEASE),
        "comment": of_node("COMMENT", "", "comment", NULL),
        "extra": of_node("EXTRA", "", "extra", NULL),
        "port": _fixed("PORT", "", "0"),
        "nodelist": Print("NODELIST", "N", _names("name"), value=_first_name),
        "nodehost": Print("HOSTNAMES", "n", _names("hostname"), value=_first_name),
        "nodeaddr": Print("NODE_ADDR", "o", _names("address"), value=_first_name),
    }


def _numbers() -> dict[str, Print]:
    """Return the columns that may have different values within a group.

    Most print the smallest value, followed by a + if there are larger ones. CPU load and free memory print a
    range.
    """

    def least(title: str, letter: str, name: str) -> Print:
        value = NODE[name].value

        def text(row: Row) -> str:
            found = {value(node) for node in row["nodes"]}
            return f"{min(found, default=0)}{'+' if len(found) > 1 else ''}"

        def smallest(row: Row) -> int:
            return min((int(value(node)) for node in row["nodes"]), default=0)

        return Print(title, letter, text, of_node=value, exact=True, value=smallest)

    def span(title: str, letter: str, name: str, form: str) -> Print:
        value = NODE[name].value

        def text(row: Row) -> str:
            found = [each for each in map(value, row["nodes"]) if each is not None]
            if not found:
                return NOT_KNOWN
            low, high = form % min(found), form % max(found)
            return low if low == high else f"{low}-{high}"

        return Print(title, letter, text)

    return {
        "cpus": least("CPUS", "c", "cpus"),
        "cores": least("CORES", "Y", "cores"),
        "sockets": least("SOCKETS", "X", "sockets"),
        "threads": least("THREADS", "Z", "threads"),
        "memory": least("MEMORY", "m", "memory"),
        "disk": least("TMP_DISK", "d", "tmp_disk"),
        "weight": least("WEIGHT", "w", "weight"),
        "socketcorethread": Print("S:C:T", "z", _topology, of_node=_layout, exact=True),
        "cpusload": span("CPU_LOAD", "O", "cpu_load", "%.2f"),
        "freemem": span("FREE_MEM", "e", "free_memory", "%d"),
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


def _reservation(node: Row) -> str:
    """Return the reservation in which the node is, if the tables have it."""
    return str(node.get("reservation", ""))


def _rank(row: Row) -> int:
    return rank(row["nodes"][0]) if row["nodes"] else -1


def _first_name(row: Row) -> str:
    return min((str(node["name"]) for node in row["nodes"]), default="")


def _names(name: str) -> Callable[[Row], str]:
    value = NODE[name].value

    def text(row: Row) -> str:
        return collapse(sorted({str(value(node)) for node in row["nodes"]}))

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
