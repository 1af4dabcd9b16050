"""Commands that show the queue, the nodes and the priorities: squeue, sinfo, sprio, sshare, sdiag,
sattach, strigger.
"""
