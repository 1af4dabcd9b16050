"""srun inside jobs on real hosts over SSH: tasks on all nodes, their streams, signals, exit codes and
environment.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.lab.hosts import Lab
from tests.support.batch import run
from tests.support.home import Home

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def cluster(lab: Lab, shared_home: Home) -> Home:
    """A home with two hosts."""
    for host in (1, 2):
        options = ["--name", f"step{host}", "--accept-host-key", lab.fingerprint(host)]
        shared_home.ok("node", "add", f"root@{lab.address(host)}", *options)
    return shared_home


def test_a_step_runs_its_tasks_on_all_nodes_of_the_job(cluster: Home, short_tmp: Path) -> None:
    out = run(cluster, short_tmp / "w", "srun -l sh -c 'echo on $SLURMD_NODENAME'\n", "-N2", "-n4")
    found = sorted(line.split(": on ") for line in out.splitlines())
    assert [rank for rank, _ in found] == ["0", "1", "2", "3"]
    assert sorted({node for _, node in found}) == ["step1", "step2"]


def test_every_task_has_the_rank_variables(cluster: Home, short_tmp: Path) -> None:
    names = (
        "SLURM_PROCID SLURM_LOCALID SLURM_NODEID SLURM_NTASKS SLURM_STEP_ID SLURM_STEP_NUM_TASKS "
        "SLURM_STEP_NODELIST SLURM_STEP_TASKS_PER_NODE RANK WORLD_SIZE LOCAL_RANK NODE_RANK"
    )
    out = run(
        cluster,
        short_tmp / "w",
        f"srun -l sh -c 'for n in {names}; do eval echo $n=\\$$n; done'\n",
        "-N2",
        "--ntasks-per-node=2",
    )
    environs: dict[str, dict[str, str]] = {}
    for line in out.splitlines():
        rank, _, pair = line.partition(": ")
        name, _, value = pair.partition("=")
        environs.setdefault(rank, {})[name] = value
    assert environs["3"] == {
        "SLURM_PROCID": "3",
        "SLURM_LOCALID": "1",
        "SLURM_NODEID": "1",
        "SLURM_NTASKS": "4",
        "SLURM_STEP_ID": "0",
        "SLURM_STEP_NUM_TASKS": "4",
        "SLURM_STEP_NODELIST": "step[1-2]",
        "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
        "RANK": "3",
        "WORLD_SIZE": "4",
        "LOCAL_RANK": "1",
        "NODE_RANK": "1",
    }


def test_all_tasks_have_the_same_reachable_master_address(lab: Lab, cluster: Home, short_tmp: Path) -> None:
    out = run(cluster, short_tmp / "w", "srun sh -c 'echo $MASTER_ADDR $MASTER_PORT'\n", "-N2", "-n2")
    first, second = out.split("\n")[:2]
    assert first == second
    assert first.split()[0] == lab.address(1)
    assert 20_000 <= int(first.split()[1]) < 30_000


def test_srun_returns_the_highest_exit_code_of_its_tasks(cluster: Home, short_tmp: Path) -> None:
    out = run(
        cluster,
        short_tmp / "w",
        "srun sh -c 'exit $((SLURM_PROCID * 3))'\necho code $?\n",
        "-N2",
        "-n3",
    )
    assert "code 6" in out
    assert "srun: error: " in out
    assert "Exited with exit code 6" in out


def test_parallel_exact_steps_have_different_cpus(cluster: Home, short_tmp: Path) -> None:
    step_line = (
        "srun -n1 --exact -c1 sh -c 'grep Cpus_allowed_list /proc/self/status; touch {}; "
        "until [ -e {} ]; do sleep 0.05; done' &\n"
    )
    script = step_line.format("a", "b") + step_line.format("b", "a") + "wait\n"
    out = run(cluster, short_tmp / "w", script, "-N1", "-n2", "-c1")
    assert sorted(line.split()[1] for line in out.splitlines()) == ["0", "1"], out


def gpus(out: str) -> dict[str, list[str]]:
    """Return the visible GPUs of each task by rank."""
    return {
        rank: indices.split(",") for rank, _, indices in (line.partition(": ") for line in out.splitlines())
    }


PRINT_GPUS = "srun -l {} sh -c 'echo $CUDA_VISIBLE_DEVICES'\n"


def test_each_task_sees_its_own_gpus(cluster: Home, short_tmp: Path) -> None:
    options = ["-N2", "--ntasks-per-node=2", "--gpus-per-node=4"]
    visible = gpus(run(cluster, short_tmp / "w", PRINT_GPUS.format("-n4 --gpus-per-task=2"), *options))
    assert sorted(visible) == ["0", "1", "2", "3"]
    assert [int(index) for indices in visible.values() for index in indices]
    assert all(len(indices) == 2 for indices in visible.values())
    for first, second in (("0", "1"), ("2", "3")):
        assert not set(visible[first]) & set(visible[second])


def test_a_step_gets_the_requested_number_of_gpus(cluster: Home, short_tmp: Path) -> None:
    options = ["-N1", "-n2", "--gpus-per-node=4"]
    script = (
        PRINT_GPUS.format("-n1 --gpus=3")
        + PRINT_GPUS.format("-n2 --gpus-per-node=2")
        + PRINT_GPUS.format("-n1 --gpus=0")
    )
    first, second, third, none = run(cluster, short_tmp / "w", script, *options).splitlines()
    assert len(first.split(",")) == 3
    assert second.partition(": ")[2] == third.partition(": ")[2] and len(second.split(",")) == 2
    assert none == "0: "


PRINT_PLACEMENT = (
    "srun -l {} sh -c 'echo $SLURMD_NODENAME' | sort -n | sed 's/.*step//' | tr -d '\\n'; echo\n"
)


def test_ranks_follow_the_distribution_of_the_job_or_the_host_file(cluster: Home, short_tmp: Path) -> None:
    script = "printf 'step2\\nstep1\\nstep2\\n' > hosts\n"
    script += (
        PRINT_PLACEMENT.format("")
        + PRINT_PLACEMENT.format("-m cyclic")
        + "SLURM_HOSTFILE=hosts "
        + PRINT_PLACEMENT.format("-n3")
    )
    out = run(cluster, short_tmp / "w", script, "-N2", "-n6", "-O", "-m", "plane=2")
    assert out.split() == ["112212", "121212", "212"]


def test_gpus_are_bound_to_tasks_by_the_options_of_the_job(cluster: Home, short_tmp: Path) -> None:
    pairs = gpus(
        run(cluster, short_tmp / "w", PRINT_GPUS.format(""), "--ntasks-per-gpu=2", "--gpus=2", "-N1", "-O")
    )
    assert sorted(pairs) == ["0", "1", "2", "3"]
    assert pairs["0"] == pairs["1"] != pairs["2"] == pairs["3"]
    assert all(len(visible) == 1 for visible in pairs.values())
    visible = gpus(run(cluster, short_tmp / "v", PRINT_GPUS.format(""), "--gpus-per-task=1", "-n2", "-N1"))
    assert len(visible["0"]) == len(visible["1"]) == 1 and visible["0"] != visible["1"]


def test_sbcast_copies_a_file_to_every_node_of_the_job(cluster: Home, short_tmp: Path) -> None:
    """The file has bytes that are not valid text and is larger than any buffer on its way. A second copy
    needs --force.
    """
    there = f"/tmp/{short_tmp.name}.bin"
    script = f"""head -c 3000000 /dev/urandom > data; chmod 750 data; touch -d @1000000000 data
