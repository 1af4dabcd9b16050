"""Writes an answer of slurmrestd as a table, so that the code behind it does not know the source."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from warpdeck.engines.slurm.cluster.questions import Question

from .job_fields import RestJob, job_cells
from .node_fields import RestNode, RestPartition, node_cells, partition_cells
from .server import RestLost


class _Error(msgspec.Struct, frozen=True):
    description: str = ""
    error: str = ""


class _Reply(msgspec.Struct, frozen=True):
    """An answer. Each of its rows is decoded when it is needed, which saves memory."""

    jobs: list[msgspec.Raw] | None = None
    nodes: list[msgspec.Raw] | None = None
    partitions: list[msgspec.Raw] | None = None
    errors: list[_Error] = []


T = TypeVar("T")
_UNREADABLE = (msgspec.MsgspecError, ValueError, OverflowError, OSError, RecursionError)
"""Errors of text that is no JSON of this form, no UTF-8, or that has impossible times."""
_REPLY = msgspec.json.Decoder(_Reply)
_JOB = msgspec.json.Decoder(RestJob)
_NODE = msgspec.json.Decoder(RestNode)
_PARTITION = msgspec.json.Decoder(RestPartition)


def write_table(question: Question, body: bytes, *, version: str, mark: str, preempts: str = "") -> list[str]:
    """Return the records of an answer, each field with `mark` at its end. Raises RestLost.

    `preempts` is the cluster's mode of preemption.
    """
    try:
        reply = _REPLY.decode(body)
        if reply.errors:
            first = reply.errors[0]
            raise RestLost(f"it reports: {(first.description or first.error)[:200]}")
        match question:
            case Question.QUEUE:
                rows = [job_cells(_row(_JOB, raw), version) for raw in _rows(reply.jobs)]
            case Question.NODES:
                rows = [node_cells(_row(_NODE, raw)) for raw in _rows(reply.nodes)]
            case _:
                rows = [
                    partition_cells(_row(_PARTITION, raw), preempts=preempts)
                    for raw in _rows(reply.partitions)
                ]
    except _UNREADABLE as error:
        raise RestLost(f"its answer has an unknown form: {error}") from error
    return ["".join(cell + mark for cell in cells) for cells in rows]


def _rows(found: list[msgspec.Raw] | None) -> list[msgspec.Raw]:
    if found is None:
        raise ValueError("it lacks the rows")
    return found


def _row(decoder: msgspec.json.Decoder[T], raw: msgspec.Raw) -> T:
    """Return a row. A name may contain any bytes, and slurmrestd writes them as they are."""
    try:
        return decoder.decode(raw)
    except UnicodeDecodeError:
        return decoder.decode(bytes(raw).decode(errors="replace"))
