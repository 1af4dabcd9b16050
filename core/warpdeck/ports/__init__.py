"""Interfaces of the controller to the outside (store, fleet, clock) and the identity of a caller."""
