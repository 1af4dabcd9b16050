"""Keys of `scontrol update JobId=`, with Slurm's names.

The table maps each key to the job fields that it changes and to its shortest abbreviation. Keys that Slurm
has and that do not apply here are missing from the table; they are refused by name.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from warpdeck.base.errors import UserError
from warpdeck.notation.option_values.special_kinds import MAX_NICE
from warpdeck.notation.values.dependencies import parse_dependencies
from warpdeck.notation.values.durations import parse_limit
from warpdeck.notation.values.gres import parse_gpus, parse_gres
from warpdeck.notation.values.hostlist import expand
from warpdeck.notation.values.licenses import parse_licenses
from warpdeck.notation.values.mail_types import parse_mail_types
from warpdeck.notation.values.memory_sizes import parse_memory
from warpdeck.notation.values.numbers import strtol
from warpdeck.notation.values.time_points import parse_moment

Change = dict[str, Any]
_COUNT = re.compile(r"\d{1,8}")


class UpdateKey(NamedTuple):
    """A key of `scontrol update JobId=`.

    `least` is the minimum number of letters. `change` maps a value to the fields of model.JobChange.
    """

    least: int
    change: Callable[[str], Change]


def key_of(given: str) -> str:
    """Return the first key in the table that a name or abbreviation matches, or "" if there is none."""
    lowered = given.lower()
    if lowered in KEYS:
        return lowered
    return next(
        (name for name, key in KEYS.items() if len(lowered) >= key.least and name.startswith(lowered)), ""
    )


def _invalid(name: str, value: str, hint: str) -> UserError:
    return UserError(f"Invalid {name} value: {value}", hint)


def _count(value: str, name: str) -> int:
    if not _COUNT.fullmatch(value):
        raise _invalid(name, value, "write a number")
    return int(value)


def _number(field: str, name: str) -> Callable[[str], Change]:
    return lambda value: {field: _count(value, name)}


def _nodes_asked(value: str) -> Change:
    low, dash, high = value.partition("-")
    change = {"nodes_min": _count(low, "NumNodes")}
    if dash:
        change["nodes_max"] = _count(high, "NumNodes")
    if not 0 < change["nodes_min"] <= change.get("nodes_max", change["nodes_min"]):
        raise UserError("no such number of nodes", "write MIN or MIN-MAX", code="PartitionNodeLimit")
    return change


def _partition(value: str) -> Change:
    if not value:
        raise UserError("the name of the partition is empty", "name a partition", code="PartitionConfig")
    return {"partition": value}


def _names(field: str) -> Callable[[str], Change]:
    return lambda value: {field: expand(value) if value else []}


def _signed(field: str, name: str, default: str) -> Callable[[str], Change]:
    def set_signed(value: str) -> Change:
        text = value or default
        number = strtol(text)[0]  # Text that is not a number counts as 0.
        if abs(number) > MAX_NICE:
            raise UserError(
                f"{name} value out of range (+/- {MAX_NICE}). Value ignored", "use a smaller number"
            )
        return {field: number}

    return set_signed


def _switches(value: str) -> Change:
    count, at, wait = value.partition("@")
    change: Change = {"max_switches": _count(count, "Switches") or None}
    return {**change, "switches_wait_s": parse_limit(wait)} if at else change


def _yes(field: str, name: str) -> Callable[[str], Change]:
    words = {"1": True, "yes": True, "y": True, "0": False, "no": False, "n": False}

    def set_yes(value: str) -> Change:
        if value.lower() not in words:
            raise _invalid(name, value, "write yes or no")
        return {field: words[value.lower()]}

    return set_yes


def _oversubscribe(value: str) -> Change:
    change = _yes("exclusive", "OverSubscribe")(value)
    shares = change["exclusive"]
    return {"exclusive": not shares, "share_with": "anybody" if shares else ""}


def _text(field: str) -> Callable[[str], Change]:
    return lambda value: {field: value}


def _moment(field: str) -> Callable[[str], Change]:
    return lambda value: {field: parse_moment(value, time.time()) if value else None}


def _mebibytes(field: str, name: str) -> Callable[[str], Change]:
    def set_memory(value: str) -> Change:
        try:
            return {field: parse_memory(value)}
        except UserError as error:
            raise _invalid(name, value, error.hint) from error

    return set_memory


def _dependencies(value: str) -> Change:
    return {"dependencies": parse_dependencies(value) if value else None}


def _mail_types(value: str) -> Change:
    try:
        return {"mail_types": parse_mail_types(value)}
    except UserError as error:
        raise UserError(f"Invalid MailType: {value}", error.hint) from error


def _gres(value: str) -> Change:
    return {"gpus": parse_gres(value) if value else {}}


def _tres(option: str) -> Callable[[str], Change]:
    def set_gpus(value: str) -> Change:
        text = value.removeprefix("gres:").removeprefix("gres/").removeprefix("gpu").lstrip(":=")
        return {"gpus": dict(parse_gpus(text, option)) if value else {}}

    return set_gpus


def _limit(field: str) -> Callable[[str], Change]:
    def set_limit(value: str) -> Change:
        limit_s = parse_limit(value)
        if limit_s is None and value.strip().lower() not in ("infinite", "unlimited"):
            raise UserError(f"{value} minutes is not a limit", "write UNLIMITED to remove the limit")
        return {field: limit_s}

    return set_limit


def _least_time(value: str) -> Change:
    return {"time_min_s": None if strtol(value) == (0, "") else parse_limit(value)}


KEYS = {
    "account": UpdateKey(1, _text("account")),
    "admincomment": UpdateKey(3, _text("admin_comment")),
    "arraytaskthrottle": UpdateKey(10, _number("throttle", "ArrayTaskThrottle")),
    "comment": UpdateKey(3, _text("comment")),
    "contiguous": UpdateKey(3, _yes("contiguous", "Contiguous")),
    "cpus-per-task": UpdateKey(13, _number("cpus_per_task", "CPUs-per-task")),
    "cpuspertask": UpdateKey(11, _number("cpus_per_task", "CPUs-per-task")),
    "dependency": UpdateKey(1, _dependencies),
    "deadline": UpdateKey(3, _moment("deadline_unix")),
    "eligibletime": UpdateKey(2, _moment("begin_at_unix")),
    "endtime": UpdateKey(2, _moment("end_at_unix")),
    "excnodelist": UpdateKey(3, _names("exclude")),
    "features": UpdateKey(1, _text("constraint")),
    "gres": UpdateKey(2, _gres),
    "jobname": UpdateKey(4, _text("name")),
    "licenses": UpdateKey(1, lambda value: {"licenses": parse_licenses(value) if value else []}),
    "mailtype": UpdateKey(5, _mail_types),
    "mailuser": UpdateKey(5, _text("mail_user")),
    "mincpusnode": UpdateKey(4, _number("cpus_per_node_min", "MinCPUsNode")),
    "minmemorycpu": UpdateKey(10, _mebibytes("mem_per_cpu_bytes", "MinMemoryCPU")),
    "minmemorynode": UpdateKey(10, _mebibytes("mem_per_node_bytes", "MinMemoryNode")),
    "name": UpdateKey(2, _text("name")),
    "nice": UpdateKey(2, _signed("nice", "Nice", "100")),
    "nodelist": UpdateKey(8, _names("nodelist")),
    "ntaskspernode": UpdateKey(13, _number("tasks_per_node", "TasksPerNode")),
    "numnodes": UpdateKey(8, _nodes_asked),
    "numtasks": UpdateKey(8, _number("tasks", "NumTasks")),
    "oversubscribe": UpdateKey(2, _oversubscribe),
    "partition": UpdateKey(2, _partition),
    "priority": UpdateKey(2, _number("priority", "Priority")),
    "qos": UpdateKey(1, _text("qos")),
    "reqnodelist": UpdateKey(8, _names("nodelist")),
    "reqnodes": UpdateKey(8, _nodes_asked),
    "reqprocs": UpdateKey(8, _number("tasks", "NumTasks")),
    "requeue": UpdateKey(4, _yes("requeue", "Requeue")),
    "reservationname": UpdateKey(3, _text("reservation")),
    "shared": UpdateKey(2, _oversubscribe),
    "starttime": UpdateKey(2, _moment("begin_at_unix")),
    "stdout": UpdateKey(6, _text("output")),
    "switches": UpdateKey(5, _switches),
    "taskspernode": UpdateKey(2, _number("tasks_per_node", "TasksPerNode")),
    "tasks-per-node": UpdateKey(14, _number("tasks_per_node", "TasksPerNode")),
    "timelimit": UpdateKey(5, _limit("time_limit_s")),
    "timemin": UpdateKey(5, _least_time),
    "tresperjob": UpdateKey(8, _tres("gpus")),
    "trespernode": UpdateKey(8, _tres("gpus-per-node")),
    "trespertask": UpdateKey(8, _tres("gpus-per-task")),
    "wait-for-switch": UpdateKey(5, _number("switches_wait_s", "wait-for-switch")),
    "workdir": UpdateKey(2, _text("chdir")),
}
"""Slurm's key -> its change. An abbreviation that matches several keys means the first one."""
