"""What `COMMAND --version` prints: the release of Slurm whose commands these are, for tools that look at it."""

from __future__ import annotations

RELEASE = "22.05.8"
VERSION = f"slurm {RELEASE}\n"
