"""`scontrol update`: KEY=VALUE words become a change of jobs, nodes or a reservation. Messages are Slurm's."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from typing import Any

from warpdeck.errors import UserError
from warpdeck.notation.dependencies import parse_dependencies
from warpdeck.notation.gres import parse_gpus, parse_gres
from warpdeck.notation.hostlist import expand
from warpdeck.notation.licenses import parse_licenses
from warpdeck.notation.memory import parse_memory
from warpdeck.notation.moments import parse_moment
from warpdeck.notation.times import parse_limit
from warpdeck.slurm.refusals import WORDS

from .orders import complain_of, named_jobs
from .session import Failed, Session

Change = dict[str, Any]
NO_ENTITY = (
    "No valid entity in update command\n"
    'Input line must include "NodeName", "PartitionName", "Reservation", "JobId", or "SlurmctldDebug"'
)
NODE_STATES = "Valid states are: NoResp DRAIN FAIL FUTURE RESUME POWER_DOWN POWER_UP UNDRAIN"
_COUNT = re.compile(r"\d{1,8}")


def update(session: Session, words: list[str]) -> None:
    """Finds out what is meant by the keys. Raises Failed."""
    if not words:
        raise Failed("too few arguments for update keyword")
    pairs = pairs_of(words)
    for key, _ in pairs:
        for kinds, run in (
            (("jobid", "jobname"), _jobs),
            (("nodename",), _nodes),
            (("partitionname",), _partition),
            (("reservationname",), _reservation),
        ):
            if any(_means(key, kind, least=4 if kind.startswith("job") else 1) for kind in kinds):
                run(session, pairs)
                return
        if _means(key, "slurmctlddebug", least=2):
            raise Failed("scontrol: error: SlurmctldDebug is not supported: the log has all that there is")
    raise Failed(NO_ENTITY)


def pairs_of(words: list[str]) -> list[tuple[str, str]]:
    """(key, value); `job 12` is `job=12`. A + or - before the = stays with the key."""
    pairs: list[tuple[str, str]] = []
    queue = list(words)
    while queue:
        key, equals, value = queue.pop(0).partition("=")
        if not equals and queue and not pairs:
            value = queue.pop(0)
        pairs.append((key, value))
    return pairs


def _means(key: str, name: str, *, least: int = 1) -> bool:
    """Whether the key is the name or the beginning of it, as Slurm has it: jobid may be job."""
    lowered = key.lower()
    return len(lowered) >= min(least, 3) and name.startswith(lowered)


def _jobs(session: Session, pairs: list[tuple[str, str]]) -> None:
    change: Change = {}
    jobs: list[str] = []
    for key, value in pairs:
        lowered = key.lower()
        if lowered in ("job", "jobi", "jobid"):
            jobs += named_jobs(session, [value])
        elif lowered == "jobname" and not jobs and pairs[0][0].lower() == "jobname":
            jobs += named_jobs(session, [f"jobname={value}"])
        elif "dependency".startswith(lowered) and len(lowered) > 2 and value and not _parses(value):
            raise Failed(f"{WORDS['dependency']} for job {jobs[0] if jobs else ''}")
        else:
            _one(change, key, value)
    if not change:
        raise Failed("No changes specified")
    with session.connect() as client:
        for word in jobs:
            try:
                client.call("job_update", jobs=[word], change=change)
            except UserError as error:
                if "is no job id" in error.message:
                    error = UserError(error.message, code="not_found")
                complain_of(session, error, word)


def _one(change: Change, key: str, value: str) -> None:
    """What one KEY=VALUE changes. Raises Failed."""
    sign = key[-1] if key[-1:] in ("+", "-") else ""
    name = _key(key.rstrip("+-"))
    if not name:
        raise Failed(f"Update of this parameter is not supported: {key}={value}\nRequest aborted")
    if name == "timelimit" and value[:1] in ("+", "-") and value != "-1":
        sign, value = value[0], value[1:]
    try:
        if sign and name == "timelimit":
            change["time_limit_more_s"] = (-1 if sign == "-" else 1) * (parse_limit(value) or 0)
        elif sign:
            raise Failed(f"Update of this parameter is not supported: {key}={value}\nRequest aborted")
        else:
            change.update(KEYS[name](value))
    except UserError as error:
        raise Failed(_wrong(name, value, error)) from error


def _key(given: str) -> str:
    """The key that a name, or the beginning of one, means: the first in Slurm's order."""
    lowered = given.lower()
    if lowered in KEYS:
        return lowered
    return next(
        (name for name in KEYS if len(lowered) >= LEAST.get(name, 3) and name.startswith(lowered)), ""
    )


