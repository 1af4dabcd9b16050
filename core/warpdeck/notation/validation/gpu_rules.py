"""Checks by Slurm's rules whether requests for GPUs and other generic resources are consistent.

Requests per job, node, socket and task are collected by name and type. Then the counts must be divisible by
each other.
"""

from __future__ import annotations

import re

from warpdeck.notation.option_values.slurm_options import SlurmOptions
from warpdeck.notation.options.given_options import OptionSource
from warpdeck.notation.values.numbers import LONG_MAX, strtol
from warpdeck.notation.values.slurm_error import SlurmError

_WRONG = "Invalid generic resource (gres) specification"
_WRONG_TYPE = "Invalid GRES specification (with and without type identification)"
SHARED = frozenset({"shard", "mps"})
"""Parts of GPUs. A job cannot request them together with GPUs."""
_SUFFIXES: dict[str, int] = {"": 1} | {
    unit + tail: base**power
    for power, unit in enumerate("kmgtp", start=1)
    for tail, base in (("", 1024), ("ib", 1024), ("b", 1000))
}


class _Gres:
    """The requested counts of one generic resource, by name and type."""

    def __init__(self, name: str, kind: str) -> None:
        self.name = name
        self.kind = kind
        self.job = self.node = self.socket = self.task = 0
        self.cpus = self.mem = 0
        self.tasks_per = 0


_Requests = dict[tuple[str, str], _Gres]
"""Requested resources by name and type."""


def _short(number: int | None) -> int | None:
    """Return the number reduced to 16 bits; None for Slurm's 16-bit value that means "not given"."""
    return None if number is None or number % 2**16 == 0xFFFE else number % 2**16


class _Counts:
    """The numbers of nodes, tasks and CPUs of a request, which the rules check and complete."""

    def __init__(self, options: SlurmOptions) -> None:
        counts = options.values
        per_gpu = _short(counts.get("ntasks-per-tres", counts.get("ntasks-per-gpu")))
        self.tasks = options.ntasks if options.ntasks_set else None
        self.min_nodes: int | None = options.min_nodes if options.nodes_set else None
        self.max_nodes: int | None = (options.max_nodes or None) if options.nodes_set else None
        if not options.nodes_set and options.ntasks_set and options.ntasks == 0:
            self.min_nodes = 0
        self.per_node = _short(counts.get("ntasks-per-node"))
        self.per_socket = _short(counts.get("ntasks-per-socket"))
        self.sockets = _short(options.sockets)
        self.cpus = _short(options.cpus_per_task) if options.cpus_set else None
        self.tasks_per_gpu = per_gpu


def check_gpus(options: SlurmOptions, source: OptionSource) -> None:
    """Check the generic resources of a component. Raises SlurmError."""
    texts, counts = options.values, _Counts(options)
    per_task = _prefixed(texts.get("gpus-per-task", ""))
    if (
        (per_task or counts.tasks_per_gpu is not None)
        and counts.tasks is None
        and counts.min_nodes is not None
        and counts.min_nodes == counts.max_nodes
    ):
        _imply_tasks(counts)
    requested: _Requests = {}
    gres = texts.get("gres", "")
    per_node = _prefixed(texts.get("gpus-per-node", "")) + ([] if gres.lower() == "none" else _split(gres))
    cpus, mem = options.values.get("cpus-per-gpu"), options.values.get("mem-per-gpu")
    for field, items in (
        ("cpus", [f"gpu:{cpus}"] if cpus else []),
        ("job", _prefixed(texts.get("gpus", ""))),
        ("node", per_node),
        ("socket", _prefixed(texts.get("gpus-per-socket", ""))),
        ("task", per_task),
        ("mem", [f"gpu:{mem}"] if mem is not None else []),
    ):
        _gather(requested, field, items, counts, source)
    wants_gpus = any(
        gres.name == "gpu" and (gres.job or gres.node or gres.socket or gres.task)
        for gres in requested.values()
    )
    if counts.tasks_per_gpu:
        _take_tasks_per_gpu(requested, counts, wants_gpus=wants_gpus)
        wants_gpus = bool(requested)
    if not requested:
        return
    if mem is not None and not wants_gpus:
        words = f"error: Requested mem_per_tres=gres:gpu:{mem} but did not request any GPU."
        raise SlurmError(_WRONG, "ask for GPUs", more=(words,))
    _check_all(requested, counts, has_gpu_freq="gpu-freq" in texts)


