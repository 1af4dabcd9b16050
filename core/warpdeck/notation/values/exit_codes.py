"""SLURM_EXIT_ERROR and SLURM_EXIT_IMMEDIATE: exit codes of sbatch, srun and salloc if the program never ran.

Source: the man pages, and the commands of Slurm 22.05. Only errors after the options were read have these
codes. An invalid option value has Slurm's own exit code, and so do errors that Slurm calls fatal.
"""

from __future__ import annotations

from collections.abc import Mapping

ERROR = "SLURM_EXIT_ERROR"
IMMEDIATE = "SLURM_EXIT_IMMEDIATE"
PLAIN = 1


def exit_code(environ: Mapping[str, str], variable: str = ERROR) -> int:
    """Return the exit code from the variable if it is a nonzero number, else 1."""
    text = environ.get(variable, "")
    return (int(text) % 256 if text.isascii() and text.isdigit() and len(text) < 10 else 0) or PLAIN
