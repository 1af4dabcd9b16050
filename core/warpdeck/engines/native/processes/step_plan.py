"""The instructions that an srun gets for its step: labels, output files and input files.

Its functions are pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from warpdeck.model import Job
from warpdeck.model.step import Step, StepOptions
from warpdeck.notation.step.step_options import Streams
from warpdeck.notation.values.file_patterns import resolve
from warpdeck_agent.wire.steps import EVERY_TASK

OUT, ERR = "1", "2"
_TASK_LETTERS = ("%t", "%n", "%N")
_MOST_DIGITS = 9
"""Maximum number of digits of a task's number."""


def task_number(mode: str) -> int:
    """Return the task number that --input, --output or --error names, or -1 if it names none."""
    return int(mode) if mode.isdecimal() and len(mode) <= _MOST_DIGITS else -1


class Part(NamedTuple):
    """Step request and stream options of one component of the job. A job without components has one part."""

    job: Job
    wanted: StepOptions
    streams: Streams


def stream_plan(parts: Sequence[Part], steps: Sequence[Step], *, cwd: str) -> dict[str, Any]:
    """Return the answer to Srun for `steps`, which belong to `parts` in the same order.

    The first part decides the options that apply to srun as a whole.
    """
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
        "ignores": streams.ignored_signals,
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
    """Merge the output paths of all components.

    The result is one path for all tasks, or a dictionary with one path per task.
    """
    if all(each == found[0] for each in found) and not isinstance(found[0], dict):
        return found[0]
    return {
        str(rank): sinks[str(rank)] if isinstance(sinks, dict) else sinks
        for sinks, place in zip(found, places, strict=True)
        for rank in place.ranks()
    }


def _labelled(parts: Sequence[Part], places: Sequence[StepPlacement]) -> bool | list[int]:
    """Return True if the lines of all tasks are labeled, False if none are, or the list of the labeled tasks."""
    labels = [part.streams.label for part in parts]
    if all(labels) or not any(labels):
        return labels[0]
    return [rank for label, place in zip(labels, places, strict=True) if label for rank in place.ranks()]


def written_paths(streams: Streams, *, cwd: str) -> list[str]:
    """Return the paths that srun will write, as far as they are known before the step exists.

    If the rest of a path depends on the step, its folder is returned with a "/" at the end.
    """
    found = []
    for pattern in (streams.output, streams.error):
        if pattern in ("", "all", "none", "/dev/null") or task_number(pattern) >= 0 or "\\" in pattern:
            continue
        literal, more, _ = pattern.partition("%")
        path = literal if not more else literal[: literal.rfind("/") + 1] or "./"
        found.append(path if path.startswith("/") else f"{cwd.rstrip('/')}/{path}")
    return list(dict.fromkeys(found))


class StepPlacement(NamedTuple):
    """Values for the file name patterns of one component.

    `tasks` is the number of tasks in all components. `name` is the name of the first component.
    """

    job: Job
    step: Step
    tasks: int
    name: str
    cwd: str

    def ranks(self) -> list[int]:
        return sorted(rank for share in self.step.shares for rank in share.ranks)

    def path(self, pattern: str, rank: int) -> str:
        """Return the file path of a task."""
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
    """Return "" for srun's own stream, one path for all tasks, or a dictionary with one path per task.

    A mode that names a task discards the output of all other tasks.
    """
    if pattern in ("", "all"):
        return ""
    if pattern == "none":
        return "/dev/null"
    if task_number(pattern) in range(place.tasks):
        return {str(rank): "" if rank == int(pattern) else "/dev/null" for rank in place.ranks()}
    if not any(_has(pattern, letter) for letter in _TASK_LETTERS):
        return place.path(pattern, place.ranks()[0])
    return {str(rank): place.path(pattern, rank) for rank in place.ranks()}


def _sources(pattern: str, place: StepPlacement) -> list[list[Any]]:
    """Return [rank, path] of each input file: one entry for all tasks, or one entry per task."""
    if pattern in ("", "all", "none") or task_number(pattern) in range(place.tasks):
        return []
    ranks = place.ranks()
    if len(ranks) == place.tasks and not any(_has(pattern, letter) for letter in _TASK_LETTERS):
        return [[EVERY_TASK, place.path(pattern, ranks[0])]]
    return [[rank, place.path(pattern, rank)] for rank in ranks]


def _has(pattern: str, letter: str) -> bool:
    """Return whether the pattern has this letter, also with a width as in %3t."""
    return letter in "".join(char for char in pattern if not char.isdecimal())