def _imply_tasks(counts: _Counts) -> None:
    assert counts.min_nodes is not None
    if counts.tasks_per_gpu is not None:
        counts.tasks = counts.min_nodes * counts.tasks_per_gpu
    elif counts.per_node is not None:
        counts.tasks = counts.min_nodes * counts.per_node
    elif counts.cpus is None:
        counts.tasks = counts.min_nodes


def _prefixed(text: str) -> list[str]:
    return [f"gpu:{item}" for item in text.split(",") if item]


_ITEM = re.compile(r"gres:([^,]*)")


def _split(gres: str) -> list[str]:
    """Return the items of --gres. Each item begins with "gres:". Text before the first item is
    ignored.
    """
    return [item for item in _ITEM.findall(gres) if item]


def _gather(
    requested: _Requests,
    field: str,
    items: list[str],
    counts: _Counts,
    source: OptionSource,
) -> None:
    for item in items:
        name, kind, count = _read(item)
        if count == 0:
            continue
        if name not in source.gres:
            raise SlurmError(_WRONG, f"ask for gpu[:TYPE]:COUNT, not {name}")
        gres = requested.setdefault((name, kind), _Gres(name, kind))
        # Slurm stores this value in a 16-bit integer.
        setattr(gres, field, count % 2**16 if field == "cpus" else count)
        gres.tasks_per = counts.tasks_per_gpu or 0


def _read(item: str) -> tuple[str, str, int]:
    """Return (name, type, count). The item has a count, a type (count 1), or both."""
    name, colon, rest = item.partition(":")
    if not colon:
        return name, "", 1
    kind, second, text = rest.partition(":")
    if second:
        count = _number(text) if text and kind else None
        if count is None:
            raise SlurmError(_WRONG, "ask for gpu[:TYPE]:COUNT")
        return name, kind, count
    if not kind:
        raise SlurmError(_WRONG, "ask for gpu[:TYPE]:COUNT")
    count = _number(kind)
    return (name, "", count) if count is not None else (name, kind, 1)


def _number(text: str) -> int | None:
    """Return a number with an optional suffix K, M, G, T or P; None if it is invalid.

    As in C, -5 becomes the unsigned 64-bit number 2**64 - 5.
    """
    number, rest = strtol(text)
    factor: int | None = _SUFFIXES.get(rest.lower())
    if factor is None or number in (LONG_MAX, -1):
        return None
    return number * factor % 2**64


def _take_tasks_per_gpu(requested: _Requests, counts: _Counts, *, wants_gpus: bool) -> None:
    each = counts.tasks_per_gpu
    assert each
    if wants_gpus:
        counts.tasks = _gpus_of(requested, counts) * each
    elif counts.tasks:
        if counts.tasks >= each:
            gres = requested.setdefault(("gpu", ""), _Gres("gpu", ""))
            gres.job, gres.tasks_per = counts.tasks // each, each
    else:
        words = (
            "error: gres_job_state_validate: --ntasks-per-tres needs either a GRES GPU specification "
            "or a node/ntask specification"
        )
        raise SlurmError(_WRONG, "ask for GPUs, or for tasks", more=(words,))


