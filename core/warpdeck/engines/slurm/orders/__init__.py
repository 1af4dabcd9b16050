"""Orders that change jobs, each as one command of Slurm for many jobs.

- `names`: the ids of jobs as Slurm's commands accept and print them.
- `refusals`: reads which jobs scontrol and scancel have refused, and why. Both are pure, as are the next two.
- `job_keys`: the keys of `scontrol update` for the fields of a change.
- `expected`: the state of a job after an order that Slurm has confirmed.
- `commands`: runs the commands in batches.
- `orders`: the `EngineOrders`.
"""
