"""The table of the values of the options of sbatch, salloc and srun: one row for each option that has more than a
text or that has an effect here.

`options.option_table` has the syntax of all options: their letters, the commands that have them, and whether they
take a value. A row here has the value: its kind, which reads the text, with Slurm's errors; the fields that it sets
in the request of a job (`job`) and in a step (`step`); and the variables that pass it on to the processes of a job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from warpdeck.notation.options.given_options import GivenOption, Options, OptionSource
from warpdeck.notation.options.option_table import REQUIRED, SBATCH_22_05, OptionTable
from warpdeck.notation.values.containers import OPTIONS as CONTAINER_OPTIONS
from warpdeck.notation.values.numbers import count
from warpdeck.notation.values.slurm_error import VALUE_EXIT, SlurmError

from . import newer_kinds as newer
from . import request_fields as request
from . import special_kinds as special
from . import step_fields as step
from . import value_kinds as kinds
from .bindings import ANY_NUMBER, ONE_THREAD, mem_bind_text, merged_mem_bind
from .request_fields import (
    RESOURCES,
    Convert,
    SetFields,
    as_bytes,
    as_count,
    as_hosts,
    as_text,
    as_value,
    constant,
    field,
    minimum,
    resource,
)
from .slurm_options import SlurmOptions
from .step_fields import ASK, STREAMS, ask, memory, stream
from .value_kinds import OptionText, ValueKind

ProcessVariables = Callable[[GivenOption], dict[str, str]]
"""Function that returns the variables for an option."""
SAME = {"cpu_bind": "cpu-bind", "pack-group": "het-group", "tasks-per-node": "ntasks-per-node"}
"""Old names of options, and the names with which Slurm shows them."""


class OptionRow(NamedTuple):
    """One row of the table."""

    kind: ValueKind = kinds.TEXT
    job: SetFields | None = None
    """Its effect on the request of a job; None if it has none."""
    step: SetFields | None = None
    """Its effect on a step; None if it has none."""
    variables: ProcessVariables | None = None
    """The variables that pass the value on to the processes of a job; None if there are none."""
    launch: ValueKind | None = None
    """The kind for srun and salloc, if that differs from sbatch."""


# Variables that pass options on to a job's processes, as in Slurm. MPI programs and wrappers read them.


def _hint_variables(given: GivenOption) -> dict[str, str]:
    words = {word.lower() for word in given.word.split(",")}
    made = {"SLURM_HINT": given.word}
    if words & ONE_THREAD:
        made["SLURM_THREADS_PER_CORE"] = "1"
    if "multithread" in words:
        made["SLURM_NTASKS_PER_CORE"] = str(ANY_NUMBER)
    return made


def _mem_bind_variables(given: GivenOption) -> dict[str, str]:
    numbers, types = merged_mem_bind(given.value, frozenset())
    loudness = "verbose" if "verbose" in types else "quiet"
    return {"SLURM_MEM_BIND": mem_bind_text(numbers, types), "SLURM_MEM_BIND_VERBOSE": loudness}


def _variable(name: str) -> ProcessVariables:
    """Return the function for an option that sets this variable to its value."""
    return lambda given: {name: str(given.value)}


def _wait(given: OptionText) -> int | str:
    """Read --wait, which has a number in srun and no value in sbatch."""
    return "set" if given.text is None else count("wait", given.text, positive=False)


def _in_both(name: str, convert: Convert) -> tuple[SetFields, SetFields]:
    """Return the effects of an option that sets the same field of a job's resources and of a step."""
    return resource(name, convert), ask(name, convert)


def _memory(name: str) -> tuple[SetFields, SetFields]:
    """Return the effects of an option about the memory of a job and of a step."""
    return resource(name, as_bytes), memory(name)


_IMMEDIATE = kinds.count_kind(positive=False, called="immediate", alone="1")
_STEP_GPUS = ask("gpus", step.as_step_gpus)
_FROM_ZERO = kinds.count_kind(positive=False)

