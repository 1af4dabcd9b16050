"""Requests that run processes and carry their streams: run, srun, salloc, Slurm's commands.

Part of the protocol.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from .request_base import Creating, Message, Name, Number, Reference, RequestMessage
from .results import OpenedJob, Result

Taken = dict[
    Annotated[str, msgspec.Meta(pattern=r"\A[0-9]{1,7}\.[0-9]{1,2}\Z")],
    Annotated[str, msgspec.Meta(pattern=r"\A[0-9]{1,18}\Z")],
]
"""Number of bytes taken of each stream of a step, by "RANK.CHANNEL".

Numbers are strings, as in the agent's messages.
"""


class Run(Creating[OpenedJob], frozen=True, kw_only=True, tag="run"):
    """Run a command, given as the arguments of `warpdeck run` with the client's environment and folder.

    The answer is followed by progress lines while the job waits. Standard output is sent on stream `id`,
    standard error on stream `errors`. The end of each stream carries the exit status. The error code "steps"
    means that the command has several tasks and must be sent as Srun. The job keeps running if the client
    disconnects.

    Answer: {"job_id", "notes"}
    """

    words: Annotated[tuple[str, ...], msgspec.Meta(max_length=100_000)]
    errors: Number
    env: dict[str, str] = msgspec.field(default_factory=dict)
    cwd: Reference = "/"


class Srun(Creating[dict[str, Any]], frozen=True, kw_only=True, tag="srun"):
    """Run a job step, given as srun's own arguments with its environment and folder.

    Progress lines come while the step waits. After the answer data flows both ways, each piece with a header
    of wire.steps. The controller also sends {"t": "note", "stream", "line"}, and the client may send
    StepOrder. The stream's end carries the step's exit status.

    An error with details["file"] asks for the text of that file: send the request again with it in `files`.
    An error with details["writes"] asks whether the client can write that file, or into that folder if it
    ends in "/". Send the request again with it in `writes`. A client that cannot check this sends None. The
    step ends if the client disconnects, unless the link to the client's node broke. In that case it comes
    back with SrunAttach.

    Answer: {"job_id", "step", "tasks", "label", "quiet", "quits", "append", "reads", "input_rank", "inputs",
    "outputs"}
    """

    words: Annotated[tuple[str, ...], msgspec.Meta(max_length=100_000)]
    env: dict[str, str] = msgspec.field(default_factory=dict)
    cwd: Reference = "/"
    has_input: bool = False
    files: dict[str, str] = msgspec.field(default_factory=dict)
    writes: Annotated[tuple[str, ...], msgspec.Meta(max_length=16)] | None = None
    rows: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 24
    """The size of the client's terminal, which a task with --pty has from its start."""
    cols: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 80


class Session(Creating[OpenedJob], frozen=True, kw_only=True, tag="session"):
    """Open a terminal outside of any allocation.

    It takes srun's own arguments including --pty, the client's environment and folder, and the size of its
    terminal. The result is a job with a terminal, which Attach joins. The error code "steps" means that a
    step is needed (several tasks, a container, ...), which must be sent as Srun.

    Answer: {"job_id", "notes"}
    """

    words: Annotated[tuple[str, ...], msgspec.Meta(max_length=100_000)]
    env: dict[str, str] = msgspec.field(default_factory=dict)
    cwd: Reference = "/"
    rows: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 24
    cols: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 80


class SrunAttach(RequestMessage[dict[str, Any]], frozen=True, kw_only=True, tag="srun_attach"):
    """Reconnect to the step `step`, such as 12.0.

    `have` is the number of bytes taken of each stream ("RANK.CHANNEL").

    The answer and the stream are as for Srun.
    """

    step: Reference
    have: Taken = msgspec.field(default_factory=dict)


class Salloc(Creating[dict[str, Any]], frozen=True, kw_only=True, tag="salloc"):
    """Make an allocation that is held for the client, given as salloc's own arguments.

    Progress lines come while it waits. After the answer nothing follows until the allocation ends.
    StepOrder(what="end", code=...) releases it, and so does a client that disconnects.

    Answer, when the allocation has started: {"job_id", "env", "command", "has_shell"}
    """

    words: Annotated[tuple[str, ...], msgspec.Meta(max_length=100_000)]
    env: dict[str, str] = msgspec.field(default_factory=dict)
    cwd: Reference = "/"


class SallocAttach(RequestMessage[Result], frozen=True, kw_only=True, tag="salloc_attach"):
    """Reconnect to an allocation after the controller restarted. Answer: {}"""

    job: Number


class Command(Creating[dict[str, Any]], frozen=True, kw_only=True, tag="command"):
    """Run one of Slurm's commands for a user's shell or for a process of a job.

    The request has the command's arguments, environment, folder and host. Data is sent in pieces that begin
    with one byte: 1 for standard output, 2 for errors. The end carries the exit code. The controller may send
    these messages:

    - {"t": "read", "stream", "path", "size", "line"} asks for a file of the caller. "-" is its standard
      input, and `line` asks
      for the next line of it. FileRead answers it.
    - {"t": "record", "stream", "job", "folder"} asks the client to record the code in a folder for the
      submitted job. It is
      not sent to processes of jobs.
    - {"t": "awaits", "stream", "job"} says that the command now only waits for the end of that job.

    After "awaits" a client that is cut off, or that gets {"t": "again", "stream"}, sends the request again
    with `awaited`, and nothing is submitted.
    """

    name: Name
    words: Annotated[tuple[str, ...], msgspec.Meta(max_length=100_000)] = ()
    env: dict[str, str] = msgspec.field(default_factory=dict)
    cwd: Reference = "/"
    host: Name = ""
    columns: Annotated[int, msgspec.Meta(ge=0, le=10_000)] = 0
    awaited: Annotated[int, msgspec.Meta(ge=0)] = 0


class FileRead(Message, frozen=True, kw_only=True, tag="file"):
    """Content of a file that a command reads, decoded as Latin-1, or the errno of a failed read.

    It has no answer.
    """

    stream: Number
    data: str = ""
    error: Annotated[int, msgspec.Meta(ge=0, le=4095)] = 0


class StepOrder(Message, frozen=True, kw_only=True, tag="step_order"):
    """Order for a running step: `what` is signal, end or status.

    It has no answer, but `status` causes notes.
    """

    stream: Number
    what: Annotated[str, msgspec.Meta(pattern=r"\A(signal|end|status)\Z")]
    signal: Annotated[int, msgspec.Meta(ge=0, le=64)] = 0
    code: Annotated[int, msgspec.Meta(ge=0, le=255)] = 0
    """Exit code of the command that salloc ran."""
