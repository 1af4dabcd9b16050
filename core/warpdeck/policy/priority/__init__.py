"""Priorities, fair share, the order of the queue, and predicted run times."""