sbcast -p data {there} && echo sent
sbcast data {there} 2>&1 | sort -u
sbcast --force data {there} && echo again
srun sh -c 'stat -c %a {there}; sha256sum < {there}'
sha256sum < data
srun rm -f {there}
"""
    out = run(cluster, short_tmp / "w", script, "-N2", "-n2", "--ntasks-per-node=1").splitlines()
    digest = out[-1]
    assert out[:3] == ["sent", f"sbcast: error: {there}: File exists", "again"]
    assert sorted(out[3:-1]) == sorted(["750", digest] * 2)


def test_sattach_shows_the_task_layout_of_a_step(cluster: Home, short_tmp: Path) -> None:
    script = """srun -n3 sh -c 'touch began$SLURM_PROCID; while [ ! -e over ]; do sleep 0.05; done' &
until [ -e began2 ]; do sleep 0.05; done
sattach --layout $SLURM_JOB_ID.0; sattach $SLURM_JOB_ID.0; sattach --layout $SLURM_JOB_ID.7; sattach x
touch over; wait
"""
    out = run(cluster, short_tmp / "w", script, "-N2", "-n3").splitlines()
    assert out[:2] == ["Job step layout:", "\t3 tasks, 2 nodes (step[1-2])"]
    assert [line.partition(": ")[2] for line in out[3:5]] == ["0 1 ", "2 "]
    assert "warpdeck logs -f" in out[5]
    assert out[6:] == [
        "sattach: error: Could not get job step info: Invalid job id specified",
        "sattach: error: Failed to parse stepid from command line options",
        "Usage: sattach [options] <jobid.stepid>",
    ]


def test_a_step_too_large_to_be_sent_fails_and_the_controller_continues(
    cluster: Home, short_tmp: Path
) -> None:
    pid = cluster.controller_pid()
    long_step = (
        "printf '0-99 echo %0120000d\\n' 0 > lines\nsrun -O -n100 --multi-prog lines 2>&1\necho rc=$?\n"
    )
    out = run(cluster, short_tmp / "w", long_step, "-O", "-n100")
    assert "the step is too large to be sent to step1" in out
    assert "rc=0" not in out
    assert cluster.controller_pid() == pid
    assert run(cluster, short_tmp / "after", "srun echo well\n") == "well\n"
