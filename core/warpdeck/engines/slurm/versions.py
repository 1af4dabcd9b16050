"""The differences between the versions of Slurm, as one table.

A row names a difference and the first version that has it. The facts were seen with Debian's packages of the versions
20.11, 22.05, 24.11 and 26.05 (tests/slurm_parity/versions).
"""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple

from warpdeck.base.errors import UserError

_VERSION = re.compile(r"slurm\S* (\d+)\.(\d+)(?:\.(\d+))?")


class Version(NamedTuple):
    """A version of Slurm: the year and the month of its release line, and the number of the release."""

    year: int
    month: int
    release: int = 0

    def __str__(self) -> str:
        return f"{self.year}.{self.month:02}.{self.release}"


OLDEST = Version(20, 11)


class Feature(Enum):
    """A difference between versions. Its value is the first version that has the feature."""

    SUBMIT_LINE = Version(21, 8)
    """sacct's field SubmitLine."""
    GRES_PREFIX = Version(21, 8)
    """Generic resources are written gres:gpu:2 for `scontrol update`. Before, it was gpu:2."""
    JSON = Version(21, 8)
    """--json of squeue and sinfo. Before 23.02 it lacks fields that the format strings have."""
    PREFER = Version(22, 5)
    """--prefer of sbatch."""
    SHARDS = Version(22, 5)
    """The generic resource "shard", a part of a GPU."""
    OVERLAPPING_GRES = Version(21, 8)
    """A step with --overlap shares the GPUs of other steps. Before, it only shares their CPUs."""
    EXTRA = Version(22, 5)
    """A node's field Extra."""
    EXPEDITE = Version(25, 11)
    """--requeue=expedite of sbatch."""
    SLUID = Version(25, 5)
    """An identifier of a job that is unique over all clusters and all times."""


def read_version(text: str) -> Version:
    """Return the version that `sinfo --version` prints. Raises UserError for a version that is too old."""
    match = _VERSION.search(text)
    if match is None:
        raise UserError(
            f"cannot read the version of Slurm from {text.strip()[:80]!r}", "Run `sinfo --version`."
        )
    found = Version(int(match[1]), int(match[2]), int(match[3] or 0))
    if found < OLDEST:
        raise UserError(
            f"Slurm {found} is too old; warpdeck supports Slurm from {OLDEST.year}.{OLDEST.month} on"
        )
    return found


def has(version: Version, feature: Feature) -> bool:
    """Return whether this version has the feature."""
    return version >= feature.value
