"""Values of options in the request of a job: a dictionary in the JSON form of `model.Request`.

Each `JobValue` parses the text of an option and sets its fields. Several options of a job also apply to its steps,
which read them from variables, as in Slurm; these are part of the request (`step_variables`, with names from
srun(1)). Compared with Slurm 22.05.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from warpdeck.base.errors import UserError
from warpdeck.notation.values.arrays import asked_array
from warpdeck.notation.values.dependencies import parse_dependencies
from warpdeck.notation.values.durations import parse_limit
from warpdeck.notation.values.gres import parse_gpus, parse_gres
from warpdeck.notation.values.hostlist import expand
from warpdeck.notation.values.licenses import parse_licenses
from warpdeck.notation.values.lists import split_list
from warpdeck.notation.values.memory_sizes import parse_memory
from warpdeck.notation.values.numbers import strtol
from warpdeck.notation.values.signals import parse_warning
from warpdeck.notation.values.time_points import parse_moment

from .bindings import distribution
from .notices import parse_mail_types
from .option_fields import OptionText
from .slurm_values import MAX_NICE, MAX_PRIORITY, priority_of

JsonFields = dict[str, Any]


class SetFields(NamedTuple):
    """The effect of an option here: the fields that it sets in a job's request or in a step."""

    set: Callable[[JsonFields, OptionText], object]
    """Function that parses the value and sets its fields. Raises UserError."""
    section: tuple[str, ...] = ()
    """The path of the dictionary that contains the fields; () is the request or step itself."""

    def apply(self, fields: JsonFields, value: OptionText) -> None:
        """Set the fields in the section, which is created if necessary. Raises UserError."""
        for name in self.section:
            fields = fields.setdefault(name, {})
        self.set(fields, value)


RESOURCES = ("resources",)
MAX_NODES = 100_000
MAX_COUNT = 10_000_000
_COUNT = re.compile(r"(\d{1,8})([kKmM]?)")
_FACTORS = {"": 1, "k": 1024, "m": 1024**2}


def text(field: str, section: tuple[str, ...] = ()) -> SetFields:
    """Return the effect of an option that sets a field to its text."""
    return SetFields(lambda fields, value: fields.update({field: value.word}), section)


def constant(section: tuple[str, ...] = (), **fields_set: object) -> SetFields:
    """Return the effect of an option that sets these fields, whatever its value is."""
    return SetFields(lambda fields, _: fields.update(fields_set), section)


def count(field: str, *, called: str = "") -> SetFields:
    """Return the effect of an option that sets a field of the resources to a positive count. `called` is the
    option's name in errors.
    """

    def set_count(fields: JsonFields, value: OptionText) -> None:
        fields[field] = _count(value.word, called or value.option)

    return SetFields(set_count, RESOURCES)


def _count(word: str, option: str) -> int:
    match = _COUNT.fullmatch(word)
    if match is None:
        raise UserError(f"--{option}={word} is no whole number", "write a number")
    number = int(match[1]) * _FACTORS[match[2].lower()]
    if not 1 <= number <= MAX_COUNT:
        raise UserError(f"--{option}={word} is out of range", f"write 1 to {MAX_COUNT:,}")
    return number


def size(field: str) -> SetFields:
    """Return the effect of an option that sets a field of the resources to a size in bytes."""
    return SetFields(lambda fields, value: fields.update({field: parse_memory(value.word)}), RESOURCES)


def hosts(field: str, section: tuple[str, ...] = ()) -> SetFields:
    """Return the effect of an option that sets a field to the names in a hostlist."""
    return SetFields(lambda fields, value: fields.update({field: expand(value.word)}), section)


def moment(field: str) -> SetFields:
    """Return the effect of an option that sets a field to a point in time, as Unix seconds."""

    def set_moment(fields: JsonFields, value: OptionText) -> None:
        try:
            fields[field] = parse_moment(value.word, value.source.now)
        except UserError as error:
            raise UserError(f"--{value.option}: {error.message}", error.hint) from None

    return SetFields(set_moment)


def gpus(field: str) -> SetFields:
    """Return the effect of an option that asks for GPUs per job, node or task (`field`)."""

    def set_gpus(fields: JsonFields, value: OptionText) -> None:
        fields.setdefault("gpu_options", {})[field] = gpus_of(value)

    return SetFields(set_gpus, RESOURCES)


