"""Handlers of tunnels and forwarded ports."""
