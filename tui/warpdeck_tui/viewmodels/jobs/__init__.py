"""View models of jobs: the queue, a job's page, the submission form."""