def _wrong(name: str, value: str, error: UserError) -> str:
    if name in ("timelimit", "timemin"):
        return f"scontrol: error: Invalid {'TimeLimit' if name == 'timelimit' else 'TimeMin'} value"
    if name in ("starttime", "deadline", "endtime"):
        return f"Invalid time specification (pos=0): {value}\nNo changes specified"
    return f"scontrol: error: {error.message}"


def _parses(dependency: str) -> bool:
    try:
        parse_dependencies(dependency)
    except UserError:
        return False
    return True


def _count(value: str, name: str) -> int:
    if not _COUNT.fullmatch(value):
        raise UserError(f'Invalid {name} value "{value}"', "write a number")
    return int(value)


def _number(field: str, name: str) -> Callable[[str], Change]:
    return lambda value: {field: _count(value, name)}


def _nodes_asked(value: str) -> Change:
    low, dash, high = value.partition("-")
    change = {"nodes_min": _count(low, "NumNodes")}
    return {**change, "nodes_max": _count(high, "NumNodes")} if dash else change


def _names(field: str) -> Callable[[str], Change]:
    return lambda value: {field: expand(value) if value else []}


def _signed(field: str, name: str, default: str) -> Callable[[str], Change]:
    def set_signed(value: str) -> Change:
        text = value or default
        if not re.fullmatch(r"[+-]?\d{1,9}", text):
            raise UserError(f'Invalid {name} value "{value}"', "write a number")
        return {field: int(text)}

    return set_signed


def _switches(value: str) -> Change:
    count, at, wait = value.partition("@")
    change: Change = {"max_switches": _count(count, "Switches") or None}
    return {**change, "switches_wait_s": parse_limit(wait)} if at else change


def _yes(field: str, name: str) -> Callable[[str], Change]:
    words = {"1": True, "yes": True, "y": True, "0": False, "no": False, "n": False}

    def set_yes(value: str) -> Change:
        if value.lower() not in words:
            raise UserError(f'Invalid {name} value "{value}"', "write yes or no")
        return {field: words[value.lower()]}

    return set_yes


def _oversubscribe(value: str) -> Change:
    change = _yes("exclusive", "OverSubscribe")(value)
    return {"exclusive": not change["exclusive"]}


def _text(field: str) -> Callable[[str], Change]:
    return lambda value: {field: value}


def _moment(field: str) -> Callable[[str], Change]:
    return lambda value: {field: parse_moment(value, time.time()) if value else None}


def _mebibytes(field: str) -> Callable[[str], Change]:
    return lambda value: {field: parse_memory(value)}


def _dependencies(value: str) -> Change:
    return {"dependencies": parse_dependencies(value) if value else None}


def _priority(value: str) -> Change:
    if value.upper() in ("INFINITE", "-1"):
        return {"priority": None}
    return {"priority": _count(value, "Priority")}


