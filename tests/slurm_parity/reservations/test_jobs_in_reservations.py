"""Jobs in reservations of each kind, beside a real Slurm: their nodes, their reservation, and how they end."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.slurm_parity.peer.pair import H100_GRES as GRES
from tests.slurm_parity.peer.pair import H100_SITE as SLURM_SITE
from tests.slurm_parity.peer.real_slurm import CommandResult, RealSlurm
from tests.slurm_parity.peer.warpdeck_cluster import WarpdeckCluster
from tests.support.waiting import eventually

pytestmark = pytest.mark.slurm
CREATE = "create reservation reservationname=R users=root duration=60"
NOW, LATER = "starttime=now", "starttime=now+1hour"
LONG_S = 100.0
"""Slurm checks its reservations only about every 30 seconds."""


class Cluster:
    """One of the two schedulers, and the ids of its jobs in the order of submission."""

    def __init__(self, slurm: RealSlurm | WarpdeckCluster) -> None:
        self.slurm = slurm
        self.jobs: list[int] = []

    def run(self, line: str) -> CommandResult:
        return self.slurm.run(line.split())

    def reserve(self, argv: str) -> None:
        result = self.run(f"scontrol {CREATE} {argv}")
        assert result.rc == 0, result

    def submit(self, argv: str) -> CommandResult:
        result = self.slurm.run(["sbatch", "--parsable", *argv.split(), "--wrap", "sleep 1000"])
        if result.rc == 0:
            self.jobs.append(int(result.out))
        return result

    def job_rows(self) -> list[str]:
        """Return state, nodes and reservation of each job."""
        if isinstance(self.slurm, WarpdeckCluster):
            self.slurm.report_launches_running()
        lines = self.run("squeue -h -o %i|%t|%N|%v").out.splitlines()
        rows = {int(line.split("|")[0]): line.partition("|")[2] for line in lines}
        return [rows.get(job, "gone") for job in self.jobs]

    def reason(self, job: int) -> str:
        return self.run(f"squeue -h -j {self.jobs[job]} -o %r").out.strip()

    def explanation(self, job: int) -> str:
        """Return our description of the job, which explains why it waits."""
        assert isinstance(self.slurm, WarpdeckCluster)
        with self.slurm.connect() as client:
            return str(client.call("job", job=str(self.jobs[job])))

    def wait_for_jobs(self, *expected: str) -> None:
        """Wait until the jobs are shown with these rows."""
        eventually(
            lambda: self.job_rows() == list(expected), what=f"{expected}: {self.job_rows()}", timeout_s=LONG_S
        )

    def reservation(self, *fields: str) -> list[str]:
        text = self.run("scontrol -o show reservation").out
        return [found[1] if (found := re.search(rf"\b{field}=(\S*)", text)) else "" for field in fields]

    def clean_up(self) -> None:
        for job in self.jobs:
            self.run(f"scancel {job}")
            if isinstance(self.slurm, WarpdeckCluster) and self.slurm.served is not None:
                running = self.slurm.served.controller.state.jobs[job]  # type: ignore[index]
                if running.allocation is not None and not running.is_finished:
                    self.slurm.report_job_end(job, exit_code=0)
        eventually(lambda: self.run("squeue -h").out == "", timeout_s=LONG_S)
        self.jobs = []
        for name in re.findall(r"ReservationName=(\S+)", self.run("scontrol -o show reservation").out):
            self.run(f"scontrol delete reservationname={name}")
        for node in ("n1", "n2", "n3", "n4"):
            self.run(f"scontrol update nodename={node} state=resume")
        eventually(lambda: self.run("sinfo -h -p gpu -o %T").out == "idle\n", timeout_s=LONG_S)


@pytest.fixture(scope="module")
def both() -> Iterator[list[Cluster]]:
    folder = Path(tempfile.mkdtemp(prefix="wdo", dir="/tmp"))
    with RealSlurm(SLURM_SITE, gres=GRES) as slurm, WarpdeckCluster(folder) as warpdeck:
        yield [Cluster(slurm), Cluster(warpdeck)]
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def compare(both: list[Cluster]) -> Iterator[Callable[[Callable[[Cluster], object]], None]]:
    def compare_results(scenario: Callable[[Cluster], object]) -> None:
        slurm_value, warpdeck_value = (scenario(cluster) for cluster in both)
        assert warpdeck_value == slurm_value

    yield compare_results
    for cluster in both:
        cluster.clean_up()


Compare = Callable[[Callable[[Cluster], object]], None]


def test_a_job_longer_than_its_reservation_starts(compare: Compare) -> None:
    def scenario(cluster: Cluster) -> None:
        cluster.reserve(f"{NOW} nodes=n2")
        cluster.submit("--reservation=R -t 2:00:00")
        cluster.wait_for_jobs("R|n2|R")

    compare(scenario)


def test_a_magnetic_reservation_attracts_jobs_that_name_no_reservation(compare: Compare) -> None:
    def scenario(cluster: Cluster) -> object:
        cluster.reserve(f"{NOW} nodes=n3 flags=MAGNETIC")
        cluster.submit("-t 10")
        cluster.submit("-t 10 -w n1")
        cluster.submit("-t 2:00:00")
        cluster.wait_for_jobs("R|n3|R", "R|n1|(null)", "R|n3|R")
        lines = sorted(cluster.run("squeue -h -t R -o %t|%N|%v").out.split())
        requeued = cluster.run(f"scontrol requeue {cluster.jobs[0]}")
        return lines, requeued

    compare(scenario)


def test_a_magnetic_reservation_does_not_attract_jobs_of_other_users(compare: Compare) -> None:
    def scenario(cluster: Cluster) -> None:
        result = cluster.run(
            f"scontrol {CREATE} {NOW} nodes=n1 flags=MAGNETIC".replace("users=root", "users=nobody")
        )
        assert result.rc == 0
        cluster.submit("-t 10")
        cluster.wait_for_jobs("R|n2|(null)")

    compare(scenario)


def test_jobs_of_a_flex_reservation_may_exceed_its_time_and_nodes(compare: Compare) -> None:
    def scenario(cluster: Cluster) -> None:
        cluster.reserve(f"{LATER} nodes=n3 flags=FLEX")
        cluster.submit("-t 3:00:00 --reservation=R --exclusive -w n3")
        cluster.submit("-t 3:00:00 --reservation=R --exclusive -w n1")
        cluster.wait_for_jobs("R|n3|R", "R|n1|R")
        cluster.submit("-N2 -t 3:00:00 --exclusive")
        cluster.wait_for_jobs("R|n3|R", "R|n1|R", "R|n[2,4]|(null)")

    compare(scenario)


def test_a_flex_reservation_excludes_other_jobs_during_its_time(compare: Compare) -> None:
    def scenario(cluster: Cluster) -> None:
        cluster.reserve(f"{LATER} nodes=n[1-3] flags=FLEX")
        cluster.submit("-t 3:00:00 --exclusive")
        cluster.wait_for_jobs("R|n4|(null)")
        cluster.submit("-t 3:00:00 --exclusive")
        cluster.submit("-t 30 --exclusive -w n1")
        cluster.wait_for_jobs("R|n4|(null)", "PD||(null)", "R|n1|(null)")

    compare(scenario)


def test_a_reservation_with_replace_exchanges_its_used_nodes(compare: Compare) -> None:
    def scenario(cluster: Cluster) -> None:
        cluster.reserve(f"{NOW} nodecnt=2 flags=REPLACE")
        for used, remaining in (("n1", "n[2-3]"), ("n2", "n[3-4]"), ("n3", "n[3-4]")):
            before = cluster.job_rows()
            cluster.submit("-t 10 --exclusive --reservation=R")
            cluster.wait_for_jobs(*before, f"R|{used}|R")
            eventually(
                lambda remaining=remaining: (
                    cluster.reservation("Nodes", "Flags", "State") == [remaining, "REPLACE", "ACTIVE"]
                ),
                timeout_s=LONG_S,
            )

    compare(scenario)


@pytest.mark.parametrize("flag", ["flags=REPLACE_DOWN", ""])
def test_a_reservation_with_a_node_count_exchanges_drained_nodes(compare: Compare, flag: str) -> None:
    def scenario(cluster: Cluster) -> None:
        cluster.reserve(f"{NOW} nodecnt=2 {flag}")
        cluster.submit("-t 10 --exclusive --reservation=R")
        cluster.wait_for_jobs("R|n1|R")
        assert cluster.reservation("Nodes") == ["n[1-2]"]
        cluster.run("scontrol update nodename=n2 state=drain reason=x")
        eventually(lambda: cluster.reservation("Nodes") == ["n[1,3]"], timeout_s=LONG_S)

    compare(scenario)


def test_a_floating_reservation_admits_no_jobs_and_only_short_ones_before_it(compare: Compare) -> None:
    def scenario(cluster: Cluster) -> object:
        cluster.reserve("starttime=now+10minutes nodes=n[1-3] flags=TIME_FLOAT")
        refused = cluster.submit("--reservation=R -t 5")
        cluster.submit("-t 5 -w n1")
        cluster.submit("-t 20")
        cluster.submit("-t 20 -w n2")
        cluster.wait_for_jobs("R|n1|(null)", "R|n4|(null)", "PD||(null)")
        first = cluster.reservation("StartTime")
        eventually(lambda: cluster.reservation("StartTime") > first)
        return refused.rc, refused.err.splitlines()[0], cluster.run("sinfo -h -T").out.split()[1]

    compare(scenario)


def test_a_reservation_with_waiting_jobs_cannot_be_deleted(compare: Compare) -> None:
    def scenario(cluster: Cluster) -> object:
        cluster.reserve(f"{LATER} nodes=n3")
        cluster.submit("--reservation=R -t 10")
        eventually(lambda: cluster.reason(0) == "Reservation", what=cluster.reason(0), timeout_s=LONG_S)
        return cluster.run("scontrol delete reservationname=R")

    compare(scenario)


def test_the_end_of_a_reservation_ends_its_jobs_and_holds_the_waiting_ones(
    both: list[Cluster], compare: Compare
) -> None:
    slurm, warpdeck = both
    for cluster in both:
        cluster.reserve(f"{NOW} nodes=n1".replace("duration=60", ""))
        cluster.run("scontrol update reservationname=R duration=1")
        cluster.run(
            f"scontrol {CREATE} {NOW} nodes=n2 flags=NO_HOLD_JOBS_AFTER".replace("=R ", "=N ").replace(
                "60", "1"
            )
        )
        cluster.run(f"scontrol {CREATE} {NOW} nodes=n4 flags=FLEX".replace("=R ", "=F ").replace("60", "1"))
        for argv in ("R -w n1", "N -w n2", "F -w n4"):
            cluster.submit(f"-t 10 --exclusive --reservation={argv}")
            cluster.submit(f"-t 10 --exclusive --reservation={argv}")
        cluster.wait_for_jobs("R|n1|R", "PD||R", "R|n2|N", "PD||N", "R|n4|F", "PD||F")
    eventually(lambda: slurm.reservation("ReservationName") == [""], timeout_s=2 * LONG_S)
    outcomes = []
    for cluster in both:
        if isinstance(cluster.slurm, WarpdeckCluster):
            for job in (0, 2):
                eventually(lambda job=job: warpdeck.job_rows()[job].startswith("CG"))
                cluster.slurm.report_job_end(warpdeck.jobs[job], exit_code=0)
        cluster.wait_for_jobs(*(["gone", "RD||(null)", "gone", "R|n2|(null)", "R|n4|(null)", "RD||(null)"]))
        ended = cluster.run(f"scontrol show job {cluster.jobs[0]}").out
        state = re.search(r"JobState=\S+ Reason=\S+", ended)
        outcomes.append((cluster.reason(1), state and state[0]))
        cluster.run(f"scontrol release {cluster.jobs[1]}")
        eventually(lambda cluster=cluster: "|n1|" in cluster.job_rows()[1], timeout_s=LONG_S)
    assert outcomes[0] == outcomes[1]


def test_a_reservation_unused_for_its_purge_time_is_deleted(compare: Compare) -> None:
    def scenario(cluster: Cluster) -> None:
        cluster.reserve(f"{NOW} nodes=n1 flags=PURGE_COMP=0:01")
        cluster.submit("--reservation=R -t 5")
        cluster.wait_for_jobs("R|n1|R")
        cluster.run(f"scancel {cluster.jobs[0]}")
        if isinstance(cluster.slurm, WarpdeckCluster):
            cluster.slurm.report_job_end(cluster.jobs[0], exit_code=0)
        eventually(lambda: cluster.reservation("ReservationName") == [""], timeout_s=2 * LONG_S)

    compare(scenario)


def test_a_core_reservation_leaves_the_other_cores_to_other_jobs(compare: Compare) -> None:
    def scenario(cluster: Cluster) -> object:
        cluster.reserve(f"{NOW} nodes=n1 corecnt=4")
        empty = cluster.run("sinfo -h -n n1 -o %T|%C").out
        cluster.submit("--reservation=R -t 10 -c 4")
        cluster.wait_for_jobs("R|n1|R")
        cluster.submit("-t 10 -w n1 -c 12")
        cluster.wait_for_jobs("R|n1|R", "R|n1|(null)")
        cluster.submit("-t 10 -w n1 -c 1")
        cluster.submit("-t 10 --reservation=R -c 2")
        cluster.wait_for_jobs("R|n1|R", "R|n1|(null)", "PD||(null)", "PD||R")
        return empty, cluster.run("sinfo -h -n n1 -o %T").out

    compare(scenario)


def test_jobs_outside_a_core_reservation_cannot_use_its_cores(compare: Compare) -> None:
    def scenario(cluster: Cluster) -> None:
        cluster.reserve(f"{NOW} nodes=n1 corecnt=4")
        cluster.submit("-t 10 -w n1 -c 13")
        cluster.submit("-t 10 --reservation=R -c 5")
        cluster.submit("-t 10 --reservation=R --exclusive")
        eventually(lambda: "" not in (cluster.reason(0), cluster.reason(2)), timeout_s=LONG_S)
        cluster.wait_for_jobs("PD||(null)", "PD||R", "PD||R")

    compare(scenario)


def test_jobs_in_a_core_reservation_share_memory_and_gpus_with_all(compare: Compare) -> None:
    def scenario(cluster: Cluster) -> None:
        cluster.reserve(f"{NOW} nodes=n1 corecnt=4")
        cluster.submit("-t 10 -w n1 --gres=gpu:3 --mem=40G")
        cluster.submit("-t 10 --reservation=R --gres=gpu:1 --mem=20G")
        cluster.wait_for_jobs("R|n1|(null)", "R|n1|R")
        cluster.submit("-t 10 --reservation=R --mem=1G")
        cluster.wait_for_jobs("R|n1|(null)", "R|n1|R", "R|n1|R")
        cluster.submit("-t 10 --reservation=R --gres=gpu:1 --mem=1G")
        cluster.submit("-t 10 --reservation=R --mem=10G")
        cluster.wait_for_jobs("R|n1|(null)", "R|n1|R", "R|n1|R", "PD||R", "PD||R")

    compare(scenario)


def test_jobs_that_overlap_a_core_reservation_get_the_other_cores(compare: Compare) -> None:
    def scenario(cluster: Cluster) -> None:
        cluster.reserve(f"{LATER} nodes=n1 corecnt=4")
        cluster.submit("-w n1 -c 12 -t 2:00:00")
        cluster.submit("-w n1 -c 4 -t 30")
        cluster.wait_for_jobs("R|n1|(null)", "R|n1|(null)")
        cluster.run(f"scancel {cluster.jobs[0]}")
        if isinstance(cluster.slurm, WarpdeckCluster):
            cluster.slurm.report_job_end(cluster.jobs[0], exit_code=0)
        cluster.submit("-w n1 -c 11 -t 2:00:00 -b now+1")
        cluster.wait_for_jobs("gone", "R|n1|(null)", "R|n1|(null)")
        cluster.submit("-w n1 -c 1 -t 2:00:00")
        cluster.submit("-w n1 -c 1 -t 2:00:00")
        cluster.wait_for_jobs("gone", "R|n1|(null)", "R|n1|(null)", "R|n1|(null)", "PD||(null)")

    compare(scenario)


def test_a_gpu_reservation_includes_its_share_of_the_cpus(both: list[Cluster], compare: Compare) -> None:
    warpdeck = both[1]
    warpdeck.reserve(f"{NOW} nodes=n1 tres=gres/gpu=2")
    assert warpdeck.reservation("Nodes", "CoreCnt", "TRES") == ["n1", "8", "cpu=8,gres/gpu=2"]
    for argv in (
        "-w n1 --gres=gpu:3",
        "-w n1 --gres=gpu:2",
        "--reservation=R --gres=gpu:3",
        "--reservation=R --gres=gpu:2",
    ):
        warpdeck.submit(f"-t 10 {argv}")
    warpdeck.wait_for_jobs("PD||(null)", "R|n1|(null)", "PD||R", "R|n1|R")
    assert warpdeck.run("sinfo -h -n n1 -o %T").out == "mixed\n"
    assert "8 CPUs and 2 h100 of n1 are set aside for reservation R" in warpdeck.explanation(0)
    assert "reservation R has 8 CPUs and 2 h100 of n1" in warpdeck.explanation(2)


@pytest.mark.parametrize(
    "argv", ["tres=gres/gpu=2", "tres=gres/gpu:h100=6,node=2", "tres=gres/gpu=16", "tres=cpu=2,gres/gpu=1"]
)
def test_a_gpu_reservation_uses_gpus_without_other_reservations(
    both: list[Cluster], compare: Compare, argv: str
) -> None:
    warpdeck = both[1]
    assert warpdeck.run(f"scontrol {CREATE} {LATER} nodes=n1".replace("=R ", "=Q ")).rc == 0
    result = warpdeck.run(f"scontrol {CREATE} {LATER} {argv}")
    expected = {
        "tres=gres/gpu=2": ["n2", "8", "cpu=8,gres/gpu=2"],
        "tres=gres/gpu:h100=6,node=2": ["n[2-3]", "24", "cpu=24,gres/gpu=6"],
        "tres=cpu=2,gres/gpu=1": ["n2", "2", "cpu=2,gres/gpu=1"],
    }
    if argv not in expected:
        assert result.rc == 1 and "Requested nodes are busy" in result.err
        return
    text = warpdeck.run("scontrol -o show reservation R").out
    shown = [re.findall(rf"\b{field}=(\S*)", text)[:1] for field in ("Nodes", "CoreCnt", "TRES")]
    assert shown == [[each] for each in expected[argv]]
