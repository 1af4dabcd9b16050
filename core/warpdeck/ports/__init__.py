"""Interfaces of the controller to the outside, and the identity of a caller.

The interfaces are the store, the fleet, the tree cache and the output files.
"""
