"""The engine over an existing Slurm: it reads Slurm's state with Slurm's own commands, as an ordinary user.

The modules, from bottom to top:

- `versions`: what differs between the versions of Slurm from 20.11 on, as one table.
- `marked_table`, `scontrol_text`: read the output of squeue and of scontrol into fields.
- `values`: reads Slurm's notation of times, sizes, trackable resources and array tasks.
- `job_table`, `node_table`, `partition_table`: build the rows of `warpdeck.protocol` from these fields.
- `reasons`: the sentences for Slurm's reason codes.
- `polling`: decides which command is due, so that the load on slurmctld stays below a fixed number of requests.
- `commands`: runs a command of Slurm with a time limit and a limit on its output.

Every module except `commands` is pure. The gateway that serves these rows to clients as an `Engine` (`ports.engine`) does not
exist yet; the tests run the modules with real daemons of four versions.
"""