_ROWS: dict[str, OptionRow] = {
    "accel-bind": OptionRow(special.ACCEL_BIND),
    "account": OptionRow(job=field("account")),
    "acctg-freq": OptionRow(special.ACCTG_FREQ),
    "array": OptionRow(job=request.set_array),
    "begin": OptionRow(kinds.MOMENT, field("begin_at_unix", as_value)),
    "bell": OptionRow(kinds.text_kind(lambda _: "bell-always")),
    "chdir": OptionRow(special.CHDIR, field("chdir"), step=ask("chdir")),
    "comment": OptionRow(job=field("comment")),
    "compress": OptionRow(special.COMPRESS),
    "constraint": OptionRow(job=resource("constraint", as_text)),
    "contiguous": OptionRow(job=constant(RESOURCES, contiguous=True)),
    "core-spec": OptionRow(special.SPEC),
    "cores-per-socket": OptionRow(kinds.number("cores"), minimum("cores", as_count)),
    "cpu-bind": OptionRow(step=step.set_cpu_bind),
    "cpu-freq": OptionRow(special.CPU_FREQ),
    "cpus-per-gpu": OptionRow(kinds.COUNT, resource("cpus_per_gpu", as_count)),
    "cpus-per-task": OptionRow(
        kinds.number("cpus_per_task", flag="cpus_set"), *_in_both("cpus_per_task", as_count)
    ),
    "deadline": OptionRow(kinds.MOMENT, field("deadline_unix", as_value)),
    "delay-boot": OptionRow(kinds.DURATION),
    "dependency": OptionRow(job=field("dependencies", request.as_dependencies)),
    "distribution": OptionRow(special.DISTRIBUTION, request.set_distribution, step.set_distribution),
    "error": OptionRow(kinds.FILE, field("error"), step=stream("error")),
    "exact": OptionRow(step=constant(ASK, exact=True)),
    "exclude": OptionRow(kinds.TEXT, *_in_both("exclude", as_hosts)),
    "exclusive": OptionRow(special.EXCLUSIVE, request.set_exclusive, step.set_exclusive),
    "export": OptionRow(step=field("export")),
    "extra-node-info": OptionRow(special.EXTRA_NODE_INFO, request.set_extra),
    "get-user-env": OptionRow(special.USER_ENV, constant(user_env=True)),
    "gid": OptionRow(special.IDENTITY),
    "gpu-bind": OptionRow(special.GPU_BIND, request.set_gpu_bind, ask("gpu_bind", request.as_gpu_binding)),
    "gpu-freq": OptionRow(special.GPU_FREQ),
    "gpus": OptionRow(job=request.gpu_option("total"), step=_STEP_GPUS),
    "gpus-per-node": OptionRow(job=request.gpu_option("per_node"), step=_STEP_GPUS),
    "gpus-per-task": OptionRow(job=request.gpu_option("per_task"), step=_STEP_GPUS),
    "gres": OptionRow(special.GRES, request.gpu_option("per_node"), step=_STEP_GPUS),
    "gres-flags": OptionRow(special.GRES_FLAGS),
    "het-group": OptionRow(special.HET_GROUP, step=field("groups", as_value)),
    "hint": OptionRow(special.HINT, request.set_hint, variables=_hint_variables),
    "hold": OptionRow(job=constant(hold=True)),
    "ignore-signals": OptionRow(newer.IGNORE_SIGNALS, step=field("ignored_signals", as_value, STREAMS)),
    "immediate": OptionRow(_IMMEDIATE, step=step.set_immediate),
    "input": OptionRow(kinds.FILE, field("input"), step=stream("input")),
    "job-name": OptionRow(job=field("name"), step=ask("name")),
    "jobid": OptionRow(kinds.COUNT, step=SetFields(step.set_job, reads_text=True)),
    "kill-command": OptionRow(special.KILL_COMMAND),
    "kill-on-bad-exit": OptionRow(
        kinds.count_kind(positive=False, alone="1"),
        step=ask("kill_on_bad_exit", lambda given: given.value > 0),
    ),
    "kill-on-invalid-dep": OptionRow(special.KILL_INVALID, request.set_kill_on_invalid_dep),
    "label": OptionRow(step=constant(STREAMS, label=True)),
    "licenses": OptionRow(job=field("licenses", request.as_licenses)),
    "mail-type": OptionRow(special.MAIL_TYPE, request.add_mail_types),
    "mail-user": OptionRow(job=field("mail_user")),
    "mem": OptionRow(kinds.SIZE, *_memory("mem_per_node_bytes")),
    "mem-bind": OptionRow(special.MEM_BIND, variables=_mem_bind_variables),
    "mem-per-cpu": OptionRow(kinds.SIZE, *_memory("mem_per_cpu_bytes")),
    "mem-per-gpu": OptionRow(kinds.SIZE, *_memory("mem_per_gpu_bytes")),
    "mincpus": OptionRow(kinds.number("min_cpus"), resource("cpus_per_node_min", as_count)),
    "mpi": OptionRow(special.MPI, step=step.set_mpi),
    "msg-timeout": OptionRow(kinds.COUNT),
    "nice": OptionRow(special.NICE, field("nice", as_value)),
    "no-bell": OptionRow(kinds.text_kind(lambda _: "bell-never")),
    "no-kill": OptionRow(special.NO_KILL),
    "no-requeue": OptionRow(kinds.constant("requeue", "no-requeue"), constant(requeue=False)),
    "nodefile": OptionRow(special.HOSTS),
    "nodelist": OptionRow(special.HOSTS, *_in_both("nodelist", as_hosts)),
    "nodes": OptionRow(
        special.NODES, SetFields(request.set_nodes, RESOURCES), SetFields(request.set_nodes, ASK)
    ),
    "ntasks": OptionRow(kinds.number("ntasks", flag="ntasks_set"), *_in_both("tasks", as_count)),
    "ntasks-per-core": OptionRow(
        kinds.COUNT,
        resource("tasks_per_core", request.as_count_per_core),
        variables=_variable("SLURM_NTASKS_PER_CORE"),
    ),
    "ntasks-per-gpu": OptionRow(kinds.COUNT, *_in_both("tasks_per_gpu", as_count)),
    "ntasks-per-node": OptionRow(kinds.COUNT, *_in_both("tasks_per_node", as_count)),
    "ntasks-per-socket": OptionRow(kinds.COUNT),
    "ntasks-per-tres": OptionRow(kinds.COUNT),
    "open-mode": OptionRow(
        special.OPEN_MODE, request.set_open_mode, field("append", lambda given: given.value == "a", STREAMS)
    ),
    "output": OptionRow(kinds.FILE, field("output"), step=stream("output")),
    "overcommit": OptionRow(job=request.set_overcommit, step=constant(ASK, overcommit=True)),
    "overlap": OptionRow(kinds.text_kind(lambda _: "set"), step=constant(ASK, overlap=True)),
    "oversubscribe": OptionRow(
        kinds.constant("shared", "oversubscribe"), constant(RESOURCES, exclusive=False, share_with="anybody")
    ),
    "partition": OptionRow(job=field("partition")),
    "power": OptionRow(special.POWER),
    "prefer": OptionRow(job=resource("prefer", as_text)),
    "priority": OptionRow(special.PRIORITY, field("priority", as_value)),
    "profile": OptionRow(special.PROFILE, variables=_variable("SLURM_PROFILE")),
    "propagate": OptionRow(special.PROPAGATE),
    "pty": OptionRow(newer.PTY, step=constant(ASK, pty=True)),
    "qos": OptionRow(job=field("qos")),
    "quiet": OptionRow(step=constant(STREAMS, quiet=True)),
    "quit-on-interrupt": OptionRow(step=constant(STREAMS, quits_on_interrupt=True)),
    "relative": OptionRow(_FROM_ZERO, step=ask("relative", as_value)),
    "requeue": OptionRow(newer.REQUEUE, request.set_requeue),
    "reservation": OptionRow(job=field("reservation", request.as_reservation)),
    "resv-ports": OptionRow(kinds.count_kind(positive=False, called="--resv-port", alone="0")),
    "send-libs": OptionRow(special.SEND_LIBS),
    "signal": OptionRow(special.SIGNAL, request.set_warning, launch=special.LAUNCH_SIGNAL),
    "slurmd-debug": OptionRow(special.SLURMD_DEBUG),
    "sockets-per-node": OptionRow(kinds.number("sockets"), minimum("sockets", as_count)),
    "spread-job": OptionRow(job=constant(RESOURCES, spread=True)),
    "switch-req": OptionRow(special.SWITCH_REQ, request.set_switches),
    "switch-wait": OptionRow(special.SWITCH_WAIT, request.set_switches),
    "switches": OptionRow(special.SWITCHES, request.set_switches),
    "task-epilog": OptionRow(step=ask("task_epilog", step.as_program)),
    "task-prolog": OptionRow(step=ask("task_prolog", step.as_program)),
    "thread-spec": OptionRow(special.SPEC),
    "threads": OptionRow(kinds.COUNT),
    "threads-per-core": OptionRow(
        kinds.number("threads"), request.set_threads_per_core, variables=_variable("SLURM_THREADS_PER_CORE")
    ),
    "time": OptionRow(kinds.LIMIT, request.set_time, ask("time_limit_s", request.as_limit_s)),
    "time-min": OptionRow(kinds.LIMIT, field("time_min_s", request.as_least_time)),
    "tmp": OptionRow(kinds.SIZE, minimum("tmp_disk_bytes", request.as_tmp_bytes)),
    "tres-bind": OptionRow(job=request.set_tres_bind, step=ask("gpu_bind", request.as_tres_binding)),
    "tres-per-task": OptionRow(
        job=SetFields(request.set_tres_per_task, RESOURCES), step=SetFields(request.set_tres_per_task, ASK)
    ),
    "uid": OptionRow(special.IDENTITY),
    "use-min-nodes": OptionRow(job=constant(RESOURCES, use_min_nodes=True)),
    "wait": OptionRow(ValueKind(_wait), step=ask("wait_s", as_value)),
    "wait-all-nodes": OptionRow(special.WAIT_ALL_NODES),
    "x11": OptionRow(special.X11),
}