def _gpus_of(requested: _Requests, counts: _Counts) -> int:
    """Return the total number of GPUs, as far as it can be determined."""
    total = 0
    for gres in requested.values():
        if gres.name != "gpu":
            continue
        socket = gres.socket
        if counts.min_nodes is not None and counts.sockets is not None:
            socket *= counts.min_nodes * counts.sockets
        node = gres.node * (counts.min_nodes if counts.min_nodes is not None else 1)
        task = gres.task * (counts.tasks if counts.tasks is not None else 1)
        total += max(gres.job, node, socket, task)
    return total


def _check_all(requested: _Requests, counts: _Counts, *, has_gpu_freq: bool) -> None:
    shared, sharing = False, False
    seen: list[_Gres] = []
    for gres in requested.values():
        words = _conflict(gres, counts)
        if words:
            lacks_tasks = gres.task and counts.tasks is None
            hint = (
                "give the number of tasks with -n" if lacks_tasks else "write counts that divide each other"
            )
            raise SlurmError(_WRONG, hint, more=(f"error: {words}",))
        sharing = sharing or gres.name == "gpu"
        if gres.name in SHARED:
            shared = True
            if (
                (gres.job and counts.max_nodes != 1)
                or (gres.socket and counts.sockets != 1)
                or (gres.task and counts.tasks != 1)
            ):
                raise SlurmError(_WRONG, "ask for parts of GPUs per node")
        if shared and sharing:
            _check_kinds(seen)  # If such a conflict occurred earlier in the request, it is reported first.
            raise SlurmError(_WRONG, "ask for GPUs or for parts of them")
        seen.append(gres)
    if shared and has_gpu_freq:
        raise SlurmError(_WRONG, "leave --gpu-freq out")
    _check_kinds(seen)


def _check_kinds(requested: list[_Gres]) -> None:
    """Raise SlurmError if some of the GPUs have a type and others have none."""
    for name in {gres.name for gres in requested}:
        kinds = [gres for gres in requested if gres.name == name]
        plain = [gres for gres in kinds if not gres.kind]
        if plain and len(kinds) > 1 and (plain[0].job or plain[0].node or plain[0].socket or plain[0].task):
            raise SlurmError(_WRONG_TYPE, "give a type to all GPUs, or to none")


def _conflict(gres: _Gres, counts: _Counts) -> str:
    """Return Slurm's error message for counts that do not fit, or ""."""
    for rule in (
        _order,
        _sockets,
        _nodes,
        _node_sockets,
        _task_multiple,
        _tasks,
        _node_tasks,
        _socket_tasks,
        _cpus,
        _least,
    ):
        words = rule(gres, counts)
        if words:
            return words
    return ""


def _order(gres: _Gres, counts: _Counts) -> str:
    name = gres.name
    if gres.job and max(gres.node, gres.task, gres.socket) > gres.job:
        return f"Failed to ensure --{name}s >= --gres={name}/--{name}s-per-node >= --{name}s-per-socket"
    if gres.node and max(gres.task, gres.socket) > gres.node:
        return f"Failed to ensure --{name}s >= --{name}s-per-task"
    return ""


def _sockets(gres: _Gres, counts: _Counts) -> str:
    if gres.socket and counts.sockets is None:
        return f"--{gres.name}s-per-socket option requires --sockets-per-node specification"
    if gres.cpus and counts.cpus is not None:
        return f"--cpus-per-{gres.name} is mutually exclusive with --cpus-per-task"
    return ""


def _nodes(gres: _Gres, counts: _Counts) -> str:
    name = gres.name
    if not gres.job or not gres.node:
        return ""
    if gres.job % gres.node:
        return f"Failed to validate job spec, --{name}s is not multiple of --gres={name}/--{name}s-per-node"
    nodes = gres.job // gres.node
    least = counts.min_nodes
    most = NO_VAL if counts.max_nodes is None else counts.max_nodes
    if (least is not None and nodes < least) or nodes > most:
        return (
            f"Failed to validate job spec. Based on --{name} and --gres={name}/--{name}s-per-node required nodes "
            f"({nodes}) doesn't fall between min_nodes ({NO_VAL if least is None else least}) and max_nodes ({most}) "
            "boundaries."
        )
    counts.min_nodes = counts.max_nodes = nodes
    return ""


