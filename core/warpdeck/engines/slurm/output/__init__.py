"""Bytes of jobs: their output files on the shared file system, their terminals, and tunnels to their nodes."""