def gpus_of(value: OptionText) -> JsonFields:
    """Return the GPUs of --gres, --gpus and similar options in the JSON form of `model.GpuAsk`. Raises UserError."""
    return parse_gres(value.word) if value.option == "gres" else parse_gpus(value.word, value.option)


# Time, order and notifications.


def _set_time(fields: JsonFields, value: OptionText) -> None:
    limit_s = parse_limit(value.word)
    fields.update(time_limit_s=limit_s, unlimited=limit_s is None)


def _set_time_min(fields: JsonFields, value: OptionText) -> None:
    least_s = parse_limit(value.word)
    if least_s is None:
        raise UserError(
            f"--time-min={value.word} is no least time", "write how long the job must run at least"
        )
    fields["time_min_s"] = least_s


def _set_array(fields: JsonFields, value: OptionText) -> None:
    """Set the array. An empty value means no array and cancels an earlier one."""
    fields.pop("array", None)
    found = asked_array(value.word)
    if found is not None:
        fields["array"] = {"ranges": found[0], "throttle": found[1]}


def _set_dependencies(fields: JsonFields, value: OptionText) -> None:
    """Set the dependencies. An empty value cancels earlier ones, because scripts write
    --dependency="$AFTER".
    """
    fields["dependencies"] = parse_dependencies(value.word) if value.word else None


def _set_kill_on_invalid_dep(fields: JsonFields, value: OptionText) -> None:
    word = value.word.lower()
    if word not in ("yes", "no"):
        raise UserError(f"--kill-on-invalid-dep={value.word} is not understood", "write yes or no")
    fields["kill_on_invalid_dep"] = word == "yes"


def _add_mail_types(fields: JsonFields, value: OptionText) -> None:
    """Add mail types. If the option is given several times, all of them count."""
    found = [*fields.get("mail_types", ()), *parse_mail_types(value.word)]
    fields["mail_types"] = list(dict.fromkeys(found))


def _set_nice(fields: JsonFields, value: OptionText) -> None:
    word = value.word or "100"
    niceness = strtol(word)[0]
    if abs(niceness) > MAX_NICE:
        raise UserError(f"--nice={word} is more than {MAX_NICE}", "write less")
    fields["nice"] = niceness


def _set_priority(fields: JsonFields, value: OptionText) -> None:
    priority = priority_of(value.word)
    if not 0 <= priority <= MAX_PRIORITY:
        words = f"--priority={value.word} is not from 0 to {MAX_PRIORITY}"
        raise UserError(words, "write such a number, or TOP")
    fields["priority"] = priority


def _set_reservation(fields: JsonFields, value: OptionText) -> None:
    if "," in value.word:
        raise UserError(f"--reservation={value.word}: several reservations", "name one")
    fields["reservation"] = value.word


def _set_licenses(fields: JsonFields, value: OptionText) -> None:
    fields["licenses"] = parse_licenses(value.word)


def _set_signal(fields: JsonFields, value: OptionText) -> None:
    fields["warn"] = parse_warning(value.word)


# Files and environment.

_USER_ENV = re.compile(r"\s*[+-]?\d*(?:[sSlL].*)?", re.DOTALL)
"""Format of --get-user-env: [TIMEOUT][MODE]. Of the mode, only the letter S or L matters."""


def _set_user_env(fields: JsonFields, value: OptionText) -> None:
    if not _USER_ENV.fullmatch(value.word):
        words = f"--get-user-env={value.word} is no time-out and mode"
        raise UserError(words, "write --get-user-env alone")
    fields["user_env"] = True


def _set_open_mode(fields: JsonFields, value: OptionText) -> None:
    """Set the open mode by its first letter, as in sbatch."""
    letter = value.word[:1].lower()
    if letter not in ("a", "t"):
        raise UserError(f"--open-mode={value.word} is not understood", "write append or truncate")
    fields.update(open_append=letter == "a", open_truncate=letter == "t")


# Nodes.


def _set_nodes(fields: JsonFields, value: OptionText) -> None:
    low, dash, high = value.word.partition("-")
    least = _count(low, "nodes")
    most = _count(high, "nodes") if dash else least
    if most < least or most > MAX_NODES:
        raise UserError(f"--nodes={value.word} is no range", "write MIN-MAX")
    fields.update(nodes_min=least, nodes_max=most)