KEYS: dict[str, Callable[[str], Change]] = {
    "account": _text("account"),
    "arraytaskthrottle": _number("throttle", "ArrayTaskThrottle"),
    "comment": _text("comment"),
    "cpus-per-task": _number("cpus_per_task", "CPUs-per-task"),
    "cpuspertask": _number("cpus_per_task", "CPUs-per-task"),
    "deadline": _moment("deadline_unix"),
    "dependency": _dependencies,
    "endtime": _moment("end_at_unix"),
    "excnodelist": _names("exclude"),
    "features": _text("constraint"),
    "gres": lambda value: {"gpus": parse_gres(value) if value else {}},
    "jobname": _text("name"),
    "licenses": lambda value: {"licenses": parse_licenses(value) if value else []},
    "mincpusnode": _number("cpus_per_task", "MinCPUsNode"),
    "minmemorycpu": _mebibytes("mem_per_cpu_bytes"),
    "minmemorynode": _mebibytes("mem_per_node_bytes"),
    "name": _text("name"),
    "nice": _signed("nice", "Nice", "100"),
    "nodelist": _names("nodelist"),
    "numnodes": _nodes_asked,
    "numtasks": _number("tasks", "NumTasks"),
    "oversubscribe": _oversubscribe,
    "partition": _text("partition"),
    "priority": _priority,
    "qos": _text("qos"),
    "reqnodelist": _names("nodelist"),
    "reqnodes": _nodes_asked,
    "requeue": _yes("requeue", "Requeue"),
    "reservationname": _text("reservation"),
    "starttime": _moment("begin_at_unix"),
    "stdout": _text("output"),
    "switches": _switches,
    "tasks": _number("tasks", "NumTasks"),
    "tasks-per-node": _number("tasks_per_node", "NtasksPerNode"),
    "ntaskspernode": _number("tasks_per_node", "NtasksPerNode"),
    "timelimit": lambda value: {"time_limit_s": parse_limit(value)},
    "timemin": lambda value: {"time_min_s": parse_limit(value)},
    "tresperjob": lambda value: {"gpus": _tres(value, "gpus")},
    "trespernode": lambda value: {"gpus": _tres(value, "gpus-per-node")},
    "trespertask": lambda value: {"gpus": _tres(value, "gpus-per-task")},
    "workdir": _text("chdir"),
}
"""Slurm's key -> fields of model.JobChange."""
PARTITION_KEYS = {
    "allowaccounts": "allow_accounts", "allowgroups": "allow_groups", "allowqos": "allow_qos",
    "defaulttime": "default_time", "denyaccounts": "deny_accounts", "denyqos": "deny_qos", "gracetime": "grace_s",
    "maxnodes": "max_nodes", "maxtime": "max_time", "minnodes": "min_nodes", "nodes": "nodes",
    "preemptmode": "preempt_mode", "priorityjobfactor": "priority_job_factor", "prioritytier": "priority_tier",
    "qos": "qos", "state": "state",
}  # fmt: skip
"""Slurm's key of a partition -> ours in [partitions.NAME]."""
LISTS = frozenset({"allow_accounts", "allow_groups", "allow_qos", "deny_accounts", "deny_qos"})
TEXTS = frozenset({"nodes", "qos", "max_time", "default_time"})
"""Settings that are text though they look like a number."""
LEAST = {"partition": 1, "priority": 2, "qos": 1, "account": 1, "requeue": 4, "reservationname": 3, "nice": 2}
LEAST |= {"timelimit": 5, "timemin": 5, "minmemorynode": 10, "minmemorycpu": 10, "features": 1, "gres": 2}
"""Letters of a key that must be written, where it is not three."""


def _tres(value: str, option: str) -> Change:
    text = value.removeprefix("gres:").removeprefix("gres/").removeprefix("gpu").lstrip(":=")
    return dict(parse_gpus(text, option)) if value else {}


def _nodes(session: Session, pairs: list[tuple[str, str]]) -> None:
    names, state, reason = "", "", ""
    for key, value in pairs:
        lowered = key.lower()
        if "nodename".startswith(lowered) and len(lowered) > 1:
            names = value
        elif "state".startswith(lowered) and lowered:
            state = value
        elif "reason".startswith(lowered) and len(lowered) > 2:
            reason = value.strip("\"'")
        else:
            raise Failed(
                f"Update of this parameter is not supported: {key}={value}\nRequest aborted\n"
                f'what a node is stands in config.toml: [nodes."{names or "NAME"}"]; then `scontrol reconfigure`'
            )
    if not state and not reason:
        raise Failed("No changes specified")
    _set_nodes(session, names, state, reason)


