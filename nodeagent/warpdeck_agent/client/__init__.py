"""The programs that run inside jobs, and on the login node: standard library only, because they start often."""
