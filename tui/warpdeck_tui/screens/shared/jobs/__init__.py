"""Parts of screens about jobs: lists, logs, comparisons of runs, and the actions on jobs."""
