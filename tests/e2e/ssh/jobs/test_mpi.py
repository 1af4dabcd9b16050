"""MPI on two real hosts: srun starts MPICH's programs itself, and the launchers of Open MPI and MPICH find the allocation."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.lab.hosts import Lab
from tests.support.batch import run
from tests.support.home import Home
from tests.support.waiting import eventually

pytestmark = pytest.mark.lab
SUM = r"""
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int rank, size, sum, number;
    char host[256];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    number = rank + 1;
    MPI_Allreduce(&number, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    gethostname(host, sizeof host);
    printf("rank %d of %d on %s sum %d\n", rank, size, host, sum);
    fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    if (argc > 1 && rank == 1 && atoi(argv[1]) == 0) raise(SIGKILL);
    if (argc > 1 && rank == 1) MPI_Abort(MPI_COMM_WORLD, atoi(argv[1]));
    if (argc > 1) sleep(600);
    MPI_Finalize();
    return 0;
}
"""


AGAIN = "for try in 1 2 3 4; do timeout -k 3 11 {} >said 2>&1; code=$?; [ $code != 124 ] && break; done; cat said; exit $code\n"
"""Debian's MPICH over UCX waits for ever in MPI_Finalize about every fifteenth time, started by its own mpiexec as by srun: some
ranks wait in PMI's last barrier, where they look after no message any more, and one for them to close their connection to it."""


@pytest.fixture(scope="module")
def programs(lab: Lab) -> Iterator[Path]:
    """A folder with the program, built by each."""
    folder = Path(tempfile.mkdtemp(prefix="wd", dir="/tmp"))
    folder.chmod(0o755)
    (folder / "sum.c").write_text(SUM)
    for kind in ("mpich", "openmpi"):
        words = [f"mpicc.{kind}", "-o", str(folder / f"sum.{kind}"), str(folder / "sum.c")]
        subprocess.run(words, check=True, timeout=60)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def cluster(lab: Lab, shared_home: Home) -> Iterator[Home]:
    """Two hosts."""
    for host in (1, 2):
        words = ["--name", f"mpi{host}", "--accept-host-key", lab.fingerprint(host)]
        shared_home.ok("node", "add", f"root@{lab.address(host)}", *words)
    return shared_home


def ranks(out: str) -> list[str]:
    return sorted(line for line in out.splitlines() if line.startswith("rank"))


FOUR = [f"rank {rank} of 4 on host{1 + rank // 2} sum 10" for rank in range(4)]
TWO_EACH = ("-N2", "--ntasks-per-node=2")


def test_srun_starts_a_program_of_mpich_on_two_hosts(cluster: Home, programs: Path, short_tmp: Path) -> None:
    out = run(cluster, short_tmp / "w", AGAIN.format(f"srun --mpi=pmi2 {programs}/sum.mpich"), *TWO_EACH)
    assert ranks(out) == FOUR, out


def test_a_rank_that_aborts_ends_the_step_with_its_code(
    cluster: Home, programs: Path, short_tmp: Path
) -> None:
    out = run(
        cluster,
        short_tmp / "w",
        f"srun --mpi=pmi2 {programs}/sum.mpich 7\necho code $?\n",
        *TWO_EACH,
    )
    assert "rank 1 has called MPI_Abort" in out
    assert out.splitlines()[-1] == "code 7"


def test_a_rank_that_dies_ends_the_step_in_which_others_wait_for_it(
    cluster: Home, programs: Path, short_tmp: Path
) -> None:
    out = run(
        cluster,
        short_tmp / "w",
        f"srun --mpi=pmi2 {programs}/sum.mpich die\necho code $?\n",
        *TWO_EACH,
    )
    assert "without MPI_Finalize" in out
    assert out.splitlines()[-1] == "code 137"


RANK = """
import os, pathlib, time
line, rank = int(os.environ["PMI_FD"]), int(os.environ["PMI_RANK"])
def ask(words):
    os.write(line, words.encode() + b"\\n")
    found = b""
    while not found.endswith(b"\\n"):
        found += os.read(line, 1) or b"closed\\n"
    return found.decode().strip()
ask("cmd=init pmi_version=1 pmi_subversion=1")
ask(f"cmd=put key=k{rank} value=v{rank}")
ask("cmd=barrier_in")
print("here", flush=True)
while not pathlib.Path("gate").exists():
    time.sleep(0.02)
print(ask(f"cmd=get key=k{(rank + 2) % 4}"), ask("cmd=barrier_in"), ask("cmd=finalize"), flush=True)
"""
"""A rank as an MPI library is one, without MPICH's own trouble at its end."""


def test_a_step_outlives_an_agent_that_is_killed(cluster: Home, lab: Lab, short_tmp: Path) -> None:
    folder = short_tmp / "w"
    folder.mkdir()
    (folder / "rank.py").write_text(RANK)
    command = "srun --mpi=pmi2 /usr/bin/python3 rank.py; echo code $?"
    words = ("submit", "--no-snapshot", *TWO_EACH, "--wrap", command)
    job = str(cluster.json(*words, cwd=folder)["job_id"])
    out = folder / f"slurm-{job}.out"
    eventually(lambda: out.exists() and out.read_text().count("here") == 4, what="all ranks have begun")
    agent = lab.agent(1)
    lab.on(1, "kill", "-KILL", str(agent))
    eventually(lambda: lab.agent(1) != agent, what="another agent")
    (folder / "gate").touch()
    eventually(lambda: cluster.job(job)["end"], what="it has ended")
    said = [line for line in out.read_text().splitlines() if line.startswith(("cmd", "code"))]
    values = [
        f"cmd=get_result rc=0 msg=success value=v{rank} cmd=barrier_out cmd=finalize_ack" for rank in range(4)
    ]
    assert sorted(said) == sorted([*values, "code 0"])


def test_ranks_may_be_dealt_out_in_turn(cluster: Home, programs: Path, short_tmp: Path) -> None:
    out = run(
        cluster, short_tmp / "w", AGAIN.format(f"srun -m cyclic --mpi=pmi2 {programs}/sum.mpich"), *TWO_EACH
    )
    assert ranks(out) == [f"rank {rank} of 4 on host{1 + rank % 2} sum 10" for rank in range(4)]


def test_open_mpi_s_mpirun_finds_the_allocation(cluster: Home, programs: Path, short_tmp: Path) -> None:
    command = f"mpirun.openmpi --allow-run-as-root --mca btl_tcp_if_include eth0 {programs}/sum.openmpi\n"
    out = run(cluster, short_tmp / "w", command, *TWO_EACH)
    assert ranks(out) == FOUR, out


def test_mpich_s_mpiexec_finds_the_allocation(cluster: Home, programs: Path, short_tmp: Path) -> None:
    out = run(cluster, short_tmp / "w", AGAIN.format(f"mpiexec.mpich {programs}/sum.mpich"), *TWO_EACH)
    assert ranks(out) == FOUR, out
