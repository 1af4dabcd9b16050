"""Links to the nodes' agents: over SSH to other hosts, over a Unix socket on this machine."""

from .fleet import AgentFleet

__all__ = ["AgentFleet"]