def _set_switches(fields: JsonFields, value: OptionText) -> None:
    number, at, wait = value.word.partition("@")
    fields["max_switches"] = _count(number, "switches")
    if at:
        fields["switches_wait_s"] = parse_limit(wait)


def _set_exclusive(fields: JsonFields, value: OptionText) -> None:
    shares = {"": "", "exclusive": "", "user": "user", "mcs": "mcs"}
    share_with = shares.get(value.word.lower())
    if share_with is None:
        words = f"--exclusive={value.word} is not understood"
        raise UserError(words, "write --exclusive, --exclusive=user or --exclusive=mcs")
    fields.update(exclusive=not share_with, share_with=share_with)


# The minimum hardware of each node. As in Slurm, these options only select nodes; they do not determine how much
# of a node the job gets.

_MINIMUM = (*RESOURCES, "node_minimum")
_LEAST = re.compile(r"\s*(\d{1,6})([kKmM]?)(-\d*[kKmM]?)?\s*")
_PARTS = ("sockets", "cores", "threads")


def minimum(field: str) -> SetFields:
    """Return the effect of an option that sets the least number of a part of each node."""

    def set_minimum(fields: JsonFields, value: OptionText) -> None:
        fields[field] = _minimum(value.word, f"--{value.option}={value.word}")

    return SetFields(set_minimum, _MINIMUM)


def _set_extra(fields: JsonFields, value: OptionText) -> None:
    """Set -B SOCKETS[:CORES[:THREADS]]. Each is a count, a range of which the lower end counts, or *."""
    where = f"--extra-node-info={value.word}"
    pieces = value.word.split(":")
    if len(pieces) > len(_PARTS):
        raise UserError(f"{where} has more than three parts", "write SOCKETS:CORES:THREADS")
    least = fields.setdefault("node_minimum", {})
    for part, piece in zip(_PARTS, [*pieces, "", ""], strict=False):
        least[part] = _minimum(piece, where, ranged=True)
    if least["threads"]:
        fields["threads_per_core"] = least["threads"]


def _minimum(word: str, where: str, *, ranged: bool = False) -> int | None:
    """Return the parsed count; None means that any number is accepted."""
    if not word or word.startswith("*"):
        return None
    match = _LEAST.fullmatch(word)
    if match is None or (match[3] and not ranged):
        raise UserError(f"{where}: {word!r} is no count", "write a number")
    return int(match[1]) * _FACTORS[match[2].lower()] or None


def _set_tmp(fields: JsonFields, value: OptionText) -> None:
    fields["tmp_disk_bytes"] = parse_memory(value.word) or None


# Threads and cores. With --threads-per-core a job uses this many threads per core, on nodes that have as many;
# --ntasks-per-core limits how many of its tasks share one core. Slurm then gives a job whole cores, for example
# twice the requested CPUs on cores with two threads. The rule of memory_bound to use one core of each socket is
# left to the tasks themselves.

ONE_THREAD = frozenset({"compute_bound", "memory_bound", "nomultithread"})
"""Values of --hint with which a job uses one thread of each core."""
_HINTS = ONE_THREAD | {"multithread"}
ANY_NUMBER = 65_535
"""Slurm's value that means "as many as there are" for counts of threads or tasks per core."""


def _set_threads_per_core(fields: JsonFields, value: OptionText) -> None:
    threads = _per_core(value)
    fields["threads_per_core"] = threads
    fields.setdefault("node_minimum", {})["threads"] = threads


def _set_tasks_per_core(fields: JsonFields, value: OptionText) -> None:
    fields["tasks_per_core"] = _per_core(value)


def _per_core(value: OptionText) -> int | None:
    word = value.word
    if not word.isascii() or not word.isdigit() or not int(word[:8]) > 0:
        raise UserError(f"--{value.option}={word} is no whole number", "write a number")
    return int(word) if len(word) < 6 and int(word) < ANY_NUMBER else None


def _set_hint(fields: JsonFields, value: OptionText) -> None:
    words = [word.lower() for word in value.word.split(",")]
    if not all(word in _HINTS for word in words):
        raise UserError(f"--hint={value.word} is not understood", f"write one of {', '.join(sorted(_HINTS))}")
    if ONE_THREAD & set(words):
        fields["threads_per_core"] = 1


# The layout of tasks.

