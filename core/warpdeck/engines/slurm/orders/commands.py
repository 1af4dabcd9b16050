"""Runs scontrol and scancel for many jobs at once, and finds out which of them were refused."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from warpdeck.base.errors import UNCERTAIN, UserError
from warpdeck.engines.slurm.cluster.cluster import Cluster
from warpdeck.engines.slurm.cluster.polling import Allowance
from warpdeck.engines.slurm.commands import UNREACHABLE, SlurmCommands, command_error
from warpdeck.model import Job, JobId, JobState, Ranges, format_ranges, split_ranges
from warpdeck.model.ranges import without_steps

from .names import jobs_of, key_of, tasks_of
from .refusals import NO_ERROR, NO_MATCH, UNEXPECTED, Refusal, read_scancel, read_scontrol

SCONTROL_JOBS = 200
"""Maximum number of jobs in one command of scontrol, which asks slurmctld for one job after the other."""
SCANCEL_JOBS = 1000
"""Maximum number of jobs in one command of scancel, which asks for several jobs at the same time."""
COUNTED_RPCS = 2
"""An order counts as at most this many requests, so that the result of a large order can be read soon."""
HINTS = {
    "not_found": "see `warpdeck queue --all`",
    "denied": "only an administrator may do this",
    "not_user": "only its owner or an administrator may do this",
    "component": "name the whole job",
    "no_requeue": "it was submitted with --no-requeue, or the site does not requeue jobs",
    "ending": "try again in a few seconds",
    "already_begun": "cancel it by its own id",
}
_NOISE = ("Request aborted", "No changes specified")


@dataclass(kw_only=True)
class Results:
    """The references for which an order was carried out, at least for some tasks, and those that were refused.

    `parts` are the arrays of which only some tasks were refused: the codes by tasks, "" for changed tasks.
    """

    done: list[str] = field(default_factory=list)
    refused: list[tuple[str, UserError]] = field(default_factory=list)
    parts: dict[str, dict[str, str]] = field(default_factory=dict)

    def sort(self, references: Sequence[str]) -> None:
        """Put all into the order of the references."""
        place = {reference: at for at, reference in reversed(list(enumerate(references)))}
        self.done.sort(key=lambda reference: place[reference])
        self.refused.sort(key=lambda pair: place[pair[0]])


TaskKey = tuple[int, Ranges | None] | None
Names = Mapping[str, str]
"""Ids in Slurm's form -> the references of the user."""


