"""The keys of `scontrol update job` for the fields of a change. All functions are pure.

A row maps fields of `JobChange` to one or more KEY=VALUE. Each becomes one argument of the command, so a value may
contain any character. Times are in UTC, because all commands run with TZ=UTC.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec
from msgspec import UNSET

from warpdeck.base.errors import UserError
from warpdeck.engines.slurm.versions import Feature, Version, has
from warpdeck.model.change import JobChange
from warpdeck.model.request import GpuRequest
from warpdeck.notation.values.dependencies import format_dependencies
from warpdeck.notation.values.durations import format_clock
from warpdeck.notation.values.hostlist import collapse

MIB = 1024 * 1024
SWITCHES_WAIT_S = 300
"""Slurm's default (max_switch_wait)."""
Words = list[str]


class KeyRow(NamedTuple):
    """The fields that `words` turns into KEY=VALUE. It raises UserError for a value that scontrol cannot set."""

    fields: tuple[str, ...]
    words: Callable[[JobChange, Version], Words]


def update_words(change: JobChange, version: Version) -> Words:
    """Return the arguments of `scontrol update` that make these changes. Raises UserError."""
    wanted = change.changed_fields()
    if not wanted:
        raise UserError("nothing to change", "name a field and its new value")
    found: Words = []
    for row in ROWS:
        if wanted.intersection(row.fields):
            found += row.words(change, version)
    return found


def time_word(at_unix: float) -> str:
    """Return a time as Slurm's commands read it."""
    return datetime.fromtimestamp(int(at_unix), UTC).strftime("%Y-%m-%dT%H:%M:%S")


def duration_word(seconds: int) -> str:
    """Return a duration with days, hours, minutes and seconds. Slurm rounds limits up to whole minutes."""
    text = format_clock(seconds)
    return text if "-" in text else f"0-{text}"


def _row(name: str, key: str, show: Callable[[object], str]) -> KeyRow:
    return KeyRow((name,), lambda change, _: [f"{key}={show(getattr(change, name))}"])


def _text(value: object) -> str:
    return str(value)


def _limit(value: object) -> str:
    return "UNLIMITED" if value is None else duration_word(_int(value))


def _time(value: object) -> str:
    return "now" if value is None else time_word(_float(value))


def _int(value: object) -> int:
    assert isinstance(value, int)
    return value


def _float(value: object) -> float:
    assert isinstance(value, (int, float))
    return value


def _yes(value: object) -> str:
    return "yes" if value else "no"


def _flag(value: object) -> str:
    return "1" if value else "0"


