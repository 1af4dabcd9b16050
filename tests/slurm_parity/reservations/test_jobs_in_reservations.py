"""What jobs do in reservations of each kind beside a real Slurm: where they run, which they are in, what becomes of them."""

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
MAKE = "create reservation reservationname=R users=root duration=60"
NOW, LATER = "starttime=now", "starttime=now+1hour"
LONG_S = 100.0
"""Slurm looks at its reservations every half minute or so."""


class Cluster:
    """One of the two, and the numbers of its jobs in the order in which they came."""

    def __init__(self, slurm: RealSlurm | WarpdeckCluster) -> None:
        self.slurm = slurm
        self.jobs: list[int] = []

    def run(self, line: str) -> CommandResult:
        return self.slurm.run(line.split())

    def make(self, argv: str) -> None:
        done = self.run(f"scontrol {MAKE} {argv}")
        assert done.rc == 0, done

    def submit(self, argv: str) -> CommandResult:
        done = self.slurm.run(["sbatch", "--parsable", *argv.split(), "--wrap", "sleep 1000"])
        if done.rc == 0:
            self.jobs.append(int(done.out))
        return done

    def shown(self) -> list[str]:
        """State, nodes and reservation of each job."""
        if isinstance(self.slurm, WarpdeckCluster):
            self.slurm.report_launches_running()
        lines = self.run("squeue -h -o %i|%t|%N|%v").out.splitlines()
        told = {int(line.split("|")[0]): line.partition("|")[2] for line in lines}
        return [told.get(job, "gone") for job in self.jobs]

    def reason(self, job: int) -> str:
        return self.run(f"squeue -h -j {self.jobs[job]} -o %r").out.strip()

    def why(self, job: int) -> str:
        """Ours alone: what it is told."""
        assert isinstance(self.slurm, WarpdeckCluster)
        with self.slurm.connect() as client:
            return str(client.call("job", job=str(self.jobs[job])))

    def come(self, *wanted: str) -> None:
        """Waits until the jobs are shown so."""
        eventually(lambda: self.shown() == list(wanted), what=f"{wanted}: {self.shown()}", timeout_s=LONG_S)

    def reservation(self, *fields: str) -> list[str]:
        shown = self.run("scontrol -o show reservation").out
        return [found[1] if (found := re.search(rf"\b{field}=(\S*)", shown)) else "" for field in fields]

    def clear(self) -> None:
        for job in self.jobs:
            self.run(f"scancel {job}")
            if isinstance(self.slurm, WarpdeckCluster) and self.slurm.served is not None:
                held = self.slurm.served.controller.state.jobs[job]  # type: ignore[index]
                if held.allocation is not None and not held.is_finished:
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
    with RealSlurm(SLURM_SITE, gres=GRES) as theirs, WarpdeckCluster(folder) as ours:
        yield [Cluster(theirs), Cluster(ours)]
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def each(both: list[Cluster]) -> Iterator[Callable[[Callable[[Cluster], object]], None]]:
    def do(act: Callable[[Cluster], object]) -> None:
        theirs, ours = (act(cluster) for cluster in both)
        assert ours == theirs

    yield do
    for cluster in both:
        cluster.clear()


Each = Callable[[Callable[[Cluster], object]], None]


def test_a_job_begins_though_it_is_longer_than_its_reservation(each: Each) -> None:
    def act(cluster: Cluster) -> None:
        cluster.make(f"{NOW} nodes=n2")
        cluster.submit("--reservation=R -t 2:00:00")
        cluster.come("R|n2|R")

    each(act)


def test_a_magnetic_one_draws_in_who_may_use_it_and_asks_for_none(each: Each) -> None:
    def act(cluster: Cluster) -> object:
        cluster.make(f"{NOW} nodes=n3 flags=MAGNETIC")
        cluster.submit("-t 10")
        cluster.submit("-t 10 -w n1")
        cluster.submit("-t 2:00:00")
        cluster.come("R|n3|R", "R|n1|(null)", "R|n3|R")
        lines = sorted(cluster.run("squeue -h -t R -o %t|%N|%v").out.split())
        requeued = cluster.run(f"scontrol requeue {cluster.jobs[0]}")
        return lines, requeued

    each(act)


