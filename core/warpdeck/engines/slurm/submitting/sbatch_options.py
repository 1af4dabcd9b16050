"""The options of Slurm's sbatch for a request, as one table: each row has the fields and the option that they become.

All values are written as --option=VALUE, so a value may begin with a dash and contain any character. A field that Slurm
cannot express is refused with a reason (REFUSED). The table ELSEWHERE names the other way for each field that reaches
Slurm without an option.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.engines.slurm.versions import Feature, Version, has
from warpdeck.model import Request, format_ranges
from warpdeck.model.request import Container, GpuRequest
from warpdeck.notation.values.dependencies import format_dependencies
from warpdeck.notation.values.hostlist import collapse

MIB = 2**20
DEFAULT_SWITCHES_WAIT_S = 300
FIRST_TIME = 1_000_000
"""The first Unix time that sbatch accepts. It is as past as all times before it."""
TOP = -1
"""The priority with which --priority=TOP is recorded."""
Value = str | bool | None
"""The text of an option, True for an option without a value, or None or False if it is not given."""


class Row(NamedTuple):
    """An option of sbatch, the fields of the request that it tells, and the first version that has it."""

    option: str
    fields: tuple[str, ...]
    value: Callable[[Request], Value]
    since: Feature | None = None


def _text(name: str) -> Callable[[Request], Value]:
    """Return the function for a field with a text, which is not given if it is empty."""
    return lambda request: getattr(request, name) or None


def _resource(name: str) -> Callable[[Request], Value]:
    """Return the function for a field of the resources: a number, a text or a flag."""

    def value(request: Request) -> Value:
        found = getattr(request.resources, name)
        return found if isinstance(found, bool) else str(found) if found not in (None, "") else None

    return value


def _minimum(name: str) -> Callable[[Request], Value]:
    return lambda request: _number(getattr(request.resources.node_minimum, name))


def _number(value: int | None) -> str | None:
    return None if value is None else str(value)


def _mebibytes(size_bytes: int | None) -> str | None:
    """Return a size that is rounded up, because Slurm counts in MiB."""
    return None if size_bytes is None else f"{-(-size_bytes // MIB)}M"


def _memory(name: str) -> Callable[[Request], Value]:
    return lambda request: _mebibytes(getattr(request.resources, name))


def _duration(seconds: int) -> str:
    """Return seconds as MINUTES:SECONDS. Slurm rounds time limits up to minutes."""
    return f"{seconds // 60}:{seconds % 60:02}"


def _limit(seconds: int | None) -> str | None:
    return None if seconds is None else _duration(seconds)


def _moment(at_unix: float | None) -> str | None:
    """Return a time in the form that does not depend on a time zone."""
    return None if at_unix is None else f"uts{max(FIRST_TIME, math.ceil(at_unix))}"


def _begin(request: Request) -> Value:
    """Return the earliest start.

    A job that waits for its code begins at the latest when the code is due. `record_code` lets it begin earlier.
    """
    return _moment(
        max((at for at in (request.begin_at_unix, request.code_due_unix) if at is not None), default=None)
    )


def _nodes(request: Request) -> Value:
    found = request.resources
    if found.nodes_open:
        return None
    same = found.nodes_min == found.nodes_max
    return str(found.nodes_min) if same else f"{found.nodes_min}-{found.nodes_max}"


def _gpus(count: int | None, request: GpuRequest) -> str | None:
    return None if not count else f"{request.type}:{count}" if request.type else str(count)


def _gres(request: Request) -> Value:
    """Return the GPUs or shards of each node. --gres serves every plugin for the selection of nodes."""
    gpus = request.resources.gpus
    per_node = _gpus(gpus.per_node, gpus)
    if per_node:
        return f"gpu:{per_node}"
    return f"shard:{gpus.shards}" if gpus.shards and gpus.share_pct is None else None


def _threads_per_core(request: Request) -> Value:
    found = request.resources
    if "SLURM_HINT" in request.step_variables:
        return _number(found.node_minimum.threads)
    return _number(found.threads_per_core or found.node_minimum.threads)


def _exclusive(request: Request) -> Value:
    found = request.resources
    return found.exclusive or (found.share_with if found.share_with in ("user", "mcs") else None)


def _switches(request: Request) -> Value:
    found = request.resources
    if found.max_switches is None:
        return None
    if found.switches_wait_s == DEFAULT_SWITCHES_WAIT_S:
        return str(found.max_switches)
    wait_s = found.switches_wait_s
    return f"{found.max_switches}@{'UNLIMITED' if wait_s is None else _duration(wait_s)}"


def _signal(request: Request) -> Value:
    warn = request.warn
    return f"{'B:' * warn.batch_only}{warn.number}@{warn.before_s}" if warn else None


def _array(request: Request) -> Value:
    array = request.array
    if array is None:
        return None
    return format_ranges(array.ranges) + (f"%{array.throttle}" if array.throttle else "")


def _kill_on_invalid_dep(request: Request) -> Value:
    return None if request.kill_on_invalid_dep is None else "yes" if request.kill_on_invalid_dep else "no"


def _open_mode(request: Request) -> Value:
    return "append" if request.open_append else "truncate" if request.open_truncate else None


def _distribution(request: Request) -> Value:
    found = request.step_variables.get("SLURM_DISTRIBUTION")
    plane = request.step_variables.get("SLURM_DIST_PLANESIZE")
    return f"plane={plane}" if plane else found


def _step_variable(name: str) -> Callable[[Request], Value]:
    return lambda request: request.step_variables.get(name)


def _container(value: Callable[[Container], Value]) -> Callable[[Request], Value]:
    return lambda request: value(request.container) if request.container is not None else None


def _mounts(container: Container) -> str:
    return ",".join(
        ":".join(filter(None, (each.source, each.target, "+".join(each.flags)))) for each in container.mounts
    )


ROWS: tuple[Row, ...] = (
    # --job-name is always given: Slurm's default would be the name of our wrapper.
    Row("job-name", ("name",), lambda request: request.name),
    Row("nodes", ("nodes_min", "nodes_max", "nodes_open"), _nodes),
    Row("ntasks", ("tasks",), _resource("tasks")),
    Row("ntasks-per-node", ("tasks_per_node",), _resource("tasks_per_node")),
    Row("ntasks-per-gpu", ("tasks_per_gpu",), _resource("tasks_per_gpu")),
    Row("ntasks-per-core", ("tasks_per_core",), _resource("tasks_per_core")),
    Row(
        "cpus-per-task",
        ("cpus_per_task",),
        lambda request: (
            _number(request.resources.cpus_per_task) if request.resources.cpus_per_task > 1 else None
        ),
    ),
    Row("cpus-per-gpu", ("cpus_per_gpu",), _resource("cpus_per_gpu")),
    Row("mincpus", ("cpus_per_node_min",), _resource("cpus_per_node_min")),
    Row("threads-per-core", ("threads_per_core", "node_minimum.threads"), _threads_per_core),
    Row("sockets-per-node", ("node_minimum.sockets",), _minimum("sockets")),
    Row("cores-per-socket", ("node_minimum.cores",), _minimum("cores")),
    Row(
        "tmp",
        ("node_minimum.tmp_disk_bytes",),
        lambda request: _mebibytes(request.resources.node_minimum.tmp_disk_bytes),
    ),
    Row("overcommit", ("overcommit",), _resource("overcommit")),
    Row("mem", ("mem_per_node_bytes",), _memory("mem_per_node_bytes")),
    Row("mem-per-cpu", ("mem_per_cpu_bytes",), _memory("mem_per_cpu_bytes")),
    Row("mem-per-gpu", ("mem_per_gpu_bytes",), _memory("mem_per_gpu_bytes")),
    Row("gres", ("gpus.per_node", "gpus.type", "gpus.shards"), _gres),
    Row("gpus", ("gpus.total",), lambda request: _gpus(request.resources.gpus.total, request.resources.gpus)),
    Row(
        "gpus-per-task",
        ("gpus.per_task",),
        lambda request: _gpus(request.resources.gpus.per_task, request.resources.gpus),
    ),
    Row("nodelist", ("nodelist",), lambda request: collapse(request.resources.nodelist) or None),
    Row("exclude", ("exclude",), lambda request: collapse(request.resources.exclude) or None),
    Row("exclusive", ("exclusive", "share_with"), _exclusive),
    Row(
        "oversubscribe",
        ("share_with",),
        lambda request: not request.resources.exclusive and request.resources.share_with == "anybody",
    ),
    Row("use-min-nodes", ("use_min_nodes",), _resource("use_min_nodes")),
    Row("constraint", ("constraint",), _resource("constraint")),
    Row("prefer", ("prefer",), _resource("prefer"), Feature.PREFER),
    Row("contiguous", ("contiguous",), _resource("contiguous")),
    Row("switches", ("max_switches", "switches_wait_s"), _switches),
    Row(
        "time",
        ("time_limit_s", "unlimited"),
        lambda request: "UNLIMITED" if request.unlimited else _limit(request.time_limit_s),
    ),
    Row("time-min", ("time_min_s",), lambda request: _limit(request.time_min_s)),
    Row("begin", ("begin_at_unix", "code_due_unix"), _begin),
    Row("deadline", ("deadline_unix",), lambda request: _moment(request.deadline_unix)),
    Row("partition", ("partition",), _text("partition")),
    Row("account", ("account",), _text("account")),
    Row("qos", ("qos",), _text("qos")),
    Row("reservation", ("reservation",), _text("reservation")),
    Row(
        "priority",
        ("priority",),
        lambda request: "TOP" if request.priority == TOP else _number(request.priority),
    ),
    Row("nice", ("nice",), lambda request: _number(request.nice) if request.nice else None),
    Row(
        "licenses",
        ("licenses",),
        lambda request: ",".join(f"{name}:{count}" for name, count in request.licenses) or None,
    ),
    Row("signal", ("warn",), _signal),
    Row("array", ("array",), _array),
    Row(
        "dependency",
        ("dependencies",),
        lambda request: format_dependencies(msgspec.to_builtins(request.dependencies)) or None,
    ),
    Row("kill-on-invalid-dep", ("kill_on_invalid_dep",), _kill_on_invalid_dep),
    Row("hold", ("hold",), lambda request: request.hold),
    # True is the default of a request, so the site's default (JobRequeue) decides then.
    Row("no-requeue", ("requeue",), lambda request: not request.requeue),
    Row("requeue", ("expedite",), lambda request: "expedite" if request.expedite else None, Feature.EXPEDITE),
    Row("output", ("output",), _text("output")),
    Row("error", ("error",), _text("error")),
    Row("input", ("input",), _text("input")),
    Row("open-mode", ("open_append", "open_truncate"), _open_mode),
    Row("chdir", ("chdir",), _text("chdir")),
    Row("comment", ("comment",), _text("comment")),
    Row("mail-type", ("mail_types",), lambda request: ",".join(request.mail_types) or None),
    Row("mail-user", ("mail_user",), _text("mail_user")),
    Row("get-user-env", ("user_env",), lambda request: request.user_env),
    Row("propagate", ("limits",), lambda request: ",".join(request.limits) or None),
    Row("distribution", ("step_variables",), _distribution),
    Row("gpu-bind", ("step_variables",), _step_variable("SLURM_GPU_BIND")),
    Row("hint", ("step_variables",), _step_variable("SLURM_HINT")),
    Row("profile", ("step_variables",), _step_variable("SLURM_PROFILE")),
    Row("container-image", ("container",), _container(lambda each: each.image or None)),
    Row("container-name", ("container",), _container(lambda each: each.name or None)),
    Row("container-mounts", ("container",), _container(lambda each: _mounts(each) or None)),
    Row("container-workdir", ("container",), _container(lambda each: each.workdir or None)),
    Row("container-env", ("container",), _container(lambda each: ",".join(each.env) or None)),
    Row("container-mount-home", ("container",), _container(lambda each: each.mount_home)),
    Row("container-remap-root", ("container",), _container(lambda each: each.remap_root)),
    Row("container-entrypoint", ("container",), _container(lambda each: each.entrypoint)),
    Row("container-readonly", ("container",), _container(lambda each: not each.writable)),
)

ELSEWHERE = {
    "script": "in the job's folder",
    "script_args": "in the job's folder, so that they are not part of a command line",
    "argv": "in the job's folder",
    "pty": "in the job's folder, by the part for sessions",
    "holder": "by the parts for sessions and steps",
    "env": "the environment in which sbatch runs",
    "step_variables": "the environment in which sbatch runs; srun reads them in the job",
    "limits": "the resource limits with which sbatch runs",
    "submit_dir": "the folder in which sbatch runs",
    "parts": "only our own controller stores parts of requests apart",
    "submit_line": "only recorded",
    "submit_host": "only recorded",
    "snapshot": "in the job's folder",
    "in_place": "in the job's folder",
    "resources.core_threads": "computed by warpdeck's own scheduler; Slurm computes it again",
}
"""Fields without an option of their own, and the way in which they reach the job."""


class Refusal(NamedTuple):
    """A field that Slurm cannot express."""

    field: str
    is_set: Callable[[Request], bool]
    reason: str
    hint: str


REFUSED = (
    Refusal(
        "gpus.share_pct",
        lambda request: request.resources.gpus.share_pct is not None,
        "Slurm cannot give a job a percentage of a GPU",
        "request a whole GPU, or shards if the site has them (--gres=shard:N)",
    ),
    Refusal(
        "requeue_at_limit",
        lambda request: request.requeue_at_limit,
        "Slurm does not requeue a job at its time limit",
        "remove --requeue=limit; a script can catch its --signal and call `scontrol requeue $SLURM_JOB_ID`",
    ),
    Refusal(
        "admin_comment",
        lambda request: bool(request.admin_comment),
        "Slurm accepts an admin comment only after the submission",
        "remove it, or use --comment",
    ),
)


def options_of(request: Request, version: Version) -> list[str]:
    """Return the options of one component. Raises UserError for a field that this Slurm cannot express."""
    for refused in REFUSED:
        if refused.is_set(request):
            raise UserError(refused.reason, refused.hint, code="refused")
    return list(_options(request, version))


def submission_arguments(requests: Sequence[Request], version: Version, *script: str) -> list[str]:
    """Return the arguments of sbatch for all components of a job, and the path of its script, if any.

    Raises UserError for a field that this Slurm cannot express.
    """
    arguments: list[str] = []
    for number, request in enumerate(requests):
        arguments += [*([":"] if number else []), *options_of(request, version)]
    return [*arguments, *script]


def _options(request: Request, version: Version) -> Iterator[str]:
    for row in ROWS:
        value = row.value(request)
        if value is None or value is False:
            continue
        if row.since is not None and not has(version, row.since):
            raise UserError(
                f"Slurm {version} has no --{row.option}", f"remove it; Slurm {row.since.value} has it"
            )
        option = f"--{row.option}" if value is True else f"--{row.option}={value}"
        if "\0" in option:
            raise UserError(f"the value of --{row.option} contains a NUL character", "remove it")
        yield option
