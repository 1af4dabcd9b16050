"""Planning passes over the state, and forecasts for jobs.

`passes` runs the planning policy. `forecast` estimates the start of pending jobs and of jobs that are not
submitted yet. `prefetch_revoker` revokes launches that were prefetched to nodes.
"""
