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


class _Ask:
    """The requested counts of one generic resource, by name and type."""

    def __init__(self, name: str, kind: str) -> None:
        self.name = name
        self.kind = kind
        self.job = self.node = self.socket = self.task = 0
        self.cpus = self.mem = 0
        self.tasks_per = 0


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
    asks: dict[tuple[str, str], _Ask] = {}
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
        _gather(asks, field, items, counts, source)
    gpus_asked = any(
        ask.name == "gpu" and (ask.job or ask.node or ask.socket or ask.task) for ask in asks.values()
    )
    if counts.tasks_per_gpu:
        _take_tasks_per_gpu(asks, counts, gpus_asked=gpus_asked)
        gpus_asked = bool(asks)
    if not asks:
        return
    if mem is not None and not gpus_asked:
        words = f"error: Requested mem_per_tres=gres:gpu:{mem} but did not request any GPU."
        raise SlurmError(_WRONG, "ask for GPUs", more=(words,))
    _check_all(asks, counts, has_gpu_freq="gpu-freq" in texts)


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
    """Return the items of --gres, each of which begins with "gres:". Text before the first item is
    ignored.
    """
    return [item for item in _ITEM.findall(gres) if item]


def _gather(
    asks: dict[tuple[str, str], _Ask], field: str, items: list[str], counts: _Counts, source: OptionSource
) -> None:
    for item in items:
        name, kind, count = _read(item)
        if count == 0:
            continue
        if name not in source.gres:
            raise SlurmError(_WRONG, f"ask for gpu[:TYPE]:COUNT, not {name}")
        ask = asks.setdefault((name, kind), _Ask(name, kind))
        # Slurm stores this value in a 16-bit integer.
        setattr(ask, field, count % 2**16 if field == "cpus" else count)
        ask.tasks_per = counts.tasks_per_gpu or 0


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


def _take_tasks_per_gpu(asks: dict[tuple[str, str], _Ask], counts: _Counts, *, gpus_asked: bool) -> None:
    each = counts.tasks_per_gpu
    assert each
    if gpus_asked:
        counts.tasks = _gpus_of(asks, counts) * each
    elif counts.tasks:
        if counts.tasks >= each:
            ask = asks.setdefault(("gpu", ""), _Ask("gpu", ""))
            ask.job, ask.tasks_per = counts.tasks // each, each
    else:
        words = (
            "error: gres_job_state_validate: --ntasks-per-tres needs either a GRES GPU specification "
            "or a node/ntask specification"
        )
        raise SlurmError(_WRONG, "ask for GPUs, or for tasks", more=(words,))


def _gpus_of(asks: dict[tuple[str, str], _Ask], counts: _Counts) -> int:
    """Return the total number of GPUs, as far as it can be determined."""
    total = 0
    for ask in asks.values():
        if ask.name != "gpu":
            continue
        socket = ask.socket
        if counts.min_nodes is not None and counts.sockets is not None:
            socket *= counts.min_nodes * counts.sockets
        node = ask.node * (counts.min_nodes if counts.min_nodes is not None else 1)
        task = ask.task * (counts.tasks if counts.tasks is not None else 1)
        total += max(ask.job, node, socket, task)
    return total


def _check_all(asks: dict[tuple[str, str], _Ask], counts: _Counts, *, has_gpu_freq: bool) -> None:
    shared, sharing = False, False
    seen: list[_Ask] = []
    for ask in asks.values():
        words = _misfit(ask, counts)
        if words:
            lacks_tasks = ask.task and counts.tasks is None
            hint = (
                "give the number of tasks with -n" if lacks_tasks else "write counts that divide each other"
            )
            raise SlurmError(_WRONG, hint, more=(f"error: {words}",))
        sharing = sharing or ask.name == "gpu"
        if ask.name in SHARED:
            shared = True
            if (
                (ask.job and counts.max_nodes != 1)
                or (ask.socket and counts.sockets != 1)
                or (ask.task and counts.tasks != 1)
            ):
                raise SlurmError(_WRONG, "ask for parts of GPUs per node")
        if shared and sharing:
            _check_kinds(seen)  # If such a conflict occurred earlier in the request, it is reported first.
            raise SlurmError(_WRONG, "ask for GPUs or for parts of them")
        seen.append(ask)
    if shared and has_gpu_freq:
        raise SlurmError(_WRONG, "leave --gpu-freq out")
    _check_kinds(seen)


def _check_kinds(asks: list[_Ask]) -> None:
    """Raise SlurmError if some of the GPUs have a type and others have none."""
    for name in {ask.name for ask in asks}:
        kinds = [ask for ask in asks if ask.name == name]
        plain = [ask for ask in kinds if not ask.kind]
        if plain and len(kinds) > 1 and (plain[0].job or plain[0].node or plain[0].socket or plain[0].task):
            raise SlurmError(_WRONG_TYPE, "give a type to all GPUs, or to none")


