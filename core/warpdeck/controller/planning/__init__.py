"""Planning passes over the state, and forecasts for jobs.

`passes` runs the planning policy. `forecast` estimates when pending jobs and jobs not submitted yet would
start. `recall` revokes launches that were prefetched to nodes.
"""
