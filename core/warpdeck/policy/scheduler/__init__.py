"""The scheduling pass: the main pass, the backfill pass, heterogeneous jobs, preemption and resumption."""
