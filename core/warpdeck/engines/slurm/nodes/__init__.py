"""Nodes and reservations: their rows, and the orders for them, which Slurm permits to its administrators only."""
