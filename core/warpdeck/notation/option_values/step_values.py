"""Values of srun's options in a step.

Each one sets fields of three dictionaries: the step (`ask`, in the JSON form of `model.StepAsk`), its streams
(`streams`, the fields of `Streams`), and the command itself (the fields of `Srun`, which contain the other two).
Unsupported options are rejected earlier.
"""

from __future__ import annotations

import re

from warpdeck.base.errors import UserError
from warpdeck.notation.options.directives import MAX_COMPONENTS
from warpdeck.notation.options.submit_files import LIMITS_FILE, propagated
from warpdeck.notation.values.durations import parse_limit
from warpdeck.notation.values.memory_sizes import parse_memory

from .bindings import distribution
from .job_values import JsonFields, SetFields, gpu_binding, gpus_of, set_tres_per_task
from .option_fields import OptionText

ASK, STREAMS = ("ask",), ("streams",)
_COUNT = re.compile(r"\d{1,9}")
_SPAN = re.compile(r"(\d{1,4})(?:-(\d{1,4}))?")
_MPI_TYPES = {"none": "none", "pmi": "pmi2", "pmi1": "pmi2", "pmi2": "pmi2"}
"""The PMI-2 server also speaks PMI-1, as in Slurm."""
MPI_LIST = "MPI plugin types are...\n\tnone\n\tpmi2\n"


def count(field: str, least: int = 1) -> SetFields:
    """Return the effect of an option that sets a field of the step to a count."""
    return SetFields(lambda ask, value: ask.update({field: _count(value.word, value.option, least)}), ASK)


def _count(word: str, option: str, least: int = 1) -> int:
    if not _COUNT.fullmatch(word) or int(word) < least:
        raise UserError(f"--{option}={word} is no whole number from {least} on", "write a number")
    return int(word)


def memory(field: str) -> SetFields:
    """Return the effect of an option that sets the memory of the step, in place of the other two."""
    amounts = dict.fromkeys(["mem_per_node_bytes", "mem_per_cpu_bytes", "mem_per_gpu_bytes"])
    return SetFields(lambda ask, value: ask.update({**amounts, field: parse_memory(value.word)}), ASK)


def program(field: str) -> SetFields:
    """Return the effect of an option that names a program on the nodes."""

    def set_program(ask: JsonFields, value: OptionText) -> None:
        if not value.word.startswith("/"):
            words = f"--{value.option}={value.word} is no absolute path"
            raise UserError(words, "write where it is on the nodes")
        ask[field] = value.word

    return SetFields(set_program, ASK)


def _set_nodes(ask: JsonFields, value: OptionText) -> None:
    low, dash, high = value.word.partition("-")
    least = _count(low, "nodes")
    most = _count(high, "nodes") if dash else least
    if most < least:
        raise UserError(f"--nodes={value.word} is no range", "write MIN-MAX")
    ask |= {"nodes_min": least, "nodes_max": most}


def _set_gpus(ask: JsonFields, value: OptionText) -> None:
    found = gpus_of(value)
    if "share_pct" in found or "shards" in found:
        found = {}  # The job has the part of the GPU, and its tasks share it.
    ask["gpus"] = found or {"total": 0}


def _set_distribution(ask: JsonFields, value: OptionText) -> None:
    """Set --distribution. Levels below nodes are ignored, because tasks are not bound to sockets here."""
    words, plane_size = distribution(value.word, value.source.environ.get("SLURM_DIST_PLANESIZE", ""))
    base, _, flag = words.rpartition(",") if words.endswith("pack") else (words, "", "")
    ask |= {"distribution": base.split(":", 1)[0], "plane_size": plane_size, "packed": flag == "pack"}


def _set_gpu_bind(ask: JsonFields, value: OptionText) -> None:
    ask["gpu_bind"] = gpu_binding(value)


_CPU_KINDS = frozenset({"none", "no", "cores", "threads", "rank", "sockets", "ldoms", "boards"})
_CPU_LIST = re.compile(r"map_cpu:\d+(,\d+)*|mask_cpu:(0x)?[0-9a-fA-F]+(,(0x)?[0-9a-fA-F]+)*")
_LOUDNESS = ("quiet", "q", "verbose", "v")


