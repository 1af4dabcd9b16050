"""Converts options into a request: a dictionary in the JSON form of `model.Request`, with notes on ignored
options.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from warpdeck.base.cluster import CLUSTER_OPTIONS, other_cluster
from warpdeck.base.errors import UserError
from warpdeck.notation.options.options import COMMAND, NOTED, REFUSED, SBATCH, OptionTable
from warpdeck.notation.options.submit_files import (
    LIMITS_FILE,
    Reader,
    propagated,
    variables_of_file,
    with_hosts,
)
from warpdeck.notation.options.unsupported import unsupported
from warpdeck.notation.options.variables import outrank_memory
from warpdeck.notation.values.arrays import asked_array
from warpdeck.notation.values.containers import OPTIONS as CONTAINER_OPTIONS
from warpdeck.notation.values.containers import check_container
from warpdeck.notation.values.dependencies import parse_dependencies
from warpdeck.notation.values.durations import parse_limit
from warpdeck.notation.values.exports import exported, is_all, left_out
from warpdeck.notation.values.gres import parse_gpus, parse_gres
from warpdeck.notation.values.hostlist import expand
from warpdeck.notation.values.licenses import parse_licenses
from warpdeck.notation.values.memory_sizes import parse_memory
from warpdeck.notation.values.numbers import strtol
from warpdeck.notation.values.signals import parse_warning, spans_reservation
from warpdeck.notation.values.time_points import parse_moment

from .cores import OF_CORES
from .mail import parse_mail_types
from .node_counts import MAX_NODES, fit_nodes, join_gpus
from .node_minimum import set_cores, set_extra, set_sockets, set_tmp
from .task_layout import (
    fit_tasks_to_gpus,
    parse_tres_per_task,
    set_distribution,
    set_gpu_bind,
    set_overcommit,
)

MAX_COUNT = 10_000_000
MAX_NICE = 2**31 - 3
MAX_PRIORITY = 2**32 - 3
"""Slurm's maximum priority, which is also the value of --priority=TOP."""
OF_LOGIN = ("HOME", "LANG", "LOGNAME", "PATH", "SHELL", "USER")
"""Variables that a job keeps from its submitter even with --export-file, because a shell needs them."""
_USER_ENV = re.compile(r"\s*[+-]?\d*(?:[sSlL].*)?", re.DOTALL)
"""Format of --get-user-env: [TIMEOUT][MODE]. Of the mode, only the letter S or L matters."""
_COUNT = re.compile(r"(\d{1,8})([kKmM]?)")
_HOSTLISTS = frozenset({"exclude", "nodelist"})

Options = list[tuple[str, str, str]]
"""(option, value, where it was given); later ones win."""


def build_request(
    options: Options,
    environ: Mapping[str, str],
    *,
    now: float,
    known: OptionTable = SBATCH,
    read: Reader | None = None,
) -> tuple[dict[str, Any], list[str]]:
    """Return (fields that the options determine, notes).

    For `read`, see `submitfiles`. Raises UserError, which names the option and where it was given.
    """
    request: dict[str, Any] = {"resources": {"gpus": {}}}
    notes: list[str] = []
    apart = {"export": ("ALL", ""), "export-file": ("", ""), "propagate": ("ALL", "")}
    for option, value, where in with_hosts(_last_hosts(outrank_memory(options)), environ, read):
        here = known.options[option].here if option in known.options else REFUSED
        if option in CLUSTER_OPTIONS and not other_cluster(value):
            continue
        if (here == NOTED or option in OF_CORES) and (told := _told_of(option, value)):
            request.setdefault("step_variables", {}).update(told)
        if here == NOTED:
            notes.append(f"{where}: --{option} has no effect here")
        elif here == REFUSED:
            raise unsupported(option, where)
        elif here == COMMAND:
            continue
        elif option in apart:
            apart[option] = (value, where)
        else:
            with _told_at(where, option if option in ("array", "dependency") else ""):
                _apply(request, option, value, now)
    _set_environment(request, apart["export"], apart["export-file"], environ, known=known, read=read)
    value, where = apart["propagate"]
    with _told_at(where):
        if limits := _limits(value, read):
            request["limits"] = limits
    notes += [f"{where}: {words}" for option, value, where in options for words in _remark(option, value)]
    _check_memory(request["resources"])
    _check_times(request)
    _check_partition(request)
    check_container(request.get("container"))
    join_gpus(request["resources"])
    fit_tasks_to_gpus(request["resources"])
    notes += fit_nodes(request["resources"], cuts=known.command == "srun")
    return request, notes


