"""Holds, priorities and requeues beside a real Slurm: what root and the owner may do, what is said, and how the job stands then.

Priorities: as in Slurm a priority of 0 is a hold, and another one stays until a release.
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
LATE = ("--begin=now+1hour",)
WAITING = (
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
"""One after the other, of one job."""
OF_TASKS = (
    "OWNER update job J_2 priority=0",
    "root hold J_3",
    "OWNER release J_2",
    "OWNER release J_3",
    "root release J_3",
)
OF_ARRAYS = (
    "daemon hold J", "daemon uhold J", "daemon release J", "daemon requeue J", "daemon requeuehold J", "daemon suspend J",
    "daemon update job J timelimit=5", "daemon update job J_[1-2,4] comment=x", "daemon hold J_[2-4]", "daemon hold J_2",
    "daemon suspend J_[2-4]", "daemon suspend J_2", "daemon top J", "daemon top J_2", "daemon requeue J_1", "OWNER hold J_[3-9]",
    "OWNER release J_[3-9]", "OWNER hold J_[7-9]", "OWNER hold J_9", "OWNER update job J_[1,3,6-8] comment=x",
    "OWNER update job J features=zz", "OWNER update job J partition=zz", "OWNER update job J dependency=singleton",
    "OWNER update job J timelimit=3-0", "root suspend J", "root suspend J", "root resume J", "root resume J", "OWNER requeue J_3",
    "OWNER hold J", "OWNER requeue J",
)  # fmt: skip
"""Of an array of which some tasks run. The order of what is told is that of the tasks."""
RUNNING = (
    "OWNER update job J priority=0", "root update job J priority=7", "root update job J priority=0", "OWNER hold J",
    "OWNER release J", "root release J", "daemon notify J hello", "daemon requeue J", "OWNER hold J",
)  # fmt: skip
REQUEUES = (
    "requeuehold J",
    "requeuehold State=SpecialExit J",
    "requeue State=SpecialExit J",
    "requeuehold Incomplete J",
)


class HoldPair(Pair):
    """Both, with jobs of the owner's."""

    @property
    def both(self) -> tuple[RealSlurm, WarpdeckCluster]:
        return self.slurm, self.warpdeck

    def submit(self, *options: str, user: str = OWNER) -> tuple[str, str]:
        argv = ["sbatch", "--parsable", "-o", "/dev/null", *options, "--wrap", "sleep 1000"]
        theirs, ours = (cluster.run(argv, user=user).out.strip() for cluster in self.both)
        return theirs, ours

    def start(self) -> tuple[str, str]:
        jobs = self.submit()
        eventually(lambda: self.states(jobs)[0] == "RUNNING", what="theirs runs")
        self.warpdeck.wait_until_running(int(jobs[1]))
        return jobs

    def states(self, jobs: tuple[str, str]) -> list[str]:
        argv = ["squeue", "-h", "-t", "all", "-o", "%T", "-j"]
        return [cluster.run([*argv, job]).out.strip() for cluster, job in zip(self.both, jobs, strict=True)]

    def same_of(self, jobs: tuple[str, str], case: str) -> None:
        """Who does what to the job: the same is said, and it stands the same way."""
        who, *argv = case.split()
        told = []
        for cluster, job in zip(self.both, jobs, strict=True):
            here = [re.sub(r"\bJ(?=_|$)", job, word) for word in argv]
            done = cluster.run(["scontrol", *here], user=OWNER if who == "OWNER" else who)
            told.append([done.rc, done.out, _of(job, done.err), *self.stands(cluster, job)])
        assert told[1] == told[0], case

    def stands(self, cluster: RealSlurm | WarpdeckCluster, job: str) -> list[str]:
        """State, reason and priority, in a list and in full; a reason that Slurm looks for later is none yet."""
        listed = cluster.run(["squeue", "-h", "-r", "-t", "all", "-j", job, "-o", "%i %t %r %Q"]).out
        listed = " ".join(sorted(listed.splitlines()))
        shown = cluster.run(["scontrol", "show", "job", job]).out
        argv = (
            re.findall(r"\b(?:JobState|Reason|Priority|Nice|Restarts)=\S+", shown)
            if "ArrayJobId" not in shown
            else []
        )
        return [
            re.sub(r"\b(BeginTime|Resources)\b", "None", _of(job, text)) for text in (listed, " ".join(argv))
        ]


