"""The nodes that `scontrol --oneliner --details show node` prints, or a table with the same fields (`NODE_COLUMNS`)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from warpdeck.model import NodeName
from warpdeck.protocol.node_rows import GpuRow, NodeRow

from . import values
from .allocation_table import numbers
from .marked_table import Column, read_table
from .node_reasons import name_of, without_reason
from .scontrol_text import OneLiner

NodeFields = Mapping[str, str]
"""The fields of one node, by scontrol's names."""

NODE = OneLiner(
    (
        *(
            "NodeName",
            "Arch",
            "CoresPerSocket",
            "CPUAlloc",
            "CPUEfctv",
            "CPUTot",
            "CPULoad",
            "AvailableFeatures",
        ),
        *(
            "ActiveFeatures",
            "Gres",
            "GresDrain",
            "GresUsed",
            "NodeAddr",
            "NodeHostName",
            "Port",
            "Version",
            "OS",
        ),
        *(
            "RealMemory",
            "AllocMem",
            "FreeMem",
            "Sockets",
            "Boards",
            "State",
            "ThreadsPerCore",
            "TmpDisk",
            "Weight",
        ),
        *(
            "Owner",
            "MCS_label",
            "Partitions",
            "BootTime",
            "SlurmdStartTime",
            "LastBusyTime",
            "ResumeAfterTime",
        ),
        *("SuspendTime", "CfgTRES", "AllocTRES", "CapWatts", "CurrentWatts", "AveWatts", "ExtSensorsJoules"),
        *("ExtSensorsWatts", "ExtSensorsTemp", "Reason", "Comment", "Extra", "InstanceId", "InstanceType"),
    )
)
NODE_COLUMNS = tuple(
    Column(name, "", 0)
    for name in (
        *("NodeName", "State", "Reason", "NodeHostName", "NodeAddr", "CPUTot", "CPUAlloc", "CPULoad"),
        *("Sockets", "CoresPerSocket", "ThreadsPerCore", "RealMemory", "AllocMem", "FreeMem", "TmpDisk"),
        *("Gres", "GresUsed", "OS", "Arch", "BootTime", "SlurmdStartTime", "Weight", "Comment", "Extra"),
        *("ActiveFeatures", "Partitions"),
    )
)
"""The fields that are read here. A table of another source has them all, in this order."""
_FLAGS = re.compile(r"[*~#!%$@^-]+$")
"""Marks that Slurm appends to a state: not responding, powered down and others (sinfo(1), "NODE STATE CODES")."""
_REASON = re.compile(r"(.*?) ?\[(\S+)@([0-9T:-]+)\]$", re.DOTALL)
_GRES = re.compile(r"gpu(?::([^:(,]+))?:(\d+)")
_USED = re.compile(r"gpu(?::([^:(,]+))?:(\d+)(?:\(IDX:([^)]*)\))?")


def node_fields(text: str, reasons: Mapping[str, str] | None = None) -> list[NodeFields]:
    """Return the nodes that scontrol has printed, in Slurm's order.

    `reasons` contains the reasons that the text does not tell clearly, by node.
    """
    told = reasons or {}
    lines = [line for line in text.splitlines() if line.startswith("NodeName=")]
    return [_line_fields(line, told.get(name_of(line))) for line in lines]


def _line_fields(line: str, told: str | None) -> NodeFields:
    fields = NODE.fields(without_reason(line, told) if told else line)
    signature = _REASON.match(fields.get("Reason", ""))
    if told is None or signature is None:
        return fields if told is None else fields | {"Reason": told}
    return fields | {"Reason": f"{told} [{signature[2]}@{signature[3]}]" if told else ""}


def marked_node_fields(text: str, mark: str) -> list[NodeFields]:
    """Return the nodes of a table with NODE_COLUMNS. Raises MalformedTable."""
    return list(read_table(text, NODE_COLUMNS, mark))


def read_nodes(nodes: Sequence[NodeFields], *, at: float) -> list[NodeRow]:
    """Return the rows of the nodes. `at` is the time of the answer in Unix seconds."""
    return [read_node(fields, at=at) for fields in nodes]


