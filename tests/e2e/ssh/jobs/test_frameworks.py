"""Frameworks that support Slurm recognize our steps: the real code of Lightning and submitit, and the
variables that TensorFlow reads.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.lab.hosts import Lab
from tests.support.batch import run
from tests.support.home import Home
from tests.support.waiting import eventually

pytestmark = pytest.mark.lab
DEBIAN = "/usr/bin/python3"
"""The interpreter of Debian's PyTorch."""
FRAMEWORKS = Path(sys.prefix) / "frameworks"
"""Lightning without its own PyTorch, installed by the Makefile."""
TRAIN_S = 180.0
"""Time limit for work of about ten seconds. PyTorch is imported twice."""
TWO_EACH = ("-N2", "--ntasks-per-node=2")

LIGHTNING = """
import os, torch, lightning_fabric
fabric = lightning_fabric.Fabric(accelerator="cpu", devices=2, num_nodes=2, strategy="ddp")
fabric.launch()
total = fabric.all_reduce(torch.tensor(float(fabric.global_rank + 1)), reduce_op="sum")
made = type(fabric.strategy.cluster_environment).__name__
with open(f"result.{fabric.global_rank}", "w") as file:
    print(made, "rank", fabric.global_rank, "of", fabric.world_size, "node", fabric.node_rank, "sum", int(total), file=file)
fabric.barrier()
"""
SUBMITIT = """
import submitit
from submitit.helpers import TorchDistributedEnvironment
job = submitit.JobEnvironment()
torch = TorchDistributedEnvironment()
with open(f"result.{job.global_rank}", "w") as file:
    print(job.cluster, job.global_rank, job.local_rank, job.node, job.num_nodes, job.num_tasks, *job.hostnames, file=file)
    print(torch.rank, torch.world_size, torch.local_rank, torch.local_world_size, torch.master_addr, file=file)
"""
REQUEUED = """
import dataclasses, logging, os, time
made = dataclasses.dataclass  # Debian's PyTorch is older than its Python, which wants defaults that have a hash
dataclasses.dataclass = lambda cls=None, **words: made(
    cls, **{"unsafe_hash": True, **words} if cls is not None and cls.__name__ == "TensorProperties" else words
)
import torch, pytorch_lightning
dataclasses.dataclass = made
RUN = os.environ.get("SLURM_RESTART_COUNT", "0")
class Counts(pytorch_lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.weight, self.runs = torch.nn.Parameter(torch.zeros(1)), []
    def training_step(self, batch, number):
        if self.runs[-1:] != [RUN]:
            self.runs.append(RUN)
            open("begun." + RUN, "w").close()
        self.trainer.should_stop = len(self.runs) > 1
        time.sleep(0.02)
        return (self.weight * batch).sum()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)
    def on_save_checkpoint(self, kept):
        kept["runs"] = self.runs
    def on_load_checkpoint(self, kept):
        self.runs = kept["runs"]
quiet = dict.fromkeys(["logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"], False)
trainer = pytorch_lightning.Trainer(accelerator="cpu", devices=1, max_epochs=-1, **quiet)
trainer.fit(Counts(), torch.utils.data.DataLoader(torch.ones(100000, 1)))
print("run", RUN, "of task", os.environ["SLURM_ARRAY_TASK_ID"], "goes on after", *trainer.model.runs[:-1])
"""


@pytest.fixture(scope="module")
def cluster(lab: Lab, shared_home: Home) -> Home:
    """A home with two hosts under names that both resolve, because Lightning before 2.1 requires this of a
    Slurm cluster.
    """
    for host in (1, 2):
        argv = ["--name", f"host{host}", "--accept-host-key", lab.fingerprint(host)]
        shared_home.ok("node", "add", f"root@{lab.address(host)}", *argv)
    return shared_home


def run_in_job(home: Home, tmp: Path, command: str, *, program: str = "") -> list[str]:
    """Run the command in a job and return the output files of its ranks."""
    folder = tmp / "w"
    folder.mkdir()
    (folder / "train.py").write_text(program)
    out = run(home, folder, command + "\n", *TWO_EACH)
    print(out)
    return [path.read_text().strip() for path in sorted(folder.glob("result.*"))]


@pytest.mark.frameworks
def test_lightning_reduces_over_two_hosts(cluster: Home, short_tmp: Path) -> None:
    settings = f"export GLOO_SOCKET_IFNAME=eth0 PYTHONPATH={FRAMEWORKS}"
    results = run_in_job(cluster, short_tmp, f"{settings}\nsrun {DEBIAN} train.py", program=LIGHTNING)
    assert results == [f"SLURMEnvironment rank {rank} of 4 node {rank // 2} sum 10" for rank in range(4)]


