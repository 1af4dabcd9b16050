"""SLURM_UMASK: what the files of a job's user are made with, as the submitter's shell had it. Pure."""

from __future__ import annotations

from collections.abc import Mapping

UMASK = "SLURM_UMASK"
DEFAULT = 0o022
"""Of a job that says none, or nothing that is one; the agent's scripts take the same."""


def umask_of(env: Mapping[str, str]) -> int:
    """The mode bits that new files of a job lack."""
    text = env.get(UMASK, "")
    if not text or len(text) > 4 or text.strip("01234567"):
        return DEFAULT
    return int(text, 8) & 0o777
