"""Reservations: the resources in them, and the changes that are due as time passes."""
