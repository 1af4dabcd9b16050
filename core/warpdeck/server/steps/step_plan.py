"""What an srun is told of its step: how it labels, which files it writes and reads, what it sends. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from warpdeck.model import Job
from warpdeck.model.step import Step, StepAsk
from warpdeck.notation.step.step_options import Streams
from warpdeck.notation.values.file_patterns import resolve
from warpdeck_agent.wire.steps import EVERY_TASK

OUT, ERR = "1", "2"
_TASK_LETTERS = ("%t", "%n", "%N")
_MOST_DIGITS = 9
"""Of a task's number."""


def task_number(mode: str) -> int:
    """The task that --input, --output or --error names; -1: it names none."""
    return int(mode) if mode.isdecimal() and len(mode) <= _MOST_DIGITS else -1


class Part(NamedTuple):
    """What runs in one component of the job, and what becomes of its streams. A job without components is one."""

    job: Job
    wanted: StepAsk
    streams: Streams


def stream_plan(parts: Sequence[Part], steps: Sequence[Step], *, cwd: str) -> dict[str, Any]:
    """The answer to Srun; the steps are those of the parts. The first part says what holds for srun as a whole."""
    job, wanted, streams = parts[0]
    tasks = sum(step.task_count() for step in steps)
    places = [
        StepPlacement(part.job, step, tasks=tasks, name=job.request.name, cwd=cwd)
        for part, step in zip(parts, steps, strict=True)
    ]
    outputs = {}
    for channel in (OUT, ERR):
        patterns = [_pattern(part.streams, channel) for part in parts]
        found = _joined(
            [_sinks(pattern, place) for pattern, place in zip(patterns, places, strict=True)], places
        )
        if found:
            outputs[channel] = found
    inputs = [_sources(part.streams.input, place) for part, place in zip(parts, places, strict=True)]
    return {
        "job_id": job.id,
        "step": steps[0].number,
        "tasks": tasks,
        "nodes": [node for step in steps for node in step.node_names()],
        "label": _labelled(parts, places),
        "quiet": streams.quiet,
        "quits": streams.quits_on_interrupt,
        "append": streams.append,
        "pty": wanted.pty,
        "outputs": outputs,
        "reads": (wanted.input_rank != -1 and streams.input in ("", "all"))
        or task_number(streams.input) in range(tasks),
        "input_rank": wanted.input_rank if wanted.input_rank >= 0 else 0,
        "inputs": [source for found in inputs for source in found],
    }


def _pattern(streams: Streams, channel: str) -> str:
    return streams.output if channel == OUT else streams.error or streams.output


def _joined(found: Sequence[Any], places: Sequence[StepPlacement]) -> Any:
    """The sinks of all components as one: the same for all tasks, or one for each."""
    if all(each == found[0] for each in found) and not isinstance(found[0], dict):
        return found[0]
    return {
        str(rank): sinks[str(rank)] if isinstance(sinks, dict) else sinks
        for sinks, place in zip(found, places, strict=True)
        for rank in place.ranks()
    }


def _labelled(parts: Sequence[Part], places: Sequence[StepPlacement]) -> bool | list[int]:
    """Whether lines have a label, or the tasks whose lines have one."""
    labels = [part.streams.label for part in parts]
    if all(labels) or not any(labels):
        return labels[0]
    return [rank for label, place in zip(labels, places, strict=True) if label for rank in place.ranks()]


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


class StepPlacement(NamedTuple):
    """What the patterns of one component are filled with. `tasks` is the number of all, `name` the first component's."""

    job: Job
    step: Step
    tasks: int
    name: str
    cwd: str

    def ranks(self) -> list[int]:
        return sorted(rank for share in self.step.shares for rank in share.ranks)

    def path(self, pattern: str, rank: int) -> str:
        """The file of a task."""
        at, share = next((at, share) for at, share in enumerate(self.step.shares) if rank in share.ranks)
        job, task = self.job, self.job.array_task_id
        values = {
            "j": str(job.id),
            "J": f"{job.id}.{self.step.number}",
            "A": str(job.array_job_id),
            "a": str(task) if task is not None else "4294967294",
            "x": self.name,
            "u": job.user,
            "N": share.node,
            "n": str(at),
            "t": str(rank),
            "s": str(self.step.number),
        }
        path = resolve(pattern, values)
        return path if path.startswith("/") else f"{self.cwd.rstrip('/')}/{path}"


def _sinks(pattern: str, place: StepPlacement) -> Any:
    """ "" for srun's own stream, one path, or a path for each task. A mode that names a task drops all others."""
    if pattern in ("", "all"):
        return ""
    if pattern == "none":
        return "/dev/null"
    if task_number(pattern) in range(
        place.tasks
    ):  # a number that no task has is the name of a file, as in Slurm
        return {str(rank): "" if rank == int(pattern) else "/dev/null" for rank in place.ranks()}
    if not any(_has(pattern, letter) for letter in _TASK_LETTERS):
        return place.path(pattern, place.ranks()[0])
    return {str(rank): place.path(pattern, rank) for rank in place.ranks()}


def _sources(pattern: str, place: StepPlacement) -> list[list[Any]]:
    """[rank, path] of each file that is read: one for all tasks, or one for each."""
    if pattern in ("", "all", "none") or task_number(pattern) in range(place.tasks):
        return []
    ranks = place.ranks()
    if len(ranks) == place.tasks and not any(_has(pattern, letter) for letter in _TASK_LETTERS):
        return [[EVERY_TASK, place.path(pattern, ranks[0])]]
    return [[rank, place.path(pattern, rank)] for rank in ranks]


def _has(pattern: str, letter: str) -> bool:
    """Also with a width, %3t."""
    return letter in "".join(char for char in pattern if not char.isdecimal())
