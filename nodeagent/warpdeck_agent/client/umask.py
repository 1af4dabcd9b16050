"""The caller's umask, as Slurm's commands send it: a variable of the environment that the job is made of."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:  # not typing's own: it is 3 ms
    from typing import Dict, Mapping

UMASK = "SLURM_UMASK"


def with_umask(environ: Mapping[str, str]) -> Dict[str, str]:
    """The environment with what the caller's files are made with; what it says already stands, as in Slurm."""
    if UMASK in environ:
        return dict(environ)
    mask = os.umask(0o077)
    os.umask(mask)
    return {**environ, UMASK: f"{mask:04o}"}