class OrderCommands:
    """Runs commands that change jobs. `monotonic` returns seconds of a clock that never jumps."""

    def __init__(
        self,
        cluster: Cluster,
        commands: SlurmCommands,
        allowance: Allowance,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._commands = commands
        self._allowance = allowance
        self._monotonic = monotonic

    async def scontrol(
        self, argv: Callable[[Sequence[str]], Sequence[str]], names: Names, results: Results
    ) -> None:
        """Run scontrol for these jobs. `argv` returns the arguments for some of them.

        If slurmctld does not answer, the remaining jobs are refused without another attempt, because each costs
        many seconds.
        """
        for some in self._batches(names):
            lines, error = await self._run(["scontrol", *argv(some)], read_scontrol, jobs=len(some))
            for name in some:
                self._note(names[name], name, self._about(name, lines), error, results)
            if any(each.is_unsure for each in lines) or (error is not None and error.code == UNREACHABLE):
                rest = [name for name in names if name not in some and not _is_noted(names[name], results)]
                for name in rest:
                    results.refused.append((names[name], _not_sent(names[name])))
                return

    async def scancel(
        self, options: Sequence[str], names: Names, results: Results, *, selected: str = ""
    ) -> None:
        """Run scancel for these jobs or steps.

        `selected` is set if the options make scancel itself select jobs by their state. It is the code of the refusal
        for jobs that scancel does not mention. Otherwise all jobs are canceled that scancel does not complain about.
        """
        for some in _slices(list(names), SCANCEL_JOBS):
            sent: list[str] = []

            def read(text: str, sent: list[str] = sent) -> list[Refusal]:
                refused, found = read_scancel(text)
                sent += found
                return refused

            lines, error = await self._run(["scancel", "--verbose", *options, *some], read, jobs=len(some))
            accepted = [Refusal(each, NO_ERROR) for each in set(sent) - {line.name for line in lines}]
            for name in some:
                about = self._about(name, lines)
                if selected and error is None and self._about(name, accepted):
                    about = []
                elif selected and error is None and not about:
                    results.refused.append((names[name], self._unselected(names[name], name, selected)))
                    continue
                self._note(names[name], name, about, error, results)

    def _batches(self, names: Names) -> Iterable[Sequence[str]]:
        """Yield the ids in batches. scontrol accepts a list of tasks such as 12_[3-5] only at the end of its list.

        If slurmctld did not answer last, the first command is for one job only, because each may cost many seconds.
        """
        plain = [name for name in names if "[" not in name]
        first = plain[:1] if self._cluster.problem else []
        yield from ([each] for each in first)
        yield from _slices(plain[len(first) :], SCONTROL_JOBS)
        yield from ([name] for name in names if "[" in name)

    async def _run(
        self, argv: Sequence[str], read: Callable[[str], list[Refusal]], *, jobs: int
    ) -> tuple[list[Refusal], UserError | None]:
        """Return the lines about single jobs, and the error of a command that has failed as a whole."""
        self._allowance.count_action(min(jobs, COUNTED_RPCS), self._monotonic())
        try:
            code, out, err = await self._commands.change(argv)
        except UserError as error:
            return [], error
        lines = read(f"{err}\n{out}")
        if code and NO_MATCH not in err and not any(each.words != NO_ERROR for each in lines):
            text = "\n".join(line for line in err.splitlines() if line.strip() not in _NOISE)
            return [], command_error(argv[0], text)
        return lines, None

    def _note(
        self, reference: str, name: str, about: Sequence[Refusal], error: UserError | None, results: Results
    ) -> None:
        """Add the result for one reference."""
        if error is not None:
            results.refused.append((reference, error))
            return
        failed = [each for each in about if each.words != NO_ERROR]
        if not failed:
            results.done.append(reference)
            return
        jobs = jobs_of(self._cluster.state, name)
        parts = _parts(name, failed, jobs)
        if parts:
            results.parts[reference] = parts
        if "" in parts.values():
            results.done.append(reference)
        else:
            results.refused.append((reference, self._error(reference, failed[0], jobs)))

    def _error(self, reference: str, refusal: Refusal, jobs: Sequence[Job]) -> UserError:
        """Return the error for a refused job: Slurm's words, then ours."""
        code, known = refusal.code, jobs[0] if jobs else None
        message = f"job {reference}: {refusal.words}"
        if refusal.words == UNEXPECTED and known is None:
            return UserError(
                f"job {reference}: Invalid job id specified", HINTS["not_found"], code="not_found"
            )
        if refusal.is_unsure:
            return UserError(
                f"{message}; it is unknown whether Slurm carried it out",
                "look at the queue before you repeat it",
                code=UNCERTAIN,
            )
        reached = command_error("slurmctld", refusal.words)
        if reached.code == UNREACHABLE:
            return UserError(f"{message}; nothing was changed", reached.hint, code=UNREACHABLE)
        if code in ("denied", "not_user") and known is not None and known.uid != self._cluster.uid:
            return UserError(message, f"it belongs to {known.user}", code="not_owner")
        if code == "not_found" and known is not None and known.is_finished:
            return UserError(message, f"it has ended ({known.state})", code="already_done")
        return UserError(message, HINTS.get(code, ""), code=code)

    def _unselected(self, reference: str, name: str, code: str) -> UserError:
        """Return the error for a job that scancel did not select, because of its state."""
        jobs = jobs_of(self._cluster.state, name)
        if jobs and all(job.is_finished for job in jobs):
            return UserError(f"job {reference} has already ended ({jobs[0].state})", code="already_done")
        if code == "already_begun":
            return UserError(f"job {reference} has already started", HINTS[code], code=code)
        if jobs and all(job.state is JobState.PENDING for job in jobs):
            return UserError(f"job {reference} is not running (PENDING)", code="pending")
        return UserError(f"job {reference} is not running", HINTS["not_found"], code=code)

    def _about(self, name: str, lines: Iterable[Refusal]) -> list[Refusal]:
        """Return the lines about the job or some of the tasks that the id names.

        Slurm prints a task of an array as 12_3, even if the id is the task's own number.
        """
        keys = [key_of(name)]
        job = self._cluster.state.jobs.get(JobId(int(name))) if name.isdecimal() else None
        if job is not None and job.id != job.array_job_id:
            keys.append(key_of(job.label()))
        is_step = "." in name
        return [
            line
            for line in lines
            if line.name == name or (not is_step and any(_overlap(key, key_of(line.name)) for key in keys))
        ]


def _slices(names: Sequence[str], size: int) -> list[Sequence[str]]:
    return [names[at : at + size] for at in range(0, len(names), size)]


def _overlap(one: TaskKey, other: TaskKey) -> bool:
    """Return whether two ids have a job or a task in common."""
    if one is None or other is None or one[0] != other[0]:
        return False
    if one[1] is None or other[1] is None:
        return True
    return bool(split_ranges(without_steps(one[1]), without_steps(other[1]))[0])


def _parts(name: str, failed: Sequence[Refusal], jobs: Sequence[Job]) -> dict[str, str]:
    """Return the codes by tasks of an array, "" for the tasks that were not refused; {} for other jobs."""
    key, codes = key_of(name), dict[str, Ranges]()
    asked = key[1] if key is not None else None
    own = without_steps(asked) if asked else tasks_of(jobs)
    for each in failed:
        other = key_of(each.name)
        tasks = other[1] if other is not None else None
        if tasks is None:
            return {}
        codes[each.code] = (*codes.get(each.code, ()), *tasks)
    refused = without_steps(tuple(sorted(each for ranges in codes.values() for each in ranges)))
    rest = split_ranges(own, refused)[1]
    found = {format_ranges(without_steps(ranges)): code for code, ranges in codes.items()}
    return found | ({format_ranges(rest): ""} if rest else {})


def _is_noted(reference: str, results: Results) -> bool:
    return reference in results.done or any(reference == each for each, _ in results.refused)


def _not_sent(reference: str) -> UserError:
    return UserError(
        f"job {reference}: slurmctld does not answer; the order was not sent",
        "repeat it later",
        code=UNREACHABLE,
    )
