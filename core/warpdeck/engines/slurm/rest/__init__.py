"""slurmrestd as a source of the queue, the nodes and the partitions.

It serves users who have a token (SLURM_JWT) and name the server in `rest_url`.
Slurm's commands stay the usual source. They are run whenever slurmrestd does not give a complete answer.
"""
