"""The engine over an existing Slurm: a gateway that acts as an ordinary user, with Slurm's own commands.

- `versions`, `settings`, `capabilities`: what differs between the versions from 20.11 on, the limits of the load, and
  the requests that are impossible over Slurm.
- `commands`: runs a command of Slurm with a time limit, a limit on its output, and errors in Slurm's words and ours.
- `reading`: turns the output of Slurm's commands into jobs, nodes and partitions. It is pure.
- `cluster`: the copy of the cluster. `job_changes` compares what Slurm reports with the jobs in memory and is the only
  place that decides what has changed. `poller` is the only task that reads again and again; `polling` decides when.
  `cluster` keeps the jobs in a `State` and in the record.
- `orders`, `nodes`: changes of jobs, nodes and reservations, each with one command of Slurm for many objects.
- `forecasts`: why a job waits, and when it is expected to start.
- `output`: files of jobs on the shared file system, and streams to running jobs. A step of srun in the job carries them;
  its program is in `programs`, which puts it into the shared folder.
- `processes`: commands and terminals as batch jobs, and Slurm's own srun and salloc for clients of the gateway.
- `site`, `accounting` and the other modules: the parts of `ports.engine.Engine`.
- `own_user`: refuses the requests of other users.
- `engine`: opens all of it.
"""