def _set_environment(
    request: dict[str, Any],
    of_export: tuple[str, str],
    of_file: tuple[str, str],
    environ: Mapping[str, str],
    *,
    known: OptionTable,
    read: Reader | None,
) -> None:
    """Set the variables of --export and --export-file. Both are pairs of a value and the place where it was given."""
    (export, export_where), (name, where) = of_export, of_file
    request["env"] = exported(export, environ)
    if not is_all(export):
        request.setdefault("step_variables", {})["SLURM_EXPORT_ENV"] = export
        request["user_env"] = request.get("user_env", False) or known.command == "sbatch"
    if request.get("user_env"):
        request.setdefault("step_variables", {})["SLURM_GET_USER_ENV"] = "1"
    if name:
        own = request["env"]
        if (
            not export_where
        ):  # As in Slurm, these replace the submitter's variables unless --export asks for them.
            own = {each: text for each, text in own.items() if each in OF_LOGIN}
        request["env"] = own | variables_of_file(name, where, read)


def _last_hosts(options: Options) -> Options:
    """Return the options without node lists that later ones replace, because each list may stand for very
    many nodes.
    """
    last = {option: at for at, (option, _, _) in enumerate(options) if option in _HOSTLISTS}
    return [one for at, one in enumerate(options) if last.get(one[0], at) == at]


def _told_of(option: str, value: str) -> dict[str, str]:
    from .hints import told_of  # Imported here because it is rarely needed and loads sbatch's messages.

    return told_of(option, value)


def _limits(value: str, read: Reader | None) -> dict[str, int]:
    """Return the limits to propagate. If the submitter's limits cannot be read (on another system), the
    node's limits apply.
    """
    try:
        text = "" if read is None else read(LIMITS_FILE)
    except OSError:
        text = ""
    return propagated(value, text)


@contextlib.contextmanager
def _told_at(where: str, code: str = "") -> Iterator[None]:
    """Prefix errors with the place of the option. `code` is the kind of error if the error has none."""
    try:
        yield
    except UserError as error:
        prefix = f"{where}: " if where else ""
        raise UserError(f"{prefix}{error.message}", error.hint, code=error.code or code) from None


def _remark(option: str, value: str) -> list[str]:
    """Return remarks about options that do less here than their values say."""
    if option == "exclusive" and value.lower() == "mcs":
        return ["--exclusive=mcs: no job has an MCS label here, so anybody's job may run beside it"]
    if option == "signal" and spans_reservation(value):
        return [
            f"--signal={value}: R: has no effect, a job that would run into a reservation starts after it"
        ]
    if option == "export" and (names := left_out(value)):
        return [f"--export: {name[:80]!r} is no variable name, and is left out" for name in names]
    return []


def _apply(request: dict[str, Any], option: str, value: str, now: float) -> None:
    text_fields = {
        "job-name": "name",
        "partition": "partition",
        "account": "account",
        "qos": "qos",
        "output": "output",
        "error": "error",
        "input": "input",
        "comment": "comment",
        "chdir": "chdir",
        "mail-user": "mail_user",
    }
    moments = {"begin": "begin_at_unix", "deadline": "deadline_unix"}
    if option in text_fields:
        request[text_fields[option]] = value
    elif option in CONTAINER_OPTIONS:
        CONTAINER_OPTIONS[option](request.setdefault("container", {}), value)
    elif option in _PLAIN:
        _PLAIN[option](request, value)
    elif option in _RESOURCES:
        _RESOURCES[option](request["resources"], value)
    elif option in moments:
        with _told_at(f"--{option}"):
            request[moments[option]] = parse_moment(value, now)


def _count(text: str, option: str, least: int = 1) -> int:
    match = _COUNT.fullmatch(text)
    if match is None:
        raise UserError(f"--{option}={text} is no whole number", "write a number")
    number = int(match[1]) * {"": 1, "k": 1024, "m": 1024**2}[match[2].lower()]
    if not least <= number <= MAX_COUNT:
        raise UserError(f"--{option}={text} is out of range", f"write {least} to {MAX_COUNT:,}")
    return number


