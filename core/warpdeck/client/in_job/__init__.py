"""Shell scripts that commands start inside running jobs, and parsers of their output.

They need nothing on the node but the agent. Each script runs as the job's user, in the job's containment and
environment, through a tunnel (warpdeck.client.tunnel). It ends with the job.
"""
