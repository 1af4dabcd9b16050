"""Lines of `scontrol show` for nodes, partitions, reservations and licenses, in Slurm's layout. Pure.

Source: Slurm's own output.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from warpdeck.base.passwd import uid_of
from warpdeck.base.slurm_version import RELEASE
from warpdeck.notation.filters.reservation_flags import format_flags
from warpdeck.slurm.format.reservation_extras import watts_text
from warpdeck.slurm.format.units import clock, gpus_text, gres_text, moment, or_null, tres_text

Row = dict[str, Any]
MIB = 2**20
STATES = {"connecting": "UNKNOWN", "draining": "MIXED+DRAIN", "drained": "IDLE+DRAIN", "down": "DOWN"}
"""Our node state -> Slurm's base state and flags. States that are not listed have the same name."""


def node_lines(node: Row, partitions: Iterable[Row], *, details: bool) -> list[str]:
    """Return the lines of a node. Unknown values are shown as Slurm shows a node that has not registered."""
    gres = node_gres(node["gpus"])
    cpus, load = node["cpus"], node["cpu_pct"]
    arch = f"Arch={node['arch']} " if node["arch"] else ""
    lines = [
        f"NodeName={node['name']} {arch}CoresPerSocket={node['cores']} ",
        f"CPUAlloc={node['cpus_used']} CPUEfctv={cpus} CPUTot={cpus} "
        f"CPULoad={'N/A' if load is None else f'{load * cpus / 100:.2f}'}",
        f"AvailableFeatures={or_null(','.join(node['features']))}",
        f"ActiveFeatures={or_null(','.join(node['features']))}",
        f"Gres={or_null(gres)}",
    ]
    if details and node["gpus"]:
        lines.append("GresDrain=N/A")
        lines.append(f"GresUsed={_gres_used(node['gpus'])}")
    lines.append(
        f"NodeAddr={node['address'] or node['target']} NodeHostName={node['hostname'] or node['name']} Version={RELEASE}"
    )
    if node["kernel"]:
        lines.append(f"OS={node['kernel']} ")
    return [*lines, *_node_rest(node, [part["name"] for part in partitions if _holds(part, node["name"])])]


def _owner(node: Row) -> str:
    if not node["owner"]:
        return "N/A"
    uid = uid_of(node["owner"])
    return node["owner"] if uid is None else f"{node['owner']}({uid})"


def _holds(partition: Row, name: str) -> bool:
    from warpdeck.notation.values.hostlist import expand

    return name in expand(partition["node_list"])


