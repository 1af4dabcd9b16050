"""Limits of QoS, accounts and partitions, and the access of users to partitions."""
