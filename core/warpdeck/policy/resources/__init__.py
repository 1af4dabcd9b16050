"""Nodes, GPUs and other resources as arrays and as timelines of free capacity."""
