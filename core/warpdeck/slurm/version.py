"""What `COMMAND --version` prints: the release of Slurm whose commands these are, for tools that look at it."""

from __future__ import annotations

VERSION = "slurm 22.05.8\n"
