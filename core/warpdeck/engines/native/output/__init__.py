"""Bytes of jobs: their logs, their terminals, and tunnels to their nodes."""
