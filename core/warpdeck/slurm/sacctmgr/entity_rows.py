"""Rows of the entities that sacctmgr can show, as reported by the controller."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

from warpdeck.base.cluster import CLUSTER_NAME as CLUSTER
from warpdeck.base.cluster import NORMAL_QOS
from warpdeck.slurm.fields.node_fields import author, node_tres, tres_of_all, with_uid
from warpdeck.slurm.fields.partition_fields import with_members
from warpdeck.slurm.fields.reservation_fields import RESERVATION
from warpdeck.slurm.format.account_tree import ROOT, in_tree
from warpdeck.slurm.format.units import UNKNOWN, clock, moment, tres_text
from warpdeck_agent.wire.hostnames import collapse

from .change_messages import ChangeRefused
from .limit_names import OF_ASSOCIATION, limit_texts

Row = dict[str, str]
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
STATS_RULE = "*" * 67
OUT = {"down": ("DOWN", "1"), "drained": ("DRAIN", "514"), "draining": ("DRNG", "515")}
"""Node state that `show event` lists -> Slurm's name and number."""


DENIED = "sacctmgr: error: Access/permission denied\n"
DENIED_EVENTS = f"{DENIED} Error with request: Access/permission denied\n"
DENIED_QUERY = f"{DENIED} Problem with query.\n"
"""Slurm's messages for entities that the user may not see (PrivateData)."""


def private_data(client: Any) -> frozenset[str]:
    """Return the private subjects of the site."""
    return frozenset(client.call("settings")["settings"].get("PrivateData", "").split(","))


def is_operator(client: Any) -> bool:
    """Return whether the user is an operator, an administrator, or root."""
    welcome = client.welcome
    return bool(welcome.get("admin")) or welcome.get("level", "none") != "none"


def no_rows(client: Any) -> list[Row]:
    """Return the rows of an entity that does not exist here."""
    return []


def association_rows(client: Any) -> list[Row]:
    """Return the associations in the order of the tree; "above" holds one blank for each level."""
    every = _qos_names(client)
    told = client.call("shares")
    tree = in_tree(told["shares"], is_partial=told.get("is_partial", False))
    return [_association(row, above, every) for row, above in tree]


def _qos_names(client: Any) -> list[str]:
    return sorted({NORMAL_QOS, *(row["name"] for row in client.call("qos")["qos"])})


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
        **limit_texts(row["holds"], OF_ASSOCIATION),
    }


def user_rows(client: Any) -> list[Row]:
    """Return one row for each association of each user.

    `matching` reduces them to one row for each user if associations are not requested.
    """
    shares = client.call("shares")
    levels = {
        ROOT: "Administrator",
        **{user: level.title() for user, level in shares.get("admin_levels", {}).items()},
    }
    coordinated: dict[str, list[str]] = {}
    for share in shares["shares"]:
        for user in share.get("coordinators", ()):
            coordinated.setdefault(user, []).append(share["account"])
    rows = [row for row in association_rows(client) if row["User"]]
    here = {row["User"] for row in rows}
    rows += [{"User": user, "Account": ""} for user in {*levels, *coordinated} - {ROOT} - here]
    defaults: dict[str, str] = {}
    for row in sorted(rows, key=lambda row: not row.get("is default")):
        defaults.setdefault(row["User"], row["Account"])
    return [
        {
            **row,
            "Def Acct": defaults[row["User"]],
            "Admin": levels.get(row["User"], "None"),
            "coordinates": ",".join(sorted(coordinated.get(row["User"], ()))),
        }
        for row in sorted(rows, key=lambda row: (row["User"], row["Account"]))
    ]


def account_rows(client: Any) -> list[Row]:
    """Return one row for each association of each account, the account's own row first.

    `matching` reduces them to one row for each account if associations are not requested.
    """
    told = client.call("shares")
    shares = told["shares"]
    if (
        not any(not row["user"] for row in shares)
        and "accounts" in private_data(client)
        and not is_operator(client)
    ):
        raise ChangeRefused(DENIED_QUERY)
    about = {
        row["account"]: row
        for row, _ in in_tree(shares, is_partial=told.get("is_partial", False))
        if not row["user"]
    }
    rows = [
        _account(about[row["Account"]]) | row for row in association_rows(client) if row["Account"] in about
    ]
    return sorted(rows, key=lambda row: (row["Account"], row["User"]))


def _account(row: Mapping[str, Any]) -> Row:
    name = row["account"]
    if name == ROOT and not row["shares"]:
        return {"Descr": "default root account", "Org": name}
    about = {"Descr": row["description"] or name, "Org": row["organization"] or row["parent"] or name}
    return {**about, "coordinates": ",".join(row.get("coordinators", ()))}