def _node_rest(node: Row, partitions: Sequence[str]) -> list[str]:
    mem_mib, used = node["mem_bytes"] // MIB, node["mem_used_bytes"]
    free = "N/A" if used is None else str(max(0, node["mem_bytes"] - used) // MIB)
    lines = [
        f"RealMemory={mem_mib} AllocMem={node['mem_alloc_bytes'] // MIB} FreeMem={free} Sockets={node['sockets']} Boards=1",
        f"State={node_state(node)} ThreadsPerCore={node['threads']} TmpDisk={node['tmp_disk_bytes'] // MIB}"
        f" Weight={node['weight']} Owner={_owner(node)} MCS_label=N/A",
        f"Partitions={','.join(partitions)} ",
        f"BootTime={moment(node['booted'], none='None')} SlurmdStartTime={moment(node['agent_start'], none='None')}",
        f"LastBusyTime={moment(node['at'])}",
        f"CfgTRES={tres_text(node_tres(node))}",
        f"AllocTRES={tres_text(held_tres(node))}",
        "CapWatts=n/a",
        "CurrentWatts=0 AveWatts=0",
        "ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s",
    ]
    if node["reason"]:
        lines.append(f"Reason={node['reason']} [root@{moment(node['reason_at'])}]")
    return lines + [f"{key}={node[key.lower()]}" for key in ("Comment", "Extra") if node[key.lower()]]


def node_state(node: Row) -> str:
    """Return a node's state: IDLE, MIXED or ALLOCATED, with +DRAIN; DOWN* if the agent does not answer."""
    state = node["state"]
    if state == "draining" and node["cpus_used"] >= node["cpus"] > 0:
        return "ALLOCATED+DRAIN"
    return str(STATES.get(state, state.upper())) + ("*" if state == "down" else "")


def node_gres(gpus: Sequence[Row]) -> str:
    """Return the GPUs by type, for example gpu:a100:4."""
    return gres_text(Counter(sorted(gpu["type"] for gpu in gpus)))


def _gres_used(gpus: Sequence[Row]) -> str:
    """Return the allocated GPUs by type, for example gpu:a100:2(IDX:0-1)."""
    held: dict[str, list[int]] = {}
    for gpu in gpus:
        held.setdefault(gpu["type"], []).extend([gpu["index"]] if gpu["job"] else [])
    return ",".join(gpus_text(kind, used) for kind, used in sorted(held.items()))


def node_tres(node: Row) -> dict[str, int]:
    """Return the TRES that a node has."""
    return {
        "cpu": node["cpus"],
        "mem": node["mem_bytes"] // MIB,
        "billing": node["cpus"],
        "gres/gpu": len(node["gpus"]),
    }


def held_tres(node: Row) -> dict[str, int]:
    """Return the TRES of a node that jobs hold."""
    held = sum(1 for gpu in node["gpus"] if gpu["job"])
    return {"cpu": node["cpus_used"], "mem": node["mem_alloc_bytes"] // MIB, "gres/gpu": held}


def partition_lines(row: Row, nodes: Mapping[str, Row]) -> list[str]:
    """Return the lines of a partition; `nodes` holds all nodes by name."""
    return [
        f"PartitionName={row['name']}",
        f"AllowGroups={_allowed(row, 'groups')} {_rights(row, 'accounts', 'Accounts')} {_rights(row, 'qos', 'Qos')}",
        f"AllocNodes=ALL Default={'YES' if row['default'] else 'NO'} QoS={row['qos'] or 'N/A'}",
        f"DefaultTime={clock(row['default_time_s'], none='NONE')} DisableRootJobs=NO "
        f"ExclusiveUser={'YES' if row['exclusive_user'] else 'NO'} GraceTime={row['grace_s']} Hidden=NO",
        f"MaxNodes={row['max_nodes'] or 'UNLIMITED'} MaxTime={clock(row['max_time_s'])} "
        f"MinNodes={row['min_nodes']} LLN=NO MaxCPUsPerNode=UNLIMITED",
        f"Nodes={or_null(row['node_list'])}",
        f"PriorityJobFactor={row['priority_job_factor']} PriorityTier={row['priority_tier']} RootOnly=NO ReqResv=NO "
        f"OverSubscribe={'EXCLUSIVE' if row['exclusive'] else 'NO'}",
        f"OverTimeLimit=NONE PreemptMode={(row['preempt_mode'] or 'off').upper()}",
        f"State={row['state']} TotalCPUs={row['cpus']} TotalNodes={row['nodes']} SelectTypeParameters=NONE",
        "JobDefaults=(null)",
        "DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED",
        f"TRES={tres_text(partition_tres(row, nodes), none='(null)')}",
    ]


def partition_tres(row: Row, nodes: Mapping[str, Row]) -> dict[str, int]:
    """Return the TRES of a partition's nodes."""
    mem_bytes = sum(node["mem_bytes"] for node in members(row, nodes))
    return {
        "cpu": row["cpus"],
        "mem": mem_bytes // MIB,
        "node": row["nodes"],
        "billing": row["cpus"],
        "gres/gpu": row["gpus"],
    }


def members(row: Row, nodes: Mapping[str, Row]) -> list[Row]:
    """Return the rows of the existing nodes of a partition or a reservation."""
    from warpdeck.notation.values.hostlist import expand

    return [nodes[name] for name in expand(row["node_list"]) if name in nodes]


def _allowed(row: Row, what: str) -> str:
    names = row[f"allow_{what}"]
    return "ALL" if names is None else ",".join(names) or "NONE"


def _rights(row: Row, what: str, word: str) -> str:
    denied = row[f"deny_{what}"]
    if denied and row[f"allow_{what}"] is None:
        return f"Deny{word}={','.join(denied)}"
    return f"Allow{word}={_allowed(row, what)}"


def reservation_lines(row: Row, nodes: Mapping[str, Row]) -> list[str]:
    """Return the lines of a reservation."""
    tres = reservation_tres(row, nodes)
    users, groups = "" if row["groups"] else whose(row, "users"), ",".join(row["groups"])
    licenses = ",".join(f"{name}:{count}" for name, count in row["licenses"])
    start, end = row["start"], row["end"]
    return [
        f"ReservationName={row['name']} StartTime={moment(start)} EndTime={moment(end)} "
        f"Duration={clock(end - start if start and end else None)}",
        f"Nodes={or_null(row['node_list'])} NodeCnt={len(members(row, nodes))} CoreCnt={tres['cpu']} "
        f"Features={or_null(row['features'])} PartitionName={or_null(row['partition'])} "
        f"Flags={','.join(reservation_flags(row, nodes))}",
        f"TRES={tres_text(tres, none='(null)')}",
        f"Users={or_null(users)} Groups={or_null(groups)} Accounts={or_null(whose(row, 'accounts'))} "
        f"Licenses={or_null(licenses)} State={'ACTIVE' if row['state'] == 'active' else 'INACTIVE'} "
        f"BurstBuffer={or_null(row['burst_buffer'])} Watts={watts_text(row['watts'])}",
        f"MaxStartDelay={clock(row['max_start_delay_s'] or None, none='(null)')}",
    ]


def reservation_tres(row: Row, nodes: Mapping[str, Row]) -> dict[str, int]:
    """Return the CPUs and GPUs that a reservation holds on its nodes."""
    gpus = sum(count for part in row["parts"] for _, count in part["gpus"])
    cpus = sum(part["cpus"] for part in row["parts"]) or sum(node["cpus"] for node in members(row, nodes))
    return {"cpu": cpus, "gres/gpu": gpus}


def reservation_flags(row: Row, nodes: Mapping[str, Row]) -> list[str]:
    """Return a reservation's flags with Slurm's names."""
    return format_flags(row, named="SPEC_NODES" if members(row, nodes) and not row["node_count"] else "")


def whose(row: Row, key: str) -> str:
    """Return the allowed names, then the denied names with a leading "-"."""
    return ",".join([*row[key], *(f"-{name}" for name in row[f"deny_{key}"])])


def license_lines(row: Row) -> list[str]:
    """Return the lines of one of the site's licenses."""
    free = row["total"] - row["used"]
    return [
        f"LicenseName={row['name']}",
        f"    Total={row['total']} Used={row['used']} Free={free} Reserved={row['reserved']} Remote=no",
    ]
