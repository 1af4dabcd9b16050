"""What an srun is told of its step: how it labels, which files it writes and reads, what it sends. Pure."""

from __future__ import annotations

from typing import Any

from warpdeck.model import Job
from warpdeck.model.step import Step, StepAsk
from warpdeck.notation.patterns import resolve
from warpdeck.notation.srun import Srun, Streams

OUT, ERR = "1", "2"
_TASK_LETTERS = ("%t", "%n", "%N")
_MOST_DIGITS = 9
"""Of a task's number."""


def task_number(mode: str) -> int:
    """The task that --input, --output or --error names; -1: it names none."""
    return int(mode) if mode.isdecimal() and len(mode) <= _MOST_DIGITS else -1


def stream_plan(job: Job, step: Step, asked: Srun, wanted: StepAsk, *, cwd: str) -> dict[str, Any]:
    """The answer to Srun."""
    streams = asked.streams
    outputs = {}
    for channel, pattern in ((OUT, streams.output), (ERR, streams.error or streams.output)):
        found = _sinks(pattern, job, step, cwd=cwd)
        if found:
            outputs[channel] = found
    return {
        "job_id": job.id,
        "step": step.number,
        "tasks": step.task_count(),
        "nodes": list(step.node_names()),
        "label": streams.label,
        "quiet": streams.quiet,
        "quits": streams.quits_on_interrupt,
        "append": streams.append,
        "pty": wanted.pty,
        "outputs": outputs,
        "reads": (wanted.input_rank != -1 and streams.input in ("", "all"))
        or _names_task(streams.input, step),
        "input_rank": wanted.input_rank if wanted.input_rank >= 0 else 0,
        "inputs": _sources(streams.input, job, step, cwd=cwd),
    }


def written_paths(streams: Streams, *, cwd: str) -> list[str]:
    """Where srun will write, as far as that is known before there is a step: files, or folders (with a "/" at their end) where the
    rest of the path depends on the step."""
    found = []
    for pattern in (streams.output, streams.error):
        if pattern in ("", "all", "none", "/dev/null") or task_number(pattern) >= 0 or "\\" in pattern:
            continue
        literal, more, _ = pattern.partition("%")
        path = literal if not more else literal[: literal.rfind("/") + 1] or "./"
        found.append(path if path.startswith("/") else f"{cwd.rstrip('/')}/{path}")
    return list(dict.fromkeys(found))


def _sinks(pattern: str, job: Job, step: Step, *, cwd: str) -> Any:
    """ "" for srun's own stream, one path, or a path for each task. A mode that names a task drops all others."""
    if pattern in ("", "all"):
        return ""
    if pattern == "none":
        return "/dev/null"
    if _names_task(pattern, step):
        return {str(rank): "" if rank == int(pattern) else "/dev/null" for rank in _ranks(step)}
    if not any(_has(pattern, letter) for letter in _TASK_LETTERS):
        return _path(pattern, job, step, 0, cwd=cwd)
    return {str(rank): _path(pattern, job, step, rank, cwd=cwd) for rank in _ranks(step)}


def _sources(pattern: str, job: Job, step: Step, *, cwd: str) -> list[list[Any]]:
    """[rank, path] of each file that is read: one for all tasks, or one for each."""
    if pattern in ("", "all", "none") or _names_task(pattern, step):
        return []
    if not any(_has(pattern, letter) for letter in _TASK_LETTERS):
        return [[0xFFFFFFFF, _path(pattern, job, step, 0, cwd=cwd)]]
    return [[rank, _path(pattern, job, step, rank, cwd=cwd)] for rank in _ranks(step)]


def _names_task(pattern: str, step: Step) -> bool:
    """A number that no task has is the name of a file, as in Slurm."""
    return task_number(pattern) in range(step.task_count())


def _has(pattern: str, letter: str) -> bool:
    """Also with a width, %3t."""
    return letter in "".join(char for char in pattern if not char.isdecimal())


def _ranks(step: Step) -> list[int]:
    return sorted(rank for share in step.shares for rank in share.ranks)


def _path(pattern: str, job: Job, step: Step, rank: int, *, cwd: str) -> str:
    at, share = next((at, share) for at, share in enumerate(step.shares) if rank in share.ranks)
    task = job.array_task_id
    values = {
        "j": str(job.id),
        "J": f"{job.id}.{step.number}",
        "A": str(job.array_job_id),
        "a": str(task) if task is not None else "4294967294",
        "x": job.request.name,
        "u": job.user,
        "N": share.node,
        "n": str(at),
        "t": str(rank),
        "s": str(step.number),
    }
    path = resolve(pattern, values)
    return path if path.startswith("/") else f"{cwd.rstrip('/')}/{path}"
