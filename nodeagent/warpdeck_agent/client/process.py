"""What the caller's process has beside its variables, as Slurm's commands send it: among the variables that a job is made of."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:  # not typing's own: it is 3 ms
    from typing import Dict, Mapping

UMASK = "SLURM_UMASK"
NICENESS = "SLURM_PRIO_PROCESS"


def with_process(environ: Mapping[str, str]) -> Dict[str, str]:
    """The environment with what the caller's files are made with, which a variable may say, and how nice it is, as in Slurm."""
    made = {**environ, NICENESS: str(os.getpriority(os.PRIO_PROCESS, 0))}
    if UMASK not in made:
        mask = os.umask(0o077)
        os.umask(mask)
        made[UMASK] = f"{mask:04o}"
    return made
