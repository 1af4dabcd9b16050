"""Options become a request: a dictionary in the JSON shape of model.Request, and notes on what was passed over."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from warpdeck.errors import UserError

from .arrays import parse_array
from .dependencies import parse_dependencies
from .gres import parse_gpus, parse_gres
from .hostlist import expand
from .memory import parse_memory
from .options import HARMLESS, HONOURED
from .times import parse_limit

MAX_NODES = 100_000
MAX_COUNT = 10_000_000
_COUNT = re.compile(r"(\d{1,8})([kKmM]?)")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

Options = list[tuple[str, str, str]]
"""(option, value, where it stands), later ones win."""


def build_request(
    options: Options, environ: Mapping[str, str], *, now: float
) -> tuple[dict[str, Any], list[str]]:
    """(fields that options decide, notes). Raises UserError that names option and place."""
    request: dict[str, Any] = {"resources": {"gpus": {}}}
    notes: list[str] = []
    export, export_where = "ALL", ""
    for option, value, where in options:
        if option in HARMLESS:
            notes.append(f"{where}: --{option} has no effect here")
        elif option not in HONOURED:
            raise UserError(
                f"{where}: --{option} is not supported yet", "take it out if the job can run without it"
            )
        elif option == "export":
            export, export_where = value, where
        else:
            with _told_at(where):
                _apply(request, option, value, now)
    with _told_at(export_where):
        request["env"] = exported(export, environ)
    notes += [f"{where}: {words}" for option, value, where in options for words in _remark(option, value)]
    _check_memory(request["resources"])
    return request, notes


@contextlib.contextmanager
def _told_at(where: str) -> Iterator[None]:
    """Puts the place in front of what is wrong there."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{where}: {error.message}", error.hint) from None


def _remark(option: str, value: str) -> list[str]:
    """What the user should know of an option that does less here than its value says."""
    if option in ("partition", "account", "qos"):
        return [f"--{option}={value} is recorded; there is one queue for all nodes"]
    if option == "exclusive" and value:
        return [f"--exclusive={value} is taken as --exclusive: nobody else's job runs beside it"]
    return []