def _of(job: str, text: str) -> str:
    return re.sub(rf"\b{job}(?=\b|_)", "J", text)


@pytest.fixture(scope="module")
def pair() -> Iterator[HoldPair]:
    with side_by_side(HoldPair) as both:
        both.warpdeck.folder.chmod(0o755)
        yield both


def test_a_waiting_job_is_held_and_released_alike(pair: HoldPair) -> None:
    jobs = pair.submit(*LATE)
    for case in WAITING:
        pair.same_of(jobs, case)


def test_tasks_of_an_array_are_held_alike(pair: HoldPair) -> None:
    jobs = pair.submit(*LATE, "--array=1-4")
    for case in OF_TASKS:
        pair.same_of(jobs, case)


def test_a_running_job_is_held_for_the_time_after_it(pair: HoldPair) -> None:
    jobs = pair.start()
    for case in RUNNING:
        who, *argv = case.split()
        told = []
        for cluster, job in zip(pair.both, jobs, strict=True):
            done = cluster.run(
                ["scontrol", *(word.replace("J", job) for word in argv)],
                user=OWNER if who == "OWNER" else who,
            )
            listed = cluster.run(["squeue", "-h", "-j", job, "-o", "%t %r %R"]).out
            told.append((done.rc, done.out, _of(job, done.err), listed))
        assert told[1] == told[0], case
    assert "R JobHeldUser n1" in told[1][3]


@pytest.mark.parametrize("who", ["root", "OWNER"])
@pytest.mark.parametrize("case", REQUEUES)
def test_a_job_is_requeued_and_held_alike(pair: HoldPair, case: str, who: str) -> None:
    jobs = pair.start()
    for cluster, job in zip(pair.both, jobs, strict=True):
        done = cluster.run(
            ["scontrol", *case.replace("J", job).split()], user="root" if who == "root" else OWNER
        )
        assert (done.rc, done.out, done.err) == (0, "", "")
    pair.warpdeck.report_job_end(int(jobs[1]), signal=15)
    eventually(lambda: pair.states(jobs)[0] in ("PENDING", "SPECIAL_EXIT"), what="theirs waits again")
    stands = [pair.stands(cluster, job) for cluster, job in zip(pair.both, jobs, strict=True)]
    assert stands[1] == stands[0]
    for states in ("SE", "PD", "RD,SE"):
        listed = [
            cluster.run(["squeue", "-h", "-t", states, "-j", job, "-o", "%T %R"]).out
            for cluster, job in zip(pair.both, jobs, strict=True)
        ]
        assert listed[1] == listed[0]
    pair.same_of(jobs, "OWNER hold J")
    released = [
        cluster.run(["scontrol", "release", job], user=OWNER)
        for cluster, job in zip(pair.both, jobs, strict=True)
    ]
    assert released[1] == released[0] == (0, "", "")
    for cluster, job in zip(pair.both, jobs, strict=True):
        assert "(held" not in cluster.run(["squeue", "-h", "-j", job, "-o", "%T %R"]).out
        cluster.run(["scancel", job])


def test_an_ended_job_is_not_requeued_where_only_others_are_wanted(pair: HoldPair) -> None:
    done = pair.submit()
    eventually(lambda: pair.states(done)[0] == "RUNNING", what="theirs runs")
    pair.warpdeck.wait_until_running(int(done[1]))
    for cluster, job in zip(pair.both, done, strict=True):
        cluster.run(["scancel", job])
    pair.warpdeck.report_job_end(int(done[1]), signal=15)
    eventually(lambda: pair.states(done) == ["CANCELLED"] * 2, what="both have ended")
    for argv in (["requeue", "incomplete"], ["requeuehold", "incomp"]):
        for cluster, job in zip(pair.both, done, strict=True):
            assert cluster.run(["scontrol", *argv, job]) == (0, "", "")
        assert pair.states(done) == ["CANCELLED"] * 2


