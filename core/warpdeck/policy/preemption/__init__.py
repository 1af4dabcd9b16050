"""Preemption: the choice of running jobs that leave for a job of higher rank."""
