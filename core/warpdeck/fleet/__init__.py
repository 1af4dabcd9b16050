"""Links to the nodes' agents: over SSH to other hosts, over a Unix socket on this machine."""

from . import asyncssh_import as asyncssh_import
from .fleet import AgentFleet

__all__ = ["AgentFleet"]