_GPU_BIND = re.compile(r"none|closest|per_task:[1-9]\d*|single(:[1-9]\d*)?|map_gpu:\d+(,\d+)*")
_TASK_GPUS = re.compile(r"gres[/:]gpu(?::(?P<kind>[^:=]+))?[:=](?P<count>\d{1,7})|gres[/:]gpu")
_TASK_CPUS = re.compile(r"cpu[:=](\d{1,7})")


def _set_distribution(fields: JsonFields, value: OptionText) -> None:
    """Set --distribution for the job's steps. A variable of the submitter does not complete "plane"."""
    _, plane_size = distribution(value.word, "")
    variables = fields.setdefault("step_variables", {})
    variables.pop("SLURM_DIST_PLANESIZE", None)
    variables["SLURM_DISTRIBUTION"] = value.word.split("=", 1)[0]
    if plane_size:
        variables["SLURM_DIST_PLANESIZE"] = str(plane_size)


def gpu_binding(value: OptionText) -> str:
    """Return the value of --gpu-bind without "verbose". Raises UserError for unsupported bindings."""
    kind = value.word.removeprefix("verbose,").removeprefix("v,")
    if not _GPU_BIND.fullmatch(kind):
        words = f"--gpu-bind={value.word} is not supported"
        raise UserError(words, "write none, per_task:N, single:N or map_gpu:0,1,...")
    return kind


def _set_gpu_bind(fields: JsonFields, value: OptionText) -> None:
    """Set --gpu-bind for the job's steps. The batch script itself sees all GPUs of its node."""
    fields.setdefault("step_variables", {})["SLURM_GPU_BIND"] = gpu_binding(value)


def _set_overcommit(fields: JsonFields, value: OptionText) -> None:
    """Set --overcommit: each node gets CPUs for only one task, however many tasks run there."""
    fields["resources"]["overcommit"] = True
    fields.setdefault("step_variables", {})["SLURM_OVERCOMMIT"] = "1"


def set_tres_per_task(fields: JsonFields, value: OptionText) -> None:
    """Set the fields `cpus_per_task` and `gpus`, for example from cpu=4,gres/gpu:2. Raises UserError for other
    resources.
    """
    found: JsonFields = {}
    for item in split_list(value.word):
        if (cpus := _TASK_CPUS.fullmatch(item)) is not None and int(cpus[1]):
            found["cpus_per_task"] = int(cpus[1])
        elif (match := _TASK_GPUS.fullmatch(item)) is not None:
            number = match["count"] or "1"
            word = f"{match['kind']}:{number}" if match["kind"] else number
            found["gpus"] = parse_gpus(word, option="gpus-per-task")
        else:
            words = f"--tres-per-task={value.word}: {item!r} is no count of CPUs or GPUs"
            raise UserError(words, "write cpu=4,gres/gpu=1")
    fields.update(found)


ARRAY = SetFields(_set_array)
DEPENDENCY = SetFields(_set_dependencies)
DISTRIBUTION = SetFields(_set_distribution)
EXCLUSIVE = SetFields(_set_exclusive, RESOURCES)
EXTRA_NODE_INFO = SetFields(_set_extra, RESOURCES)
GPU_BIND = SetFields(_set_gpu_bind)
HINT = SetFields(_set_hint, RESOURCES)
KILL_ON_INVALID_DEP = SetFields(_set_kill_on_invalid_dep)
LICENSES = SetFields(_set_licenses)
MAIL_TYPE = SetFields(_add_mail_types)
NICE = SetFields(_set_nice)
NODES = SetFields(_set_nodes, RESOURCES)
NTASKS_PER_CORE = SetFields(_set_tasks_per_core, RESOURCES)
OPEN_MODE = SetFields(_set_open_mode)
OVERCOMMIT = SetFields(_set_overcommit)
PRIORITY = SetFields(_set_priority)
RESERVATION = SetFields(_set_reservation)
SIGNAL = SetFields(_set_signal)
SWITCHES = SetFields(_set_switches, RESOURCES)
THREADS_PER_CORE = SetFields(_set_threads_per_core, RESOURCES)
TIME = SetFields(_set_time)
TIME_MIN = SetFields(_set_time_min)
TMP = SetFields(_set_tmp, _MINIMUM)
TRES_PER_TASK = SetFields(set_tres_per_task, RESOURCES)
USER_ENV = SetFields(_set_user_env)
