"""--exclusive=user, =mcs and partitions with ExclusiveUser beside a real Slurm: two users, the same jobs, who runs beside whom."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from tests.slurm_parity.peer.pair import H100_SITE, JOB_FACTS, Pair, side_by_side
from tests.slurm_parity.peer.real_slurm import CommandResult
from tests.slurm_parity.peer.warpdeck_cluster import SITE as WARPDECK_SITE
from tests.support.waiting import eventually

from warpdeck.base.passwd import uid_of

pytestmark = pytest.mark.slurm
SLURM_SITE = (
    f"{H100_SITE}PartitionName=own Nodes=n[1-4] ExclusiveUser=YES MaxTime=30 PriorityTier=10 State=UP\n"
)
SITE = f"""{WARPDECK_SITE}
[partitions.own]
nodes = "n[1-4]"
max_time = "30:00"
priority_tier = 10
exclusive_user = true
"""
ANN, BOB = "nobody", "daemon"
JOBS = (
    (ANN, "n1", "--exclusive=user"),
    (ANN, "n1"),
    (BOB, "n1"),
    (BOB, "n2"),
    (ANN, "n2", "--exclusive=user"),
    (BOB, "n3", "--exclusive=mcs"),
    (ANN, "n3", "--oversubscribe"),
    (ANN, "n4", "-p", "own"),
    (BOB, "n4", "-p", "own"),
)
"""User, node and what else; each is there before the next comes."""
RUN = {1, 2, 4, 6, 7, 8}


class JobPair(Pair):
    """Both, with the same jobs."""

    masks = JOB_FACTS

    def submit(self, user: str, node: str, *more: str) -> None:
        argv = ("sbatch", "-o", "/dev/null", "-D", "/tmp", "-n1", "--mem=100", "-t30", "-w", node, *more)
        for cluster in (self.slurm, self.warpdeck):  # ours tells besides that no job has an MCS label
            said = cluster.run([*argv, "--wrap", "sleep 1000"], user=user)
            assert said.out.startswith("Submitted batch job "), said

    def rest(self, runs: set[int]) -> None:
        """Until these jobs run on both, and the others wait for something."""

        def look(done: CommandResult) -> tuple[set[int], bool]:
            argv = [line.split("|") for line in done.out.splitlines()]
            waits = [reason for _, state, reason in argv if state == "PD"]
            return {int(number) for number, state, _ in argv if state == "R"}, "None" not in waits

        def so() -> bool:
            self.warpdeck.report_launches_running()
            command = ["squeue", "-h", "-o", "%i|%t|%r"]
            return look(self.slurm.run(command)) == look(self.warpdeck.run(command)) == (runs, True)

        eventually(so, what=f"jobs {runs} run, and no others")

    def owners(self) -> list[list[str]]:
        """Of all nodes, theirs and ours."""
        command = ["scontrol", "-o", "show", "node"]
        shown = (self.slurm.run(command), self.warpdeck.run(command))
        return [re.findall(r"Owner=(\S+)", done.out) for done in shown]


@pytest.fixture(scope="module")
def pair() -> Iterator[JobPair]:
    with side_by_side(JobPair, slurm_site=SLURM_SITE, warpdeck_site=SITE) as both:
        for number, (user, node, *more) in enumerate(JOBS, start=1):
            both.submit(user, node, *more)
            both.rest({each for each in RUN if each <= number})
        yield both


def test_who_runs_beside_whom_and_what_each_was_given(pair: JobPair) -> None:
    pair.assert_same("squeue", "-o", "%i %u %t %h %N %C %m", in_order=False)
    pair.assert_same("squeue", "-O", "JobID,OverSubscribe,NumNodes", in_order=False)


@pytest.mark.parametrize("job", [1, 5, 6, 7, 8])
def test_a_job_is_shown_alike(pair: JobPair, job: int) -> None:
    shown = [
        cluster.run(["scontrol", "-o", "show", "job", str(job)]).out
        for cluster in (pair.slurm, pair.warpdeck)
    ]
    theirs, ours = (re.findall(r"(?:OverSubscribe|NumCPUs|NodeList|JobState)=\S*", text) for text in shown)
    assert ours == theirs and any("OverSubscribe=" in word for word in ours)


def test_a_node_tells_whose_it_is(pair: JobPair) -> None:
    ann = f"{ANN}({uid_of(ANN)})"
    assert pair.owners() == [[ann, "N/A", "N/A", ann]] * 2


def test_a_partition_is_shown_and_changed_alike(pair: JobPair) -> None:
    for argv in (
        ("-o", "show", "partition", "own"),
        ("update", "partitionname=own", "ExclusiveUser=foo"),
        ("update", "partitionname=own", "exclusiveuser=x"),
        ("update", "partitionname=gpu", "ExclusiveUser=yes"),
        ("-o", "show", "partition", "gpu"),
        ("update", "partitionname=gpu", "ExclusiveUser=NO"),
        ("-o", "show", "partition", "gpu"),
        ("create", "partitionname=new", "nodes=n1", "ExclusiveUser=YES"),
        ("delete", "partitionname=new"),
    ):
        pair.assert_same("scontrol", *argv)


def test_when_they_leave_others_come(pair: JobPair) -> None:
    """The last: it ends jobs."""
    for cluster in (pair.slurm, pair.warpdeck):
        cluster.run(["scancel", "1"])
    pair.warpdeck.report_job_end(1)
    eventually(lambda: " 1 " not in f" {pair.slurm.run(['squeue', '-h', '-o', '%i ']).out} ")
    pair.rest(RUN - {1} | {3})
    ann = f"{ANN}({uid_of(ANN)})"
    assert pair.owners() == [["N/A", "N/A", "N/A", ann]] * 2
