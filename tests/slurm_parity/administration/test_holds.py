"""Holds, priorities and requeues beside a real Slurm: permissions of root and the owner, messages, and the
job's state afterwards.

As in Slurm, a priority of 0 is a hold, and any other priority remains until a release.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from tests.slurm_parity.peer.pair import Pair, side_by_side
from tests.slurm_parity.peer.real_slurm import RealSlurm
from tests.slurm_parity.peer.warpdeck_cluster import WarpdeckCluster
from tests.support.waiting import eventually

pytestmark = pytest.mark.slurm
OWNER = "nobody"
FUTURE_START = ("--begin=now+1hour",)
WAITING_CASES = (
    "root update job J priority=0", "root release J", "root hold J", "OWNER hold J", "OWNER uhold J", "OWNER update job J priority=0",
    "OWNER release J", "root uhold J", "root hold J", "root uhold J", "OWNER release J", "root update job J priority=77",
    "root update job J nice=10", "OWNER update job J nice=20", "OWNER update job J priority=99999",
    "root update job J priority=0 nice=5",
    "root update job J priority=78", "OWNER update job J priority=78", "root update job J nice=9", "root release J",
    "root update job J nice=3 priority=30", "OWNER hold J", "OWNER release J", "OWNER update job J priority=0",
    "OWNER update job J priority=5", "root update job J priority=0", "OWNER release J", "daemon hold J", "daemon uhold J",
    "daemon release J", "daemon update job J comment=x", "daemon requeue J", "root update job J priority=infinite", "root release J",
    "root requeue incomplete", "root requeue incomp J", "root requeuehold State=SE J", "root requeuehold State=Special J",
    "root requeuehold State=SpecialExit", "root requeuehold SpecialExit J",
)  # fmt: skip
"""The cases run in this order on one job."""
TASK_CASES = (
    "OWNER update job J_2 priority=0",
    "root hold J_3",
    "OWNER release J_2",
    "OWNER release J_3",
    "root release J_3",
)
ARRAY_CASES = (
    "daemon hold J", "daemon uhold J", "daemon release J", "daemon requeue J", "daemon requeuehold J", "daemon suspend J",
    "daemon update job J timelimit=5", "daemon update job J_[1-2,4] comment=x", "daemon hold J_[2-4]", "daemon hold J_2",
    "daemon suspend J_[2-4]", "daemon suspend J_2", "daemon top J", "daemon top J_2", "daemon requeue J_1", "OWNER hold J_[3-9]",
    "OWNER release J_[3-9]", "OWNER hold J_[7-9]", "OWNER hold J_9", "OWNER update job J_[1,3,6-8] comment=x",
    "OWNER update job J features=zz", "OWNER update job J partition=zz", "OWNER update job J dependency=singleton",
    "OWNER update job J timelimit=3-0", "root suspend J", "root suspend J", "root resume J", "root resume J", "OWNER requeue J_3",
    "OWNER hold J", "OWNER requeue J",
)  # fmt: skip
"""Cases for an array with some running tasks. Messages come in the order of the tasks."""
RUNNING_CASES = (
    "OWNER update job J priority=0", "root update job J priority=7", "root update job J priority=0", "OWNER hold J",
    "OWNER release J", "root release J", "daemon notify J hello", "daemon requeue J", "OWNER hold J",
)  # fmt: skip
REQUEUE_CASES = (
    "requeuehold J",
    "requeuehold State=SpecialExit J",
    "requeue State=SpecialExit J",
    "requeuehold Incomplete J",
)


class HoldPair(Pair):
    """Both schedulers with jobs of the owner."""

    def submit(self, *options: str, user: str = OWNER) -> tuple[str, str]:
        argv = ["sbatch", "--parsable", "-o", "/dev/null", *options, "--wrap", "sleep 1000"]
        slurm, warpdeck = (cluster.run(argv, user=user).out.strip() for cluster in self.both)
        return slurm, warpdeck

    def start(self) -> tuple[str, str]:
        jobs = self.submit()
        eventually(lambda: self.states(jobs)[0] == "RUNNING", what="Slurm's job runs")
        self.warpdeck.wait_until_running(int(jobs[1]))
        return jobs

    def states(self, jobs: tuple[str, str]) -> list[str]:
        argv = ["squeue", "-h", "-t", "all", "-o", "%T", "-j"]
        return [cluster.run([*argv, job]).out.strip() for cluster, job in zip(self.both, jobs, strict=True)]

    def assert_same_result(self, jobs: tuple[str, str], case: str) -> None:
        """Assert that a command of a user prints the same for both jobs and leaves them in the same state."""
        user_name, *argv = case.split()
        outcomes = []
        for cluster, job in zip(self.both, jobs, strict=True):
            job_argv = [re.sub(r"\bJ(?=_|$)", job, word) for word in argv]
            result = cluster.run(["scontrol", *job_argv], user=OWNER if user_name == "OWNER" else user_name)
            outcomes.append(
                [result.rc, result.out, _without_id(job, result.err), *self.job_state(cluster, job)]
            )
        assert outcomes[1] == outcomes[0], case

    def job_state(self, cluster: RealSlurm | WarpdeckCluster, job: str) -> list[str]:
        """Return the state, reason and priority from squeue and scontrol. Reasons that Slurm finds only later
        count as none.
        """
        row = cluster.run(["squeue", "-h", "-r", "-t", "all", "-j", job, "-o", "%i %t %r %Q"]).out
        row = " ".join(sorted(row.splitlines()))
        shown = cluster.run(["scontrol", "show", "job", job]).out
        fields = (
            re.findall(r"\b(?:JobState|Reason|Priority|Nice|Restarts)=\S+", shown)
            if "ArrayJobId" not in shown
            else []
        )
        return [
            re.sub(r"\b(BeginTime|Resources)\b", "None", _without_id(job, text))
            for text in (row, " ".join(fields))
        ]


def _without_id(job: str, text: str) -> str:
    return re.sub(rf"\b{job}(?=\b|_)", "J", text)


@pytest.fixture(scope="module")
def pair() -> Iterator[HoldPair]:
    with side_by_side(HoldPair) as both:
        both.warpdeck.folder.chmod(0o755)
        yield both


def test_a_waiting_job_is_held_and_released_as_in_slurm(pair: HoldPair) -> None:
    jobs = pair.submit(*FUTURE_START)
    for case in WAITING_CASES:
        pair.assert_same_result(jobs, case)


def test_tasks_of_an_array_are_held_and_released_as_in_slurm(pair: HoldPair) -> None:
    jobs = pair.submit(*FUTURE_START, "--array=1-4")
    for case in TASK_CASES:
        pair.assert_same_result(jobs, case)


def test_a_hold_of_a_running_job_takes_effect_when_it_is_requeued(pair: HoldPair) -> None:
    jobs = pair.start()
    for case in RUNNING_CASES:
        user_name, *argv = case.split()
        outcomes = []
        for cluster, job in zip(pair.both, jobs, strict=True):
            result = cluster.run(
                ["scontrol", *(word.replace("J", job) for word in argv)],
                user=OWNER if user_name == "OWNER" else user_name,
            )
            listed = cluster.run(["squeue", "-h", "-j", job, "-o", "%t %r %R"]).out
            outcomes.append((result.rc, result.out, _without_id(job, result.err), listed))
        assert outcomes[1] == outcomes[0], case
    assert "R JobHeldUser n1" in outcomes[1][3]


@pytest.mark.parametrize("user_name", ["root", "OWNER"])
@pytest.mark.parametrize("case", REQUEUE_CASES)
def test_a_job_is_requeued_and_held_as_in_slurm(pair: HoldPair, case: str, user_name: str) -> None:
    jobs = pair.start()
    for cluster, job in zip(pair.both, jobs, strict=True):
        result = cluster.run(
            ["scontrol", *case.replace("J", job).split()], user="root" if user_name == "root" else OWNER
        )
        assert (result.rc, result.out, result.err) == (0, "", "")
    pair.warpdeck.report_job_end(int(jobs[1]), signal=15)
    eventually(lambda: pair.states(jobs)[0] in ("PENDING", "SPECIAL_EXIT"), what="Slurm's job waits again")
    states = [pair.job_state(cluster, job) for cluster, job in zip(pair.both, jobs, strict=True)]
    assert states[1] == states[0]
    for short_names in ("SE", "PD", "RD,SE"):
        listed = [
            cluster.run(["squeue", "-h", "-t", short_names, "-j", job, "-o", "%T %R"]).out
            for cluster, job in zip(pair.both, jobs, strict=True)
        ]
        assert listed[1] == listed[0]
    pair.assert_same_result(jobs, "OWNER hold J")
    released = [
        cluster.run(["scontrol", "release", job], user=OWNER)
        for cluster, job in zip(pair.both, jobs, strict=True)
    ]
    assert released[1] == released[0] == (0, "", "")
    for cluster, job in zip(pair.both, jobs, strict=True):
        assert "(held" not in cluster.run(["squeue", "-h", "-j", job, "-o", "%T %R"]).out
        cluster.run(["scancel", job])


def test_requeue_incomplete_leaves_an_ended_job_alone(pair: HoldPair) -> None:
    jobs = pair.submit()
    eventually(lambda: pair.states(jobs)[0] == "RUNNING", what="Slurm's job runs")
    pair.warpdeck.wait_until_running(int(jobs[1]))
    for cluster, job in zip(pair.both, jobs, strict=True):
        cluster.run(["scancel", job])
    pair.warpdeck.report_job_end(int(jobs[1]), signal=15)
    eventually(lambda: pair.states(jobs) == ["CANCELLED"] * 2, what="both have ended")
    for argv in (["requeue", "incomplete"], ["requeuehold", "incomp"]):
        for cluster, job in zip(pair.both, jobs, strict=True):
            assert cluster.run(["scontrol", *argv, job]) == (0, "", "")
        assert pair.states(jobs) == ["CANCELLED"] * 2


@pytest.mark.parametrize("user", ["root", OWNER])
@pytest.mark.parametrize(
    "options", ["--priority=0", "--priority=100", "--priority=9999999", "-H --priority=50"]
)
def test_a_priority_given_at_submission_applies_as_in_slurm(pair: HoldPair, options: str, user: str) -> None:
    jobs = pair.submit(*FUTURE_START, *options.split(), user=user)
    states = [pair.job_state(cluster, job) for cluster, job in zip(pair.both, jobs, strict=True)]
    assert states[1] == states[0]


def test_suspension_times_are_shown_as_in_slurm(pair: HoldPair) -> None:
    """Both show that it ran for less than a second, and the time of the last suspension or resumption."""
    jobs = pair.start()
    for word in ("suspend", "resume", "suspend"):
        shown_fields = []
        for cluster, job in zip(pair.both, jobs, strict=True):
            assert cluster.run(["scontrol", word, job]) == (0, "", "")
            shown = cluster.run(["scontrol", "show", "job", job]).out
            shown_fields.append(
                re.findall(r"JobState=\S+|Priority=0|SuspendTime=None|SecsPreSuspend=", shown)
            )
        assert shown_fields[1] == shown_fields[0], word


def test_commands_for_arrays_report_each_task_as_in_slurm(pair: HoldPair) -> None:
    """Slurm names all tasks that wait together if one of them is given, and we add the reason to its message."""
    jobs = pair.submit("--array=1-6%2")
    states = ("squeue", "-h", "-r", "-t", "R", "-o", "%i", "-j")
    eventually(lambda: len(pair.slurm.ok(*states, jobs[0]).split()) == 2, what="two tasks run in Slurm")
    eventually(lambda: _two_run(pair, jobs[1]), what="two tasks run in warpdeck")
    for case in ARRAY_CASES:
        user_name, *argv = case.split()
        outcomes = []
        for cluster, job in zip(pair.both, jobs, strict=True):
            job_argv = [re.sub(r"\bJ(?=_|$)", job, word) for word in argv]
            result = cluster.run(["scontrol", *job_argv], user=OWNER if user_name == "OWNER" else user_name)
            lines = [
                line for line in _without_id(job, result.err).splitlines() if "can never start" not in line
            ]
            outcomes.append(
                (
                    result.rc,
                    result.out,
                    [re.sub("^J_3-6: Job is pending", "J_3: Job is pending", line) for line in lines],
                )
            )
        assert outcomes[1] == outcomes[0], case
    for cluster, job in zip(pair.both, jobs, strict=True):
        cluster.run(["scancel", job])


def _two_run(pair: HoldPair, job: str) -> bool:
    pair.warpdeck.report_launches_running()
    return len(pair.warpdeck.run(["squeue", "-h", "-r", "-t", "R", "-o", "%i", "-j", job]).out.split()) == 2


@pytest.mark.parametrize("command", ["hold", "release", "uhold", "suspend", "requeue"])
def test_a_command_for_an_unknown_job_name_has_the_exit_code_of_slurm(pair: HoldPair, command: str) -> None:
    """Our explanation follows Slurm's message."""
    slurm, warpdeck = (cluster.run(["scontrol", command, "jobname=nosuch"]) for cluster in pair.both)
    assert (warpdeck.rc, warpdeck.out) == (slurm.rc, slurm.out) and warpdeck.err.startswith(slurm.err)
    assert warpdeck.err.endswith("Job name nosuch not found\n")


def test_a_user_cannot_write_the_script_of_another_user(pair: HoldPair) -> None:
    jobs = pair.submit()
    slurm, warpdeck = (
        cluster.run(["scontrol", "write", "batch_script", job, "-"], user="daemon")
        for cluster, job in zip(pair.both, jobs, strict=True)
    )
    assert (warpdeck.rc, warpdeck.out, warpdeck.err) == (slurm.rc, slurm.out, slurm.err)