@pytest.mark.frameworks
def test_lightning_saves_a_checkpoint_requeues_itself_and_continues(cluster: Home, short_tmp: Path) -> None:
    """Lightning's handler of SIGUSR1 runs `scontrol requeue` for its task of the array."""
    (short_tmp / "train.py").write_text(REQUEUED)
    short_tmp.chmod(0o755)
    options = ["--array=7", "--time=60", "--signal=USR1@600", "--open-mode=append", "--output=out"]
    command = f"PYTHONPATH={FRAMEWORKS} srun {DEBIAN} train.py"
    result = cluster.slurm("sbatch", "--parsable", *options, "--wrap", command, cwd=short_tmp)
    task = f"{result.stdout.strip()}_7"
    eventually(
        lambda: (short_tmp / "begun.0").exists(), timeout_s=TRAIN_S, what=f"the model trains {result.stderr}"
    )
    # --signal would send this signal shortly before the time limit.
    result = cluster.slurm("scancel", "--signal=USR1", task)
    assert result.returncode == 0, result.stderr
    out = short_tmp / "out"
    eventually(lambda: cluster.job(task)["end"], timeout_s=TRAIN_S, what="the second run has ended")
    assert cluster.job(task)["state"] == "COMPLETED", out.read_text()
    assert out.read_text().splitlines()[-1] == "run 1 of task 7 goes on after 0"


PRINT_VARIABLES = """#!/bin/bash
for name in JOB_ID JOBID JOB_NODELIST NODELIST JOB_NUM_NODES NNODES NTASKS NPROCS PROCID LOCALID NODEID TASKS_PER_NODE CPUS_ON_NODE \\
    CPUS_PER_TASK STEP_ID STEP_NODELIST STEP_NUM_NODES STEP_NUM_TASKS STEP_TASKS_PER_NODE GPUS_ON_NODE SUBMIT_DIR JOB_PARTITION; do
    declare -n value=SLURM_$name
    [ -n "$value" ] || echo "SLURM_$name is not set"
done
echo $SLURM_PROCID/$SLURM_NTASKS $RANK/$WORLD_SIZE $SLURM_LOCALID/$LOCAL_RANK/$LOCAL_WORLD_SIZE $SLURM_NODEID/$NODE_RANK \\
    $SLURMD_NODENAME $SLURM_STEP_TASKS_PER_NODE $MASTER_ADDR:$MASTER_PORT ${SLURM_ARRAY_TASK_ID-}
"""


@pytest.mark.parametrize(
    ("argv", "per_node"),
    [
        (["sbatch", "-N2", "-n3"], [2, 1]),
        (["srun", "-N2", "-n3"], [2, 1]),
        (["sbatch", "-N2", "--ntasks-per-node=1", "--array=5"], [1, 1]),
        (["sbatch", "-N2", "--exclusive", "--ntasks-per-node=2"], [2, 2]),
        (["salloc", "-N2", "-n2"], [1, 1]),
    ],
    ids=["uneven", "outside", "array", "exclusive", "salloc"],
)
def test_every_task_has_the_rank_variables(
    cluster: Home, short_tmp: Path, argv: list[str], per_node: list[int]
) -> None:
    """The tasks are started by srun in a batch script, in an array, on whole nodes, outside of a job, and in
    salloc's shell.
    """
    (short_tmp / "print_variables").write_text(PRINT_VARIABLES)
    (short_tmp / "print_variables").chmod(0o755)
    command, *options = argv
    if command == "sbatch":
        options += ["--wait", "-o", "out", "--wrap", "srun ./print_variables"]
    elif command == "salloc":
        options += [sys.executable, "-m", "warpdeck.slurm.runtime.commands", "srun", "./print_variables"]
    else:
        options += ["./print_variables"]
    result = cluster.slurm(command, *options, cwd=short_tmp)
    assert result.returncode == 0, result.stderr
    output = (short_tmp / "out").read_text() if command == "sbatch" else result.stdout
    lines = sorted(output.splitlines())
    total, [master] = sum(per_node), {line.split()[6] for line in lines}
    counts = f"{per_node[0]}(x2)" if per_node[0] == per_node[1] else ",".join(map(str, per_node))
    task = " 5" if "--array=5" in argv else ""
    assert lines == [
        f"{rank}/{total} {rank}/{total} {local}/{local}/{per_node[node]} {node}/{node} host{node + 1} {counts} {master}{task}"
        for rank, (node, local) in enumerate(
            (node, local) for node in (0, 1) for local in range(per_node[node])
        )
    ]
    assert not master.startswith("127.") and master.rpartition(":")[2].isdecimal()


def test_submitit_recognizes_its_job_and_its_tasks(cluster: Home, short_tmp: Path) -> None:
    script = (
        # The scripts that submitit submits do the same.
        f"export SUBMITIT_EXECUTOR=slurm\nsrun {sys.executable} train.py"
    )
    results = run_in_job(cluster, short_tmp, script, program=SUBMITIT)
    assert results == [
        f"slurm {rank} {rank % 2} {rank // 2} 2 4 host1 host2\n{rank} 4 {rank % 2} 2 host1"
        for rank in range(4)
    ]


def test_the_variables_of_tensorflows_slurm_resolver_are_set(cluster: Home, short_tmp: Path) -> None:
    """SlurmClusterResolver reads these four variables, and expands node list and counts itself or with
    scontrol.
    """
    names = "SLURM_STEP_NUM_TASKS SLURM_STEP_TASKS_PER_NODE SLURM_STEP_NODELIST SLURM_PROCID"
    command = f"srun sh -c 'for n in {names}; do eval echo \\$$n; done >result.$SLURM_PROCID'"
    expand = 'scontrol show hostnames "$SLURM_JOB_NODELIST" >result.hosts'
    results = run_in_job(cluster, short_tmp, f"{command}\n{expand}")
    assert results == [f"4\n2(x2)\nhost[1-2]\n{rank}" for rank in range(4)] + ["host1\nhost2"]