def _set_cpu_bind(ask: JsonFields, value: OptionText) -> None:
    words = value.word.split(",")
    kind = ",".join(word for word in words if word and word not in _LOUDNESS)
    if kind and kind not in _CPU_KINDS and not _CPU_LIST.fullmatch(kind):
        raise UserError(
            f"--cpu-bind={value.word} is not understood",
            "write none, cores, rank, map_cpu:0,1 or mask_cpu:0x3,0xc",
        )
    ask["cpu_bind"] = kind
    loudness = [word[0] for word in words if word in _LOUDNESS]
    ask["bind_verbose"] = loudness[-1:] == ["v"]


def _set_kill_on_bad_exit(ask: JsonFields, value: OptionText) -> None:
    if value.word not in ("", "0", "1"):
        raise UserError(f"--kill-on-bad-exit={value.word} is not understood", "write 0 or 1")
    ask["kill_on_bad_exit"] = value.word != "0"


def _set_exclusive(ask: JsonFields, value: OptionText) -> None:
    """Set --exclusive: for a step it is the same as --exact. For a new job it is also passed on to the request."""
    ask["exact"] = True
    if not value.word:
        ask.pop("overlap", None)  # In this case, `overlap` was set by a variable.


def _set_immediate(srun: JsonFields, value: OptionText) -> None:
    srun["immediate_s"] = patience(value.word)
    srun["ask"]["immediate"] = srun["immediate_s"] is not None


def patience(word: str) -> float | None:
    """Return the seconds of --immediate; None if the value is 0. Raises UserError."""
    return float(_count(word or "1", "immediate", 0)) or None


def _set_mpi(srun: JsonFields, value: OptionText) -> None:
    """Set --mpi. Unsupported types are rejected: otherwise each task would silently run as its own rank 0."""
    if value.word == "list":
        srun["told"] = MPI_LIST
    elif value.word in _MPI_TYPES:
        srun["ask"]["mpi"] = _MPI_TYPES[value.word]
    else:
        raise UserError(
            f"--mpi={value.word} is not supported",
            "write pmi2 for MPICH and its kin; Open MPI programs are started by mpirun, which finds the job's nodes itself",
        )


def _set_open_mode(streams: JsonFields, value: OptionText) -> None:
    if value.word not in ("append", "truncate", "a", "t"):
        raise UserError(f"--open-mode={value.word} is not understood", "write append or truncate")
    streams["append"] = value.word.startswith("a")


def _set_groups(srun: JsonFields, value: OptionText) -> None:
    """Set the component offsets of a list such as 0,2-4, in ascending order."""
    spans = [_SPAN.fullmatch(word) for word in value.word.split(",")]
    found: set[int] = set()
    for span in spans:
        first, last = (0, -1) if span is None else (int(span[1]), int(span[2] or span[1]))
        if not 0 <= first <= last < MAX_COMPONENTS:
            hint = f"write numbers below {MAX_COMPONENTS}, such as 0,1"
            raise UserError(f"Invalid --het-group value: {value.word}", hint)
        found.update(range(first, last + 1))
    srun["groups"] = tuple(sorted(found))


def _set_limits(ask: JsonFields, value: OptionText) -> None:
    ask["limits"] = propagated(value.word, value.source.read_text(LIMITS_FILE))


def _set_time(ask: JsonFields, value: OptionText) -> None:
    ask["time_limit_s"] = parse_limit(value.word)


CPU_BIND = SetFields(_set_cpu_bind, ASK)
DISTRIBUTION = SetFields(_set_distribution, ASK)
EXCLUSIVE = SetFields(_set_exclusive, ASK)
GPUS = SetFields(_set_gpus, ASK)
GPU_BIND = SetFields(_set_gpu_bind, ASK)
HET_GROUP = SetFields(_set_groups)
IMMEDIATE = SetFields(_set_immediate)
KILL_ON_BAD_EXIT = SetFields(_set_kill_on_bad_exit, ASK)
MPI = SetFields(_set_mpi)
NODES = SetFields(_set_nodes, ASK)
OPEN_MODE = SetFields(_set_open_mode, STREAMS)
PROPAGATE = SetFields(_set_limits, ASK)
TIME = SetFields(_set_time, ASK)
TRES_PER_TASK = SetFields(set_tres_per_task, ASK)