def read_node(fields: NodeFields, *, at: float) -> NodeRow:
    """Return the row of one node. Its GPUs have no readings, because slurmctld has none."""
    state, reason, reason_at, user = *_state(fields.get("State", "")), None, ""
    text = fields.get("Reason", "")
    if match := _REASON.match(text):
        text, user, reason_at = match[1], match[2], values.unix_time(match[3])
    total, free = values.size_bytes(fields.get("RealMemory", "")), fields.get("FreeMem", "")
    return NodeRow(
        name=fields["NodeName"],
        state=state,
        reason=text or reason,
        reason_at=reason_at,
        reason_user=user,
        hostname=fields.get("NodeHostName", ""),
        address=fields.get("NodeAddr", ""),
        cpus=_number(fields, "CPUTot"),
        cpus_used=_number(fields, "CPUAlloc"),
        cpu_pct=_load_pct(fields),
        sockets=_number(fields, "Sockets"),
        cores=_number(fields, "CoresPerSocket"),
        threads=_number(fields, "ThreadsPerCore"),
        mem_bytes=total,
        mem_alloc_bytes=values.size_bytes(fields.get("AllocMem", "")),
        mem_used_bytes=max(0, total - values.size_bytes(free)) if free else None,
        tmp_disk_bytes=values.size_bytes(fields.get("TmpDisk", "")),
        gpus=_gpus(fields),
        kernel=fields.get("OS", ""),
        arch=fields.get("Arch", ""),
        booted=values.unix_time(fields.get("BootTime", "")),
        agent_start=values.unix_time(fields.get("SlurmdStartTime", "")),
        weight=_number(fields, "Weight"),
        comment=fields.get("Comment", ""),
        extra=fields.get("Extra", ""),
        features=[word for word in fields.get("ActiveFeatures", "").split(",") if word],
        at=at,
    )


def partitions_of(nodes: Sequence[NodeFields]) -> dict[str, list[str]]:
    """Return the names of the partitions of each node."""
    return {
        fields["NodeName"]: [name for name in fields.get("Partitions", "").split(",") if name]
        for fields in nodes
    }


def flags_of(nodes: Sequence[NodeFields]) -> dict[str, frozenset[str]]:
    """Return the words of the state of each node, in lower case: the base state, and flags such as drain."""
    return {fields["NodeName"]: _words(fields.get("State", "")) for fields in nodes}


def is_drained(flags: frozenset[str]) -> bool:
    """Return whether the words of a state mean that the node accepts no new jobs because of an order."""
    return bool(flags & {"drain", "drained", "draining"})


def _words(state: str) -> frozenset[str]:
    """Return the words of a state. The mark * means that the node does not respond."""
    silent = {"not_responding"} if "*" in state else set()
    return frozenset(_FLAGS.sub("", state).lower().split("+")) | silent


def gpus_in_use(nodes: Sequence[NodeFields]) -> dict[NodeName, frozenset[int]]:
    """Return the indexes of the GPUs that each node reports as allocated, where Slurm knows the indexes."""
    return {NodeName(fields["NodeName"]): _told(fields.get("GresUsed", "")) for fields in nodes}


def _number(fields: Mapping[str, str], name: str) -> int:
    text = fields.get(name, "")
    return int(text) if text.isdigit() else 0


def _load_pct(fields: Mapping[str, str]) -> float | None:
    """Return the load average over the CPUs in percent, at most 100; None if slurmd has not reported it."""
    try:
        load, cpus = float(fields.get("CPULoad", "")), _number(fields, "CPUTot")
    except ValueError:
        return None
    return min(100.0, 100.0 * load / cpus) if cpus else None


def _state(text: str) -> tuple[str, str]:
    """Return sinfo's name of the state, and a reason for a node that has none of its own.

    The state is BASE or BASE+FLAG+FLAG; marks such as * (not responding) may follow.
    """
    base, *flags = _FLAGS.sub("", text).lower().split("+")
    silent = "*" in text or "not_responding" in flags
    if "drain" in flags or base in ("drained", "draining"):
        busy = base in ("allocated", "mixed", "draining", "completing") or "completing" in flags
        return ("draining" if busy else "drained"), ""
    if base == "down" or silent:
        return "down", "slurmd does not answer" if silent else ""
    if base in ("unknown", "future") or "powering_up" in flags or "powered_down" in flags:
        return "connecting", " ".join(flags).replace("_", " ")
    return base, ""


def _gpus(fields: Mapping[str, str]) -> list[GpuRow]:
    """Return the GPUs of the configuration, numbered as in GresUsed.

    GresUsed names the indexes in use only with --details, and only where gres.conf names device files.
    """
    rows: list[GpuRow] = []
    used = _used(fields.get("GresUsed", ""))
    for kind, count in _GRES.findall(fields.get("Gres", "")):
        for _ in range(int(count)):
            index = len(rows)
            rows.append(
                GpuRow(
                    index=index,
                    uuid="",
                    name=kind or "GPU",
                    type=kind,
                    mem_bytes=0,
                    job="?" if index in used else "",
                )
            )
    return rows


def _used(text: str) -> frozenset[int]:
    """Return the indexes of the allocated GPUs. Without indexes, the first ones count as allocated."""
    found = set(_told(text))
    for _, count, indexes in _USED.findall(text):
        if not _indexes(indexes):
            found.update(range(len(found), len(found) + int(count)))
    return frozenset(found)


def _told(text: str) -> frozenset[int]:
    """Return the indexes that GresUsed names."""
    return frozenset(index for _, _, indexes in _USED.findall(text) for index in _indexes(indexes))


def _indexes(text: str) -> list[int]:
    return [] if text == "N/A" else numbers(text)