def qos_rows(client: Any) -> list[Row]:
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
            **limit_texts(row["limits"]),
        }
        for row in client.call("qos")["qos"]
    ]
    if all(row["Name"] != NORMAL_QOS for row in found):
        normal = {"Name": NORMAL_QOS, "Priority": "0", "GraceTime": "00:00:00", "PreemptMode": "cluster"}
        found.append(normal | {"Share": "0", "Descr": "Normal QOS default", "UsageFactor": "1.000000"})
    found.sort(key=lambda row: row["Name"] != NORMAL_QOS)
    return [{**row, "ID": str(number)} for number, row in enumerate(found, 1)]


def cluster_rows(client: Any) -> list[Row]:
    nodes = client.call("nodes", facts=True)["nodes"]
    return [
        {
            **_whole(nodes),
            "Account": ROOT,
            "ControlHost": client.call("status")["host"],
            "ControlPort": "0",
            "RPC": "9728",
            "Share": "1",
            "QOS": ",".join(_qos_names(client)),
            "PluginIDSelect": "109",
            "NodeCount": str(len(nodes)),
            "ID": "0",
        }
    ]


def _whole(nodes: Sequence[dict[str, Any]]) -> Row:
    """Return the sums over all nodes."""
    sums = {**tres_of_all(nodes), "node": len(nodes)}
    totals = {
        "TRES": tres_text(sums, by_name=True),
        "Cluster Nodes": collapse(node["name"] for node in nodes),
    }
    return {"Cluster": CLUSTER, **totals}


def event_rows(client: Any) -> list[Row]:
    """Return the current events: the cluster, and the nodes that are down or drained.

    Past events are not stored.
    """
    if "events" in private_data(client) and not is_operator(client):
        raise ChangeRefused(DENIED_EVENTS)
    nodes, now = client.call("nodes", facts=True)["nodes"], time.time()
    since = now - client.call("status")["uptime_s"]
    lasts = {"TimeEnd": UNKNOWN, "Cluster": CLUSTER}
    all_nodes = {"Event": "Cluster", "EventRaw": "1", "StateRaw": "0", "Reason": "Cluster Registered TRES"}
    found = [{**_whole(nodes), **lasts, **all_nodes, **_times(since, now)}]
    for node in nodes:
        if node["state"] in OUT:
            state, raw = OUT[node["state"]]
            of_node = {"NodeName": node["name"], "State": state, "StateRaw": raw, "Reason": node["reason"]}
            tres = tres_text({**node_tres(node), "node": 1}, by_name=True)
            found.append(
                {"Event": "Node", "EventRaw": "2", "User": with_uid(author(node)), "TRES": tres}
                | {**lasts, **of_node, **_times(node["reason_at"] or since, now)}
            )
    return found


def _times(at: float, now: float) -> Row:
    return {"TimeStart": moment(at), "Duration": clock(max(0.0, now - at)), "start at": str(at)}


def tres_rows(client: Any) -> list[Row]:
    return [{"Type": kind, "Name": name, "ID": str(number)} for kind, name, number in TRES]


def config_text(client: Any) -> str:
    values = client.call("settings")["settings"]
    lines = [f"{name:<22} = {value or '(null)'}" for name, value in sorted(values.items())]
    return "\n".join([f"Configuration data as of {moment(time.time())}", *lines, ""])


def stats_text(client: Any) -> str:
    """Return the statistics of the controller, which stores the history itself, in sdiag's format."""
    from warpdeck.slurm.viewers.sdiag import moment_text, request_lines

    figures = client.call("diagnosis")
    head = [
        STATS_RULE,
        f"sacctmgr show stats output at {moment_text(figures['now'])}",
        f"Data since                    {moment_text(figures['since'])}",
        "All statistics are in microseconds",
        STATS_RULE,
    ]
    return "\n".join([*head, "", *request_lines(figures, {}), ""])


def no_runaway_text(client: Any) -> str:
    return f"Runaway Jobs: No runaway jobs found on cluster {CLUSTER}\n"


def reservation_rows(client: Any) -> list[Row]:
    nodes = {node["name"]: node for node in client.call("nodes", facts=True)["nodes"]}
    rows = [with_members(row, nodes) for row in client.call("reservations")["reservations"]]
    return [
        {
            "Cluster": CLUSTER,
            "Name": row["name"],
            "TRES": tres_text({"cpu": RESERVATION["cores"].value(row)}),
            "TimeStart": moment(row["start"]),
            "TimeEnd": moment(row["end"]),
            "Flags": ",".join(RESERVATION["flags"].value(row)),
            "NodeName": row["node_list"],
            "UnusedWall": "0.000000",
            "start at": str(row["start"] or 0.0),
            "end at": str(row["end"] or inf),
        }
        for row in rows
    ]
