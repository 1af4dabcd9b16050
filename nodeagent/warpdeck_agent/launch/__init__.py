"""A launch and its steps in memory, with time limit, signals, notices and memory limit."""
