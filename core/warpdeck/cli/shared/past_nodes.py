"""The nodes at a past moment, for `warpdeck node ls --at` and `warpdeck node show --at`."""

from __future__ import annotations

import time
from typing import Any

from warpdeck.base.output import print_table
from warpdeck.client.blocking_client import SyncClient
from warpdeck.notation.values.durations import roughly
from warpdeck.notation.values.time_points import moment_text, parse_past


def request_nodes(client: SyncClient, at: str, name: str = "") -> list[dict[str, Any]]:
    """Return all nodes, or the node with that name, as they were. Raises UserError."""
    rows: list[dict[str, Any]] = client.call("nodes_at", at=parse_past(at, time.time()), name=name)["nodes"]
    return rows


def print_nodes(rows: list[dict[str, Any]]) -> None:
    """Print a line for each node, with the mean utilization of its GPUs."""
    lines = []
    for row in rows:
        gpus = row["gpus"]
        used = [gpu["util_pct"] for gpu in gpus if gpu["util_pct"] is not None]
        util = f"{sum(used) / len(used):.0f}%" if used else "?" if gpus else ""
        held = f"{sum(bool(gpu['job']) for gpu in gpus)}/{len(gpus)} {gpus[0]['type']}" if gpus else ""
        given = f"{row['cpus_used']}/{row['cpus']}"
        jobs = ",".join(row["jobs"][:4])
        lines.append([row["name"], row["state"], given, held, util, jobs, row["reason"], measured(row)])
    print_table(["NODE", "STATE", "CPUS", "GPUS", "UTIL", "JOBS", "REASON", "MEASURED"], lines)


def measured(row: dict[str, Any]) -> str:
    """Return the time and the resolution of the measurement, or the reason why there is none. Other unknown facts follow."""
    if row["unknown"]:
        since = f"; data starts at {moment_text(row['since'])}" if row["since"] else ""
        words = f"{row['unknown']}{since}"
    else:
        words = f"averages over {roughly(row['step_s'])} from {moment_text(row['begin'])}"
    return f"{words}; unknown: {', '.join(row['untold'])}" if row["untold"] else words
