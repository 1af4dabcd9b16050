"""Effects of options on the request of a job: a dictionary in the JSON form of `model.Request`.

Each `SetFields` turns the value of an option, which was read before, into fields of the request. Options whose text
Slurm's commands pass on unread, such as --array, are parsed here. Several options of a job also apply to its steps,
which read them from variables, as in Slurm; these are part of the request (`step_variables`, with names from
srun(1)). Compared with Slurm 22.05.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from warpdeck.base.errors import UserError
from warpdeck.notation.options.given_options import GivenOption
from warpdeck.notation.values.arrays import parse_array_option
from warpdeck.notation.values.dependencies import parse_dependencies
from warpdeck.notation.values.durations import UNLIMITED, checked_seconds, limit_of
from warpdeck.notation.values.gres import parse_gpus, parse_gres
from warpdeck.notation.values.hostlist import expand
from warpdeck.notation.values.licenses import parse_licenses
from warpdeck.notation.values.lists import split_list
from warpdeck.notation.values.memory_sizes import MIB
from warpdeck.notation.values.signals import MAX_SIGNAL

from .bindings import ANY_NUMBER, ONE_THREAD, hint_words
from .newer_kinds import AT_LIMIT, EXPEDITE
from .special_kinds import PARTS

JsonFields = dict[str, Any]


class SetFields(NamedTuple):
    """The effect of an option here: the fields that it sets in a job's request or in a step."""

    set: Callable[[JsonFields, GivenOption], object]
    """Function that sets the fields. Raises UserError for a value that Slurm accepts and that is impossible here."""
    section: tuple[str, ...] = ()
    """The path of the dictionary that contains the fields; () is the request or step itself."""
    reads_text: bool = False
    """Whether it also accepts values that Slurm 22.05 rejects, and so parses the text itself."""

    def apply(self, fields: JsonFields, given: GivenOption) -> None:
        """Set the fields in the section, which is created if necessary. Raises UserError."""
        if given.error is not None and not self.reads_text:
            raise given.error
        for name in self.section:
            fields = fields.setdefault(name, {})
        self.set(fields, given)


def effect(*section: str) -> Callable[[Callable[[JsonFields, GivenOption], None]], SetFields]:
    """Return a decorator that makes a function the effect of an option on a section of the request."""
    return lambda function: SetFields(function, section)


RESOURCES = ("resources",)
_MINIMUM = (*RESOURCES, "node_minimum")
MAX_NODES = 100_000
MAX_COUNT = 10_000_000
Convert = Callable[[GivenOption], Any]
"""Function that returns the value of a field. Raises UserError."""


def as_text(given: GivenOption) -> str:
    """Return the option's text."""
    return given.word


def as_count(given: GivenOption) -> int:
    """Return a count from 1 to MAX_COUNT. Raises UserError."""
    return _in_range(given, given.value, MAX_COUNT)


def _in_range(given: GivenOption, number: int, most: int) -> int:
    if not 1 <= number <= most:
        raise UserError(f"--{given.option}={given.word} is out of range", f"write 1 to {most:,}")
    return number


def as_bytes(given: GivenOption) -> int:
    """Return a size in bytes."""
    return int(given.value) * MIB


def as_limit_s(given: GivenOption) -> int | None:
    """Return a time limit in seconds, a multiple of 60; None for no limit. Raises UserError."""
    return limit_of(checked_seconds(given.value, f"--{given.option}={given.word}"))


def as_hosts(given: GivenOption) -> list[str]:
    """Return the names in a hostlist. Raises UserError."""
    return expand(given.word)


def as_gpus(given: GivenOption) -> JsonFields:
    """Return the GPUs of --gres, --gpus and similar options in the JSON form of `model.GpuAsk`. Raises UserError."""
    return parse_gres(given.word) if given.option == "gres" else parse_gpus(given.word, given.option)


def field(name: str, convert: Convert = as_text, section: tuple[str, ...] = ()) -> SetFields:
    """Return the effect of an option that sets one field of the request."""
    return SetFields(lambda fields, given: fields.update({name: convert(given)}), section)


def resource(name: str, convert: Convert) -> SetFields:
    """Return the effect of an option that sets one field of the request's resources."""
    return field(name, convert, RESOURCES)


def minimum(name: str, convert: Convert) -> SetFields:
    """Return the effect of an option that sets the minimum hardware of each node.

    As in Slurm, these options only select nodes; they do not determine how much of a node the job gets.
    """
    return field(name, convert, _MINIMUM)


def constant(section: tuple[str, ...] = (), **fields_set: object) -> SetFields:
    """Return the effect of an option that sets these fields, whatever its value is."""
    return SetFields(lambda fields, _: fields.update(fields_set), section)


def gpu_option(name: str) -> SetFields:
    """Return the effect of an option that asks for GPUs per job, node or task (`name`)."""
    return field(name, as_gpus, (*RESOURCES, "gpu_options"))


