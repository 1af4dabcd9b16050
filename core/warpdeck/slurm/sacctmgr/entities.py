"""Entities that sacctmgr can show: their fields with widths, and their rows as reported by the controller."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any, NamedTuple

from warpdeck.base.cluster import CLUSTER_NAME as CLUSTER
from warpdeck.base.cluster import NORMAL_QOS
from warpdeck.slurm.format.account_tree import ROOT, in_tree
from warpdeck.slurm.format.units import UNKNOWN, clock, moment, tres_text
from warpdeck.slurm.scontrol.site_text import node_tres, reservation_flags, reservation_tres
from warpdeck_agent.wire.hostnames import collapse

from .field_names import part_values

Row = dict[str, str]
NO_ENTITY = (
    "No valid entity in list command\n"
    'Input line must include "Account", "Association", "Cluster", "Configuration",\n'
    '"Event", "Federation", "Problem", "QOS", "Resource", "Reservation",\n'
    '"RunAwayJobs", "Stats", "Transaction", "TRES", "User", or "WCKey"\n'
)
LIMITS = {
    "grp_jobs": "GrpJobs",
    "grp_submit": "GrpSubmit",
    "grp_tres": "GrpTRES",
    "grp_tres_mins": "GrpTRESMins",
    "grp_tres_run_mins": "GrpTRESRunMins",
    "grp_wall_s": "GrpWall",
    "max_tres_per_job": "MaxTRES",
    "max_tres_per_node": "MaxTRESPerNode",
    "max_tres_mins_per_job": "MaxTRESMins",
    "max_wall_s": "MaxWall",
}
"""Limit of an account or a user -> sacctmgr's field."""
OF_ASSOCIATION = {"max_jobs_per_user": "MaxJobs", "max_submit_per_user": "MaxSubmit"}
PER_USER = {"max_jobs_per_user": "MaxJobsPU", "max_submit_per_user": "MaxSubmitPU"}
"""The per-user limits with the names that they have in a QoS."""
OF_QOS = {
    "max_tres_per_user": "MaxTRESPU",
    "max_jobs_per_user": "MaxJobsPU",
    "max_submit_per_user": "MaxSubmitPU",
    "max_tres_per_account": "MaxTRESPA",
    "max_jobs_per_account": "MaxJobsPA",
    "max_submit_per_account": "MaxSubmitPA",
    "min_tres_per_job": "MinTRES",
}
TRES = (
    ("cpu", "", 1),
    ("mem", "", 2),
    ("energy", "", 3),
    ("node", "", 4),
    ("billing", "", 5),
    ("fs", "disk", 6),
    ("vmem", "", 7),
    ("pages", "", 8),
    ("gres", "gpu", 1001),
)
FIRST_QOS_ID = 1
STATS_RULE = "*" * 67
OUT = {"down": ("DOWN", "1"), "drained": ("DRAIN", "514"), "draining": ("DRNG", "515")}
"""Node state that `show event` lists -> Slurm's name and number."""


class Entity(NamedTuple):
    """A kind of object that sacctmgr can show.

    `form` is the default of format=. `key` is the field that holds the name. If `text` is set, its output is
    printed instead of a table.
    """

    least: int
    form: str
    rows: Callable[[Any], list[Row]]
    key: str = ""
    more: Mapping[str, str] = {}
    """Flag -> fields that are added if the flag is given."""
    text: Callable[[Any], str] | None = None


def name_of(word: str) -> str:
    """Return the name of the entity that a word means, in singular or plural and maybe abbreviated, or ""."""
    lowered = word.lower()
    for name, entity in ENTITIES.items():
        if len(lowered) >= entity.least and (name.startswith(lowered) or lowered == name + "s"):
            return name
    return ""


def _limits(limits: Mapping[str, Any], names: Mapping[str, str]) -> Row:
    found = {}
    for field, name in {**LIMITS, **names}.items():
        value = limits.get(field, limits.get(field.removesuffix("_s")))
        if isinstance(value, dict):
            found[name] = tres_text(value)
        elif value is not None:
            found[name] = clock(value) if field.endswith("_s") else str(value)
    return found | part_values(limits)


def _associations(client: Any) -> list[Row]:
    """Return the associations in the order of the tree; "above" holds one blank for each level."""
    every = sorted({NORMAL_QOS, *(row["name"] for row in client.call("qos")["qos"])})
    return [_association(row, above, every) for row, above in in_tree(client.call("shares")["shares"])]


def _association(row: Mapping[str, Any], above: Sequence[str], every: list[str]) -> Row:
    return {
        "Cluster": CLUSTER,
        "Account": row["account"],
        "User": row["user"],
        "ParentName": above[-1] if above and not row["user"] else "",
        "Share": str(row["shares"] or 1),
        "QOS": ",".join(every if row["qos"] is None else row["qos"]),
        "Def QOS": row["default_qos"],
        "above": " " * len(above),
        "below": ",".join((*above, row["account"])),
        "is default": "yes" if row["default"] else "",
        **_limits(row["holds"], OF_ASSOCIATION),
        **_limits(row["holds"], PER_USER),
    }


