"""The version of Slurm that the commands have, for `COMMAND --version` and for tools that check it."""

from __future__ import annotations

RELEASE = "22.05.8"
"""The release that `COMMAND --version` prints. Messages, layouts and defaults are those of this release."""
VERSION = f"slurm {RELEASE}\n"
NEWEST = "26.05"
"""The newest version whose options, output fields and JSON the commands know."""
SPOKEN = f"Slurm {RELEASE}, and the options, output fields and JSON of versions up to {NEWEST}"
