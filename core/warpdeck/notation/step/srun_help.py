"""Help text of `srun --help`, in a shell and inside a job."""

from __future__ import annotations

from . import container_help

HELP = f"""usage: warpdeck srun [OPTIONS] COMMAND...

Starts tasks of a job and is their standard streams; the exit code is the highest of theirs. Inside an allocation (a batch
script, salloc, --jobid) it starts a step there; else it submits a job of its own, waits for it, and ends it with the step.
Scripts find the same program as `srun` on their PATH.

  -n TASKS  -N NODES  -c CPUS_PER_TASK  --ntasks-per-node N      -w NODES  -x NODES  -r FIRST
  --gpus N | --gpus-per-task N | --gpus-per-node N | --gres gpu:N   --gpu-bind per_task:N|single:N|map_gpu:0,1
  --exact     take only what is asked for, so that steps run beside each other
  --overlap   share with running steps: srun --overlap --jobid 12 nvidia-smi
  -l (label lines)  -o FILE  -e FILE  -i FILE|all|none|RANK (%t is the task)  --open-mode append
  -K (end all when one fails)  -W SECONDS (end all so long after the first end)  -I (do not wait for room)
  --pty (task 0 on a terminal: srun --overlap --jobid 12 --pty bash)  --task-prolog FILE
  -D FOLDER  --export ALL,NAME=VALUE|NONE  --multi-prog FILE  --cpu-bind cores|map_cpu:0,1|none  --mpi pmi2  -t LIMIT
  and for a job of its own sbatch's options: -p -A -q --mem -C --reservation ...
{container_help.HELP}
Ctrl-C tells how the tasks are; twice within a second it ends them.

examples:
  warpdeck srun -N 2 -n 4 hostname
  warpdeck srun --overlap --jobid 12 nvidia-smi
"""
