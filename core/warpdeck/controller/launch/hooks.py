"""Build the environment of the site's prolog and epilog for a job. Pure functions.

It contains only facts that the controller itself knows about the job. The programs may run as root, and
variables set by a user could change their behavior. The names are the names in Slurm's Prolog and Epilog
Guide.
"""

from __future__ import annotations

from warpdeck.config import Config
from warpdeck.model import Job
from warpdeck_agent.wire import messages as wire

from .environment import made_environment

_JOBS_OWN = ("SLURM_STEP_", "SLURM_PROCID", "SLURM_LOCALID", "CUDA_DEVICE_ORDER")
"""Prefixes of variables that belong to tasks and are not set for hooks."""


def build_hooks(job: Job, rank: int, *, config: Config, submit_host: str) -> wire.Hooks | None:
    """Return the hooks of the job's launch on the node of that rank; None if the site has no hooks."""
    table = config.hooks
    if not table.prolog and not table.epilog:
        return None
    made = made_environment(job, rank, submit_host=submit_host)
    env = {name: value for name, value in made.items() if not name.startswith(_JOBS_OWN)}
    if config.gpus.cuda_visible_devices == "index" and "SLURM_JOB_GPUS" in env:
        env["CUDA_VISIBLE_DEVICES"] = env["SLURM_JOB_GPUS"]  # The site's programs see all GPUs of the node.
    return wire.Hooks(prolog=table.prolog, epilog=table.epilog, timeout_s=table.timeout_s, env=env)