def _container_row(set_value: Callable[[dict[str, Any], str], None]) -> OptionRow:
    """Return the row of a pyxis option, which sets the same field of the container of a job and of a step."""

    def set_fields(fields: dict[str, Any], given: GivenOption) -> None:
        set_value(fields, given.word)

    return OptionRow(
        job=SetFields(set_fields, ("container",)), step=SetFields(set_fields, (*ASK, "container"))
    )


_ROWS |= {option: _container_row(set_value) for option, set_value in CONTAINER_OPTIONS.items()}
_PLAIN_TEXT = OptionRow()


def row(option: str) -> OptionRow:
    """Return the row of an option. An option without a row is a text that has no effect here."""
    return _ROWS.get(SAME.get(option, option), _PLAIN_TEXT)


def with_values(options: Iterable[GivenOption], source: OptionSource, known: OptionTable) -> Options:
    """Return the options of a command with their values, or with an error if the text of a value is invalid."""
    is_launch = known.command != "sbatch"
    return [_with_value(given, source, known, is_launch=is_launch) for given in options]


def _with_value(
    given: GivenOption, source: OptionSource, known: OptionTable, *, is_launch: bool
) -> GivenOption:
    if given.error is not None or given.is_off:
        return given
    found, syntax, text = row(given.option), known.options.get(given.option), given.text
    if syntax is not None and not text and syntax.takes != REQUIRED:
        text = None
    kind = found.launch if is_launch and found.launch is not None else found.kind
    option = SAME.get(given.option, given.option)
    try:
        return given._replace(text=text, value=kind.read(OptionText(option, text, source)))
    except SlurmError as error:
        error.exit_code = error.exit_code or VALUE_EXIT
        return given._replace(text=text, error=error)


def show_value(options: SlurmOptions, option: str) -> str:
    """Return the kept value of an option as sbatch -vv prints it."""
    return row(option).kind.show(options, option)


def take_back(options: SlurmOptions, option: str) -> None:
    """Reset an option as if it had not been given."""
    options.given.pop(option, None)
    options.values.pop(option, None)
    for name in row(option).kind.fields:
        options.__dict__.pop(name, None)


_EACH = frozenset(name for name, option in SBATCH_22_05.options.items() if option.each)
"""Options whose values are not taken over by the next component of a heterogeneous job."""
_EACH_FIELDS = frozenset(field for option in _EACH for field in row(option).kind.fields)


def begin_component(options: SlurmOptions) -> None:
    """Begin another component and keep only options that apply to the whole job."""
    for kept in (options.given, options.values):
        for option in kept.keys() & _EACH:
            del kept[option]
    for name in options.__dict__.keys() & _EACH_FIELDS:
        del options.__dict__[name]


def process_variables(given: GivenOption) -> dict[str, str]:
    """Return the variables that pass an option on to processes; {} if the option, or its value, sets none."""
    found = row(given.option).variables
    return {} if found is None or given.error is not None else found(given)
