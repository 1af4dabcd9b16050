"""SLURM_EXIT_ERROR and SLURM_EXIT_IMMEDIATE: the exit codes with which sbatch, srun and salloc say that a program never ran.

Source: the man pages, and the commands of 22.05: only what is refused once options were read has these codes; a value that its
option does not take has Slurm's own, and so has what they call fatal.
"""

from __future__ import annotations

from collections.abc import Mapping

ERROR = "SLURM_EXIT_ERROR"
IMMEDIATE = "SLURM_EXIT_IMMEDIATE"
PLAIN = 1


def exit_code(environ: Mapping[str, str], variable: str = ERROR) -> int:
    """As the variable says, where it is a number other than 0."""
    text = environ.get(variable, "")
    return (int(text) % 256 if text.isascii() and text.isdigit() and len(text) < 10 else 0) or PLAIN
