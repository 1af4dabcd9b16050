"""Limits of QoS, accounts and partitions, and who may use a partition."""
