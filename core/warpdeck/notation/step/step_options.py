"""Effects of srun's options: each changes the step (`model.StepAsk`, in its JSON form), its streams, or srun
itself.

Unsupported options are rejected earlier, in `srun`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.base.slurm_version import VERSION
from warpdeck.notation.options.directives import MAX_COMPONENTS
from warpdeck.notation.options.submit_files import LIMITS_FILE, propagated
from warpdeck.notation.request.request import Options
from warpdeck.notation.request.task_layout import parse_distribution, parse_gpu_bind, parse_tres_per_task
from warpdeck.notation.values.durations import parse_limit
from warpdeck.notation.values.gres import parse_gpus, parse_gres
from warpdeck.notation.values.hostlist import expand
from warpdeck.notation.values.memory_sizes import parse_memory

from .srun_help import HELP

_COUNT = re.compile(r"\d{1,9}")
_SPAN = re.compile(r"(\d{1,4})(?:-(\d{1,4}))?")
MPI_TYPES = {"none": "none", "pmi": "pmi2", "pmi1": "pmi2", "pmi2": "pmi2"}
"""The PMI-2 server also speaks PMI-1, as in Slurm."""
MPI_LIST = "MPI plugin types are...\n\tnone\n\tpmi2\n"


class Streams(msgspec.Struct, kw_only=True):
    """Settings of the tasks' streams: file patterns on srun's side, or the modes "all", "none" or a rank. ""
    is srun's own stream.
    """

    output: str = ""
    error: str = ""
    input: str = ""
    label: bool = False
    append: bool = False
    quiet: bool = False
    quits_on_interrupt: bool = False

    def after(self, first: Streams) -> Streams:
        """Return the settings of a further program of `srun A : B`: its own options, else those of the first
        program.
        """
        return Streams(
            output=self.output or first.output,
            error=self.error or first.error,
            input=self.input or first.input,
            label=self.label or first.label,
            append=first.append,
            quiet=first.quiet,
            quits_on_interrupt=first.quits_on_interrupt,
        )


class Srun(msgspec.Struct, kw_only=True):
    """A parsed command line of srun."""

    ask: dict[str, Any]
    streams: Streams
    job: str = ""
    """The value of --jobid, else the job named by the environment, else ""."""
    job_options: Options = []
    """Options for a job that is created for the step."""
    export: str = ""
    """The value of --export; "" means all."""
    environ: Mapping[str, str] = {}
    files: Mapping[str, str] = {}
    needs: str = ""
    """A file whose content is needed before the command line can be parsed completely."""
    immediate_s: float | None = None
    """Seconds to wait for an allocation that is created for the step; None means without limit."""
    passed_over: bool = False
    """True if an option was given that has no effect here."""
    groups: tuple[int, ...] = ()
    """--het-group: the components in which it runs, by offset; () means the first."""
    told: str = ""
    """Text to print instead of running a step."""
    told_code: int = 0
    """srun's exit code after printing that text."""


def parse_groups(text: str) -> tuple[int, ...]:
    """Return the component offsets of a list such as 0,2-4, in ascending order. Raises UserError."""
    spans = [_SPAN.fullmatch(word) for word in text.split(",")]
    found: set[int] = set()
    for span in spans:
        first, last = (0, -1) if span is None else (int(span[1]), int(span[2] or span[1]))
        if not 0 <= first <= last < MAX_COMPONENTS:
            raise UserError(
                f"Invalid --het-group value: {text}", f"write numbers below {MAX_COMPONENTS}, such as 0,1"
            )
        found.update(range(first, last + 1))
    return tuple(sorted(found))


def _count(text: str, option: str, least: int = 1) -> int:
    if not _COUNT.fullmatch(text) or int(text) < least:
        raise UserError(f"--{option}={text} is no whole number from {least} on", "write a number")
    return int(text)


def _number(field: str, option: str, least: int = 1) -> Callable[[Srun, str], None]:
    def act(asked: Srun, value: str) -> None:
        asked.ask[field] = _count(value, option, least)

    return act


def _memory(field: str) -> Callable[[Srun, str], None]:
    amounts = dict.fromkeys(["mem_per_node_bytes", "mem_per_cpu_bytes", "mem_per_gpu_bytes"])
    return lambda asked, value: asked.ask.update({**amounts, field: parse_memory(value)})


def _flag(field: str) -> Callable[[Srun, str], None]:
    return lambda asked, value: asked.ask.update({field: True})


def _stream(field: str) -> Callable[[Srun, str], None]:
    return lambda asked, value: setattr(asked.streams, field, value)


def _stream_flag(field: str) -> Callable[[Srun, str], None]:
    return lambda asked, value: setattr(asked.streams, field, True)


def _nodes(asked: Srun, value: str) -> None:
    low, dash, high = value.partition("-")
    least = _count(low, "nodes")
    most = _count(high, "nodes") if dash else least
    if most < least:
        raise UserError(f"--nodes={value} is no range", "write MIN-MAX")
    asked.ask |= {"nodes_min": least, "nodes_max": most}


def _gpus(option: str) -> Callable[[Srun, str], None]:
    def act(asked: Srun, value: str) -> None:
        found = parse_gres(value) if option == "gres" else parse_gpus(value, option)
        if "share_pct" in found or "shards" in found:
            found = {}  # The job has the part of the GPU, and its tasks share it.
        asked.ask["gpus"] = found or {"total": 0}

    return act


def _gpu_bind(asked: Srun, value: str) -> None:
    asked.ask["gpu_bind"] = parse_gpu_bind(value)