def _misfit(ask: _Ask, counts: _Counts) -> str:
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
        words = rule(ask, counts)
        if words:
            return words
    return ""


def _order(ask: _Ask, counts: _Counts) -> str:
    name = ask.name
    if ask.job and max(ask.node, ask.task, ask.socket) > ask.job:
        return f"Failed to ensure --{name}s >= --gres={name}/--{name}s-per-node >= --{name}s-per-socket"
    if ask.node and max(ask.task, ask.socket) > ask.node:
        return f"Failed to ensure --{name}s >= --{name}s-per-task"
    return ""


def _sockets(ask: _Ask, counts: _Counts) -> str:
    if ask.socket and counts.sockets is None:
        return f"--{ask.name}s-per-socket option requires --sockets-per-node specification"
    if ask.cpus and counts.cpus is not None:
        return f"--cpus-per-{ask.name} is mutually exclusive with --cpus-per-task"
    return ""


def _nodes(ask: _Ask, counts: _Counts) -> str:
    name = ask.name
    if not ask.job or not ask.node:
        return ""
    if ask.job % ask.node:
        return f"Failed to validate job spec, --{name}s is not multiple of --gres={name}/--{name}s-per-node"
    nodes = ask.job // ask.node
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


def _node_sockets(ask: _Ask, counts: _Counts) -> str:
    name = ask.name
    if not ask.node or not ask.socket:
        return ""
    if ask.node % ask.socket:
        return f"Failed to validate job spec, --gres={name}/--{name}s-per-node not multiple of --{name}s-per-socket."
    if counts.sockets != ask.node // ask.socket:
        return (
            f"Failed to validate job spec. Based on --gres={name}/--{name}s-per-node and --{name}s-per-socket "
            "required number of sockets differ from --sockets-per-node."
        )
    return ""


def _task_multiple(ask: _Ask, counts: _Counts) -> str:
    if ask.tasks_per and counts.tasks is not None and counts.tasks % ask.tasks_per:
        return f"Failed to validate job spec, -n/--ntasks has to be a multiple of --ntasks-per-{ask.name}."
    return ""


def _tasks(ask: _Ask, counts: _Counts) -> str:
    name = ask.name
    if not ask.task:
        return ""
    if ask.job:
        if ask.job % ask.task:
            return f"Failed to validate job spec, --{name}s not multiple of --{name}s-per-task"
        tasks = ask.job // ask.task
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
        ask.job = counts.tasks * ask.task
    return ""


def _node_tasks(ask: _Ask, counts: _Counts) -> str:
    option = f"--gres={ask.name}/--{ask.name}s-per-node"
    words, counts.per_node = _tasks_by_place(
        ask, option=option, gpus=ask.node, tasks=counts.per_node, place="node", places="node"
    )
    return words


def _socket_tasks(ask: _Ask, counts: _Counts) -> str:
    option = f"--{ask.name}s-per-socket"
    words, counts.per_socket = _tasks_by_place(
        ask, option=option, gpus=ask.socket, tasks=counts.per_socket, place="socket", places="sockets"
    )
    return words


def _tasks_by_place(
    ask: _Ask, *, option: str, gpus: int, tasks: int | None, place: str, places: str
) -> tuple[str, int | None]:
    """Derive the tasks on each node or socket from its GPUs and from those of each task.

    Return (Slurm's error message or "", the number of tasks).
    """
    name = ask.name
    if not gpus or not ask.task:
        return "", tasks
    if gpus % ask.task:
        return f"Failed to validate job spec, {option} not multiple of --{name}s-per-task.", tasks
    found = gpus // ask.task
    if tasks not in (None, 0, found):
        return (
            f"Failed to validate job spec. Based on {option} and --{name}s-per-task requested number of tasks per "
            f"{places} differ from --ntasks-per-{place}."
        ), tasks
    return "", found


def _cpus(ask: _Ask, counts: _Counts) -> str:
    if ask.cpus and ask.task:
        cpus = ask.cpus * ask.task
        if counts.cpus not in (None, 0, cpus):
            return (
                f"Failed to validate job spec. Based on --cpus-per-{ask.name} and --{ask.name}s-per-task requested "
                "number of cpus differ from -c/--cpus-per-task."
            )
        counts.cpus = cpus
    return ""


def _least(ask: _Ask, counts: _Counts) -> str:
    if ask.job and counts.min_nodes is not None and ask.job < counts.min_nodes:
        return f"Failed to validate job spec, --{ask.name}s < -N"
    if ask.job and counts.max_nodes is not None:
        counts.max_nodes = min(counts.max_nodes, ask.job)
    return ""
