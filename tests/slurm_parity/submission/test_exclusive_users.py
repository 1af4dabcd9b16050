"""--exclusive=user, --exclusive=mcs and partitions with ExclusiveUser beside a real Slurm, with jobs of two
users.
"""

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
"""User, node and options of each job. They are submitted one after the other."""
RUNNING = {1, 2, 4, 6, 7, 8}


class JobPair(Pair):
    """Both schedulers with the same jobs."""

    masks = JOB_FACTS

    def submit(self, user: str, node: str, *options: str) -> None:
        argv = ("sbatch", "-o", "/dev/null", "-D", "/tmp", "-n1", "--mem=100", "-t30", "-w", node, *options)
        for cluster in (self.slurm, self.warpdeck):  # Our sbatch also reports that no job has an MCS label.
            result = cluster.run([*argv, "--wrap", "sleep 1000"], user=user)
            assert result.out.startswith("Submitted batch job "), result

    def wait_until_only_run(self, running: set[int]) -> None:
        """Wait until exactly these jobs run in both, and the others have a reason to wait."""

        def states(result: CommandResult) -> tuple[set[int], bool]:
            rows = [line.split("|") for line in result.out.splitlines()]
            reasons = [reason for _, state, reason in rows if state == "PD"]
            return {int(job_id) for job_id, state, _ in rows if state == "R"}, "None" not in reasons

        def states_match() -> bool:
            self.warpdeck.report_launches_running()
            command = ["squeue", "-h", "-o", "%i|%t|%r"]
            return states(self.slurm.run(command)) == states(self.warpdeck.run(command)) == (running, True)

        eventually(states_match, what=f"jobs {running} run, and no others")

    def owners(self) -> list[list[str]]:
        """Return the owners of all nodes in both."""
        command = ["scontrol", "-o", "show", "node"]
        results = (self.slurm.run(command), self.warpdeck.run(command))
        return [re.findall(r"Owner=(\S+)", result.out) for result in results]


@pytest.fixture(scope="module")
def pair() -> Iterator[JobPair]:
    with side_by_side(JobPair, slurm_site=SLURM_SITE, warpdeck_site=SITE) as both:
        for job_id, (user, node, *options) in enumerate(JOBS, start=1):
            both.submit(user, node, *options)
            both.wait_until_only_run({job for job in RUNNING if job <= job_id})
        yield both


def test_jobs_share_nodes_and_are_allocated_as_in_slurm(pair: JobPair) -> None:
    pair.assert_same("squeue", "-o", "%i %u %t %h %N %C %m", in_order=False)
    pair.assert_same("squeue", "-O", "JobID,OverSubscribe,NumNodes", in_order=False)


@pytest.mark.parametrize("job", [1, 5, 6, 7, 8])
def test_exclusive_jobs_are_shown_as_in_slurm(pair: JobPair, job: int) -> None:
    texts = [
        cluster.run(["scontrol", "-o", "show", "job", str(job)]).out
        for cluster in (pair.slurm, pair.warpdeck)
    ]
    slurm, warpdeck = (re.findall(r"(?:OverSubscribe|NumCPUs|NodeList|JobState)=\S*", text) for text in texts)
    assert warpdeck == slurm and any("OverSubscribe=" in field for field in warpdeck)


def test_a_node_shows_its_owner(pair: JobPair) -> None:
    ann = f"{ANN}({uid_of(ANN)})"
    assert pair.owners() == [[ann, "N/A", "N/A", ann]] * 2


def test_exclusive_user_of_a_partition_is_shown_and_updated_as_in_slurm(pair: JobPair) -> None:
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


def test_a_node_is_free_for_others_when_its_owners_jobs_have_ended(pair: JobPair) -> None:
    """This test runs last, because it ends jobs."""
    for cluster in (pair.slurm, pair.warpdeck):
        cluster.run(["scancel", "1"])
    pair.warpdeck.report_job_end(1)
    eventually(lambda: " 1 " not in f" {pair.slurm.run(['squeue', '-h', '-o', '%i ']).out} ")
    pair.wait_until_only_run(RUNNING - {1} | {3})
    ann = f"{ANN}({uid_of(ANN)})"
    assert pair.owners() == [["N/A", "N/A", "N/A", ann]] * 2