def _cpu_bind(asked: Srun, value: str) -> None:
    words = [word for word in value.split(",") if word not in ("quiet", "q", "verbose", "v", "")]
    kind = ",".join(words)
    plain = ("none", "no", "cores", "threads", "rank", "sockets", "ldoms", "boards")
    if (
        kind
        and kind not in plain
        and not re.fullmatch(r"(map_cpu:\d+(,\d+)*|mask_cpu:(0x)?[0-9a-fA-F]+(,(0x)?[0-9a-fA-F]+)*)", kind)
    ):
        raise UserError(
            f"--cpu-bind={value} is not understood",
            "write none, cores, rank, map_cpu:0,1 or mask_cpu:0x3,0xc",
        )
    asked.ask["cpu_bind"] = kind
    said = [word[0] for word in value.split(",") if word in ("quiet", "q", "verbose", "v")]
    asked.ask["bind_verbose"] = said[-1:] == ["v"]


def _kill_on_bad_exit(asked: Srun, value: str) -> None:
    if value not in ("", "0", "1"):
        raise UserError(f"--kill-on-bad-exit={value} is not understood", "write 0 or 1")
    asked.ask["kill_on_bad_exit"] = value != "0"


def _exclusive(asked: Srun, value: str) -> None:
    """Apply --exclusive: for a step it is the same as --exact. For a new job it is also passed on to the
    request.
    """
    asked.ask["exact"] = True
    if not value:
        asked.ask.pop("overlap", None)  # In this case, `overlap` was set by a variable.


def _immediate(asked: Srun, value: str) -> None:
    asked.immediate_s = patience(value)
    asked.ask["immediate"] = asked.immediate_s is not None


def patience(value: str) -> float | None:
    """Return the seconds of --immediate; None if the value is 0."""
    return float(_count(value or "1", "immediate", 0)) or None


def _mpi(asked: Srun, value: str) -> None:
    """Apply --mpi. Unsupported types are rejected: otherwise each task would silently run as its own rank
    0.
    """
    if value == "list":
        asked.told = MPI_LIST
    elif value in MPI_TYPES:
        asked.ask["mpi"] = MPI_TYPES[value]
    else:
        raise UserError(
            f"--mpi={value} is not supported",
            "write pmi2 for MPICH and its kin; Open MPI programs are started by mpirun, which finds the job's nodes itself",
        )


def _program(value: str, option: str) -> str:
    if not value.startswith("/"):
        raise UserError(f"--{option}={value} is no absolute path", "write where it is on the nodes")
    return value


def _open_mode(asked: Srun, value: str) -> None:
    if value not in ("append", "truncate", "a", "t"):
        raise UserError(f"--open-mode={value} is not understood", "write append or truncate")
    asked.streams.append = value.startswith("a")


ACTS: dict[str, Callable[[Srun, str], object]] = {
    "chdir": lambda asked, value: asked.ask.update(chdir=value),
    "cpu-bind": _cpu_bind,
    "cpu_bind": _cpu_bind,
    "cpus-per-task": _number("cpus_per_task", "cpus-per-task"),
    "distribution": lambda asked, value: asked.ask.update(parse_distribution(value, asked.environ)),
    "error": _stream("error"),
    "exact": _flag("exact"),
    "exclude": lambda asked, value: asked.ask.update(exclude=expand(value)),
    "exclusive": _exclusive,
    "export": lambda asked, value: setattr(asked, "export", value),
    "gpu-bind": _gpu_bind,
    "gpus": _gpus("gpus"),
    "gpus-per-node": _gpus("gpus-per-node"),
    "gpus-per-task": _gpus("gpus-per-task"),
    "gres": _gpus("gres"),
    "immediate": _immediate,
    "input": _stream("input"),
    "job-name": lambda asked, value: asked.ask.update(name=value),
    "het-group": lambda asked, value: setattr(asked, "groups", parse_groups(value)),
    "jobid": lambda asked, value: setattr(asked, "job", value),
    "kill-on-bad-exit": _kill_on_bad_exit,
    "label": _stream_flag("label"),
    "mem": _memory("mem_per_node_bytes"),
    "mem-per-cpu": _memory("mem_per_cpu_bytes"),
    "mem-per-gpu": _memory("mem_per_gpu_bytes"),
    "mpi": _mpi,
    "nodelist": lambda asked, value: asked.ask.update(nodelist=expand(value)),
    "nodes": _nodes,
    "ntasks": _number("tasks", "ntasks"),
    "ntasks-per-gpu": _number("tasks_per_gpu", "ntasks-per-gpu"),
    "ntasks-per-node": _number("tasks_per_node", "ntasks-per-node"),
    "open-mode": _open_mode,
    "output": _stream("output"),
    "overcommit": _flag("overcommit"),
    "overlap": _flag("overlap"),
    "pack-group": lambda asked, value: setattr(asked, "groups", parse_groups(value)),
    "pty": _flag("pty"),
    "quiet": _stream_flag("quiet"),
    "quit-on-interrupt": _stream_flag("quits_on_interrupt"),
    "relative": _number("relative", "relative", 0),
    "task-epilog": lambda asked, value: asked.ask.update(task_epilog=_program(value, "task-epilog")),
    "task-prolog": lambda asked, value: asked.ask.update(task_prolog=_program(value, "task-prolog")),
    "tasks-per-node": _number("tasks_per_node", "tasks-per-node"),
    "propagate": lambda asked, value: asked.ask.update(
        limits=propagated(value, asked.files.get(LIMITS_FILE, ""))
    ),
    "tres-per-task": lambda asked, value: asked.ask.update(parse_tres_per_task(value)),
    "time": lambda asked, value: asked.ask.update(time_limit_s=parse_limit(value)),
    "wait": _number("wait_s", "wait", 0),
    "help": lambda asked, value: setattr(asked, "told", HELP),
    "usage": lambda asked, value: setattr(asked, "told", HELP),
    "version": lambda asked, value: setattr(asked, "told", VERSION),
}