def test_others_are_not_drawn_in(each: Each) -> None:
    def act(cluster: Cluster) -> None:
        done = cluster.run(
            f"scontrol {MAKE} {NOW} nodes=n1 flags=MAGNETIC".replace("users=root", "users=nobody")
        )
        assert done.rc == 0
        cluster.submit("-t 10")
        cluster.come("R|n2|(null)")

    each(act)


def test_jobs_of_a_flexible_one_begin_before_it_end_after_it_and_use_other_nodes(each: Each) -> None:
    def act(cluster: Cluster) -> None:
        cluster.make(f"{LATER} nodes=n3 flags=FLEX")
        cluster.submit("-t 3:00:00 --reservation=R --exclusive -w n3")
        cluster.submit("-t 3:00:00 --reservation=R --exclusive -w n1")
        cluster.come("R|n3|R", "R|n1|R")
        cluster.submit("-N2 -t 3:00:00 --exclusive")
        cluster.come("R|n3|R", "R|n1|R", "R|n[2,4]|(null)")

    each(act)


def test_a_flexible_one_keeps_others_off_in_its_time(each: Each) -> None:
    def act(cluster: Cluster) -> None:
        cluster.make(f"{LATER} nodes=n[1-3] flags=FLEX")
        cluster.submit("-t 3:00:00 --exclusive")
        cluster.come("R|n4|(null)")
        cluster.submit("-t 3:00:00 --exclusive")
        cluster.submit("-t 30 --exclusive -w n1")
        cluster.come("R|n4|(null)", "PD||(null)", "R|n1|(null)")

    each(act)


def test_of_a_replaced_one_nodes_that_are_used_give_way_to_others(each: Each) -> None:
    def act(cluster: Cluster) -> None:
        cluster.make(f"{NOW} nodecnt=2 flags=REPLACE")
        for taken, left in (("n1", "n[2-3]"), ("n2", "n[3-4]"), ("n3", "n[3-4]")):
            before = cluster.shown()
            cluster.submit("-t 10 --exclusive --reservation=R")
            cluster.come(*before, f"R|{taken}|R")
            eventually(
                lambda left=left: (
                    cluster.reservation("Nodes", "Flags", "State") == [left, "REPLACE", "ACTIVE"]
                ),
                timeout_s=LONG_S,
            )

    each(act)


@pytest.mark.parametrize("flag", ["flags=REPLACE_DOWN", ""])
def test_of_a_counted_one_nodes_that_are_drained_are_replaced(each: Each, flag: str) -> None:
    def act(cluster: Cluster) -> None:
        cluster.make(f"{NOW} nodecnt=2 {flag}")
        cluster.submit("-t 10 --exclusive --reservation=R")
        cluster.come("R|n1|R")
        assert cluster.reservation("Nodes") == ["n[1-2]"]
        cluster.run("scontrol update nodename=n2 state=drain reason=x")
        eventually(lambda: cluster.reservation("Nodes") == ["n[1,3]"], timeout_s=LONG_S)

    each(act)


def test_into_one_that_floats_nobody_gets_and_before_it_only_who_is_short(each: Each) -> None:
    def act(cluster: Cluster) -> object:
        cluster.make("starttime=now+10minutes nodes=n[1-3] flags=TIME_FLOAT")
        refused = cluster.submit("--reservation=R -t 5")
        cluster.submit("-t 5 -w n1")
        cluster.submit("-t 20")
        cluster.submit("-t 20 -w n2")
        cluster.come("R|n1|(null)", "R|n4|(null)", "PD||(null)")
        first = cluster.reservation("StartTime")
        eventually(lambda: cluster.reservation("StartTime") > first)
        return refused.rc, refused.err.splitlines()[0], cluster.run("sinfo -h -T").out.split()[1]

    each(act)


def test_one_with_jobs_that_wait_for_it_stays(each: Each) -> None:
    def act(cluster: Cluster) -> object:
        cluster.make(f"{LATER} nodes=n3")
        cluster.submit("--reservation=R -t 10")
        eventually(lambda: cluster.reason(0) == "Reservation", what=cluster.reason(0), timeout_s=LONG_S)
        return cluster.run("scontrol delete reservationname=R")

    each(act)