NO_VAL = 2**32 - 2


def _node_sockets(gres: _Gres, counts: _Counts) -> str:
    name = gres.name
    if not gres.node or not gres.socket:
        return ""
    if gres.node % gres.socket:
        return f"Failed to validate job spec, --gres={name}/--{name}s-per-node not multiple of --{name}s-per-socket."
    if counts.sockets != gres.node // gres.socket:
        return (
            f"Failed to validate job spec. Based on --gres={name}/--{name}s-per-node and --{name}s-per-socket "
            "required number of sockets differ from --sockets-per-node."
        )
    return ""


def _task_multiple(gres: _Gres, counts: _Counts) -> str:
    if gres.tasks_per and counts.tasks is not None and counts.tasks % gres.tasks_per:
        return f"Failed to validate job spec, -n/--ntasks has to be a multiple of --ntasks-per-{gres.name}."
    return ""


def _tasks(gres: _Gres, counts: _Counts) -> str:
    name = gres.name
    if not gres.task:
        return ""
    if gres.job:
        if gres.job % gres.task:
            return f"Failed to validate job spec, --{name}s not multiple of --{name}s-per-task"
        tasks = gres.job // gres.task
        if counts.tasks not in (None, tasks):
            return (
                f"Failed to validate job spec. Based on --{name}s and --{name}s-per-task number of requested tasks "
                "differ from -n/--ntasks."
            )
        counts.tasks = tasks
    elif counts.tasks is None:
        return (
            f"Failed to validate job spec. --{name}s-per-task used without either --{name}s or -n/--ntasks "
            "is not allowed."
        )
    else:
        gres.job = counts.tasks * gres.task
    return ""


def _node_tasks(gres: _Gres, counts: _Counts) -> str:
    option = f"--gres={gres.name}/--{gres.name}s-per-node"
    words, counts.per_node = _tasks_by_place(
        gres, option=option, gpus=gres.node, tasks=counts.per_node, place="node", places="node"
    )
    return words


def _socket_tasks(gres: _Gres, counts: _Counts) -> str:
    option = f"--{gres.name}s-per-socket"
    words, counts.per_socket = _tasks_by_place(
        gres, option=option, gpus=gres.socket, tasks=counts.per_socket, place="socket", places="sockets"
    )
    return words


def _tasks_by_place(
    gres: _Gres, *, option: str, gpus: int, tasks: int | None, place: str, places: str
) -> tuple[str, int | None]:
    """Derive the tasks on each node or socket from its GPUs and from those of each task.

    Return (Slurm's error message or "", the number of tasks).
    """
    name = gres.name
    if not gpus or not gres.task:
        return "", tasks
    if gpus % gres.task:
        return f"Failed to validate job spec, {option} not multiple of --{name}s-per-task.", tasks
    found = gpus // gres.task
    if tasks not in (None, 0, found):
        return (
            f"Failed to validate job spec. Based on {option} and --{name}s-per-task requested number of tasks per "
            f"{places} differ from --ntasks-per-{place}."
        ), tasks
    return "", found


def _cpus(gres: _Gres, counts: _Counts) -> str:
    if gres.cpus and gres.task:
        cpus = gres.cpus * gres.task
        if counts.cpus not in (None, 0, cpus):
            return (
                f"Failed to validate job spec. Based on --cpus-per-{gres.name} and --{gres.name}s-per-task requested "
                "number of cpus differ from -c/--cpus-per-task."
            )
        counts.cpus = cpus
    return ""


def _least(gres: _Gres, counts: _Counts) -> str:
    if gres.job and counts.min_nodes is not None and gres.job < counts.min_nodes:
        return f"Failed to validate job spec, --{gres.name}s < -N"
    if gres.job and counts.max_nodes is not None:
        counts.max_nodes = min(counts.max_nodes, gres.job)
    return ""
