"""The lines of the panes of a job's page: details, GPUs, code and events."""