def _nodes(resources: dict[str, Any], value: str) -> None:
    low, dash, high = value.partition("-")
    resources["nodes_min"] = _count(low, "nodes")
    resources["nodes_max"] = _count(high, "nodes") if dash else resources["nodes_min"]
    if resources["nodes_max"] < resources["nodes_min"] or resources["nodes_max"] > MAX_NODES:
        raise UserError(f"--nodes={value} is no range", "write MIN-MAX")


_GPU_FIELDS = {"gres": "per_node", "gpus": "total", "gpus-per-node": "per_node", "gpus-per-task": "per_task"}


def _set_gpus(option: str) -> Callable[[dict[str, Any], str], None]:
    def set_gpus(resources: dict[str, Any], value: str) -> None:
        gpus = parse_gres(value) if option == "gres" else parse_gpus(value, option)
        resources.setdefault("gpu_options", {})[_GPU_FIELDS[option]] = gpus

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
    """Set the array. An empty value means no array and cancels an earlier one."""
    request.pop("array", None)
    found = asked_array(value)
    if found is not None:
        request["array"] = {"ranges": found[0], "throttle": found[1]}


def _set_dependencies(request: dict[str, Any], value: str) -> None:
    """Set the dependencies. An empty value cancels earlier ones, because scripts write
    --dependency="$AFTER".
    """
    request["dependencies"] = parse_dependencies(value) if value else None


def _add_mail_types(request: dict[str, Any], value: str) -> None:
    """Add mail types. If the option is given several times, all of them count."""
    request["mail_types"] = list(dict.fromkeys([*request.get("mail_types", ()), *parse_mail_types(value)]))


def _set_open_mode(request: dict[str, Any], value: str) -> None:
    """Set the open mode by its first letter, as in sbatch."""
    letter = value[:1].lower()
    if letter not in ("a", "t"):
        raise UserError(f"--open-mode={value} is not understood", "write append or truncate")
    request.update(open_append=letter == "a", open_truncate=letter == "t")


def _set_exclusive(resources: dict[str, Any], value: str) -> None:
    shares = {"": "", "exclusive": "", "user": "user", "mcs": "mcs"}
    if value.lower() not in shares:
        raise UserError(
            f"--exclusive={value} is not understood", "write --exclusive, --exclusive=user or --exclusive=mcs"
        )
    share_with = shares[value.lower()]
    resources.update(exclusive=not share_with, share_with=share_with)


def _set_time(request: dict[str, Any], value: str) -> None:
    limit_s = parse_limit(value)
    request.update(time_limit_s=limit_s, unlimited=limit_s is None)


def _set_time_min(request: dict[str, Any], value: str) -> None:
    least_s = parse_limit(value)
    if least_s is None:
        raise UserError(f"--time-min={value} is no least time", "write how long the job must run at least")
    request["time_min_s"] = least_s


def _set_reservation(request: dict[str, Any], value: str) -> None:
    if "," in value:
        raise UserError(f"--reservation={value}: several reservations", "name one")
    request["reservation"] = value


def _set_kill_on_invalid_dep(request: dict[str, Any], value: str) -> None:
    word = value.lower()
    if word not in ("yes", "no"):
        raise UserError(f"--kill-on-invalid-dep={value} is not understood", "write yes or no")
    request["kill_on_invalid_dep"] = word == "yes"


def _set_switches(resources: dict[str, Any], value: str) -> None:
    count, at, wait = value.partition("@")
    resources["max_switches"] = _count(count, "switches")
    if at:
        resources["switches_wait_s"] = parse_limit(wait)


def _set_nice(request: dict[str, Any], value: str) -> None:
    number = strtol(value)[0]
    if abs(number) > MAX_NICE:
        raise UserError(f"--nice={value} is more than {MAX_NICE}", "write less")
    request["nice"] = number


def _set_priority(request: dict[str, Any], value: str) -> None:
    number = MAX_PRIORITY if value.upper() == "TOP" else strtol(value)[0]
    if not 0 <= number <= MAX_PRIORITY:
        raise UserError(f"--priority={value} is not from 0 to {MAX_PRIORITY}", "write such a number, or TOP")
    request["priority"] = number


