"""How a shell's sbatch is answered without the start of an interpreter.

A Python takes 8 ms to begin, Slurm's own sbatch 4 ms for all. So `sbatch` is a script of /bin/sh (shell), and one process of the
user's (service), which has everything imported and a connection open, looks at /proc (caller) who asks and for what, parses as
the user that it is, and submits. They meet in a folder of the user's (slots): one FIFO for asking, one FIFO for each answer.
Weighed: a compiled client needs a compiler; bash's /dev/tcp can be spoken to by any user of the machine; a FIFO is the user's
alone, and whoever reads it sees its end when the other is killed.

The submitter answers nothing but submissions that succeeded. All else is the other road's, today's client in Python: what is
read from a descriptor, what waits, what is refused, what is asked where no submitter runs, and any doubt. So there is one text
of each message, and the client in Python is the one that knows everything. Before a submission leaves, the shell is told: from
then on a lost answer is said to be lost, and nothing is submitted twice. A submitter that is killed may owe the recorder the jobs
of the last moment: they start without a record once they have waited for one.
"""
