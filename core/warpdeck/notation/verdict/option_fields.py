"""What sbatch keeps while it reads options: the values of one component of a job, and which options were given and where.

A later component of a heterogeneous job begins with what the one before it had, but for the options that stand for each alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from warpdeck.notation.options.options import SBATCH_22_05

LINE, ENVIRONMENT = "line", "environment"
"""Where an option was given: on a command line or in the script; by a variable."""


def _no_file(name: str) -> str:
    raise FileNotFoundError(2, "No such file or directory", name)


class Place:
    """What is looked up outside of the words themselves; notation itself reads neither clock nor disk."""

    def __init__(
        self,
        *,
        cwd: str,
        environ: Mapping[str, str],
        now: float,
        is_root: bool = False,
        user_id: Callable[[str], int | None] = lambda name: None,
        group_id: Callable[[str], int | None] = lambda name: None,
        read_text: Callable[[str], str] = _no_file,
        gres: tuple[str, ...] = ("gpu", "shard", "nvme"),
    ) -> None:
        self.cwd = cwd
        self.environ = environ
        self.now = now
        self.is_root = is_root
        self.user_id = user_id
        self.group_id = group_id
        self.read_text = read_text
        """A file's text; raises OSError."""
        self.gres = gres
        """What --gres may name."""


class Fields:
    """The values. None is Slurm's NO_VAL: nobody said anything."""

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
    overcommit: bool = False
    mail_types: int = 0
    warn_signal: int = 0
    warn_s: int = 0
    warn_reservation: bool = False
    warn_batch: bool = False
    distribution: str = ""
    plane_size: int = 0
    gres_flags: str = "unset"
    user_env_s: int = -1
    user_env_mode: str = ""
    switches: int = -1
    switches_wait_s: int | None = None
    begin: float = 0
    deadline: float = 0
    kill_invalid: str = "unset"
    mem_bind: str = ""
    mem_bind_types: frozenset[str] = frozenset()
    chdir: str = ""
    hint: str = ""
    is_srun: bool = False
    """Which takes as many of the nodes that are named as --nodes allows; the others refuse too many."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        """Options whose value is kept as it is."""
        self.counts: dict[str, int] = {}
        """Options whose value is a number and nothing else."""
        self.given: dict[str, str] = {}
        """Option -> LINE or ENVIRONMENT."""
        self.hosts_named = 0
        """By this component and those before it."""

    def take_back(self, option: str) -> None:
        """As if it had not been given."""
        self.given.pop(option, None)
        self.texts.pop(option, None)
        self.counts.pop(option, None)
        for name in FIELDS_OF.get(option, ()):
            self.__dict__.pop(name, None)

    def begin_component(self) -> None:
        """Only what holds for the job as a whole stays."""
        for kept in (self.given, self.texts, self.counts):
            for option in kept.keys() & EACH:
                del kept[option]
        for name in self.__dict__.keys() & _EACH_FIELDS:
            del self.__dict__[name]

    def by(self, option: str, where: str) -> bool:
        """Whether it was given there."""
        return self.given.get(option) == where


FIELDS_OF: dict[str, tuple[str, ...]] = {
    "core-spec": ("core_spec",),
    "cores-per-socket": ("cores",),
    "cpus-per-task": ("cpus_per_task", "cpus_set"),
    "distribution": ("distribution", "plane_size"),
    "exclusive": ("shared",),
    "extra-node-info": ("sockets", "cores", "threads", "extra_set"),
    "gres-flags": ("gres_flags",),
    "hint": ("hint",),
    "mail-type": ("mail_types",),
    "mem-bind": ("mem_bind", "mem_bind_types"),
    "mincpus": ("min_cpus",),
    "no-requeue": ("requeue",),
    "nodes": ("min_nodes", "max_nodes", "nodes_set"),
    "ntasks": ("ntasks", "ntasks_set"),
    "overcommit": ("overcommit",),
    "oversubscribe": ("shared",),
    "requeue": ("requeue",),
    "sockets-per-node": ("sockets",),
    "switches": ("switches", "switches_wait_s"),
    "thread-spec": ("core_spec",),
    "threads-per-core": ("threads",),
}
"""What an option that begins anew sets beside its own entry."""

EACH = frozenset(name for name, option in SBATCH_22_05.options.items() if option.each)
"""Options that each component begins without."""
_EACH_FIELDS = frozenset(field for option in EACH for field in FIELDS_OF.get(option, ()))

Setter = Callable[[Fields, str | None, Place], None]
"""Keeps an option's value; raises Refusal."""
Getter = Callable[[Fields], str]
"""Shows it."""