def _set_user_env(request: dict[str, Any], value: str) -> None:
    if not _USER_ENV.fullmatch(value or ""):
        raise UserError(f"--get-user-env={value} is no time-out and mode", "write --get-user-env alone")
    request["user_env"] = True


_PLAIN: dict[str, Callable[[dict[str, Any], str], object]] = {
    "time": _set_time,
    "array": _set_array,
    "dependency": _set_dependencies,
    "distribution": set_distribution,
    "gpu-bind": set_gpu_bind,
    # This option concerns only the directives of the script, so it sets nothing in the request.
    "ignore-pbs": lambda request, value: None,
    "hold": lambda request, value: request.update(hold=True),
    "kill-on-invalid-dep": _set_kill_on_invalid_dep,
    "licenses": lambda request, value: request.update(licenses=parse_licenses(value)),
    "reservation": _set_reservation,
    "signal": lambda request, value: request.update(warn=parse_warning(value)),
    "time-min": _set_time_min,
    "requeue": lambda request, value: request.update(requeue=True),
    "no-requeue": lambda request, value: request.update(requeue=False),
    "open-mode": _set_open_mode,
    "overcommit": set_overcommit,
    "nice": lambda request, value: _set_nice(request, value or "100"),
    "get-user-env": _set_user_env,
    "mail-type": _add_mail_types,
    "priority": _set_priority,
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
    "gres": _set_gpus("gres"),
    "gpus-per-node": _set_gpus("gpus-per-node"),
    "gpus": _set_gpus("gpus"),
    "gpus-per-task": _set_gpus("gpus-per-task"),
    "cpus-per-gpu": _number("cpus_per_gpu", "cpus-per-gpu"),
    "mincpus": _number("cpus_per_node_min", "mincpus"),
    **OF_CORES,
    "ntasks-per-gpu": _number("tasks_per_gpu", "ntasks-per-gpu"),
    "tres-per-task": lambda resources, value: resources.update(parse_tres_per_task(value)),
    "constraint": lambda resources, value: resources.update(constraint=value),
    "contiguous": lambda resources, value: resources.update(contiguous=True),
    "prefer": lambda resources, value: resources.update(prefer=value),
    "switches": _set_switches,
    "tmp": set_tmp,
    "extra-node-info": set_extra,
    "sockets-per-node": set_sockets,
    "cores-per-socket": set_cores,
    "use-min-nodes": lambda resources, value: resources.update(use_min_nodes=True),
    "spread-job": lambda resources, value: resources.update(spread=True),
    "exclusive": _set_exclusive,
    "oversubscribe": lambda resources, value: resources.update(exclusive=False, share_with="anybody"),
    "nodelist": lambda resources, value: resources.update(nodelist=expand(value)),
    "exclude": lambda resources, value: resources.update(exclude=expand(value)),
}


def _check_memory(resources: dict[str, Any]) -> None:
    given = [
        name for name in ("mem_per_node_bytes", "mem_per_cpu_bytes", "mem_per_gpu_bytes") if name in resources
    ]
    if len(given) > 1:
        raise UserError("--mem, --mem-per-cpu and --mem-per-gpu exclude each other", "keep one of them")
    if resources.get("mem_per_cpu_bytes") == 0:  # A value of 0 means all memory of a node, as with --mem=0.
        resources["mem_per_node_bytes"] = resources.pop("mem_per_cpu_bytes")


def _check_times(request: dict[str, Any]) -> None:
    least_s, limit_s = request.get("time_min_s"), request.get("time_limit_s")
    if least_s is not None and limit_s is not None and least_s > limit_s:
        raise UserError(
            "--time-min is more than --time", "write a --time-min that is shorter", code="time_min"
        )


def _check_partition(request: dict[str, Any]) -> None:
    """Reject an empty --partition. A script's --partition="$PART" with an empty variable does not ask for the
    default partition.
    """
    if not request.get("partition", "-").strip(","):
        raise UserError(
            "--partition is given without a name",
            "name one, or leave it out for the default one",
            code="PartitionConfig",
            details={"unknown": "(null)"},
        )