def _users(client: Any) -> list[Row]:
    """Return one row for each association of each user.

    `matching` reduces them to one row for each user if associations are not requested.
    """
    rows = [row for row in _associations(client) if row["User"]]
    defaults: dict[str, str] = {}
    for row in sorted(rows, key=lambda row: not row["is default"]):
        defaults.setdefault(row["User"], row["Account"])
    return [
        {
            **row,
            "Def Acct": defaults[row["User"]],
            "Admin": "Administrator" if row["User"] == ROOT else "None",
        }
        for row in sorted(rows, key=lambda row: (row["User"], row["Account"]))
    ]


def _accounts(client: Any) -> list[Row]:
    """Return one row for each association of each account, the account's own row first.

    `matching` reduces them to one row for each account if associations are not requested.
    """
    about = {row["account"]: row for row, _ in in_tree(client.call("shares")["shares"]) if not row["user"]}
    rows = [_account(about[row["Account"]]) | row for row in _associations(client)]
    return sorted(rows, key=lambda row: (row["Account"], row["User"]))


def _account(row: Mapping[str, Any]) -> Row:
    name = row["account"]
    if name == ROOT and not row["shares"]:
        return {"Descr": "default root account", "Org": name}
    return {"Descr": row["description"] or name, "Org": row["organization"] or row["parent"] or name}


def _qos(client: Any) -> list[Row]:
    """Return the QoS, with the default one first, as in Slurm's database."""
    found = [
        {
            "Name": row["name"],
            "Descr": row["name"],
            "Priority": str(row["priority"]),
            "GraceTime": clock(row["grace_s"]),
            "Preempt": ",".join(row["preempts"]),
            "PreemptMode": row["preempt_mode"] or "cluster",
            "UsageFactor": f"{row['usage_factor']:.6f}",
            "Share": "0",
            **_limits(row["limits"], OF_QOS),
        }
        for row in client.call("qos")["qos"]
    ]
    if all(row["Name"] != NORMAL_QOS for row in found):
        normal = {"Name": NORMAL_QOS, "Priority": "0", "GraceTime": "00:00:00", "PreemptMode": "cluster"}
        found.append(normal | {"Share": "0", "Descr": "Normal QOS default", "UsageFactor": "1.000000"})
    found.sort(key=lambda row: row["Name"] != NORMAL_QOS)
    return [
        {
            "MaxJobs": row.get("MaxJobsPU", ""),
            "MaxSubmit": row.get("MaxSubmitPU", ""),
            **row,
            "ID": str(number),
        }
        for number, row in enumerate(found, FIRST_QOS_ID)
    ]


def _clusters(client: Any) -> list[Row]:
    nodes = client.call("nodes")["nodes"]
    return [
        {
            **_whole(nodes),
            "Account": ROOT,
            "ControlHost": client.call("status")["host"],
            "ControlPort": "0",
            "RPC": "9728",
            "Share": "1",
            "QOS": ",".join(sorted({NORMAL_QOS, *(row["name"] for row in client.call("qos")["qos"])})),
            "PluginIDSelect": "109",
            "NodeCount": str(len(nodes)),
            "ID": "0",
        }
    ]


def _whole(nodes: Sequence[dict[str, Any]]) -> Row:
    """Return the sums over all nodes."""
    sums: dict[str, int] = {}
    for node in nodes:
        for tres, count in {**node_tres(node), "node": 1}.items():
            sums[tres] = sums.get(tres, 0) + count
    told = {"TRES": tres_text(sums, by_name=True), "Cluster Nodes": collapse(node["name"] for node in nodes)}
    return {"Cluster": CLUSTER, **told}


def _events(client: Any) -> list[Row]:
    """Return the current events: the cluster, and the nodes that are down or drained.

    Past events are not stored.
    """
    nodes, now = client.call("nodes")["nodes"], time.time()
    since = now - client.call("status")["uptime_s"]
    lasts = {"TimeEnd": UNKNOWN, "Cluster": CLUSTER}
    all_nodes = {"Event": "Cluster", "EventRaw": "1", "StateRaw": "0", "Reason": "Cluster Registered TRES"}
    found = [{**_whole(nodes), **lasts, **all_nodes, **_times(since, now)}]
    for node in nodes:
        if node["state"] in OUT:
            told, raw = OUT[node["state"]]
            of_node = {"NodeName": node["name"], "State": told, "StateRaw": raw, "Reason": node["reason"]}
            tres = tres_text({**node_tres(node), "node": 1}, by_name=True)
            found.append(
                {"Event": "Node", "EventRaw": "2", "User": "root(0)", "TRES": tres}
                | {**lasts, **of_node, **_times(node["reason_at"] or since, now)}
            )
    return found


def _times(at: float, now: float) -> Row:
    return {"TimeStart": moment(at), "Duration": clock(max(0.0, now - at)), "start at": str(at)}


def _tres(client: Any) -> list[Row]:
    return [{"Type": kind, "Name": name, "ID": str(number)} for kind, name, number in TRES]


def _none(client: Any) -> list[Row]:
    return []


