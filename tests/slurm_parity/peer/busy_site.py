"""A real Slurm and our controller with the same busy site.

It has accounts, their users, and jobs that run, that wait for many reasons, and that have ended.

    with busy_site() as pair:
        pair.assert_same("squeue", "-t", "all")
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import ClassVar

from tests.support.waiting import eventually

from .account_site import ACCOUNTS, ROOTS, TABLES
from .pair import H100_SITE, JOB_FACTS, Pair, diff_text, side_by_side
from .real_slurm import UP_S, CommandResult
from .warpdeck_cluster import SITE as WARPDECK_SITE

SLURM_SITE = f"MinJobAge=36000\n{H100_SITE}"
SITE = f"""
keep_finished_s = 36000
{WARPDECK_SITE}
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
"""A line for the processes of a job outside of its steps. Only our sacct lists it."""


class BusySite(Pair):
    """Both schedulers with the same jobs."""

    masks: ClassVar[Mapping[str, str]] = {
        **JOB_FACTS,
        r"^Usage: .*(\n[ \t]+.*)*\n?": "",
        r"(?<![\d:-])(00:0|0:|)?\d:\d\d(?![\d:])": "SPENT",
        r"^\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}$": "DATE",
        r" *(planned|plnd|idle)\b *": " idle ",
    }

    def submit(self, *options: str, script: str = "sleep 10000", user: str = "root") -> int:
        """Submit the job to both and return its id, which is the same in both."""
        argv = ["sbatch", "--parsable", "-o", "/dev/null", "-D", "/tmp", *options, "--wrap", script]
        numbers = [cluster.run(argv, user=user) for cluster in (self.slurm, self.warpdeck)]
        assert numbers[0].out == numbers[1].out, numbers
        return int(numbers[0].out)

    def wait_until_both_have(self, job: int, state: str) -> None:
        """Wait until the job is in the state on both."""
        argv = ["squeue", "-h", "-r", "-t", "all", "-j", str(job), "-o", "%t"]
        for cluster in (self.slurm, self.warpdeck):
            eventually(
                lambda cluster=cluster: state in cluster.run(argv).out.split(),
                timeout_s=UP_S,
                what=f"{job} is {state}",
            )

    def comparable_lines(self, result: CommandResult) -> list[str]:
        return [
            line
            for line in super().comparable_lines(result)
            if not ROOTS.match(line) and not EXTERN.match(line)
        ]

    def output_difference(self, argv: Sequence[str], env: Mapping[str, str]) -> str:
        """Return the difference between the two outputs of a command line; an empty string if they are equal."""
        slurm, warpdeck = (
            self._comparable_result(cluster.run(argv, env=env)) for cluster in (self.slurm, self.warpdeck)
        )
        if warpdeck == slurm:
            return ""
        return f"{env or ''} {shlex.join(argv)}\n{diff_text(slurm, warpdeck)}"

    def _comparable_result(self, result: CommandResult) -> list[str]:
        lines = self.comparable_lines(result)
        errors_at = lines.index("errors:") if "errors:" in lines else len(lines)
        return [*sorted(lines[:errors_at]), f"complains: {bool(result.err)}", f"ends with {result.rc}"]

    def run_on_both(self, *argv: str) -> None:
        """Run a command that must succeed on both."""
        for cluster in (self.slurm, self.warpdeck):
            result = cluster.run(argv)
            assert result.rc == 0, (cluster, argv, result)


@contextmanager
def busy_site() -> Iterator[BusySite]:
    """Yield both schedulers with their sites in the same state."""
    with side_by_side(
        BusySite, slurm_site=SLURM_SITE, warpdeck_site=SITE, accounting=True, accounts=ACCOUNTS
    ) as pair:
        _add_finished_jobs(pair)
        _add_running_jobs(pair)
        _add_waiting_jobs(pair)
        yield pair


def _add_finished_jobs(pair: BusySite) -> None:
    for options, script, facts in ENDED:
        job = pair.submit(*options, script=script)
        pair.warpdeck.wait_until_running(job)
        pair.warpdeck.report_job_end(job, **facts)
        pair.wait_until_both_have(job, "F" if facts else "CD")
    cancelled = pair.submit("-J", "never", "-H")
    pair.run_on_both("scancel", str(cancelled))
    pair.wait_until_both_have(cancelled, "CA")
    killed = pair.submit("-J", "left", "-w", "n4")
    pair.warpdeck.wait_until_running(killed)
    pair.wait_until_both_have(killed, "R")
    listpids = ("scontrol", "listpids", str(killed), "n4")  # A job that is still starting is killed at once.
    eventually(
        lambda: str(killed) in pair.slurm.run(listpids).out.split(),
        timeout_s=UP_S,
        what="the job has started",
    )
    pair.run_on_both("scancel", str(killed))
    pair.warpdeck.report_job_end(killed, signal=15)
    pair.wait_until_both_have(killed, "CA")
    array = pair.submit("-J", "tried", "-a", "1-3", "-w", "n1", script=CODE)
    pair.warpdeck.wait_until_running(*range(array, array + 3))
    served = pair.warpdeck.served
    assert served is not None
    for job in range(array, array + 3):
        pair.warpdeck.report_job_end(job, exit_code=served.controller.state.jobs[job].array_task_id)  # type: ignore[index]
    pair.wait_until_both_have(array, "F")
    eventually(lambda: pair.slurm.ok("squeue", "-h") == "", what="all have ended")


def _add_running_jobs(pair: BusySite) -> None:
    for options in RUNNING:
        job = pair.submit(*options)
        if "array" in options:
            pair.warpdeck.wait_until_running(job + 1, job + 2)
        else:
            pair.warpdeck.wait_until_running(job)
        pair.wait_until_both_have(job, "R")
    job = pair.submit(*SUSPENDED)
    pair.warpdeck.wait_until_running(job)
    pair.wait_until_both_have(job, "R")
    pair.run_on_both("scontrol", "suspend", str(job))
    pair.wait_until_both_have(job, "S")


def _add_waiting_jobs(pair: BusySite) -> None:
    pair.run_on_both("scontrol", "update", "nodename=n4", "state=drain", "reason=bad disk, and more")
    for options in WAITING:
        pair.submit(*options)
    pair.run_on_both(
        *("scontrol", "create", "reservation", "reservationname=tune", "starttime=now+2days", "duration=60"),
        *("users=root", "nodes=n3"),
    )
    eventually(lambda: _reasons(pair), what="reasons")
    records_command = ("sacct", "-a", "-P", "-n", "-S", "now-1hour", "-o", "jobid")
    eventually(
        lambda: _rows(pair.slurm.run(records_command)) == _rows(pair.warpdeck.run(records_command)),
        what="records",
    )


def _reasons(pair: BusySite) -> bool:
    """Return whether both give the same reason for each waiting job."""
    argv = ("squeue", "-h", "-t", "PD", "-o", "%i %r", "-S", "i")
    reasons = [cluster.run(argv).out for cluster in (pair.slurm, pair.warpdeck)]
    return "None" not in reasons[0] and reasons[0] == reasons[1]


def _rows(result: CommandResult) -> list[str]:
    return sorted(row for row in result.out.splitlines() if ".extern" not in row)
