"""Answers sbatch from a running process of the user, without starting Python for each submission.

Python takes 8 ms to start; Slurm's own sbatch takes 4 ms in all. So `sbatch` is a script for /bin/sh
(`slurm.shims.sbatch_script`). One process of the user (`service`) has imported everything and keeps a connection open. It reads
the caller's arguments and environment from /proc (`caller`), parses them with the user's rights, and submits
the job. The two communicate in a folder of the user (`request_fifos`): one FIFO for requests, and one FIFO for each
answer.

Alternatives that were rejected: a compiled client needs a compiler, and a TCP port for bash's /dev/tcp is
open to all users of the machine. A FIFO belongs to the user alone, and its reader sees its end when the
writer is killed.

The submitter answers only submissions that succeeded. Everything else is left to the full client in Python:
scripts that are read from a descriptor, commands that wait, refused requests, calls without a running
submitter, and all doubtful cases. So each message exists only once, and only the Python client has to know
everything. Before a request is sent, the shell is notified. From then on a lost answer is reported as lost,
so nothing is submitted twice. If a submitter is killed, it may not have told the recorder about the last
jobs. These jobs start without a record after waiting for one.
"""
