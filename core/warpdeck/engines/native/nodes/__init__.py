"""Nodes: their rows now and in the past, their health, and orders of admins."""