def exported(export: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of --export: ALL, NONE, or names and NAME=VALUE.

    Ours and Slurm's own job variables are left out, and values that are no UTF-8 text.
    """
    own = {
        name: value
        for name, value in environ.items()
        if not name.startswith(("SLURM_", "WARPDECK_")) and _is_text(name + value)
    }
    words = export.split(",")
    if words == ["NONE"]:
        return {}
    made = dict(own) if "ALL" in words else {}
    for word in words:
        name, equals, value = word.partition("=")
        if word in ("ALL", "NONE", ""):
            continue
        if not _NAME.fullmatch(name):
            raise UserError(
                f"--export: {name!r} is no variable name", "write NAME or NAME=VALUE, separated by commas"
            )
        if equals:
            made[name] = value
        elif name in own:
            made[name] = own[name]
    return made


def _is_text(word: str) -> bool:
    """Whether it can be sent: bytes that are no UTF-8 come as lone surrogates."""
    try:
        return b"\0" not in word.encode()
    except UnicodeEncodeError:
        return False


def _apply(request: dict[str, Any], option: str, value: str, now: float) -> None:
    text_fields = {
        "job-name": "name",
        "partition": "partition",
        "account": "account",
        "qos": "qos",
        "output": "output",
        "error": "error",
        "comment": "comment",
        "chdir": "chdir",
    }
    if option in text_fields:
        request[text_fields[option]] = value
    elif option in _PLAIN:
        _PLAIN[option](request, value)
    elif option in _RESOURCES:
        _RESOURCES[option](request["resources"], value)
    elif option == "begin":
        request["begin_at_unix"] = parse_begin(value, now)


def parse_begin(text: str, now: float) -> float:
    """now, now+5, now+2hours; a unix time. Raises UserError."""
    match = re.fullmatch(r"now(?:\+(\d{1,9})(seconds?|minutes?|hours?|days?|weeks?)?)?", text)
    if match is None:
        raise UserError(f"--begin={text} is not understood", "write now+30minutes, now+2hours or now+1day")
    units = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
    return now + int(match[1] or 0) * units[(match[2] or "s")[0]]


def _count(text: str, option: str, least: int = 1) -> int:
    match = _COUNT.fullmatch(text)
    if match is None:
        raise UserError(f"--{option}={text} is no whole number", "write a number")
    number = int(match[1]) * {"": 1, "k": 1024, "m": 1024**2}[match[2].lower()]
    if not least <= number <= MAX_COUNT:
        raise UserError(f"--{option}={text} is out of range", f"write {least} or more")
    return number


def _nodes(resources: dict[str, Any], value: str) -> None:
    low, dash, high = value.partition("-")
    resources["nodes_min"] = _count(low, "nodes")
    resources["nodes_max"] = _count(high, "nodes") if dash else resources["nodes_min"]
    if resources["nodes_max"] < resources["nodes_min"] or resources["nodes_max"] > MAX_NODES:
        raise UserError(f"--nodes={value} is no range", "write MIN-MAX")


def _gpus(field: str, option: str) -> Callable[[dict[str, Any], str], None]:
    def set_gpus(resources: dict[str, Any], value: str) -> None:
        kind, count = parse_gres(value) if option == "gres" else parse_gpus(value, option)
        resources["gpus"] = {field: count, "type": kind} if count else {}

    return set_gpus


def _size(field: str) -> Callable[[dict[str, Any], str], None]:
    def set_size(resources: dict[str, Any], value: str) -> None:
        resources[field] = parse_memory(value)

    return set_size


def _number(field: str, option: str) -> Callable[[dict[str, Any], str], None]:
    def set_number(resources: dict[str, Any], value: str) -> None:
        resources[field] = _count(value, option)

    return set_number


def _set_array(request: dict[str, Any], value: str) -> None:
    ranges, throttle = parse_array(value)
    request["array"] = {"ranges": ranges, "throttle": throttle}


def _set_open_mode(request: dict[str, Any], value: str) -> None:
    if value not in ("append", "truncate"):
        raise UserError(f"--open-mode={value} is not understood", "write append or truncate")
    request["open_append"] = value == "append"


def _signed(request: dict[str, Any], field: str, value: str) -> None:
    if not re.fullmatch(r"-?\d{1,9}", value):
        raise UserError(f"{value!r} is no whole number", "write a number")
    request[field] = int(value)


_PLAIN: dict[str, Callable[[dict[str, Any], str], object]] = {
    "time": lambda request, value: request.update(time_limit_s=parse_limit(value)),
    "array": _set_array,
    "dependency": lambda request, value: request.update(dependencies=parse_dependencies(value)),
    "hold": lambda request, value: request.update(hold=True),
    "requeue": lambda request, value: request.update(requeue=True),
    "no-requeue": lambda request, value: request.update(requeue=False),
    "open-mode": _set_open_mode,
    "nice": lambda request, value: _signed(request, "nice", value or "100"),
    "priority": lambda request, value: _signed(request, "priority", value),
}
_RESOURCES: dict[str, Callable[[dict[str, Any], str], object]] = {
    "nodes": _nodes,
    "ntasks": _number("tasks", "ntasks"),
    "ntasks-per-node": _number("tasks_per_node", "ntasks-per-node"),
    "tasks-per-node": _number("tasks_per_node", "ntasks-per-node"),
    "cpus-per-task": _number("cpus_per_task", "cpus-per-task"),
    "mem": _size("mem_per_node_bytes"),
    "mem-per-cpu": _size("mem_per_cpu_bytes"),
    "mem-per-gpu": _size("mem_per_gpu_bytes"),
    "gres": _gpus("per_node", "gres"),
    "gpus-per-node": _gpus("per_node", "gpus-per-node"),
    "gpus": _gpus("total", "gpus"),
    "gpus-per-task": _gpus("per_task", "gpus-per-task"),
    "exclusive": lambda resources, value: resources.update(exclusive=True),
    "nodelist": lambda resources, value: resources.update(nodelist=expand(value)),
    "exclude": lambda resources, value: resources.update(exclude=expand(value)),
}


def _check_memory(resources: dict[str, Any]) -> None:
    given = [
        name for name in ("mem_per_node_bytes", "mem_per_cpu_bytes", "mem_per_gpu_bytes") if name in resources
    ]
    if len(given) > 1:
        raise UserError("--mem, --mem-per-cpu and --mem-per-gpu exclude each other", "keep one of them")
