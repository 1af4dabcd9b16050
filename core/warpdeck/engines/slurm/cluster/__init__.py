"""The copy of the cluster that the gateway keeps: reading it, its jobs, its nodes, and its record."""
