"""`warpdeck prio|share|partitions|qos`: the site's rules and the numbers that follow from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from warpdeck.base.output import format_count, print_note, print_table
from warpdeck.base.paths import SLURM, default_paths
from warpdeck.cli.arguments import JSON, NO_HEADER, PENDING_JOBS, Argument
from warpdeck.cli.shared.row_tables import print_rows
from warpdeck.cli.verb import Verb, request
from warpdeck.notation.values.durations import format_duration
from warpdeck.notation.values.tres_counts import format_tres

if TYPE_CHECKING:
    from argparse import Namespace

    from warpdeck.cli.shared.row_tables import Columns

PARTS = (
    ("age", "AGE"),
    ("fairshare", "FAIRSHARE"),
    ("job_size", "SIZE"),
    ("partition", "PARTITION"),
    ("qos", "QOS"),
)
"""Parts of a priority with fixed names, and their titles."""
TIES = {
    "submission": "in the order of submission",
    "response": "by response ratio, (waited + likely run time) / likely run time, the largest first",
    "promised": "by their reserved start times",
}


def _print_prio(answer: dict[str, Any], args: Namespace) -> None:
    weights: dict[str, float] = answer["weights"]
    parts = [(name, title) for name, title in PARTS if name in weights]
    tres = [name for name in weights if name not in dict(PARTS)]
    head = ["JOBID", "USER", "ACCOUNT", "PARTITION", "QOS", "PRIORITY"]
    head += [f"+{title}" for _, title in parts] + [f"+{name.upper()}" for name in tres] + ["-NICE"]
    lines = []
    for row in answer["jobs"]:
        facts = [row["label"], row["user"], row["account"], row["partition"], row["qos"]]
        numbers = [row[f"{name}_part"] for name, _ in parts] + [
            row["tres_parts"].get(name, 0) for name in tres
        ]
        set_by = " (set by hand)" if row["set_by_hand"] else ""
        shown = [format_count(round(number, 3)) for number in numbers]
        lines.append([*facts, str(row["priority"]), *shown, f"{row['nice']}{set_by}"])
    if not lines:
        print_note("no waiting jobs")
        return
    print_table([] if args.noheader else head, lines, right=frozenset({0, *range(5, len(head))}))
    if not weights:
        order = TIES[answer["queue_order"]]
        print_note(
            f"all weights are 0; jobs of equal priority are ordered {order}. {settings_hint('[scheduler.weights]')}"
        )
    elif not args.noheader:
        most = " + ".join(f"{name} (0 to {format_count(weight)})" for name, weight in weights.items())
        print(f"priority = {most} - nice; the highest priority is first")


def _print_share(answer: dict[str, Any], args: Namespace) -> None:
    rows = answer["shares"]
    if not rows:
        print_note(
            f"no accounts are configured, so usage is not counted. {settings_hint('[accounts.NAME] tables')}"
        )
        return
    print_rows(rows, SHARE_COLUMNS, titles=not args.noheader)
    if not args.noheader:
        half = answer["half_life_s"]
        fades = f"it decays with a half-life of {format_duration(half)}" if half else "it does not decay"
        print(f"usage is in billing-seconds; {fades}")


def _print_partitions(answer: dict[str, Any], args: Namespace) -> None:
    print_rows(answer["partitions"], PARTITION_COLUMNS, titles=not args.noheader)
    if not args.noheader:
        print("GPUs and CPUs: used/total")
    if not answer["configured"]:
        print_note(
            f"no partitions are configured; one partition contains all nodes. {settings_hint('[partitions.NAME] tables')}"
        )


def _partition_limits(row: dict[str, Any]) -> str:
    """Return a partition's limits, without the longest time."""
    default = row["default_time_s"]
    words = [
        f"default time {format_duration(default)}" if default is not None else "",
        f"at least {_nodes(row['min_nodes'])}" if row["min_nodes"] else "",
        f"at most {_nodes(row['max_nodes'])}" if row["max_nodes"] is not None else "",
        f"limits of QoS {row['qos']}" if row["qos"] else "",
        "whole nodes" if row["exclusive"] else "",
        "one user per node" if row["exclusive_user"] else "",
    ]
    return ", ".join(word for word in words if word) or "none"


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


def _partition_access(row: dict[str, Any]) -> str:
    """Return who may use a partition."""
    words = []
    groups = [f"group {name}" for name in row["allow_groups"] or ()]
    if row["allow_groups"] is not None or row["allow_users"] is not None:
        words.append(" or ".join([*groups, *(row["allow_users"] or ())]) or "nobody")
    for title, key in (("account", "accounts"), ("QoS", "qos")):
        if row[f"allow_{key}"] is not None:
            words.append(f"{title} {' or '.join(row[f'allow_{key}'])}")
        if row[f"deny_{key}"]:
            words.append(f"not {title} {' or '.join(row[f'deny_{key}'])}")
    return ", ".join(words) or "everybody"


def _print_qos(answer: dict[str, Any], args: Namespace) -> None:
    rows = answer["qos"]
    if not rows:
        print_note(f"no QoS is configured. {settings_hint('[qos.NAME] tables')}")
        return
    print_rows(rows, QOS_COLUMNS, titles=not args.noheader)


