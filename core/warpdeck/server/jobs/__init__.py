"""Handlers of requests about jobs, allocations and sessions."""
