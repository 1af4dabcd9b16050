"""A real Slurm and ours with one crowded site each: accounts, users of them, and jobs that run, wait for many reasons, and have ended.

with crowded() as pair:
    pair.asked(["squeue", "-t", "all"])
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import ClassVar

from tests.support.waiting import eventually

from .account_site import ACCOUNTS, ROOTS, TABLES
from .our_slurm import SITE as OUR_SITE
from .pair import H100_SITE, JOB_FACTS, Pair, difference, side_by_side
from .real_slurm import UP_S, Done

THEIR_SITE = f"MinJobAge=36000\n{H100_SITE}"
SITE = f"""
keep_finished_s = 36000
{OUR_SITE}
{TABLES}"""
ENDED: tuple[tuple[tuple[str, ...], str, dict[str, object]], ...] = (
    (("-J", "ok", "-A", "ml", "-w", "n1"), "true", {}),
    (("-J", "fails", "-A", "bio", "-t", "10", "-w", "n2"), "exit 3", {"exit_code": 3}),
    (("-J", "killed", "-c3", "-w", "n3"), "kill -9 $$", {"signal": 9}),
)
RUNNING = (
    ("-J", "runs", "-n2", "--gres=gpu:2", "-t", "2:00:00", "--comment", "a comment", "-A", "ml", "-w", "n1"),
    ("-J", "both", "-N2", "-n4", "-p", "debug", "--mem=2G", "-t", "10", "-A", "bio"),
    ("-J", "array", "--array=1-20%2", "-n1", "-w", "n2"),
)
SUSPENDED = ("-J", "stands", "-n1", "-w", "n3", "--qos=high", "-t", "20")
WAITING = (
    ("-H", "-J", "held"),
    ("-J", "follows", "-d", "afterok:4"),
    ("-J", "later", "--begin=now+2hours", "-t", "1-0"),
    ("-J", "wide", "-N3", "--exclusive", "--gres=gpu:h100:4"),
    ("-H", "-J", "asks", "-w", "n3", "-x", "n4", "--nice=50", "-c3", "--mem-per-cpu=300", "--no-requeue"),
    ("-H", "-J", "tasks", "--gpus-per-task=1", "-n4", "-p", "gpu,debug", "-A", "bio"),
    ("-H", "-J", "aa", "-n1", "--mem=100", ":", "-J", "bb", "-n2", "--mem=200"),
    ("-H", "-J", "few", "--array=1,3,5-9:2"),
)
CODE = "exit $SLURM_ARRAY_TASK_ID"

EXTERN = re.compile(r" *[\d_]+\.e")
"""The line of what a job runs outside of steps, of which only we tell."""


class Crowd(Pair):
    """Both, with the same jobs."""

    apart: ClassVar[Mapping[str, str]] = {
        **JOB_FACTS,
        r"^Usage: .*(\n[ \t]+.*)*\n?": "",
        r"(?<![\d:-])(00:0|0:|)?\d:\d\d(?![\d:])": "SPENT",
        r"^\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}$": "DATE",
        r" *(planned|plnd|idle)\b *": " idle ",
    }

    def submit(self, *options: str, script: str = "sleep 10000", user: str = "root") -> int:
        """The number, the same in both."""
        words = ["sbatch", "--parsable", "-o", "/dev/null", "-D", "/tmp", *options, "--wrap", script]
        numbers = [cluster.run(words, user=user) for cluster in (self.theirs, self.ours)]
        assert numbers[0].out == numbers[1].out, numbers
        return int(numbers[0].out)

    def both_have(self, job: int, state: str) -> None:
        words = ["squeue", "-h", "-r", "-t", "all", "-j", str(job), "-o", "%t"]
        for cluster in (self.theirs, self.ours):
            eventually(
                lambda cluster=cluster: state in cluster.run(words).out.split(),  # type: ignore[misc]
                timeout_s=UP_S,
                what=f"{job} is {state}",
            )

    def plain(self, done: Done) -> list[str]:
        return [line for line in super().plain(done) if not ROOTS.match(line) and not EXTERN.match(line)]

    def differs(self, words: Sequence[str], env: Mapping[str, str]) -> str:
        """What is not the same of a command line in both; "" if all is."""
        theirs, ours = (self._told(cluster.run(words, env=env)) for cluster in (self.theirs, self.ours))
        if ours == theirs:
            return ""
        return f"{env or ''} {shlex.join(words)}\n{difference(theirs, ours)}"

    def _told(self, done: Done) -> list[str]:
        lines = self.plain(done)
        at = lines.index("errors:") if "errors:" in lines else len(lines)
        return [*sorted(lines[:at]), f"complains: {bool(done.err)}", f"ends with {done.rc}"]

    def order(self, *words: str) -> None:
        """Of both."""
        for cluster in (self.theirs, self.ours):
            done = cluster.run(words)
            assert done.rc == 0, (cluster, words, done)


@contextmanager
def crowded() -> Iterator[Crowd]:
    """Both, in the same state."""
    with side_by_side(
        Crowd, their_site=THEIR_SITE, our_site=SITE, accounting=True, accounts=ACCOUNTS
    ) as pair:
        _end(pair)
        _run(pair)
        _wait(pair)
        yield pair


def _end(pair: Crowd) -> None:
    for options, script, facts in ENDED:
        job = pair.submit(*options, script=script)
        pair.ours.runs(job)
        pair.ours.ends(job, **facts)
        pair.both_have(job, "F" if facts else "CD")
    never = pair.submit("-J", "never", "-H")
    pair.order("scancel", str(never))
    pair.both_have(never, "CA")
    left = pair.submit("-J", "left", "-w", "n4")
    pair.ours.runs(left)
    pair.both_have(left, "R")
    listed = ("scontrol", "listpids", str(left), "n4")  # a job that is still beginning is killed at once
    eventually(lambda: str(left) in pair.theirs.run(listed).out.split(), timeout_s=UP_S, what="it has begun")
    pair.order("scancel", str(left))
    pair.ours.ends(left, signal=15)
    pair.both_have(left, "CA")
    array = pair.submit("-J", "tried", "-a", "1-3", "-w", "n1", script=CODE)
    pair.ours.runs(*range(array, array + 3))
    served = pair.ours.served
    assert served is not None
    for job in range(array, array + 3):
        pair.ours.ends(job, exit_code=served.controller.state.jobs[job].array_task_id)  # type: ignore[index]
    pair.both_have(array, "F")
    eventually(lambda: pair.theirs.ok("squeue", "-h") == "", what="all have ended")


def _run(pair: Crowd) -> None:
    for options in RUNNING:
        job = pair.submit(*options)
        if "array" in options:
            pair.ours.runs(job + 1, job + 2)
        else:
            pair.ours.runs(job)
        pair.both_have(job, "R")
    job = pair.submit(*SUSPENDED)
    pair.ours.runs(job)
    pair.both_have(job, "R")
    pair.order("scontrol", "suspend", str(job))
    pair.both_have(job, "S")


def _wait(pair: Crowd) -> None:
    pair.order("scontrol", "update", "nodename=n4", "state=drain", "reason=bad disk, and more")
    for options in WAITING:
        pair.submit(*options)
    pair.order(
        *("scontrol", "create", "reservation", "reservationname=tune", "starttime=now+2days", "duration=60"),
        *("users=root", "nodes=n3"),
    )
    eventually(lambda: _reasons(pair), what="reasons")
    kept = ("sacct", "-a", "-P", "-n", "-S", "now-1hour", "-o", "jobid")
    eventually(lambda: _rows(pair.theirs.run(kept)) == _rows(pair.ours.run(kept)), what="records")


def _reasons(pair: Crowd) -> bool:
    """Whether both have said why each job waits."""
    words = ("squeue", "-h", "-t", "PD", "-o", "%i %r", "-S", "i")
    told = [cluster.run(words).out for cluster in (pair.theirs, pair.ours)]
    return "None" not in told[0] and told[0] == told[1]


def _rows(done: Done) -> list[str]:
    return sorted(row for row in done.out.splitlines() if ".extern" not in row)