def test_when_it_is_over_its_jobs_are_ended_and_those_that_wait_are_held_or_not(
    both: list[Cluster], each: Each
) -> None:
    theirs, ours = both
    for cluster in both:
        cluster.make(f"{NOW} nodes=n1".replace("duration=60", ""))
        cluster.run("scontrol update reservationname=R duration=1")
        cluster.run(
            f"scontrol {MAKE} {NOW} nodes=n2 flags=NO_HOLD_JOBS_AFTER".replace("=R ", "=N ").replace(
                "60", "1"
            )
        )
        cluster.run(f"scontrol {MAKE} {NOW} nodes=n4 flags=FLEX".replace("=R ", "=F ").replace("60", "1"))
        for argv in ("R -w n1", "N -w n2", "F -w n4"):
            cluster.submit(f"-t 10 --exclusive --reservation={argv}")
            cluster.submit(f"-t 10 --exclusive --reservation={argv}")
        cluster.come("R|n1|R", "PD||R", "R|n2|N", "PD||N", "R|n4|F", "PD||F")
    eventually(lambda: theirs.reservation("ReservationName") == [""], timeout_s=2 * LONG_S)
    told = []
    for cluster in both:
        if cluster is ours:
            for job in (0, 2):
                eventually(lambda job=job: ours.shown()[job].startswith("CG"))
                ours.slurm.report_job_end(ours.jobs[job], exit_code=0)
        cluster.come(*(["gone", "RD||(null)", "gone", "R|n2|(null)", "R|n4|(null)", "RD||(null)"]))
        ended = cluster.run(f"scontrol show job {cluster.jobs[0]}").out
        state = re.search(r"JobState=\S+ Reason=\S+", ended)
        told.append((cluster.reason(1), state and state[0]))
        cluster.run(f"scontrol release {cluster.jobs[1]}")
        eventually(lambda cluster=cluster: "|n1|" in cluster.shown()[1], timeout_s=LONG_S)
    assert told[0] == told[1]


def test_one_that_nobody_uses_for_its_time_is_purged(each: Each) -> None:
    def act(cluster: Cluster) -> None:
        cluster.make(f"{NOW} nodes=n1 flags=PURGE_COMP=0:01")
        cluster.submit("--reservation=R -t 5")
        cluster.come("R|n1|R")
        cluster.run(f"scancel {cluster.jobs[0]}")
        if isinstance(cluster.slurm, WarpdeckCluster):
            cluster.slurm.report_job_end(cluster.jobs[0], exit_code=0)
        eventually(lambda: cluster.reservation("ReservationName") == [""], timeout_s=2 * LONG_S)

    each(act)


def test_of_cores_its_jobs_have_so_many_and_others_the_rest(each: Each) -> None:
    def act(cluster: Cluster) -> object:
        cluster.make(f"{NOW} nodes=n1 corecnt=4")
        empty = cluster.run("sinfo -h -n n1 -o %T|%C").out
        cluster.submit("--reservation=R -t 10 -c 4")
        cluster.come("R|n1|R")
        cluster.submit("-t 10 -w n1 -c 12")
        cluster.come("R|n1|R", "R|n1|(null)")
        cluster.submit("-t 10 -w n1 -c 1")
        cluster.submit("-t 10 --reservation=R -c 2")
        cluster.come("R|n1|R", "R|n1|(null)", "PD||(null)", "PD||R")
        return empty, cluster.run("sinfo -h -n n1 -o %T").out

    each(act)


def test_of_cores_others_have_no_more_than_the_rest(each: Each) -> None:
    def act(cluster: Cluster) -> None:
        cluster.make(f"{NOW} nodes=n1 corecnt=4")
        cluster.submit("-t 10 -w n1 -c 13")
        cluster.submit("-t 10 --reservation=R -c 5")
        cluster.submit("-t 10 --reservation=R --exclusive")
        eventually(lambda: "" not in (cluster.reason(0), cluster.reason(2)), timeout_s=LONG_S)
        cluster.come("PD||(null)", "PD||R", "PD||R")

    each(act)


