"""SLURM_UMASK: the umask of the submitter's shell, with which the job creates files."""

from __future__ import annotations

from collections.abc import Mapping

UMASK = "SLURM_UMASK"
DEFAULT = 0o022
"""Used if a job has no umask or an invalid one. The agent's scripts use the same value."""


def umask_of(env: Mapping[str, str]) -> int:
    """Return the mode bits that are removed from new files of a job."""
    text = env.get(UMASK, "")
    if not text or len(text) > 4 or text.strip("01234567"):
        return DEFAULT
    return int(text, 8) & 0o777
