"""Environment variables of a controller and its agents.

This module imports nothing, because the short programs `start` and `attach` load it on each connection.
"""

from __future__ import annotations

SHARE_MACHINE = "WARPDECK_SHARE_MACHINE"
"""Environment variable of a controller and its agents that lets several agents manage the same machine."""