@pytest.mark.parametrize("user", ["root", OWNER])
@pytest.mark.parametrize(
    "options", ["--priority=0", "--priority=100", "--priority=9999999", "-H --priority=50"]
)
def test_a_priority_is_asked_for_at_submission(pair: HoldPair, options: str, user: str) -> None:
    jobs = pair.submit(*LATE, *options.split(), user=user)
    stands = [pair.stands(cluster, job) for cluster, job in zip(pair.both, jobs, strict=True)]
    assert stands[1] == stands[0]


def test_the_time_before_a_suspension_is_shown_alike(pair: HoldPair) -> None:
    """That it ran for no whole second before, and when it last changed: at its suspension or when it went on."""
    jobs = pair.start()
    for word in ("suspend", "resume", "suspend"):
        told = []
        for cluster, job in zip(pair.both, jobs, strict=True):
            assert cluster.run(["scontrol", word, job]) == (0, "", "")
            shown = cluster.run(["scontrol", "show", "job", job]).out
            told.append(re.findall(r"JobState=\S+|Priority=0|SuspendTime=None|SecsPreSuspend=", shown))
        assert told[1] == told[0], word


def test_orders_to_arrays_tell_of_their_tasks(pair: HoldPair) -> None:
    """Of those that wait together Slurm names all where one of them is named; and we say why beside its words."""
    jobs = pair.submit("--array=1-6%2")
    states = ("squeue", "-h", "-r", "-t", "R", "-o", "%i", "-j")
    eventually(lambda: len(pair.slurm.ok(*states, jobs[0]).split()) == 2, what="two of theirs run")
    eventually(lambda: _two_run(pair, jobs[1]), what="two of ours run")
    for case in OF_ARRAYS:
        who, *argv = case.split()
        told = []
        for cluster, job in zip(pair.both, jobs, strict=True):
            here = [re.sub(r"\bJ(?=_|$)", job, word) for word in argv]
            done = cluster.run(["scontrol", *here], user=OWNER if who == "OWNER" else who)
            lines = [line for line in _of(job, done.err).splitlines() if "can never start" not in line]
            told.append(
                (
                    done.rc,
                    done.out,
                    [re.sub("^J_3-6: Job is pending", "J_3: Job is pending", line) for line in lines],
                )
            )
        assert told[1] == told[0], case
    for cluster, job in zip(pair.both, jobs, strict=True):
        cluster.run(["scancel", job])


def _two_run(pair: HoldPair, job: str) -> bool:
    pair.warpdeck.report_launches_running()
    return len(pair.warpdeck.run(["squeue", "-h", "-r", "-t", "R", "-o", "%i", "-j", job]).out.split()) == 2


@pytest.mark.parametrize("order", ["hold", "release", "uhold", "suspend", "requeue"])
def test_a_name_that_no_job_has_ends_as_there(pair: HoldPair, order: str) -> None:
    """What we say of it follows."""
    theirs, ours = (cluster.run(["scontrol", order, "jobname=nosuch"]) for cluster in pair.both)
    assert (ours.rc, ours.out) == (theirs.rc, theirs.out) and ours.err.startswith(theirs.err)
    assert ours.err.endswith("Job name nosuch not found\n")


def test_the_script_of_somebody_else_is_not_written(pair: HoldPair) -> None:
    jobs = pair.submit()
    theirs, ours = (
        cluster.run(["scontrol", "write", "batch_script", job, "-"], user="daemon")
        for cluster, job in zip(pair.both, jobs, strict=True)
    )
    assert (ours.rc, ours.out, ours.err) == (theirs.rc, theirs.out, theirs.err)
