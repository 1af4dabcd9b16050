"""Commands that show the queue, the nodes and the priorities.

They are squeue, sinfo, sprio, sshare, sdiag, sattach and strigger.
"""
