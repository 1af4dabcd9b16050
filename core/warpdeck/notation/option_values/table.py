"""The table of the values of the options of sbatch, salloc and srun: one row for each option that has more than a
text or that has an effect here.

`options.options` has the syntax of all options: their letters, the commands that have them, and whether they take a
value. A row here has the value. Its columns are how Slurm's commands read and show it, with their errors (`slurm`),
the fields that it sets in the request of a job (`job`) and in a step (`step`), and the variables that pass it on to
the processes of a job.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from warpdeck.notation.options.options import SBATCH_22_05
from warpdeck.notation.values.containers import OPTIONS as CONTAINER_OPTIONS
from warpdeck.notation.values.refusal import Refusal

from . import job_values as job
from . import launch_values as launch
from . import layouts, notices
from . import process_variables as variables
from . import slurm_values as slurm
from . import step_values as step
from .job_values import SetFields
from .option_fields import Fields, OptionText, SlurmValue


class OptionValue(NamedTuple):
    """One row of the table."""

    slurm: SlurmValue = slurm.TEXT
    launch: SlurmValue | None = None
    """How srun and salloc read the value, if that differs from sbatch."""
    job: SetFields | None = None
    """Its effect on the request of a job; None if it has none."""
    step: SetFields | None = None
    """Its effect on a step; None if it has none."""
    variables: variables.ProcessVariables | None = None
    """The variables that pass the value on to the processes of a job; None if there are none."""


_RESOURCES, _ASK, _STREAMS = job.RESOURCES, step.ASK, step.STREAMS
_IMMEDIATE = launch.number(positive=False, called="immediate", alone="1")

_ROWS: dict[str, OptionValue] = {
    "accel-bind": OptionValue(launch.ACCEL_BIND),
    "account": OptionValue(job=job.text("account")),
    "acctg-freq": OptionValue(slurm.ACCTG_FREQ),
    "array": OptionValue(job=job.ARRAY),
    "begin": OptionValue(slurm.MOMENT, job=job.moment("begin_at_unix")),
    "bell": OptionValue(slurm.stored("bell-always")),
    "chdir": OptionValue(slurm.CHDIR, job=job.text("chdir"), step=job.text("chdir", _ASK)),
    "comment": OptionValue(job=job.text("comment")),
    "compress": OptionValue(launch.COMPRESS),
    "constraint": OptionValue(job=job.text("constraint", _RESOURCES)),
    "contiguous": OptionValue(job=job.constant(_RESOURCES, contiguous=True)),
    "core-spec": OptionValue(layouts.SPEC),
    "cores-per-socket": OptionValue(slurm.number("cores"), job=job.minimum("cores")),
    "cpu-bind": OptionValue(step=step.CPU_BIND),
    "cpu_bind": OptionValue(step=step.CPU_BIND),
    "cpu-freq": OptionValue(slurm.CPU_FREQ),
    "cpus-per-gpu": OptionValue(slurm.COUNT, job=job.count("cpus_per_gpu")),
    "cpus-per-task": OptionValue(
        slurm.number("cpus_per_task", given="cpus_set"),
        job=job.count("cpus_per_task"),
        step=step.count("cpus_per_task"),
    ),
    "deadline": OptionValue(slurm.MOMENT, job=job.moment("deadline_unix")),
    "delay-boot": OptionValue(slurm.DELAY_BOOT),
    "dependency": OptionValue(job=job.DEPENDENCY),
    "distribution": OptionValue(slurm.DISTRIBUTION, job=job.DISTRIBUTION, step=step.DISTRIBUTION),
    "error": OptionValue(slurm.FILE, job=job.text("error"), step=job.text("error", _STREAMS)),
    "exact": OptionValue(step=job.constant(_ASK, exact=True)),
    "exclude": OptionValue(job=job.hosts("exclude", _RESOURCES), step=job.hosts("exclude", _ASK)),
    "exclusive": OptionValue(slurm.EXCLUSIVE, job=job.EXCLUSIVE, step=step.EXCLUSIVE),
    "export": OptionValue(step=job.text("export")),
    "extra-node-info": OptionValue(layouts.EXTRA_NODE_INFO, job=job.EXTRA_NODE_INFO),
    "get-user-env": OptionValue(slurm.USER_ENV, job=job.USER_ENV),
    "gid": OptionValue(slurm.IDENTITY),
    "gpu-bind": OptionValue(slurm.GPU_BIND, job=job.GPU_BIND, step=step.GPU_BIND),
    "gpu-freq": OptionValue(slurm.GPU_FREQ),
    "gpus": OptionValue(job=job.gpus("total"), step=step.GPUS),
    "gpus-per-node": OptionValue(job=job.gpus("per_node"), step=step.GPUS),
    "gpus-per-task": OptionValue(job=job.gpus("per_task"), step=step.GPUS),
    "gres": OptionValue(slurm.GRES, job=job.gpus("per_node"), step=step.GPUS),
    "gres-flags": OptionValue(slurm.GRES_FLAGS),
    "het-group": OptionValue(launch.HET_GROUP, step=step.HET_GROUP),
    "hint": OptionValue(slurm.HINT, job=job.HINT, variables=variables.of_hint),
    "hold": OptionValue(job=job.constant(hold=True)),
    "immediate": OptionValue(_IMMEDIATE, step=step.IMMEDIATE),
    "input": OptionValue(slurm.FILE, job=job.text("input"), step=job.text("input", _STREAMS)),
    "job-name": OptionValue(job=job.text("name"), step=job.text("name", _ASK)),
    "jobid": OptionValue(launch.number(positive=True), step=job.text("job")),
    "kill-command": OptionValue(launch.KILL_COMMAND),
    "kill-on-bad-exit": OptionValue(launch.number(positive=False, alone="1"), step=step.KILL_ON_BAD_EXIT),
    "kill-on-invalid-dep": OptionValue(slurm.KILL_INVALID, job=job.KILL_ON_INVALID_DEP),
    "label": OptionValue(step=job.constant(_STREAMS, label=True)),
    "licenses": OptionValue(job=job.LICENSES),
    "mail-type": OptionValue(notices.MAIL_TYPE, job=job.MAIL_TYPE),
    "mail-user": OptionValue(job=job.text("mail_user")),
    "mem": OptionValue(
        slurm.SIZE, job=job.size("mem_per_node_bytes"), step=step.memory("mem_per_node_bytes")
    ),
    "mem-bind": OptionValue(slurm.MEM_BIND, variables=variables.of_mem_bind),
    "mem-per-cpu": OptionValue(
        slurm.SIZE, job=job.size("mem_per_cpu_bytes"), step=step.memory("mem_per_cpu_bytes")
    ),
    "mem-per-gpu": OptionValue(
        slurm.SIZE, job=job.size("mem_per_gpu_bytes"), step=step.memory("mem_per_gpu_bytes")
    ),
    "mincpus": OptionValue(slurm.number("min_cpus"), job=job.count("cpus_per_node_min")),
    "mpi": OptionValue(launch.MPI, step=step.MPI),
    "msg-timeout": OptionValue(launch.number(positive=True)),
    "nice": OptionValue(slurm.NICE, job=job.NICE),
    "no-bell": OptionValue(slurm.stored("bell-never")),
    "no-kill": OptionValue(slurm.NO_KILL),
    "no-requeue": OptionValue(slurm.constant("requeue", "no-requeue"), job=job.constant(requeue=False)),
    "nodefile": OptionValue(slurm.HOSTS),
    "nodelist": OptionValue(
        slurm.HOSTS, job=job.hosts("nodelist", _RESOURCES), step=job.hosts("nodelist", _ASK)
    ),
    "nodes": OptionValue(layouts.NODES, job=job.NODES, step=step.NODES),
    "ntasks": OptionValue(
        slurm.number("ntasks", given="ntasks_set"), job=job.count("tasks"), step=step.count("tasks")
    ),
    "ntasks-per-core": OptionValue(
        slurm.COUNT, job=job.NTASKS_PER_CORE, variables=variables.number("SLURM_NTASKS_PER_CORE")
    ),
    "ntasks-per-gpu": OptionValue(
        slurm.COUNT, job=job.count("tasks_per_gpu"), step=step.count("tasks_per_gpu")
    ),
    "ntasks-per-node": OptionValue(
        slurm.COUNT, job=job.count("tasks_per_node"), step=step.count("tasks_per_node")
    ),
    "ntasks-per-socket": OptionValue(slurm.COUNT),
    "ntasks-per-tres": OptionValue(slurm.COUNT),
    "open-mode": OptionValue(slurm.OPEN_MODE, job=job.OPEN_MODE, step=step.OPEN_MODE),
    "output": OptionValue(slurm.FILE, job=job.text("output"), step=job.text("output", _STREAMS)),
    "overcommit": OptionValue(slurm.OVERCOMMIT, job=job.OVERCOMMIT, step=job.constant(_ASK, overcommit=True)),
    "overlap": OptionValue(slurm.stored("set"), step=job.constant(_ASK, overlap=True)),
    "oversubscribe": OptionValue(
        slurm.constant("shared", "oversubscribe"),
        job=job.constant(_RESOURCES, exclusive=False, share_with="anybody"),
    ),
    "pack-group": OptionValue(step=step.HET_GROUP),
    "partition": OptionValue(job=job.text("partition")),
    "power": OptionValue(slurm.POWER),
    "prefer": OptionValue(job=job.text("prefer", _RESOURCES)),
    "priority": OptionValue(slurm.PRIORITY, job=job.PRIORITY),
    "profile": OptionValue(slurm.PROFILE, variables=variables.of_profile),
    "propagate": OptionValue(slurm.PROPAGATE, step=step.PROPAGATE),
    "pty": OptionValue(step=job.constant(_ASK, pty=True)),
    "qos": OptionValue(job=job.text("qos")),
    "quiet": OptionValue(step=job.constant(_STREAMS, quiet=True)),
    "quit-on-interrupt": OptionValue(step=job.constant(_STREAMS, quits_on_interrupt=True)),
    "relative": OptionValue(launch.number(positive=False), step=step.count("relative", 0)),
    "requeue": OptionValue(slurm.constant("requeue", "requeue"), job=job.constant(requeue=True)),
    "reservation": OptionValue(job=job.RESERVATION),
    "resv-ports": OptionValue(launch.number(positive=False, called="--resv-port", alone="0")),
    "send-libs": OptionValue(launch.SEND_LIBS),
    "signal": OptionValue(notices.SIGNAL, launch.SIGNAL, job=job.SIGNAL),
    "slurmd-debug": OptionValue(launch.SLURMD_DEBUG),
    "sockets-per-node": OptionValue(slurm.number("sockets"), job=job.minimum("sockets")),
    "spread-job": OptionValue(job=job.constant(_RESOURCES, spread=True)),
    "switch-req": OptionValue(layouts.SWITCH_REQ),
    "switch-wait": OptionValue(layouts.SWITCH_WAIT),
    "switches": OptionValue(layouts.SWITCHES, job=job.SWITCHES),
    "task-epilog": OptionValue(step=step.program("task_epilog")),
    "task-prolog": OptionValue(step=step.program("task_prolog")),
    "tasks-per-node": OptionValue(
        job=job.count("tasks_per_node", called="ntasks-per-node"), step=step.count("tasks_per_node")
    ),
    "thread-spec": OptionValue(layouts.SPEC),
    "threads": OptionValue(launch.number(positive=True)),
    "threads-per-core": OptionValue(
        slurm.number("threads"),
        job=job.THREADS_PER_CORE,
        variables=variables.number("SLURM_THREADS_PER_CORE"),
    ),
    "time": OptionValue(slurm.LIMIT, job=job.TIME, step=step.TIME),
    "time-min": OptionValue(slurm.LIMIT, job=job.TIME_MIN),
    "tmp": OptionValue(slurm.SIZE, job=job.TMP),
    "tres-per-task": OptionValue(job=job.TRES_PER_TASK, step=step.TRES_PER_TASK),
    "uid": OptionValue(slurm.IDENTITY),
    "use-min-nodes": OptionValue(job=job.constant(_RESOURCES, use_min_nodes=True)),
    "wait": OptionValue(launch=launch.number(positive=False), step=step.count("wait_s", 0)),
    "wait-all-nodes": OptionValue(slurm.WAIT_ALL_NODES),
    "x11": OptionValue(launch.X11),
}


def _of_container(set_value: Callable[[dict[str, Any], str], None]) -> OptionValue:
    """Return the row of a pyxis option, which sets the same field of the container of a job and of a step."""

    def set_fields(fields: dict[str, Any], value: OptionText) -> None:
        set_value(fields, value.word)

    return OptionValue(
        job=SetFields(set_fields, ("container",)), step=SetFields(set_fields, (*_ASK, "container"))
    )


_ROWS |= {option: _of_container(set_value) for option, set_value in CONTAINER_OPTIONS.items()}
_PLAIN_TEXT = OptionValue()


def row(option: str) -> OptionValue:
    """Return the row of an option. An option without a row is a text that has no effect here."""
    return _ROWS.get(option, _PLAIN_TEXT)


def read_value(fields: Fields, value: OptionText, *, is_launch: bool) -> None:
    """Parse and store a value as sbatch does, or as srun and salloc do with `is_launch`. Raises Refusal."""
    found = row(value.option)
    (found.launch if is_launch and found.launch is not None else found.slurm).read(fields, value)


def show_value(fields: Fields, option: str) -> str:
    """Return the stored value of an option as sbatch -vv prints it."""
    return row(option).slurm.show(fields, option)


def take_back(fields: Fields, option: str) -> None:
    """Reset an option as if it had not been given."""
    for kept in (fields.given, fields.texts, fields.counts):
        kept.pop(option, None)
    for name in row(option).slurm.fields:
        fields.__dict__.pop(name, None)


_EACH = frozenset(name for name, option in SBATCH_22_05.options.items() if option.each)
"""Options whose values are not taken over by the next component of a heterogeneous job."""
_EACH_FIELDS = frozenset(field for option in _EACH for field in row(option).slurm.fields)


def begin_component(fields: Fields) -> None:
    """Begin another component and keep only options that apply to the whole job."""
    for kept in (fields.given, fields.texts, fields.counts):
        for option in kept.keys() & _EACH:
            del kept[option]
    for name in fields.__dict__.keys() & _EACH_FIELDS:
        del fields.__dict__[name]


def told_of(option: str, value: str) -> dict[str, str]:
    """Return the variables that pass an option on to processes; {} if the option, or its value, sets none."""
    found = row(option).variables
    try:
        return {} if found is None else found(value)
    except Refusal:
        return {}  # The invalid value is reported elsewhere, with sbatch's message.
