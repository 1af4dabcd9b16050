"""What verbs start inside running jobs: shell scripts for nodes that have nothing of ours but the agent, and their answers.

Each runs as the job's user, in its containment and environment, through a tunnel (warpdeck.client.tunnel), and ends with it.
"""