def as_value(given: GivenOption) -> Any:
    """Return the option's value as it was read."""
    return given.value


# Time, order and notifications.


@effect()
def set_time(fields: JsonFields, given: GivenOption) -> None:
    """Set the time limit. UNLIMITED differs from no limit given."""
    found_s = as_limit_s(given)
    fields.update(time_limit_s=found_s, unlimited=found_s is None)


def as_least_time(given: GivenOption) -> int:
    """Return the seconds of --time-min. Raises UserError."""
    found_s = as_limit_s(given)
    if found_s is None:
        words = f"--time-min={given.word} is not a minimum time"
        raise UserError(words, "write how long the job must run at least")
    return found_s


@effect()
def set_array(fields: JsonFields, given: GivenOption) -> None:
    """Set the array. An empty value means no array and cancels an earlier one."""
    fields.pop("array", None)
    found = parse_array_option(given.word)
    if found is not None:
        fields["array"] = {"ranges": found[0], "throttle": found[1]}


def as_dependencies(given: GivenOption) -> JsonFields | None:
    """Return the dependencies. An empty value cancels earlier ones, because scripts write
    --dependency="$AFTER".
    """
    return parse_dependencies(given.word) if given.word else None


@effect()
def set_kill_on_invalid_dep(fields: JsonFields, given: GivenOption) -> None:
    """Set --kill-on-invalid-dep. As in Slurm, once it is "yes" it stays so."""
    fields["kill_on_invalid_dep"] = given.value == "yes" or fields.get("kill_on_invalid_dep", False)


@effect()
def add_mail_types(fields: JsonFields, given: GivenOption) -> None:
    """Add mail types. If the option is given several times, all of them count."""
    fields["mail_types"] = list(dict.fromkeys([*fields.get("mail_types", ()), *given.value]))


def as_reservation(given: GivenOption) -> str:
    """Return the name of one reservation. Raises UserError."""
    if "," in given.word:
        raise UserError(f"--reservation={given.word} names several reservations", "name one of them")
    return given.word


def as_licenses(given: GivenOption) -> list[tuple[str, int]]:
    """Return pairs of a license and its count. Raises UserError."""
    return parse_licenses(given.word)


@effect()
def set_warning(fields: JsonFields, given: GivenOption) -> None:
    """Set --signal. As in Slurm, B: stays set once it was given."""
    found = given.value
    if found.number > MAX_SIGNAL:
        raise UserError(f"--signal={given.word}: there is no signal {found.number}", "write USR1 or TERM")
    batch_only = found.to_batch_shell or fields.get("warn", {}).get("batch_only", False)
    fields["warn"] = {"number": found.number, "before_s": found.before_s, "batch_only": batch_only}


@effect()
def set_open_mode(fields: JsonFields, given: GivenOption) -> None:
    """Set whether output files are appended to or truncated."""
    fields.update(open_append=given.value == "a", open_truncate=given.value == "t")


# Nodes.


def set_nodes(fields: JsonFields, given: GivenOption) -> None:
    """Set the range of node counts of a job or a step."""
    fields["nodes_min"], fields["nodes_max"] = (_in_range(given, number, MAX_NODES) for number in given.value)


@effect(*RESOURCES)
def set_switches(fields: JsonFields, given: GivenOption) -> None:
    """Set --switches. A waiting time that is not a time has no effect, as in Slurm."""
    if given.value.number is not None:
        fields["max_switches"] = _in_range(given, given.value.number, MAX_COUNT)
    wait_s = given.value.wait_s
    if wait_s is not None and wait_s >= UNLIMITED:
        fields["switches_wait_s"] = checked_seconds(wait_s, f"--{given.option}={given.word}")


@effect(*RESOURCES)
def set_exclusive(fields: JsonFields, given: GivenOption) -> None:
    """Set --exclusive. The word "oversubscribe" has the meaning of --oversubscribe."""
    share_with = {"exclusive": "", "oversubscribe": "anybody"}.get(given.value, given.value)
    fields.update(exclusive=not share_with, share_with=share_with)


@effect(*RESOURCES)
def set_extra(fields: JsonFields, given: GivenOption) -> None:
    """Set -B SOCKETS[:CORES[:THREADS]]."""
    least = fields.setdefault("node_minimum", {})
    least.update(zip(PARTS, (number or None for number in given.value), strict=True))
    if least["threads"]:
        fields["threads_per_core"] = least["threads"]


def as_tmp_bytes(given: GivenOption) -> int | None:
    """Return the size of --tmp; None for 0, which cancels an earlier one."""
    return as_bytes(given) or None


# Threads and cores. With --threads-per-core a job uses this many threads per core, on nodes that have as many;
# --ntasks-per-core limits how many of its tasks share one core. Slurm then gives a job whole cores, for example
# twice the requested CPUs on cores with two threads. The rule of memory_bound to use one core of each socket is
# left to the tasks themselves.