def _config(client: Any) -> str:
    values = client.call("settings")["settings"]
    lines = [f"{name:<22} = {value or '(null)'}" for name, value in sorted(values.items())]
    return "\n".join([f"Configuration data as of {moment(time.time())}", *lines, ""])


def _stats(client: Any) -> str:
    """Return the statistics of the controller, which stores the history itself, in sdiag's format."""
    from warpdeck.slurm.viewers.sdiag import moment_told, requests_told

    figures = client.call("diagnosis")
    title = f"sacctmgr show stats output at {moment_told(figures['now'])}"
    since = f"Data since                    {moment_told(figures['since'])}"
    return "\n".join(
        [
            STATS_RULE,
            title,
            since,
            "All statistics are in microseconds",
            STATS_RULE,
            "",
            *requests_told(figures, {}),
            "",
        ]
    )


def _no_runaway(client: Any) -> str:
    return f"Runaway Jobs: No runaway jobs found on cluster {CLUSTER}\n"


def _reservations(client: Any) -> list[Row]:
    nodes = {node["name"]: node for node in client.call("nodes")["nodes"]}
    return [
        {
            "Cluster": CLUSTER,
            "Name": row["name"],
            "TRES": tres_text({"cpu": reservation_tres(row, nodes)["cpu"]}),
            "TimeStart": moment(row["start"]),
            "TimeEnd": moment(row["end"]),
            "Flags": ",".join(reservation_flags(row, nodes)),
            "NodeName": row["node_list"],
            "UnusedWall": "0.000000",
            "start at": str(row["start"] or 0.0),
            "end at": str(row["end"] or inf),
        }
        for row in client.call("reservations")["reservations"]
    ]


_WITHOUT_LIMITS = "cluster,account,user,partition"
_TRANSACTION = Entity(
    1, "time,action,actor,where,info", _none, "Actor", {"WithAssocInfo": "user,account,cluster"}
)
ENTITIES = {
    "association": Entity(
        2,
        f"{_WITHOUT_LIMITS},share,priority,grpjobs,grptres,grpsubmit,grpwall,grptresmins,maxjobs,maxtres,maxtrespernode,"
        "maxsubmit,maxwall,maxtresmins,qos,defaultqos,grptresrunmins",
        _associations,
        "User",
    ),
    "account": Entity(
        2,
        "account,description,organization",
        _accounts,
        "Account",
        {
            "WithAssoc": "cluster,parentname,user,share,priority,grpjobs,grpnodes,grpcpus,grpmem,grpsubmit,grpwall,"
            "grpcpumins,maxjobs,maxnodes,maxcpus,maxsubmit,maxwall,maxcpumins,qos,defaultqos",
            "WithCoordinators": "coordinators",
        },
    ),
    "cluster": Entity(
        2,
        "cluster,controlhost,controlport,rpc,share,grpjobs,grptres,grpsubmit,maxjobs,maxtres,maxsubmit,maxwall,qos,defaultqos",
        _clusters,
        "Cluster",
        {"WithFed": "federation,id,features,fedstate"},
    ),
    "configuration": Entity(2, "name", _none, text=_config),
    "event": Entity(1, "cluster,nodename,start,end,state,reason,user", _events, "NodeName"),
    "federation": Entity(1, "federation,cluster,id%2,features,fedstate", _none, "Federation"),
    "problem": Entity(1, "cluster,account,user,problem", _none, "User"),
    "qos": Entity(
        1,
        "name,priority,gracetime,preempt,preemptexempttime,preemptmode,flags%40,usagethres,usagefactor,grptres,grptresmins,"
        "grptresrunmins,grpjobs,grpsubmit,grpwall,maxtres,maxtrespernode,maxtresmins,maxwall,maxtrespu,maxjobspu,maxsubmitpu,"
        "maxtrespa,maxjobspa,maxsubmitpa,mintres",
        _qos,
        "Name",
    ),
    "resource": Entity(
        4, "name,server,type,count,allocated,servertype", _none, "Name", {"WithClusters": "cluster,allowed"}
    ),
    "reservation": Entity(4, "cluster,name%15,tres%30,timestart,timeend,unused", _reservations, "Name"),
    "runawayjobs": Entity(2, "id", _none, text=_no_runaway),
    "stats": Entity(1, "name", _none, text=_stats),
    "tres": Entity(3, "type,name%15,id", _tres, "Name"),
    "transaction": _TRANSACTION,
    "txn": _TRANSACTION._replace(least=3),
    "user": Entity(
        1,
        "user,defaultaccount,adminlevel",
        _users,
        "User",
        {
            "WithCoordinators": "coordinators",
            "WithAssoc": "cluster,account,partition,share,priority,maxjobs,maxnodes,maxcpus,maxsubmit,maxwall,maxcpumins,qos,"
            "defaultqos",
        },
    ),
    "wckey": Entity(1, "wckey,cluster,user", _none, "WCKey"),
}
"""Entity -> its display. An abbreviation means the first entity that it matches."""
WITHOUT_LIMITS = {"association": _WITHOUT_LIMITS, "cluster": "cluster,controlhost,controlport,rpc"}
OF_CLUSTER_EVENTS = "cluster,tres,start,end,clusternodes"
"""Fields that replace the default ones for cluster events."""