def _limit(name: str, value: dict[str, int] | int) -> str:
    """Return a limit as it is written in config.toml."""
    if isinstance(value, dict):
        return format_tres(value)
    return format_duration(value) if name.endswith("_wall") else str(value)


def settings_hint(what: str) -> str:
    """Return a hint where to change a setting."""
    paths = default_paths()
    if paths.engine == SLURM:
        return "Slurm's administrators define them with Slurm's own commands"
    return f"To change this, edit {what} in {paths.config}, then run `warpdeck config reload`"


SHARE_COLUMNS: Columns = {
    "ACCOUNT": lambda row: "  " * row["depth"] + row["account"],
    "USER": lambda row: row["user"],
    ">SHARES": lambda row: row["shares"],
    ">NORM_SHARES": lambda row: f"{row['norm_shares']:.4f}",
    ">USAGE": lambda row: f"{row['usage']:.0f}",
    ">NORM_USAGE": lambda row: f"{row['norm_usage']:.4f}",
    ">LEVEL_FS": lambda row: "inf" if row["level_fs"] is None else f"{row['level_fs']:.4f}",
    ">FAIRSHARE": lambda row: "" if row["fairshare"] is None else f"{row['fairshare']:.4f}",
    "QUOTA": lambda row: format_tres(row["quota"]),
}
PARTITION_COLUMNS: Columns = {
    "PARTITION": lambda row: row["name"] + "*" * row["default"],
    "STATE": lambda row: row["state"],
    ">TIME_LIMIT": lambda row: format_duration(row["max_time_s"]),
    ">NODES": lambda row: row["nodes"],
    ">GPUS": lambda row: f"{row['gpus_used']}/{row['gpus']}",
    ">CPUS": lambda row: f"{row['cpus_used']}/{row['cpus']}",
    ">TIER": lambda row: row["priority_tier"],
    "NODE_STATES": lambda row: ",".join(f"{count} {state}" for state, count in row["node_states"].items()),
    "NODELIST": lambda row: row["node_list"] + (f" (missing: {row['missing']})" if row["missing"] else ""),
    "LIMITS": _partition_limits,
    "MAY_USE": _partition_access,
}
QOS_COLUMNS: Columns = {
    "QOS": lambda row: row["name"],
    ">PRIORITY": lambda row: row["priority"],
    "PREEMPTS": lambda row: ",".join(row["preempts"]),
    "WHEN_PREEMPTED": lambda row: row["preempt_mode"] or "site default",
    ">GRACE": lambda row: format_duration(row["grace_s"]),
    ">USAGE_FACTOR": lambda row: format_count(row["usage_factor"]),
    "LIMITS": lambda row: (
        " ".join(f"{name}={_limit(name, limit)}" for name, limit in row["limits"].items()) or "none"
    ),
}
VERBS = (
    Verb(
        "prio", """\
Show the priority of waiting jobs and its components.

Each component is a weight ([scheduler.weights] in config.toml) times a factor between 0 and 1:
  AGE        time since the job became eligible; 1 after scheduler.max_age
  FAIRSHARE  fair-share factor of the user and account; see `warpdeck share`
  SIZE       mean of the job's fractions of the cluster's nodes and CPUs
  PARTITION  the partition's priority_job_factor divided by the largest one
  QOS        the QoS's priority divided by the largest one
  TRES       the job's fractions of the cluster's CPUs, memory, GPUs and other TRES

The priority is the sum of the components minus NICE. Jobs are ordered first by the partition's tier and by whether
their QoS can preempt, then by priority. scheduler.queue_order orders jobs of equal priority: "response" (largest
ratio of waiting time to run time first) or "submission".""",
        (Argument("[JOB ...]", "only these jobs; default: all waiting jobs", completes=PENDING_JOBS), NO_HEADER, JSON),
        examples=("warpdeck prio", "warpdeck prio 12 13_4", "warpdeck prio --json"),
        ask=request("priorities", ids="jobs"), show=_print_prio,
    ),
    Verb(
        "share", """\
Show the tree of accounts with shares, usage and fair-share factors.

  SHARES      configured shares; NORM_SHARES is their fraction of the shares of all siblings
  USAGE       billing-seconds of its jobs, decayed with the half-life; NORM_USAGE is its fraction of all siblings
  LEVEL_FS    NORM_SHARES / NORM_USAGE: above 1 means less usage than the share, below 1 means more
  FAIRSHARE   factor of a user between 0 and 1: the rank by LEVEL_FS in the tree (Slurm's Fair Tree)
  QUOTA       resources guaranteed to the account; beyond them it borrows idle resources""",
        (NO_HEADER, JSON),
        examples=("warpdeck share", "warpdeck share --json"),
        ask=request("shares"), show=_print_share,
    ),
    Verb(
        "partitions", "List the partitions with the states of their nodes, limits and access. * marks the default partition.",
        (NO_HEADER, JSON),
        examples=("warpdeck partitions", "warpdeck partitions --json"),
        ask=request("partitions"), show=_print_partitions,
    ),
    Verb(
        "qos", "List the qualities of service (QoS) with their priorities, preemption and limits.",
        (NO_HEADER, JSON),
        examples=("warpdeck qos", "warpdeck submit --qos urgent train.sh"),
        ask=request("qos"), show=_print_qos,
    ),
)  # fmt: skip