def as_count_per_core(given: GivenOption) -> int | None:
    """Return a count per core; None for a number that stands for any count."""
    return given.value if 0 < given.value < ANY_NUMBER else None


@effect(*RESOURCES)
def set_threads_per_core(fields: JsonFields, given: GivenOption) -> None:
    """Set the threads that a job uses on each core, and the threads that each core must have."""
    fields["threads_per_core"] = fields.setdefault("node_minimum", {})["threads"] = as_count_per_core(given)


@effect(*RESOURCES)
def set_hint(fields: JsonFields, given: GivenOption) -> None:
    """Set one thread per core for a --hint that asks for it. Raises SlurmError."""
    if ONE_THREAD & set(hint_words(given.word)):
        fields["threads_per_core"] = 1


# The layout of tasks.

_GPU_BIND = re.compile(r"none|closest|per_task:[1-9]\d*|single:[1-9]\d*|map_gpu:\d+(,\d+)*")
_TASK_GPUS = re.compile(r"gres[/:]gpu(?::(?P<kind>[^:=]+))?[:=](?P<count>\d{1,7})|gres[/:]gpu")
_TASK_CPUS = re.compile(r"cpu[:=](\d{1,7})")


@effect()
def set_distribution(fields: JsonFields, given: GivenOption) -> None:
    """Set --distribution for the job's steps."""
    variables = fields.setdefault("step_variables", {})
    variables.pop("SLURM_DIST_PLANESIZE", None)
    variables["SLURM_DISTRIBUTION"] = given.word.split("=", 1)[0]
    if given.value.plane_size:
        variables["SLURM_DIST_PLANESIZE"] = str(given.value.plane_size)


def as_gpu_binding(given: GivenOption) -> str:
    """Return the value of --gpu-bind without "verbose". Raises UserError for unsupported bindings.

    As in Slurm, the first letter identifies "closest" and "none".
    """
    kind = given.word.lower().removeprefix("verbose,")
    kind = {"c": "closest", "n": "none"}.get(kind[:1], kind)
    if not _GPU_BIND.fullmatch(kind):
        words = f"--{given.option}={given.word} is not supported"
        raise UserError(words, "write none, per_task:N, single:N or map_gpu:0,1,...")
    return kind


@effect()
def set_requeue(fields: JsonFields, given: GivenOption) -> None:
    """Set --requeue[=expedite,limit]."""
    words = given.value.split(",")
    fields.update(requeue=True, expedite=EXPEDITE in words, requeue_at_limit=AT_LIMIT in words)


_TRES_BIND = re.compile(r"gres/gpu:(verbose,)?(map:)?(?P<kind>[^+]*)", re.IGNORECASE)


def as_tres_binding(given: GivenOption) -> str:
    """Return the value of --tres-bind, such as gres/gpu:single:2, as a binding of GPUs. Raises UserError."""
    match = _TRES_BIND.fullmatch(given.word)
    if match is None:
        words = f"--tres-bind={given.word} is not supported, because only GPUs are bound to tasks"
        raise UserError(words, "write gres/gpu: and a binding, such as gres/gpu:single:1")
    return as_gpu_binding(given._replace(text=f"{'map_gpu:' * bool(match[2])}{match['kind']}"))


@effect()
def set_tres_bind(fields: JsonFields, given: GivenOption) -> None:
    """Set --tres-bind for the job's steps, as --gpu-bind."""
    fields.setdefault("step_variables", {})["SLURM_GPU_BIND"] = as_tres_binding(given)


@effect()
def set_gpu_bind(fields: JsonFields, given: GivenOption) -> None:
    """Set --gpu-bind for the job's steps. The batch script itself sees all GPUs of its node."""
    fields.setdefault("step_variables", {})["SLURM_GPU_BIND"] = as_gpu_binding(given)


@effect()
def set_overcommit(fields: JsonFields, given: GivenOption) -> None:
    """Set --overcommit: each node gets CPUs for only one task, however many tasks run there."""
    fields["resources"]["overcommit"] = True
    fields.setdefault("step_variables", {})["SLURM_OVERCOMMIT"] = "1"


def set_tres_per_task(fields: JsonFields, given: GivenOption) -> None:
    """Set the fields `cpus_per_task` and `gpus`, for example from cpu=4,gres/gpu:2. Raises UserError for other
    resources.
    """
    found: JsonFields = {}
    for item in split_list(given.word):
        if (cpus := _TASK_CPUS.fullmatch(item)) is not None and int(cpus[1]):
            found["cpus_per_task"] = int(cpus[1])
        elif (match := _TASK_GPUS.fullmatch(item)) is not None:
            number = match["count"] or "1"
            text = f"{match['kind']}:{number}" if match["kind"] else number
            found["gpus"] = parse_gpus(text, option="gpus-per-task")
        else:
            words = f"--tres-per-task={given.word}: {item!r} is not a count of CPUs or GPUs"
            raise UserError(words, "write cpu=4,gres/gpu=1")
    fields.update(found)