def _set_nodes(session: Session, names: str, state: str, reason: str) -> None:
    word = _node_state(state)
    if word in ("drain", "down") and not reason:
        raise Failed("You must specify a reason when DOWNING or DRAINING a node. Request denied")
    with session.connect() as client:
        rows = {row["name"]: row for row in client.call("nodes")["nodes"]}
        chosen = list(rows) if names.upper() == "ALL" else expand(names)
        if not chosen or any(name not in rows for name in chosen):
            raise Failed("slurm_update error: Invalid node name specified")
        for name in chosen:
            try:
                _set_node(client, rows[name], word, reason)
            except UserError as error:
                denied = "Invalid user id" if "only the controller" in error.message else error.message
                session.complain(f"slurm_update error: {denied}")
                return


def _set_node(client: Any, row: dict[str, Any], word: str, reason: str) -> None:
    name = row["name"]
    if word in ("drain", "down"):
        client.call("node_drain", name=name, reason=reason)
    elif word in ("resume", "undrain"):
        client.call("node_resume", name=name)
    elif row["state"] in ("drained", "draining"):
        client.call("node_resume", name=name)
        client.call("node_drain", name=name, reason=reason)
    else:
        raise UserError("a node that takes jobs has no reason", "say State=DRAIN too")
    if word == "down":
        _send_away(client, row["jobs"])


def _send_away(client: Any, jobs: list[str]) -> None:
    """Who runs on a node that is set down goes back to the queue, or ends where it cannot."""
    for job in jobs:
        try:
            client.call("requeue", jobs=[job])
        except UserError:
            client.call("cancel", jobs=[job])


def _node_state(state: str) -> str:
    lowered = state.lower()
    known = {"drain": 3, "fail": 3, "down": 3, "resume": 3, "undrain": 3, "idle": 3}
    if not lowered:
        return ""
    for name, least in known.items():
        if len(lowered) >= least and name.startswith(lowered):
            return {"fail": "drain", "idle": "resume"}.get(name, name)
    raise Failed(
        f"Invalid input: state={state}\nRequest aborted\n{NODE_STATES}\n"
        "Not all states are valid given a node's prior state"
    )


def _partition(session: Session, pairs: list[tuple[str, str]]) -> None:
    name = pairs[0][1]
    with session.connect() as client:
        if name not in {row["name"] for row in client.call("partitions")["partitions"]}:
            raise Failed("slurm_update error: Invalid partition name specified")
    if len(pairs) < 2:
        raise Failed("No changes specified")
    lines = [_setting(key, value) for key, value in pairs[1:]]
    raise Failed(
        f"slurm_update error: partition {name} stands in config.toml\n"
        f"write there, then `scontrol reconfigure`:\n[partitions.{name}]\n" + "\n".join(lines)
    )


def _setting(key: str, value: str) -> str:
    """The line of config.toml that says the same. Raises Failed for what partitions do not have here."""
    lowered = key.lower()
    name = PARTITION_KEYS.get(lowered, lowered)
    if name not in PARTITION_KEYS.values():
        raise Failed(f"Update of this parameter is not supported: {key}={value}\nRequest aborted")
    if name in ("state", "preempt_mode"):
        value = value.upper() if name == "state" else value.lower()
    if name in LISTS:
        return f"{name} = {json.dumps([word for word in value.split(',') if word])}"
    return f"{name} = {value if value.isdecimal() and name not in TEXTS else json.dumps(value)}"


def _reservation(session: Session, pairs: list[tuple[str, str]]) -> None:
    from .reserving import change

    change(session, pairs)
