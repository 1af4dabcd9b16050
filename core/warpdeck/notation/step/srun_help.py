"""Help text of `srun --help`, in a shell and inside a job."""

from __future__ import annotations

from . import container_help

HELP = f"""usage: warpdeck srun [OPTIONS] COMMAND...

Start tasks of a job, connected to the standard streams of this command. The exit code is the highest of the tasks. Inside an
allocation (a batch script, salloc, --jobid) it starts a step there. Elsewhere it submits a job, waits for it, and ends it with
the step. Scripts find the same program as `srun` on their PATH.

  -n TASKS  -N NODES  -c CPUS_PER_TASK  --ntasks-per-node N      -w NODES  -x NODES  -r FIRST
  --gpus N | --gpus-per-task N | --gpus-per-node N | --gres gpu:N   --gpu-bind per_task:N|single:N|map_gpu:0,1
  --exact     use only the requested resources, so that other steps can run at the same time
  --overlap   share resources with running steps: srun --overlap --jobid 12 nvidia-smi
  -l (label lines)  -o FILE  -e FILE  -i FILE|all|none|RANK (%t is the task)  --open-mode append
  -K (end all tasks if one fails)  -W SECONDS (end all tasks this long after the first one ended)  -I (do not wait for resources)
  --pty (task 0 on a terminal: srun --overlap --jobid 12 --pty bash)  --task-prolog FILE
  -D FOLDER  --export ALL,NAME=VALUE|NONE  --multi-prog FILE  --cpu-bind cores|map_cpu:0,1|none  --mpi pmi2  -t LIMIT
  and, if it submits a job, the options of sbatch: -p -A -q --mem -C --reservation ...
{container_help.HELP}
Ctrl-C prints the states of the tasks. Press it twice within a second to end them.

examples:
  warpdeck srun -N 2 -n 4 hostname
  warpdeck srun --overlap --jobid 12 nvidia-smi
"""