def test_of_cores_its_jobs_share_memory_and_gpus_with_all(each: Each) -> None:
    def act(cluster: Cluster) -> None:
        cluster.make(f"{NOW} nodes=n1 corecnt=4")
        cluster.submit("-t 10 -w n1 --gres=gpu:3 --mem=40G")
        cluster.submit("-t 10 --reservation=R --gres=gpu:1 --mem=20G")
        cluster.come("R|n1|(null)", "R|n1|R")
        cluster.submit("-t 10 --reservation=R --mem=1G")
        cluster.come("R|n1|(null)", "R|n1|R", "R|n1|R")
        cluster.submit("-t 10 --reservation=R --gres=gpu:1 --mem=1G")
        cluster.submit("-t 10 --reservation=R --mem=10G")
        cluster.come("R|n1|(null)", "R|n1|R", "R|n1|R", "PD||R", "PD||R")

    each(act)


def test_who_would_run_into_it_has_the_other_cores(each: Each) -> None:
    def act(cluster: Cluster) -> None:
        cluster.make(f"{LATER} nodes=n1 corecnt=4")
        cluster.submit("-w n1 -c 12 -t 2:00:00")
        cluster.submit("-w n1 -c 4 -t 30")
        cluster.come("R|n1|(null)", "R|n1|(null)")
        cluster.run(f"scancel {cluster.jobs[0]}")
        if isinstance(cluster.slurm, WarpdeckCluster):
            cluster.slurm.report_job_end(cluster.jobs[0], exit_code=0)
        cluster.submit("-w n1 -c 11 -t 2:00:00 -b now+1")
        cluster.come("gone", "R|n1|(null)", "R|n1|(null)")
        cluster.submit("-w n1 -c 1 -t 2:00:00")
        cluster.submit("-w n1 -c 1 -t 2:00:00")
        cluster.come("gone", "R|n1|(null)", "R|n1|(null)", "R|n1|(null)", "PD||(null)")

    each(act)


def test_gpus_are_set_aside_with_their_share_of_the_cpus(both: list[Cluster], each: Each) -> None:
    ours = both[1]
    ours.make(f"{NOW} nodes=n1 tres=gres/gpu=2")
    assert ours.reservation("Nodes", "CoreCnt", "TRES") == ["n1", "8", "cpu=8,gres/gpu=2"]
    for argv in (
        "-w n1 --gres=gpu:3",
        "-w n1 --gres=gpu:2",
        "--reservation=R --gres=gpu:3",
        "--reservation=R --gres=gpu:2",
    ):
        ours.submit(f"-t 10 {argv}")
    ours.come("PD||(null)", "R|n1|(null)", "PD||R", "R|n1|R")
    assert ours.run("sinfo -h -n n1 -o %T").out == "mixed\n"
    assert "8 CPUs and 2 h100 of n1 are set aside for reservation R" in ours.why(0)
    assert "reservation R has 8 CPUs and 2 h100 of n1" in ours.why(2)


@pytest.mark.parametrize(
    "argv", ["tres=gres/gpu=2", "tres=gres/gpu:h100=6,node=2", "tres=gres/gpu=16", "tres=cpu=2,gres/gpu=1"]
)
def test_gpus_are_chosen_where_they_are_free_of_reservations(
    both: list[Cluster], each: Each, argv: str
) -> None:
    ours = both[1]
    assert ours.run(f"scontrol {MAKE} {LATER} nodes=n1".replace("=R ", "=Q ")).rc == 0
    done = ours.run(f"scontrol {MAKE} {LATER} {argv}")
    wanted = {
        "tres=gres/gpu=2": ["n2", "8", "cpu=8,gres/gpu=2"],
        "tres=gres/gpu:h100=6,node=2": ["n[2-3]", "24", "cpu=24,gres/gpu=6"],
        "tres=cpu=2,gres/gpu=1": ["n2", "2", "cpu=2,gres/gpu=1"],
    }
    if argv not in wanted:
        assert done.rc == 1 and "Requested nodes are busy" in done.err
        return
    shown = ours.run("scontrol -o show reservation R").out
    assert [re.search(rf"\b{field}=(\S*)", shown)[1] for field in ("Nodes", "CoreCnt", "TRES")] == wanted[
        argv
    ]  # type: ignore[index]
