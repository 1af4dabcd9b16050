"""What clients ask that becomes processes, whose streams they are: run, srun, salloc, Slurm's commands; a part of protocol."""

from __future__ import annotations

from typing import Annotated

import msgspec

from .request_base import Creating, Message, Name, Number, Reference

Taken = dict[
    Annotated[str, msgspec.Meta(pattern=r"\A[0-9]{1,7}\.[0-9]{1,2}\Z")],
    Annotated[str, msgspec.Meta(pattern=r"\A[0-9]{1,18}\Z")],
]
"""Of each stream of a step, "RANK.CHANNEL", how many bytes were taken: in digits, as the agent is told."""


class Run(Creating, frozen=True, kw_only=True, tag="run"):
    """A command: the words of `warpdeck run`, the client's variables and folder. -> {"job_id", "notes"}, then progress lines while
    the job waits, and what it writes on stream `id` and, from its standard error, on stream `errors`; each end carries its exit.

    An error with the code "steps": it has several tasks, and is Srun's. A client that leaves ends nothing.
    """

    words: Annotated[tuple[str, ...], msgspec.Meta(max_length=100_000)]
    errors: Number
    env: dict[str, str] = msgspec.field(default_factory=dict)
    cwd: Reference = "/"


class Srun(Creating, frozen=True, kw_only=True, tag="srun"):
    """A step: srun's own words, variables and folder. -> {"job_id", "step", "tasks", "label", "quiet", "quits", "append", "reads",
    "input_rank", "inputs", "outputs"}, after progress lines for as long as it waits. Then data both ways, each piece behind a
    header of wire.steps; {"t": "note", "stream", "line"}; the client's StepOrder; and the end, which carries the step's exit.

    An error with details["file"] asks for the text of that file: send again with it in `files`. One with details["writes"] asks
    whether the client can write there, to a folder if it ends in "/": send again with it in `writes`, which is None from a client
    that cannot tell. A client that leaves ends the step, unless it is the link to its node that broke: then it comes back with
    SrunAttach.
    """

    words: Annotated[tuple[str, ...], msgspec.Meta(max_length=100_000)]
    env: dict[str, str] = msgspec.field(default_factory=dict)
    cwd: Reference = "/"
    has_input: bool = False
    files: dict[str, str] = msgspec.field(default_factory=dict)
    writes: Annotated[tuple[str, ...], msgspec.Meta(max_length=16)] | None = None


class Session(Creating, frozen=True, kw_only=True, tag="session"):
    """A terminal outside of any allocation: srun's own words with --pty among its options, the client's variables and folder,
    and the size of its terminal. -> {"job_id", "notes"}: a job with a terminal, which Attach joins.

    An error with the code "steps": it is a step after all (several tasks, a container...), and Srun's.
    """

    words: Annotated[tuple[str, ...], msgspec.Meta(max_length=100_000)]
    env: dict[str, str] = msgspec.field(default_factory=dict)
    cwd: Reference = "/"
    rows: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 24
    cols: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 80


class SrunAttach(Message, frozen=True, kw_only=True, tag="srun_attach"):
    """Back to a step: `step` as 12.0, `have` how many bytes of each stream ("RANK.CHANNEL") were taken. -> as Srun."""

    step: Reference
    have: Taken = msgspec.field(default_factory=dict)


class Salloc(Creating, frozen=True, kw_only=True, tag="salloc"):
    """An allocation that is held for the client: salloc's own words. -> {"job_id", "env", "command", "has_shell"} when it is there,
    after progress lines; then nothing until its end. StepOrder(what="end", code=...) gives it back; a client
    that leaves without a word does, too."""

    words: Annotated[tuple[str, ...], msgspec.Meta(max_length=100_000)]
    env: dict[str, str] = msgspec.field(default_factory=dict)
    cwd: Reference = "/"


class SallocAttach(Message, frozen=True, kw_only=True, tag="salloc_attach"):
    """Back to an allocation after the controller was started anew. -> {}"""

    job: Number


class Command(Creating, frozen=True, kw_only=True, tag="command"):
    """One of Slurm's commands, for a process of a job: its words, variables, folder and host. Data comes as pieces behind one
    byte, 1 for standard output and 2 for errors; the end carries the exit code. {"t": "read", "stream", "path", "size", "line"}
    asks for a file of the caller's ("-" is its standard input, of which `line` wants the next line); {"t": "record", "stream",
    "job", "folder"} has the code in a folder recorded for the job that was submitted (of no process of a job).
    {"t": "awaits", "stream", "job"} tells that only the end of that job is waited for from here on: who is cut off, or is told to
    come {"t": "again", "stream"}, asks the same with `awaited`, and nothing is submitted. FileRead answers a read."""

    name: Name
    words: Annotated[tuple[str, ...], msgspec.Meta(max_length=100_000)] = ()
    env: dict[str, str] = msgspec.field(default_factory=dict)
    cwd: Reference = "/"
    host: Name = ""
    columns: Annotated[int, msgspec.Meta(ge=0, le=10_000)] = 0
    awaited: Annotated[int, msgspec.Meta(ge=0)] = 0


class FileRead(Message, frozen=True, kw_only=True, tag="file"):
    """What a command asked to read, as Latin-1, or the number of the error. No answer."""

    stream: Number
    data: str = ""
    error: Annotated[int, msgspec.Meta(ge=0, le=4095)] = 0


class StepOrder(Message, frozen=True, kw_only=True, tag="step_order"):
    """For a running step. No answer; `status` is answered with notes. `what`: signal, end, status."""

    stream: Number
    what: Annotated[str, msgspec.Meta(pattern=r"\A(signal|end|status)\Z")]
    signal: Annotated[int, msgspec.Meta(ge=0, le=64)] = 0
    code: Annotated[int, msgspec.Meta(ge=0, le=255)] = 0
    """With which salloc's command has ended."""
