"""Access to running jobs: processes started inside them, tunnels, idle sessions, and the job's own
connection to the controller.
"""
