"""The values of the options of one component of a job, as Slurm's commands keep them while they check them."""

from __future__ import annotations

from typing import Any

LINE, ENVIRONMENT = "line", "environment"
"""Where an option was given: LINE on a command line or in the script, ENVIRONMENT by a variable."""


class SlurmOptions:
    """The values of the options. None is Slurm's NO_VAL, which means that the value was not given.

    A later component of a heterogeneous job begins with the values of the previous one, except for options that
    apply to each component separately.
    """

    min_nodes: int = 1
    max_nodes: int = 0
    nodes_set: bool = False
    ntasks: int = 1
    ntasks_set: bool = False
    cpus_per_task: int = 0
    cpus_set: bool = False
    min_cpus: int = -1
    sockets: int | None = None
    cores: int | None = None
    threads: int | None = None
    extra_set: bool = False
    shared: str = "unset"
    requeue: str = "unset"
    core_spec: int | None = None
    distribution: str = ""
    plane_size: int = 0
    user_env_s: int = -1
    user_env_mode: str = ""
    switches: int = -1
    switches_wait_s: int | None = None
    mem_bind: str = ""
    mem_bind_types: frozenset[str] = frozenset()
    chdir: str = ""
    hint: str = ""
    is_srun: bool = False
    """srun uses as many of the named nodes as --nodes allows. The other commands reject too many."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        """Values of the options that have no attribute of their own."""
        self.given: dict[str, str] = {}
        """For each given option, where it was given: LINE or ENVIRONMENT."""
        self.hosts_named = 0
        """Number of nodes named by this component and those before it."""

    def by(self, option: str, where: str) -> bool:
        """Return whether the option was given in this place (LINE or ENVIRONMENT)."""
        return self.given.get(option) == where
