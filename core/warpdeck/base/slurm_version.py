"""The release of Slurm that `COMMAND --version` prints, for tools that check it."""

from __future__ import annotations

RELEASE = "22.05.8"
VERSION = f"slurm {RELEASE}\n"
