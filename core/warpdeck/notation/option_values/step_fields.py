"""Effects of srun's options on a step.

Each one sets fields of three dictionaries: the step (`ask`, in the JSON form of `model.StepOptions`), its streams
(`streams`, the fields of `Streams`), and the command itself (the fields of `SrunOptions`, which contain the other two).
Unsupported options are rejected earlier.
"""

from __future__ import annotations

from warpdeck.base.errors import UserError
from warpdeck.notation.options.given_options import GivenOption
from warpdeck.notation.values.memory_sizes import MIB

from .bindings import cpu_bind
from .request_fields import (
    Convert,
    JsonFields,
    SetFields,
    as_gpus,
    as_text,
    effect,
    field,
)

ASK, STREAMS = ("ask",), ("streams",)
_MPI_TYPES = {"none": "none", "pmi": "pmi2", "pmi1": "pmi2", "pmi2": "pmi2"}
"""The PMI-2 server also speaks PMI-1, as in Slurm."""
MPI_LIST = "MPI plugin types are...\n\tnone\n\tpmi2\n"


def ask(name: str, convert: Convert = as_text) -> SetFields:
    """Return the effect of an option that sets one field of the step."""
    return field(name, convert, ASK)


def stream(name: str) -> SetFields:
    """Return the effect of an option that sets a field of the step's streams to its text."""
    return field(name, as_text, STREAMS)


def memory(name: str) -> SetFields:
    """Return the effect of an option that sets the memory of the step, in place of the other two."""
    amounts = dict.fromkeys(["mem_per_node_bytes", "mem_per_cpu_bytes", "mem_per_gpu_bytes"])
    return SetFields(lambda fields, given: fields.update({**amounts, name: given.value * MIB}), ASK)


def as_program(given: GivenOption) -> str:
    """Return the path of a program on the nodes."""
    if not given.word.startswith("/"):
        words = f"--{given.option}={given.word} is not an absolute path"
        raise UserError(words, "write the path of the program on the nodes")
    return given.word


def as_step_gpus(given: GivenOption) -> JsonFields:
    """Return the GPUs of a step; a count of 0 gives it none."""
    found = as_gpus(given)
    if "share_pct" in found or "shards" in found:
        found = {}  # The job has the part of the GPU, and its tasks share it.
    return found or {"total": 0}


def set_job(fields: JsonFields, given: GivenOption) -> None:
    """Set --jobid. Unlike Slurm 22.05, srun also accepts a task of an array and a component of a job."""
    fields["job"] = given.word


@effect(*ASK)
def set_distribution(fields: JsonFields, given: GivenOption) -> None:
    """Set --distribution. Levels below nodes are ignored, because tasks are not bound to sockets here."""
    text, plane_size = given.value
    base, _, flag = text.rpartition(",") if text.endswith("pack") else (text, "", "")
    fields |= {"distribution": base.split(":", 1)[0], "plane_size": plane_size, "packed": flag == "pack"}


_CPU_KINDS = frozenset({"", "none", "cores", "threads", "rank", "sockets", "ldoms", "map_cpu", "mask_cpu"})


@effect(*ASK)
def set_cpu_bind(fields: JsonFields, given: GivenOption) -> None:
    """Set --cpu-bind. Raises UserError for bindings that are not supported here."""
    found = cpu_bind(given.word)
    if found.kind not in _CPU_KINDS:
        words = f"--cpu-bind={given.word} is not supported"
        raise UserError(words, "write none, cores, rank, map_cpu:0,1 or mask_cpu:0x3,0xc")
    fields["cpu_bind"] = f"{found.kind}:{found.numbers}" if found.numbers else found.kind
    fields["bind_verbose"] = found.verbose


@effect(*ASK)
def set_exclusive(fields: JsonFields, given: GivenOption) -> None:
    """Set --exclusive: for a step it is the same as --exact. For a new job it is also passed on to the request."""
    fields["exact"] = True
    if given.value == "exclusive":
        fields.pop("overlap", None)  # In this case, `overlap` was set by a variable.


@effect()
def set_immediate(fields: JsonFields, given: GivenOption) -> None:
    """Set --immediate for the step and for an allocation that is created for it."""
    fields["immediate_s"] = immediate_s(given)
    fields["ask"]["immediate"] = bool(given.value)


def immediate_s(given: GivenOption) -> float | None:
    """Return the seconds of --immediate; None if the value is 0. Raises UserError."""
    if given.error is not None:
        raise given.error
    return float(given.value) or None


@effect()
def set_mpi(fields: JsonFields, given: GivenOption) -> None:
    """Set --mpi. Unsupported types are rejected: otherwise each task would silently run as its own rank 0."""
    if given.value == "list":
        fields["answer"] = MPI_LIST
    elif given.value in _MPI_TYPES:
        fields["ask"]["mpi"] = _MPI_TYPES[given.value]
    else:
        raise UserError(
            f"--mpi={given.word} is not supported",
            "write pmi2 for MPICH and related libraries; start Open MPI programs with mpirun, which finds the job's nodes",
        )
