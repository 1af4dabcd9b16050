"""The site gateway: one process that asks Slurm the questions about the whole cluster for the gateways of all users.

It shares only answers. It acts for nobody, it needs no rights, and its clients choose from a closed list of questions
(`cluster.questions`). Where Slurm would show users different parts of the cluster, it refuses the question (`privacy`),
and each user's gateway asks Slurm itself. `answers` decides when Slurm is asked, `server` answers on a Unix socket, and
`client` is the part in the gateway of each user.
"""
