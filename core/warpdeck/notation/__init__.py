"""Parsers and formatters for Slurm's text forms: options of commands, #SBATCH lines, hostlists, times and others.

The way of an option: `options` splits scripts and command lines into options as they were given. `option_values` has
one row per option, which reads the text into a value and says which fields it sets. `reading` does both for a whole
script or command line. From its result, `validation` predicts Slurm's answer, `request` makes the request of a job,
and `step` makes a step of srun.

The package is pure: it reads no clock and does no I/O. It is cheap to import, because the command line uses it without
msgspec. A request is a plain dictionary in the JSON form of `model.Request`, which the controller validates.
"""
