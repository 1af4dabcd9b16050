"""Why a job waits over Slurm, and when it is expected to start.

- `queue_place`: the jobs ahead of a job, from the copy of the queue.
- `limits`: the limits that hold a job, from the association manager. Both are pure.
- `starts`: the expected starts, with one command for all jobs that somebody has asked about.
- `smaller`: the smaller requests that sbatch is asked about.
- `forecasts`: the forecast of a job.
"""