def _mebibytes(value: object) -> str:
    return str(-(-_int(value) // MIB))


def _names(value: object) -> str:
    assert isinstance(value, tuple)
    return collapse(value)


def _mail_types(value: object) -> str:
    assert isinstance(value, tuple)
    return ",".join(value) or "NONE"


def _licenses(value: object) -> str:
    assert isinstance(value, tuple)
    return ",".join(f"{name}:{count}" for name, count in value)


def _dependencies(value: object) -> str:
    return format_dependencies(msgspec.to_builtins(value)) if value is not None else ""


def _cannot(what: str, hint: str) -> UserError:
    return UserError(f"Slurm cannot {what}", hint, code="unsupported")


def _more_time(change: JobChange, version: Version) -> Words:
    seconds = change.time_limit_more_s
    return [f"TimeLimit={'+' if seconds > 0 else '-'}{duration_word(abs(seconds))}"]


def _deadline(change: JobChange, version: Version) -> Words:
    if change.deadline_unix is None:
        raise _cannot("remove the deadline of a job", "set a later one")
    return [f"Deadline={_time(change.deadline_unix)}"]


def _priority(change: JobChange, version: Version) -> Words:
    if change.priority is None:
        raise _cannot("compute a priority anew with an update", "`warpdeck release` does it")
    return [f"Priority={change.priority}"]


def _nodes(change: JobChange, version: Version) -> Words:
    low, high = change.nodes_min, change.nodes_max
    if low is UNSET:
        raise _cannot("change only the maximum number of nodes", "give the minimum, too")
    return [f"NumNodes={low}" if high is UNSET else f"NumNodes={low}-{high}"]


def _sharing(change: JobChange, version: Version) -> Words:
    if change.share_with == "anybody":
        return ["OverSubscribe=yes"]
    if change.exclusive is True:
        return ["OverSubscribe=no"]
    raise _cannot("make a job share its nodes in the default way again", "submit it again")


def _switches(change: JobChange, version: Version) -> Words:
    """Without a time, Slurm would let the job wait for no time at all."""
    if change.switches_wait_s is None:
        raise _cannot("let a job wait for its switches forever", "give a time")
    if change.max_switches is UNSET:
        return [f"wait-for-switch={change.switches_wait_s}"]
    wait_s = SWITCHES_WAIT_S if change.switches_wait_s is UNSET else change.switches_wait_s
    return [
        f"Switches={change.max_switches}@{duration_word(wait_s)}" if change.max_switches else "Switches=0"
    ]


def _gpus(change: JobChange, version: Version) -> Words:
    """Return the key of the count that is set. The other counts are removed."""
    gpus = change.gpus
    assert isinstance(gpus, GpuRequest)
    if gpus.share_pct is not None or gpus.shards is not None:
        raise _cannot("change a job to a part of a GPU", "submit it again")
    prefix = "gres:gpu" if has(version, Feature.GRES_PREFIX) else "gpu"
    kind = f":{gpus.type}" if gpus.type else ""
    counts = {"TresPerJob": gpus.total, "TresPerNode": gpus.per_node, "TresPerTask": gpus.per_task}
    wanted = [f"{key}={prefix}{kind}:{count}" for key, count in counts.items() if count]
    return [*(f"{key}=" for key, count in counts.items() if not count), *wanted]


ROWS = (
    _row("time_limit_s", "TimeLimit", _limit),
    KeyRow(("time_limit_more_s",), _more_time),
    _row("end_at_unix", "EndTime", _time),
    _row("time_min_s", "TimeMin", lambda value: "0" if value is None else _limit(value)),
    KeyRow(("deadline_unix",), _deadline),
    _row("begin_at_unix", "StartTime", _time),
    _row("partition", "Partition", _text),
    _row("account", "Account", _text),
    _row("qos", "QOS", _text),
    _row("reservation", "ReservationName", _text),
    KeyRow(("priority",), _priority),
    _row("nice", "Nice", _text),
    _row("name", "JobName", _text),
    _row("comment", "Comment", _text),
    _row("admin_comment", "AdminComment", _text),
    _row("requeue", "Requeue", _flag),
    _row("mail_types", "MailType", _mail_types),
    _row("mail_user", "MailUser", _text),
    _row("dependencies", "Dependency", _dependencies),
    _row("licenses", "Licenses", _licenses),
    _row("throttle", "ArrayTaskThrottle", _text),
    _row("output", "StdOut", _text),
    _row("chdir", "WorkDir", _text),
    KeyRow(("nodes_min", "nodes_max"), _nodes),
    _row("tasks", "NumTasks", _text),
    _row("tasks_per_node", "TasksPerNode", _text),
    _row("cpus_per_task", "CPUsPerTask", _text),
    _row("cpus_per_node_min", "MinCPUsNode", _text),
    _row("mem_per_node_bytes", "MinMemoryNode", _mebibytes),
    _row("mem_per_cpu_bytes", "MinMemoryCPU", _mebibytes),
    _row("contiguous", "Contiguous", _yes),
    KeyRow(("gpus",), _gpus),
    _row("nodelist", "ReqNodeList", _names),
    _row("exclude", "ExcNodeList", _names),
    _row("constraint", "Features", _text),
    KeyRow(("exclusive", "share_with"), _sharing),
    KeyRow(("max_switches", "switches_wait_s"), _switches),
)
"""The keys exist in all versions from 20.11 on. A key that a version refuses is told in Slurm's words."""
